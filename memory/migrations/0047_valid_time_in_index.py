"""The valid time of facts in the search index, so that searches leave out what has ended or is not valid yet."""

from django.db import migrations, models

COLUMNS = """
ALTER TABLE memory_searchitem ADD COLUMN valid_from timestamptz, ADD COLUMN valid_until timestamptz;
UPDATE memory_searchitem AS item SET valid_from = fact.valid_from, valid_until = fact.valid_until
FROM memory_fact AS fact
WHERE item.item_type = 'fact' AND item.item_id = fact.id::text AND item.agent_id = fact.agent_id
    AND item.persona = fact.persona AND (fact.valid_from IS NOT NULL OR fact.valid_until IS NOT NULL);
"""
NO_COLUMNS = "ALTER TABLE memory_searchitem DROP COLUMN valid_from, DROP COLUMN valid_until"
# What is not valid now, for explanations.
INDEXES = """
CREATE INDEX memory_searchitem_ends ON memory_searchitem (agent_id, valid_until)
    WHERE active AND valid_until IS NOT NULL;
CREATE INDEX memory_searchitem_begins ON memory_searchitem (agent_id, valid_from)
    WHERE active AND valid_from IS NOT NULL;
"""
NO_INDEXES = "DROP INDEX memory_searchitem_ends; DROP INDEX memory_searchitem_begins"


class Migration(migrations.Migration):
    dependencies = [("memory", "0046_sessions_of_projects")]

    operations = [
        migrations.RunSQL(
            COLUMNS,
            NO_COLUMNS,
            state_operations=[
                migrations.AddField("searchitem", name, models.DateTimeField(null=True))
                for name in ("valid_from", "valid_until")
            ],
        ),
        migrations.RunSQL(INDEXES, NO_INDEXES),
        migrations.RemoveIndex("fact", "fact_figures"),
        migrations.AddIndex(
            "fact",
            models.Index(
                fields=["recorded_at"],
                include=["agent", "persona", "active", "invalidated_at", "valid_from", "valid_until"],
                name="fact_figures",
            ),
        ),
    ]
