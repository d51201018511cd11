"""The change feed: rows that writers add, and the function that gives them their places in a stream.

A number from a sequence is given before the commit, so a lower one may become visible after a higher one was read. So
the place is given afterwards: `nous_changes_publish` numbers what is committed and has no place yet, one publisher of
a stream at a time. It never waits for a writer, and no writer waits for it. Of what it finds, what was written first
comes first; a change that follows from another one is written after that one's commit, so it never comes before it.

The functions belong to the owner: the product adds rows and deletes them, and changes none.
"""

import django.db.models.deletion
import nousweb.lib.clock
import uuid
from django.db import migrations, models


FORWARD = r"""
CREATE FUNCTION nous_changes_publish(of_agent bigint, of_persona text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    held bigint;
    published integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM identity_change
                   WHERE agent_id = of_agent AND persona = of_persona AND position IS NULL) THEN
        RETURN 0;
    END IF;
    INSERT INTO identity_changestream (agent_id, persona, last, purged) VALUES (of_agent, of_persona, 0, 0)
    ON CONFLICT (agent_id, persona) DO NOTHING;
    SELECT last INTO held FROM identity_changestream WHERE agent_id = of_agent AND persona = of_persona
    FOR NO KEY UPDATE;
    -- A statement of its own, begun under the lock: it sees all that was committed before.
    WITH next AS (
        SELECT id, row_number() OVER (ORDER BY id) AS place FROM (
            SELECT id FROM identity_change
            WHERE agent_id = of_agent AND persona = of_persona AND position IS NULL ORDER BY id LIMIT 5000) first)
    UPDATE identity_change change SET position = held + next.place FROM next WHERE change.id = next.id;
    GET DIAGNOSTICS published = ROW_COUNT;
    UPDATE identity_changestream SET last = held + published WHERE agent_id = of_agent AND persona = of_persona;
    RETURN published;
END $$;

CREATE FUNCTION nous_changes_purge(of_agent bigint, of_persona text, before timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    horizon bigint;
    deleted integer;
BEGIN
    -- Everything up to the youngest of the old ones goes, so that what is left has no holes.
    SELECT min(position) - 1 INTO horizon FROM identity_change
    WHERE agent_id = of_agent AND persona = of_persona AND position IS NOT NULL AND at >= before;
    IF horizon IS NULL THEN
        SELECT last INTO horizon FROM identity_changestream WHERE agent_id = of_agent AND persona = of_persona;
    END IF;
    IF horizon IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE identity_changestream SET purged = greatest(purged, horizon)
    WHERE agent_id = of_agent AND persona = of_persona;
    DELETE FROM identity_change WHERE agent_id = of_agent AND persona = of_persona AND position <= horizon;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;

DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['nous_changes_publish(bigint, text)',
                                    'nous_changes_purge(bigint, text, timestamptz)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
"""

BACKWARD = """
DROP FUNCTION nous_changes_purge(bigint, text, timestamptz);
DROP FUNCTION nous_changes_publish(bigint, text);
"""


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0008_reinitiate_permission_name'),
    ]

    operations = [
        migrations.CreateModel(
            name='Change',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.UUIDField(default=uuid.uuid4, editable=False)),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('kind', models.CharField(max_length=40)),
                ('object_type', models.CharField(max_length=40)),
                ('object_id', models.CharField(max_length=100)),
                ('details', models.JSONField(default=dict)),
                ('at', models.DateTimeField(default=nousweb.lib.clock.now, editable=False)),
                ('position', models.PositiveBigIntegerField(null=True)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='changes', to='identity.agent')),
            ],
            options={
                'ordering': ['id'],
                'indexes': [models.Index(condition=models.Q(('position__isnull', True)), fields=['agent', 'persona', 'id'], name='change_unpublished')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('position__isnull', False)), fields=('agent', 'persona', 'position'), name='change_position')],
            },
        ),
        migrations.CreateModel(
            name='ChangeStream',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('persona', models.CharField(choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                ('last', models.PositiveBigIntegerField(default=0)),
                ('purged', models.PositiveBigIntegerField(default=0)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='change_streams', to='identity.agent')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('agent', 'persona'), name='one_stream_per_persona')],
            },
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
