"""What a memory says otherwise than an answer, kept with it: lists and figures cannot compare the texts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("context", "0003_runs_of_a_user")]
    operations = [
        migrations.RemoveIndex(model_name="contextrun", name="context_run_figures"),
        migrations.AddField(
            model_name="contextrun",
            name="finding",
            field=models.CharField(
                blank=True,
                choices=[
                    ("changed", "says something else"),
                    ("coming", "only plans this"),
                    ("done", "says that this is done already"),
                ],
                db_default="",
                default="",
                max_length=10,
            ),
        ),
        migrations.AddIndex(
            model_name="contextrun",
            index=models.Index(
                fields=["created_at"],
                include=["agent", "persona", "tokens", "duration_ms", "responded_at", "outcome", "finding"],
                name="context_run_figures",
            ),
        ),
    ]
