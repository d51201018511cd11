"""Erasing as functions of the tables' owner: the running product itself may take nothing out of what only grows.

Each takes away all it is for or nothing, decides itself which rows those are, and writes the receipt: the product
tells who erases and why (`receipt` holds columns of the audit trail by name), and what it has erased of ordinary
tables ("rows" in it). A receipt is never blanked.

`nous_erase_facts` deletes facts of one agent with their history and the questions about them, and blanks what the
audit trail says of them; of `quoting`, records that may quote one, those that do. `nous_erase_agent` deletes an agent
whose ordinary rows have gone, with every append-only row of it, and blanks its audit trail. Both return the rows by
table, the product's among them.

The search path is fixed, so that nobody's tables or operators stand in for the real ones.
"""

from django.db import migrations

FORWARD = r"""
CREATE FUNCTION nous_erasure_receipt(agent bigint, receipt jsonb, done jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    counts jsonb;
BEGIN
    IF coalesce(btrim(receipt->>'message'), '') = '' OR coalesce(receipt->>'author_name', '') = '' THEN
        RAISE EXCEPTION 'an erasure says who erases and why' USING ERRCODE = 'check_violation';
    END IF;
    SELECT coalesce(jsonb_object_agg(key, value), '{}') INTO counts
    FROM jsonb_each(coalesce(receipt->'rows', '{}') || done) WHERE value <> '0'::jsonb;
    INSERT INTO identity_auditevent
    SELECT record.* FROM jsonb_populate_record(NULL::identity_auditevent, receipt || jsonb_build_object(
        'id', nextval(pg_get_serial_sequence('identity_auditevent', 'id')), 'at', clock_timestamp(), 'agent_id', agent,
        'before', NULL, 'after', jsonb_build_object('rows', counts))) record;
    RETURN counts;
END $$;

CREATE FUNCTION nous_erase_facts(agent bigint, erased uuid[], quoting bigint[], receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    texts text[];
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
    -- and a short text says nothing of where it came from.
    SELECT array_agg(DISTINCT held.text) INTO texts FROM (
        SELECT left(f.content, 60) AS text FROM memory_fact f WHERE f.id = ANY (erased)
        UNION SELECT left(c.before->>'content', 60) FROM memory_factchange c WHERE c.fact_id = ANY (erased)
        UNION SELECT unnest(erased)::text) held
    WHERE length(held.text) >= 8;

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
        OR (a.agent_id = agent AND a.id = ANY (quoting) AND EXISTS (
            SELECT 1 FROM unnest(texts) needle,
                jsonb_path_query(jsonb_build_array(a.before, a.after, a.message, a.object_label), 'strict $.**') value
            WHERE jsonb_typeof(value) = 'string' AND strpos(value #>> '{}', needle) > 0)));
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', count);
    -- A reference to a row that is gone has to show here, and not at the end of some wider transaction.
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;

CREATE FUNCTION nous_erase_agent(agent bigint, receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    done jsonb := '{}';
    grows record;
    count bigint;
BEGIN
    IF receipt->>'action' <> 'agent.erase' THEN
        RAISE EXCEPTION 'this erases an agent' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM identity_agent g WHERE g.id = agent FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such agent' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);
    DELETE FROM memory_factchange c USING memory_fact f WHERE c.fact_id = f.id AND f.agent_id = agent;
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('factchange', count);
    DELETE FROM memory_fact f WHERE f.agent_id = agent;
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('fact', count);
    -- Every table that only grows and names its agent, whichever there are.
    FOR grows IN
        SELECT DISTINCT c.oid::regclass AS name, replace(replace(replace(
            c.relname, 'identity_', ''), 'memory_', ''), 'context_', '') AS said
        FROM pg_class c
        JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgfoid = 'nous_append_only'::regproc
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'agent_id' AND NOT a.attisdropped
        WHERE c.oid <> 'identity_auditevent'::regclass
    LOOP
        EXECUTE format('DELETE FROM %s WHERE agent_id = $1', grows.name) USING agent;
        GET DIAGNOSTICS count = ROW_COUNT;
        done := done || jsonb_build_object(grows.said, count);
    END LOOP;
    DELETE FROM identity_agent g WHERE g.id = agent;
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('agent', count);
    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent AND a.action NOT IN ('fact.erase', 'subject.erase', 'agent.erase');
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', count);
    -- What still refers to the agent stops it here: no history goes while the agent stays.
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;

DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['nous_erasure_receipt(bigint, jsonb, jsonb)',
                                    'nous_erase_facts(bigint, uuid[], bigint[], jsonb)', 'nous_erase_agent(bigint, jsonb)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
"""

BACKWARD = """
DROP FUNCTION nous_erase_agent(bigint, jsonb);
DROP FUNCTION nous_erase_facts(bigint, uuid[], bigint[], jsonb);
DROP FUNCTION nous_erasure_receipt(bigint, jsonb, jsonb);
"""


class Migration(migrations.Migration):
    dependencies = [("identity", "0007_audit_persona"), ("memory", "0014_peoples_word")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
