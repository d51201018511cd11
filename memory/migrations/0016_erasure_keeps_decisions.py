"""Erasing a fact blanks what the audit trail says of memory, and never what it says of decisions.

Whoever may learn and erase could else make any record of the trail unreadable: learn its words as a fact, and erase
that. So of the records that quote an erased fact without being about it, only those about memory are blanked, only
those made since the fact was recorded, and by its words only where these are twenty characters or more. What people
decided (identity, proposals, tokens, agents, censors, profiles) stays readable, and is counted as still quoting it.

Words count as quoted however white space, escapes and hidden characters stand between them, as in a prompt: where the
letters and digits are the same.
"""

from importlib import import_module

from django.db import migrations

NAME = "CREATE FUNCTION nous_erase_facts"
FORWARD = r"""
CREATE OR REPLACE FUNCTION nous_erase_facts(agent bigint, erased uuid[], quoting bigint[], receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    texts text[];
    since timestamptz[];
    asked text[];
    naming memory_factchange[];
    done jsonb := '{}';
    count bigint;
BEGIN
    IF receipt->>'action' NOT IN ('fact.erase', 'subject.erase') THEN
        RAISE EXCEPTION 'this erases facts' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM memory_fact f WHERE f.id = ANY (erased) AND f.agent_id = agent ORDER BY f.id FOR UPDATE;
    SELECT array_agg(f.id) INTO erased FROM memory_fact f WHERE f.id = ANY (erased) AND f.agent_id = agent;
    IF erased IS NULL THEN
        RAISE EXCEPTION 'there is no such fact' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);

    -- Whatever an edit replaced was content too. What may be cut where it is quoted is looked for by its beginning,
    -- and a short text says nothing of where it came from; an id always does.
    SELECT array_agg(held.text), array_agg(held.since) INTO texts, since FROM (
        SELECT content.text, min(content.since) AS since FROM (
            SELECT left(f.content, 60) AS text, f.recorded_at AS since FROM memory_fact f WHERE f.id = ANY (erased)
            UNION ALL SELECT left(c.before->>'content', 60), f.recorded_at
            FROM memory_factchange c JOIN memory_fact f ON f.id = c.fact_id WHERE f.id = ANY (erased)) content
        WHERE length(content.text) >= 20 GROUP BY content.text
        UNION ALL SELECT one.id::text, '-infinity' FROM unnest(erased) one(id)) held;

    DELETE FROM memory_factchange c WHERE c.fact_id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('factchange', count);
    -- A row of another fact's history that names an erased one is written anew without, at its old place.
    SELECT array_agg(c) INTO naming FROM memory_factchange c WHERE c.other_id = ANY (erased);
    DELETE FROM memory_factchange c WHERE c.other_id = ANY (erased);
    INSERT INTO memory_factchange
    SELECT blank.* FROM unnest(naming) one,
        jsonb_populate_record(one, '{"other_id": null, "reason": "", "evidence": {}}') blank;

    WITH gone AS (
        DELETE FROM memory_memoryreview r
        WHERE r.agent_id = agent AND (r.old_id = ANY (erased) OR r.new_id = ANY (erased) OR r.facts && erased)
        RETURNING r.id)
    SELECT array_agg(gone.id::text), count(*) INTO asked, count FROM gone;
    done := done || jsonb_build_object('memoryreview', count);
    DELETE FROM memory_fact f WHERE f.id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('fact', count);

    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.action NOT IN ('fact.erase', 'subject.erase', 'agent.erase') AND (
        (a.object_type = 'fact' AND a.object_id = ANY (erased::text[]))
        OR (a.object_type = 'memoryreview' AND a.object_id = ANY (asked))
        -- Records about memory alone: what people decided stays readable, whatever it quotes.
        OR (a.agent_id = agent AND a.id = ANY (quoting) AND a.object_type IN (
                'contextpin', 'contextrun', 'decision', 'embeddingmodel', 'episode', 'episodeevent', 'event',
                'eventsequence', 'fact', 'factchange', 'judgecall', 'lifecyclerun', 'longtermentry', 'loopsummary',
                'memoryreview', 'memoryusage', 'procedure', 'searchitem', 'searchstatistics', 'workingmemory')
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
    -- A reference to a row that is gone has to show here, and not at the end of some wider transaction.
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;
"""
# What a function is replaced by starts without the settings of its predecessor.
SEALED = """
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION nous_erase_facts(bigint, uuid[], bigint[], jsonb) '
                   'SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
"""
_, _, _before = import_module("memory.migrations.0015_erasure_functions").FORWARD.partition(NAME)
BACKWARD = f"CREATE OR REPLACE FUNCTION nous_erase_facts{_before.partition('CREATE FUNCTION')[0]}"


class Migration(migrations.Migration):
    dependencies = [("memory", "0015_erasure_functions")]
    operations = [migrations.RunSQL(FORWARD + SEALED, BACKWARD + SEALED)]
