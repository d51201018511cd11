"""Erasing documents as a function of the tables' owner.

`nous_erase_documents` deletes whole documents, all versions of each key, and blanks what the audit trail says of them:
the records about them, and of `quoting` those about memory that quote a text of theirs of twenty characters or more and
are no older. It lists the records that it may blank as `nous_erase_facts` does.
"""

from django.db import migrations

from memory.migration_operations import erasure_blanks

FORWARD = r"""
DO $migration$
DECLARE
    listed text := substring(
        pg_get_functiondef('nous_erase_facts(bigint, uuid[], bigint[], jsonb)'::regprocedure)
        FROM 'a\.object_type IN \([^)]*\)');
BEGIN
    IF listed IS NULL THEN
        RAISE EXCEPTION 'nous_erase_facts no longer says which records it blanks';
    END IF;
    EXECUTE replace($function$
CREATE FUNCTION nous_erase_documents(agent bigint, erased uuid[], quoting bigint[], receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    texts text[];
    since timestamptz[];
    done jsonb := '{}';
    count bigint;
BEGIN
    IF receipt->>'action' <> 'document.erase' THEN
        RAISE EXCEPTION 'this erases documents' USING ERRCODE = 'check_violation';
    END IF;
    -- No version stays of what was kept under a key.
    SELECT array_agg(d.id) INTO erased FROM memory_document d WHERE d.agent_id = agent AND (d.persona, d.address) IN (
        SELECT one.persona, one.address FROM memory_document one WHERE one.id = ANY (erased) AND one.agent_id = agent);
    IF erased IS NULL THEN
        RAISE EXCEPTION 'there is no such document' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM memory_document d WHERE d.id = ANY (erased) AND d.agent_id = agent ORDER BY d.id FOR UPDATE;
    PERFORM set_config('nous.erasure', 'on', true);
    SELECT array_agg(held.text), array_agg(held.since) INTO texts, since FROM (
        SELECT content.text, min(content.since) AS since FROM (
            SELECT left(d.text, 60) AS text, d.created_at AS since FROM memory_document d WHERE d.id = ANY (erased)
            UNION ALL SELECT left(told.one #>> '{}', 60), d.created_at
            FROM memory_document d, jsonb_path_query(d.value, 'strict $.**') told(one)
            WHERE d.id = ANY (erased) AND jsonb_typeof(told.one) = 'string') content
        WHERE length(content.text) >= 20 GROUP BY content.text
        UNION ALL SELECT one.id::text, '-infinity' FROM unnest(erased) one(id)) held;
    DELETE FROM memory_document d WHERE d.id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('document', count);
    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent
        AND a.action NOT IN ('document.erase', 'fact.erase', 'project.erase', 'subject.erase', 'agent.erase') AND (
        (a.object_type = 'document' AND a.object_id = ANY (erased::text[]))
        -- Records about memory alone: what people decided stays readable, whatever it quotes.
        OR (a.id = ANY (quoting) AND a.object_type IN (LISTED)
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
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$
$function$, 'a.object_type IN (LISTED)', listed);
    EXECUTE format('ALTER FUNCTION nous_erase_documents(bigint, uuid[], bigint[], jsonb) '
                   'SET search_path = pg_catalog, %I, pg_temp', current_schema());
    REVOKE ALL ON FUNCTION nous_erase_documents(bigint, uuid[], bigint[], jsonb) FROM PUBLIC;
END $migration$;
"""
_RECEIPTS = """
DO $$
DECLARE
    called regprocedure;
    source text;
BEGIN
    FOREACH called IN ARRAY ARRAY['nous_erase_facts(bigint, uuid[], bigint[], jsonb)',
        'nous_erase_agent(bigint, jsonb)', 'nous_erase_project(bigint, text, jsonb)',
        'nous_forget_subjects(bigint, uuid[], uuid[])']::regprocedure[] LOOP
        source := pg_get_functiondef(called);
        IF strpos(source, $text${before}$text$) = 0 THEN
            RAISE EXCEPTION '% no longer names the receipts', called;
        END IF;
        EXECUTE replace(source, $text${before}$text$, $text${after}$text$);
    END LOOP;
END $$;
"""
BEFORE, AFTER = "a.action NOT IN ('fact.erase'", "a.action NOT IN ('document.erase', 'fact.erase'"


def receipts(before: str, after: str) -> str:
    return _RECEIPTS.replace("{before}", before).replace("{after}", after)


class Migration(migrations.Migration):
    dependencies = [("memory", "0029_earlier_imports")]
    operations = [
        migrations.RunSQL(FORWARD, "DROP FUNCTION nous_erase_documents(bigint, uuid[], bigint[], jsonb)"),
        migrations.RunSQL(receipts(BEFORE, AFTER), receipts(AFTER, BEFORE)),
        erasure_blanks("contextrecall"),
    ]
