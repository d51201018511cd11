"""Erasing a project as a function of the tables' owner, and indexes for lists of one project.

`nous_erase_project` deletes whatever else carries the key of a project once its facts are gone: events, episodes,
decisions, procedures, working memories and reviews, with what derives from them, and blanks what the audit trail says
of each. It finds the rows by the key itself, so it blanks nothing about anything that stays, and writes the receipt.
"""

from django.db import migrations, models
from django.db.models import Q

FORWARD = r"""
CREATE FUNCTION nous_erase_project(agent bigint, named text, receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    happened bigint[];
    told uuid[];
    gone text[];
    done jsonb := '{}';
    count bigint;
BEGIN
    IF receipt->>'action' <> 'project.erase' OR coalesce(named, '') = '' THEN
        RAISE EXCEPTION 'this erases a project' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM memory_fact f WHERE f.agent_id = agent AND f.project = named;
    IF FOUND THEN
        RAISE EXCEPTION 'its facts are erased first' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);
    SELECT coalesce(array_agg(e.id), '{}') INTO happened FROM memory_event e WHERE e.agent_id = agent AND e.project = named;
    SELECT coalesce(array_agg(e.id), '{}') INTO told FROM memory_episode e WHERE e.agent_id = agent AND e.project = named;

    -- What stays no longer names what goes.
    UPDATE memory_fact f SET source_event_id = NULL WHERE f.agent_id = agent AND f.source_event_id = ANY (happened);
    UPDATE memory_fact f SET source_episode_id = NULL WHERE f.agent_id = agent AND f.source_episode_id = ANY (told);
    UPDATE memory_decision d SET episode_id = NULL WHERE d.agent_id = agent AND d.episode_id = ANY (told);
    DELETE FROM memory_episodeevent m WHERE m.episode_id = ANY (told) OR m.event_id = ANY (happened);
    DELETE FROM memory_longtermentry l WHERE l.agent_id = agent AND l.event_id = ANY (happened);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('longtermentry', count);

    WITH erased AS (DELETE FROM memory_decision d WHERE d.agent_id = agent AND d.project = named RETURNING d.id)
    SELECT coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('decision', count);
    WITH erased AS (DELETE FROM memory_procedure p WHERE p.agent_id = agent AND p.project = named RETURNING p.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('procedure', count);
    WITH erased AS (DELETE FROM memory_workingmemory w WHERE w.agent_id = agent AND w.project = named RETURNING w.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('workingmemory', count);
    WITH erased AS (
        DELETE FROM memory_memoryreview r WHERE r.agent_id = agent AND r.details->>'project' = named RETURNING r.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('memoryreview', count);
    WITH erased AS (DELETE FROM memory_episode e WHERE e.id = ANY (told) RETURNING e.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('episode', count);
    WITH erased AS (DELETE FROM memory_loopsummary l WHERE l.agent_id = agent AND l.project = named RETURNING l.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('loopsummary', count);
    DELETE FROM memory_event e WHERE e.id = ANY (happened) AND e.agent_id = agent;
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('event', count);

    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent
        AND a.action NOT IN ('fact.erase', 'subject.erase', 'project.erase', 'agent.erase')
        AND ((a.object_type IN ('decision', 'procedure', 'workingmemory', 'memoryreview', 'episode', 'loopsummary')
                AND a.object_id = ANY (gone))
            OR (a.object_type = 'event' AND a.object_id = ANY (happened::text[]))
            OR (a.object_type = 'expectation' AND EXISTS (
                SELECT 1 FROM unnest(ARRAY[a.before->'request', a.after->'request']) asked
                WHERE asked->>'project' = named OR asked->'include_projects' ? named)));
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', count);
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION nous_erase_project(bigint, text, jsonb) SET search_path = pg_catalog, %I, pg_temp',
                   current_schema());
    REVOKE ALL ON FUNCTION nous_erase_project(bigint, text, jsonb) FROM PUBLIC;
END $$;
"""

_LISTED = """
DO $$
DECLARE
    called regprocedure;
    source text;
BEGIN
    FOREACH called IN ARRAY ARRAY['nous_erase_facts(bigint, uuid[], bigint[], jsonb)',
        'nous_erase_agent(bigint, jsonb)', 'nous_forget_subjects(bigint, uuid[], uuid[])']::regprocedure[] LOOP
        source := pg_get_functiondef(called);
        IF strpos(source, $text${before}$text$) = 0 THEN
            RAISE EXCEPTION '% no longer names the receipts', called;
        END IF;
        EXECUTE replace(source, $text${before}$text$, $text${after}$text$);
    END LOOP;
END $$;
"""
BEFORE, AFTER = "'fact.erase', 'subject.erase'", "'fact.erase', 'project.erase', 'subject.erase'"


def listed(before: str, after: str) -> str:
    return _LISTED.replace("{before}", before).replace("{after}", after)


def of_project(model: str, name: str, *latest: str) -> migrations.AddIndex:
    fields = ["agent", "persona", "project", *latest]
    return migrations.AddIndex(model, models.Index(fields=fields, condition=~Q(project=""), name=name))


class Migration(migrations.Migration):
    dependencies = [("memory", "0024_project_keys")]
    operations = [
        migrations.RunSQL(FORWARD, "DROP FUNCTION nous_erase_project(bigint, text, jsonb)"),
        migrations.RunSQL(listed(BEFORE, AFTER), listed(AFTER, BEFORE)),
        of_project("fact", "fact_of_project", "-recorded_at", "-id"),
        of_project("event", "event_of_project", "-id"),
        of_project("episode", "episode_of_project", "-started_at", "-id"),
        of_project("decision", "decision_of_project", "-created_at", "-id"),
        of_project("procedure", "procedure_of_project", "name", "id"),
        of_project("loopsummary", "loop_of_project", "-last_event_at", "-id"),
    ]
