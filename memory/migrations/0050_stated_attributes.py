"""What the writer of a fact says that it states: an attribute and its value."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0049_erased_quotes")]

    operations = [
        migrations.AddField(
            "fact", "attribute", models.CharField(max_length=80, blank=True, default="", db_default="")
        ),
        migrations.AddField("fact", "value", models.CharField(max_length=200, blank=True, default="", db_default="")),
        migrations.AddIndex(
            "fact",
            models.Index(
                fields=["agent", "persona", "attribute", "-recorded_at"],
                condition=models.Q(("active", True), models.Q(("attribute", ""), _negated=True)),
                name="fact_attribute",
            ),
        ),
    ]
