"""Which facts are people's word: what a person wrote, confirmed, edited, restored or kept."""

from django.db import migrations, models

BACKFILL = """
UPDATE memory_fact AS held SET endorsed = true
WHERE EXISTS (
    SELECT 1 FROM memory_factchange AS change
    WHERE change.fact_id = held.id AND change.author_kind = 'person'
      AND change.action IN ('stored', 'confirmed', 'edited', 'restored')
);
UPDATE memory_fact AS held SET endorsed = true
FROM memory_memoryreview AS review
WHERE review.status = 'resolved' AND review.resolver_kind = 'person' AND (
    (review.old_id = held.id AND review.resolution IN ('both', 'same', 'new_wrong'))
    OR (review.new_id = held.id AND review.resolution IN ('both', 'replace', 'old_wrong', 'keep'))
);
"""

# Finds in the same words what was found wrong; memory.services.facts.rejected_facts asks in the same form.
REJECTED = """
CREATE INDEX memory_fact_rejected ON memory_fact
    (agent_id, persona, md5(rtrim(regexp_replace(btrim(content), '\\s+', ' ', 'g'), ' .!')))
    WHERE invalidated_at IS NOT NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0013_endorsed_censors")]
    operations = [
        migrations.AddField("fact", "endorsed", models.BooleanField(default=False)),
        migrations.AlterField(
            "memoryreview",
            "kind",
            models.CharField(
                choices=[
                    ("duplicate", "Possible duplicate"),
                    ("contradiction", "Possible contradiction"),
                    ("escalation", "Censor escalated"),
                    ("low_confidence", "Uncertain fact"),
                    ("compaction", "Many facts on one subject"),
                    ("relearned", "Learned again though found wrong"),
                ],
                max_length=20,
            ),
        ),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
        migrations.RunSQL(REJECTED, "DROP INDEX memory_fact_rejected"),
    ]
