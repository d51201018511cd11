"""The registry of subjects, filled from the facts that name one; an index by the first word of a spelling."""

from django.db import migrations

from memory.subjects.registry_backfill import registry_fill

LEAD = "CREATE INDEX memory_subjectalias_lead ON memory_subjectalias (agent_id, persona, (lexemes[1]))"


def fill(apps, schema_editor):
    agents = apps.get_model("memory", "Fact").objects.exclude(subject="").filter(subject_alias=None)
    for agent_id in agents.order_by().values_list("agent_id", flat=True).distinct():
        registry_fill(agent_id)


class Migration(migrations.Migration):
    dependencies = [("memory", "0021_subjects")]
    operations = [
        migrations.RunSQL(LEAD, "DROP INDEX memory_subjectalias_lead"),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
