"""Which procedures, decisions and episodes are people's: what a person wrote, changed, reviewed or closed."""

from django.db import migrations, models

# What people did before, as the audit trail tells.
BACKFILL = """
UPDATE memory_{name} AS held SET endorsed = true
WHERE EXISTS (
    SELECT 1 FROM identity_auditevent AS trail
    WHERE trail.object_type = '{name}' AND trail.object_id = held.id::text AND trail.author_kind = 'person'
      AND trail.action IN ({actions})
);
"""
ACTIONS = {
    "procedure": "'procedure.create', 'procedure.update'",
    "decision": "'decision.record', 'decision.update', 'decision.review'",
    "episode": "'episode.open', 'episode.update', 'episode.close'",
}


class Migration(migrations.Migration):
    dependencies = [("memory", "0016_erasure_keeps_decisions")]
    operations = [
        *(
            migrations.AddField(name, "endorsed", models.BooleanField(default=False, editable=False))
            for name in ACTIONS
        ),
        *(
            migrations.RunSQL(BACKFILL.format(name=name, actions=actions), migrations.RunSQL.noop)
            for name, actions in ACTIONS.items()
        ),
    ]
