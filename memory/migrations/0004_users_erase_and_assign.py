"""Let everything of a user be erased, and let people assign memories to users."""

from django.db import migrations

ERASE_USER = r"""
DO $$
DECLARE
    called regprocedure;
    source text;
BEGIN
    -- The receipt of the new erasure is a receipt to the others too.
    FOR called IN SELECT unnest(ARRAY[
        'nous_erase_facts(bigint, uuid[], bigint[], jsonb)', 'nous_erase_documents(bigint, uuid[], bigint[], jsonb)',
        'nous_erase_project(bigint, text, jsonb)', 'nous_erase_agent(bigint, jsonb)']::regprocedure[]) LOOP
        source := pg_get_functiondef(called);
        IF strpos(source, $text$'project.erase', $text$) = 0 THEN
            RAISE EXCEPTION '% no longer lists the receipts', called;
        END IF;
        EXECUTE replace(source, $text$'project.erase', $text$, $text$'project.erase', 'user.erase', $text$);
    END LOOP;
    source := pg_get_functiondef('nous_erase_project(bigint, text, jsonb)'::regprocedure);
    source := replace(source, 'nous_erase_project', 'nous_erase_user');
    source := replace(source, $text$<> 'project.erase' OR$text$, $text$<> 'user.erase' OR$text$);
    source := replace(source, 'this erases a project', 'this erases a user');
    source := replace(source, '.project = named', '.user_key = named');
    source := replace(source, $text$->>'project' = named$text$, $text$->>'user' = named$text$);
    source := replace(source, $text$ OR asked->'include_projects' ? named$text$, '');
    -- Whatever else names the key: tokens that were bound to it, and assignments.
    source := replace(source, $text$OR (a.object_type = 'expectation'$text$,
        $text$OR a.after->>'user' = named OR a.before->>'user' = named OR (a.object_type = 'expectation'$text$);
    IF source LIKE '%.project = named%' OR source NOT LIKE '%a.after->>''user''%' THEN
        RAISE EXCEPTION 'nous_erase_project is not as expected';
    END IF;
    EXECUTE source;
    EXECUTE format('ALTER FUNCTION nous_erase_user(bigint, text, jsonb) SET search_path = pg_catalog, %I, pg_temp',
        current_schema());
    REVOKE ALL ON FUNCTION nous_erase_user(bigint, text, jsonb) FROM PUBLIC;
END $$;
"""
"""Deletes what carries the key of a user, as `nous_erase_project` does for a project, with which it shares its text."""

ASSIGN = r"""
CREATE FUNCTION nous_event_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('nous.assignment', true) = 'on'
       AND to_jsonb(OLD) - 'user_key' = to_jsonb(NEW) - 'user_key' THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' AND current_setting('nous.erasure', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
DROP TRIGGER event_rows_append_only ON memory_event;
CREATE TRIGGER event_rows_append_only BEFORE UPDATE OR DELETE ON memory_event
    FOR EACH ROW EXECUTE FUNCTION nous_event_append_only();

CREATE FUNCTION nous_assign_events(agent bigint, loops text[], former text, named text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    count bigint;
BEGIN
    PERFORM set_config('nous.assignment', 'on', true);
    UPDATE memory_event e SET user_key = named
    WHERE e.agent_id = agent AND e.user_key = former AND (loops IS NULL OR e.loop_id = ANY (loops));
    GET DIAGNOSTICS count = ROW_COUNT;
    PERFORM set_config('nous.assignment', 'off', true);
    RETURN count;
END $$;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION nous_assign_events(bigint, text[], text, text)'
        ' SET search_path = pg_catalog, %I, pg_temp', current_schema());
    REVOKE ALL ON FUNCTION nous_assign_events(bigint, text[], text, text) FROM PUBLIC;
END $$;
"""
"""Of an event nothing changes but whose it is, and that only by this function."""


class Migration(migrations.Migration):
    dependencies = [("memory", "0003_users")]
    operations = [
        migrations.AlterModelOptions(
            name="event",
            options={
                "ordering": ["-recorded_at", "-id"],
                "permissions": [
                    ("view_subconscious", "Can see the subconscious memory of agents"),
                    ("erase_memory", "Can erase memories for good"),
                    ("manage_user", "Can export and erase everything of a user"),
                ],
            },
        ),
        migrations.RunSQL(ERASE_USER, "DROP FUNCTION nous_erase_user(bigint, text, jsonb)"),
        migrations.RunSQL(ASSIGN, migrations.RunSQL.noop),
    ]
