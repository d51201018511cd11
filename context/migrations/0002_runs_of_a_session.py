"""An index of the runs of a session, through which its page and each run's went among all runs of their agent."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("context", "0001_initial")]
    operations = [
        migrations.AddIndex(
            model_name="contextrun",
            index=models.Index(fields=["agent", "session_id", "-created_at"], name="context_run_session"),
        )
    ]
