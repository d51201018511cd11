"""Erasures of sealed rows leave holes, each with the receipt of its erasure.

The append-only tables have a trigger per statement that takes rows out or empties columns. It makes the salt of each
row's leaf zero, so that nobody can try out what the row may have said, and notes the hole. The digest of columns that
were emptied stays, so that the rest of the row can be checked; that of a row that is gone goes too. The receipt, which
ends each erasure, tells how many holes there are and their digest: no hole can be added to it later.

The sealer has the lock `nous.log` for itself, and erasures share it: a row that is erased is either not sealed
afterwards, or its leaf is found here.
"""

from django.db import migrations

TABLES = {
    "identity_auditevent": ("auditevent", "number", True),
    "identity_identityversion": ("identityversion", "uuid", False),
    "memory_event": ("event", "number", False),
    "memory_factchange": ("factchange", "number", False),
    "memory_judgecall": ("judgecall", "number", False),
}
"""By table: its name among the sealed ones, its key, and whether an erasure empties columns in place."""

HOLES = r"""
CREATE FUNCTION nous_log_hole() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    named text := TG_ARGV[0];
    emptied boolean := TG_OP = 'UPDATE' OR coalesce(current_setting('nous.emptying', true), '') = 'on';
    lowest bigint;
    highest bigint;
    many bigint;
    pack record;
    leaves identity_logleaves;
    slot int;
    salt bytea := decode(repeat('00', 16), 'hex');
    digest bytea := decode(repeat('00', 32), 'hex');
    usual text := coalesce(current_setting('nous.erasure', true), '');
BEGIN
    SELECT count(*) INTO many FROM gone;
    IF many = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(hashtext('nous.log'));
    IF TG_ARGV[1] = 'number' THEN
        SELECT min(g.id::text::bigint), max(g.id::text::bigint) INTO lowest, highest FROM gone g;
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);
    FOR pack IN
        SELECT l.seal_id, array_agg(one.place::int ORDER BY one.place) AS slots
        FROM identity_logleaves l CROSS JOIN LATERAL unnest(l.keys) WITH ORDINALITY one(key, place)
        JOIN gone g ON g.id::text = one.key
        WHERE l.kind = named AND (lowest IS NULL OR (l.last_key >= lowest AND l.first_key <= highest))
        GROUP BY l.seal_id ORDER BY l.seal_id
    LOOP
        SELECT * INTO leaves FROM identity_logleaves l WHERE l.seal_id = pack.seal_id FOR UPDATE;
        FOREACH slot IN ARRAY pack.slots LOOP
            -- What was emptied before is not emptied again; it may still go.
            CONTINUE WHEN substring(leaves.salts FROM slot * 16 - 15 FOR 16) = salt AND (emptied
                OR leaves.digests IS NULL OR substring(leaves.digests FROM slot * 32 - 31 FOR 32) = digest);
            leaves.salts := overlay(leaves.salts PLACING salt FROM slot * 16 - 15 FOR 16);
            IF NOT emptied AND leaves.digests IS NOT NULL THEN
                leaves.digests := overlay(leaves.digests PLACING digest FROM slot * 32 - 31 FOR 32);
            END IF;
            INSERT INTO identity_loghole (seal_id, slot, key, blanked, transaction, at)
            VALUES (pack.seal_id, slot, leaves.keys[slot], emptied, pg_current_xact_id()::text, clock_timestamp());
        END LOOP;
        UPDATE identity_logleaves l SET salts = leaves.salts, digests = leaves.digests WHERE l.seal_id = pack.seal_id;
    END LOOP;
    PERFORM set_config('nous.erasure', usual, true);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION nous_erasure_receipt(agent bigint, receipt jsonb, done jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    counts jsonb;
    holes jsonb;
    number bigint := nextval(pg_get_serial_sequence('identity_auditevent', 'id'));
BEGIN
    IF coalesce(btrim(receipt->>'message'), '') = '' OR coalesce(receipt->>'author_name', '') = '' THEN
        RAISE EXCEPTION 'an erasure says who erases and why' USING ERRCODE = 'check_violation';
    END IF;
    SELECT coalesce(jsonb_object_agg(key, value), '{}') INTO counts
    FROM jsonb_each(coalesce(receipt->'rows', '{}') || done) WHERE value <> '0'::jsonb;
    SELECT jsonb_build_object('log', jsonb_build_object('holes', count(*), 'digest', encode(sha256(convert_to(string_agg(
            format('%s:%s:%s', h.seal_id, h.slot, h.blanked::int), E'\n' ORDER BY h.seal_id, h.slot, h.blanked),
            'UTF8')), 'hex'))) INTO holes
    FROM identity_loghole h WHERE h.receipt_id IS NULL AND h.transaction = pg_current_xact_id()::text HAVING count(*) > 0;
    INSERT INTO identity_auditevent
    SELECT record.* FROM jsonb_populate_record(NULL::identity_auditevent, receipt || jsonb_build_object(
        'id', number, 'at', clock_timestamp(), 'agent_id', agent,
        'before', NULL, 'after', jsonb_build_object('rows', counts) || coalesce(holes, '{}'))) record;
    IF holes IS NOT NULL THEN
        PERFORM set_config('nous.erasure', 'on', true);
        UPDATE identity_loghole h SET receipt_id = number
        WHERE h.receipt_id IS NULL AND h.transaction = pg_current_xact_id()::text;
        PERFORM set_config('nous.erasure', 'off', true);
    END IF;
    RETURN counts;
END $$;

DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['nous_log_hole()', 'nous_erasure_receipt(bigint, jsonb, jsonb)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
"""
RECEIPT = r"""
CREATE OR REPLACE FUNCTION nous_erasure_receipt(agent bigint, receipt jsonb, done jsonb) RETURNS jsonb
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
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION nous_erasure_receipt(bigint, jsonb, jsonb) '
                   'SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
DROP FUNCTION nous_log_hole();
"""

