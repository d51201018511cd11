"""Since when a memory is retired, so that a context as of the past has what was active then."""

from django.db import migrations, models

TABLES = ("decision", "episode", "procedure", "censor")

# The last record of its retirement says when; what was retired before there were records stays without a moment.
BACKFILL = "\n".join(
    f"""
UPDATE memory_{name} AS held SET retired_at = trail.at
FROM (
    SELECT object_id, max(at) AS at FROM identity_auditevent
    WHERE object_type = '{name}' AND after -> 'active' = 'false'::jsonb GROUP BY object_id
) AS trail
WHERE NOT held.active AND trail.object_id = held.id::text;
"""
    for name in TABLES
) + "\n".join(
    f"""
UPDATE memory_searchitem AS item SET retired_at = held.retired_at FROM memory_{name} AS held
WHERE item.item_type = '{name}' AND NOT item.active AND item.item_id = held.id::text AND held.retired_at IS NOT NULL;
"""
    for name in TABLES[:3]
)

# What was retired last, for explanations.
INDEX = "CREATE INDEX memory_searchitem_gone ON memory_searchitem (agent_id, retired_at DESC NULLS LAST) WHERE NOT active"


class Migration(migrations.Migration):
    dependencies = [("identity", "0004_erasure_blanks"), ("memory", "0010_lifecycle")]
    operations = [
        *(
            migrations.AddField(name, "retired_at", models.DateTimeField(blank=True, editable=False, null=True))
            for name in TABLES
        ),
        migrations.AddIndex(
            "factchange",
            models.Index(fields=["at"], condition=models.Q(before__has_key="category"), name="fact_refiled"),
        ),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
        migrations.RunSQL(INDEX, "DROP INDEX memory_searchitem_gone"),
    ]
