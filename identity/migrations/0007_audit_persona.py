"""Say of each audit record whose memory it is about, and of each token who made it.

Older records are filled in from what they name. One about a memory that is gone, so that nobody can say any more whose
it was, counts as the subconscious's: it is kept from those who may not see that.
"""

from django.db import migrations, models

FILL = """
ALTER TABLE identity_auditevent DISABLE TRIGGER audit_rows_append_only;

UPDATE identity_apitoken AS token SET maker_kind = record.author_kind, maker_id = record.author_id
FROM identity_auditevent AS record
WHERE record.action = 'token.create' AND record.object_type = 'apitoken' AND record.object_id = token.id::text;

UPDATE identity_auditevent SET persona = 'both'
WHERE action IN ('agent.erase', 'agent.import', 'subject.erase', 'index.retry');

UPDATE identity_auditevent AS record SET persona = 'subconscious' FROM identity_apitoken AS token
WHERE record.persona = '' AND record.author_kind = 'token' AND record.author_id = token.id::text
    AND token.persona = 'subconscious';

UPDATE identity_auditevent SET persona = after ->> 'persona'
WHERE persona = '' AND after ->> 'persona' IN ('actor', 'subconscious');

DO $$
DECLARE
    named text;
    types text[] := ARRAY['apitoken', 'changeproposal', 'fact', 'episode', 'decision', 'procedure', 'censor', 'event',
        'loopsummary', 'workingmemory', 'memoryreview', 'lifecyclerun', 'contextrun'];
    app text;
BEGIN
    -- A new database has none of these tables yet, and no record either.
    FOREACH named IN ARRAY types LOOP
        FOREACH app IN ARRAY ARRAY['identity', 'memory', 'context'] LOOP
            IF to_regclass(app || '_' || named) IS NOT NULL THEN
                EXECUTE format('UPDATE identity_auditevent AS record SET persona = target.persona FROM %I AS target
                    WHERE record.persona = $1 AND record.object_type = $2 AND record.object_id = target.id::text',
                    app || '_' || named) USING '', named;
            END IF;
        END LOOP;
    END LOOP;
    IF to_regclass('memory_searchitem') IS NOT NULL THEN
        UPDATE identity_auditevent AS record SET persona = item.persona FROM memory_searchitem AS item
        WHERE record.persona = '' AND record.object_type = 'contextpin' AND record.agent_id = item.agent_id
            AND coalesce(record.after, record.before) ->> 'type' = item.item_type
            AND coalesce(record.after, record.before) ->> 'id' = item.item_id;
    END IF;
    UPDATE identity_auditevent SET persona = 'subconscious'
    WHERE persona = '' AND object_type = ANY (types || ARRAY['contextpin']);
END $$;

ALTER TABLE identity_auditevent ENABLE TRIGGER audit_rows_append_only;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0006_agent_erasures'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='maker_id',
            field=models.CharField(default='', editable=False, max_length=100),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='maker_kind',
            field=models.CharField(choices=[('person', 'Person'), ('token', 'Agent'), ('system', 'System')], default='system', editable=False, max_length=10),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='persona',
            field=models.CharField(blank=True, choices=[('actor', 'Actor'), ('subconscious', 'Subconscious'), ('both', 'Both')], default='', max_length=20),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(condition=models.Q(('persona', 'subconscious'), _negated=True), fields=['action'], name='audit_action_shown'),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
