"""The project and the task that a memory belongs to. What is there is global, which the columns' defaults say: no row is
written again."""

from django.db import migrations, models

KEYED = ("decision", "episode", "event", "fact", "loopsummary", "procedure", "searchitem")


def key() -> models.CharField:
    return models.CharField(blank=True, db_default="", default="", max_length=100)


class Migration(migrations.Migration):
    dependencies = [("memory", "0023_erasure_of_subjects")]
    operations = [
        *(migrations.AddField(name, column, key()) for name in KEYED for column in ("project", "task")),
        *(migrations.AddField("workingmemory", column, key()) for column in ("project", "task_key")),
    ]
