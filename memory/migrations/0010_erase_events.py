"""Let events be erased."""

from importlib import import_module

from django.db import migrations

initial = import_module("memory.migrations.0001_initial")

ERASE_EVENTS = r"""
CREATE FUNCTION nous_erase_events(agent bigint, erased bigint[], quoting bigint[], receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    texts text[];
    since timestamptz[];
    asked text[];
    done jsonb := '{}';
    count bigint;
    words_of text;
BEGIN
    IF receipt->>'action' <> 'event.erase' THEN
        RAISE EXCEPTION 'this erases events' USING ERRCODE = 'check_violation';
    END IF;
    SELECT array_agg(e.id), lower(string_agg(concat_ws(' ', e.content, e.metadata::text), E'\n'))
    INTO erased, words_of FROM memory_event e WHERE e.agent_id = agent AND e.id = ANY (erased);
    IF erased IS NULL THEN
        RAISE EXCEPTION 'there is no such event' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);
    SELECT array_agg(held.text), array_agg(held.since) INTO texts, since FROM (
        SELECT part AS text, min(content.since) AS since FROM (
            SELECT e.content AS text, e.recorded_at AS since
            FROM memory_event e WHERE e.agent_id = agent AND e.id = ANY (erased)
            UNION ALL SELECT l.text, l.created_at
            FROM memory_longtermentry l WHERE l.agent_id = agent AND l.event_id = ANY (erased)) content, {parts}
        UNION ALL SELECT one.id::text, '-infinity' FROM unnest(erased) one(id)) held;

    -- What stays no longer names what goes.
    UPDATE memory_fact f SET source_event_id = NULL WHERE f.agent_id = agent AND f.source_event_id = ANY (erased);
    DELETE FROM memory_episodeevent m WHERE m.agent_id = agent AND m.event_id = ANY (erased);
    WITH gone AS (
        DELETE FROM memory_memoryreview r WHERE r.agent_id = agent
            AND jsonb_typeof(r.details->'items') = 'array' AND r.details->'items' <> '[]' AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(r.details->'items') item
                WHERE item->>0 <> 'event' OR item->>1 <> ALL (erased::text[])) RETURNING r.id)
    SELECT coalesce(array_agg(gone.id::text), '{}'), count(*) INTO asked, count FROM gone;
    done := done || jsonb_build_object('memoryreview', count);
    DELETE FROM memory_longtermentry l WHERE l.agent_id = agent AND l.event_id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('longtermentry', count);
    DELETE FROM memory_event e WHERE e.agent_id = agent AND e.id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('event', count);

    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent AND a.action NOT IN (
        'document.erase', 'event.erase', 'fact.erase', 'project.erase', 'user.erase', 'subject.erase', 'agent.erase') AND (
        (a.object_type = 'event' AND a.object_id = ANY (erased::text[]))
        OR (a.object_type = 'memoryreview' AND a.object_id = ANY (asked))
        -- Records about memory alone: what people decided stays readable, whatever it quotes.
        OR (a.id = ANY (quoting) AND a.object_type IN ({blanked})
            AND EXISTS (
                SELECT 1
                FROM unnest(texts, since) needle(text, since),
                    regexp_replace(needle.text, '[^[:alnum:]]+', '', 'g') letters,
                    jsonb_path_query(
                        jsonb_build_array(a.before, a.after, a.message, a.object_label), 'strict $.**') value
                WHERE a.at >= needle.since AND jsonb_typeof(value) = 'string' AND (
                    strpos(value #>> '{}', needle.text) > 0
                    OR (length(letters) >= 20
                        AND strpos(regexp_replace(value #>> '{}', '[^[:alnum:]]+', '', 'g'), letters) > 0)))));
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', count);
{exports}    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;

DO $$
DECLARE
    called regprocedure;
    source text;
BEGIN
    EXECUTE format('ALTER FUNCTION nous_erase_events(bigint, bigint[], bigint[], jsonb)'
        ' SET search_path = pg_catalog, %I, pg_temp', current_schema());
    REVOKE ALL ON FUNCTION nous_erase_events(bigint, bigint[], bigint[], jsonb) FROM PUBLIC;
    -- The receipt of the new erasure is a receipt to the others too.
    FOR called IN SELECT unnest(ARRAY[
        'nous_erase_facts(bigint, uuid[], bigint[], jsonb)', 'nous_erase_documents(bigint, uuid[], bigint[], jsonb)',
        'nous_erase_project(bigint, text, jsonb)', 'nous_erase_user(bigint, text, jsonb)',
        'nous_erase_agent(bigint, jsonb)']::regprocedure[]) LOOP
        source := pg_get_functiondef(called);
        IF strpos(source, $text$'user.erase', $text$) = 0 THEN
            RAISE EXCEPTION '% no longer lists the receipts', called;
        END IF;
        EXECUTE replace(source, $text$'user.erase', $text$, $text$'user.erase', 'event.erase', $text$);
    END LOOP;
END $$;
"""
"""Deletes events and the reviews that are about nothing else, and blanks what the audit trail says of them: the records
about them, and of `quoting` those about memory that quote a text of theirs of twenty characters or more and are no
older."""


class Migration(migrations.Migration):
    dependencies = [("memory", "0009_counted_imports")]
    operations = [
        migrations.RunSQL(
            ERASE_EVENTS.replace("{blanked}", initial.BLANKED)
            .replace("{exports}", initial.EXPORTS)
            .replace("{parts}", initial.PARTS),
            "DROP FUNCTION nous_erase_events(bigint, bigint[], bigint[], jsonb)",
        )
    ]
