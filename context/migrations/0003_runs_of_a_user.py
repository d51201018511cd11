"""An index of the runs for a user, for which the page of a user went through all runs of the agents."""

from django.db import migrations, models
from django.db.models.fields.json import KeyTransform


class Migration(migrations.Migration):
    dependencies = [("context", "0002_runs_of_a_session")]
    operations = [
        migrations.AddIndex(
            "contextrun", models.Index(models.F("agent"), KeyTransform("user", "request"), name="context_run_user")
        )
    ]