# A change of another fact that names an erased one is written again without, at its old place.
EMPTYING = """    DELETE FROM memory_factchange c WHERE c.other_id = ANY (erased);
"""
MARKED = f"""    PERFORM set_config('nous.emptying', 'on', true);
{EMPTYING}    PERFORM set_config('nous.emptying', 'off', true);
"""
_REPLACE = """
DO $$
DECLARE
    source text := pg_get_functiondef('nous_erase_facts(bigint, uuid[], bigint[], jsonb)'::regprocedure);
BEGIN
    IF strpos(source, $text${before}$text$) = 0 THEN
        RAISE EXCEPTION 'nous_erase_facts no longer reads as it did';
    END IF;
    EXECUTE replace(source, $text${before}$text$, $text${after}$text$);
END $$;
"""


def replaced(before: str, after: str) -> str:
    return _REPLACE.replace("{before}", before).replace("{after}", after)


def triggers() -> migrations.RunSQL:
    forward, backward = [], []
    for table, (name, key, emptied) in TABLES.items():
        for event in ("DELETE", "UPDATE") if emptied else ("DELETE",):
            trigger = f"{name}_holes_{event.lower()}"
            forward.append(
                f"CREATE TRIGGER {trigger} AFTER {event} ON {table} REFERENCING OLD TABLE AS gone"
                f" FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('{name}', '{key}');"
            )
            backward.append(f"DROP TRIGGER {trigger} ON {table};")
    return migrations.RunSQL("\n".join(forward), "\n".join(backward))


class Migration(migrations.Migration):
    dependencies = [("identity", "0023_seals"), ("memory", "0037_chat_calls")]
    operations = [
        migrations.RunSQL(HOLES, RECEIPT),
        migrations.RunSQL(replaced(EMPTYING, MARKED), replaced(MARKED, EMPTYING)),
        triggers(),
    ]
