"""Whose censors bind: an agent's that a person has changed or brought back is people's word."""

from django.db import migrations, models

# What people changed before, as the audit trail tells.
BACKFILL = """
UPDATE memory_censor AS held SET endorsed = true
FROM identity_auditevent AS trail
WHERE held.author_kind = 'token' AND trail.object_type = 'censor' AND trail.object_id = held.id::text
  AND trail.author_kind = 'person' AND trail.action IN ('censor.update', 'censor.revive');
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0012_event_ids")]
    operations = [
        migrations.AddField("censor", "endorsed", models.BooleanField(default=False)),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
    ]
