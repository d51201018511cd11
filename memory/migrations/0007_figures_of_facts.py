"""The index of the figures of facts has the end of each too, so that those in use are counted from it alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0006_words_of_facts")]
    operations = [
        migrations.RemoveIndex(model_name="fact", name="fact_figures"),
        migrations.AddIndex(
            model_name="fact",
            index=models.Index(
                fields=["recorded_at"],
                include=["agent", "persona", "active", "invalidated_at", "valid_from", "valid_until", "expires_at"],
                name="fact_figures",
            ),
        ),
    ]
