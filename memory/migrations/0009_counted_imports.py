"""Since when the entries of an import are not counted yet."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0008_labels_of_reviews")]

    operations = [migrations.AddField("filerun", "counted_at", models.DateTimeField(null=True))]
