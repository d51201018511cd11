"""The tables of memory for a new database, and what their models do not say.

The text of each function is the same in every database, so that a later migration can replace a part of it. Where a
line of a function is longer than a line of this file, a backslash joins its parts.
"""

import uuid

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.validators
import django.db.models.functions.text
import pgvector.django.halfvec
from django.db import migrations, models

from nousweb.database.table_operations import CreateTables
from nousweb.lib.clock import now
from nousweb.lib.injection.scan import RULES_NAME

HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
KATAKANA = r"\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HIRAGANA = r"\u3041-\u309f"
HANGUL = r"\uac00-\ud7a3"
SOUTHEAST = r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3"
UNSPACED = HAN + KATAKANA + HIRAGANA + HANGUL + SOUTHEAST
RUNS = f"[{HAN}]+|[{KATAKANA}]+|[{HIRAGANA}]+|[{HANGUL}]+|[{SOUTHEAST}]+|[^{UNSPACED}]+"

STOPPED = (
    # Endings, particles and question words of Japanese.
    "です ます まし した して する され れま せん ませ から まで ので には では とは ない なく なり なる ある"
    " あり りま いま いる でし ょう しょ たい くだ ださ さい てい こと もの ため よう この その どこ だれ なに"
    " いつ どの どれ すか たか るか のは のが のを んな どん くら らい 何 誰 どう なぜ は が を に で と も の へ"
    " や か ね よ な"
    # Words of Chinese that say nothing by themselves.
    " 的 了 是 在 我 你 他 她 它 们 們 这 這 那 和 与 與 有 也 就 而 及 着 或 吗 嗎 呢 吧 啊 什么 什麼 怎么 怎麼"
    " 哪 几"
)
"""Pieces that are left out, as the stop words of other languages are."""

SPECIAL = r"[0-9_@#/\\<>&|=~%+]|[A-Za-z][.:][A-Za-z]|[a-z][A-Z]|[A-Z]{2}[a-z]{2}"
"""In a text without any of these, all words are plain."""
SEPARATORS = (
    r"([A-Za-z0-9]{2})[.](?=[A-Za-z])|([A-Za-z0-9])[.](?=[A-Za-z]{2})|([A-Za-z]{2})[.](?=[0-9])|([0-9])-(?=[A-Za-z])"
    r"|[/\\:=@_~%&#<>|+]|-(?=[0-9])"
)
"""The dots of `U.S.` and `e.g.` do not separate. What stands before is captured, for PostgreSQL looks behind slowly."""
UNSAID = r"\m[Hh][Tt]{2}[Pp][Ss]?://(?:www[.])?|\m[Vv](?=[0-9]+[.][0-9])|(-[0-9]{2})T(?=[0-9]{2}:)"
"""The scheme of an address, the letter before a version, and the one between a date and a time, are no words."""
COMPOUND = (
    r"\m(?!JavaScript\M)[A-Za-z0-9]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2})[A-Za-z0-9]*|\m[A-Za-z]+[0-9]{3,}[A-Za-z]?\M"
    r"|\m[A-Z]{2}[0-9]{2}[A-Z]{4}[0-9]{7,}\M"
)
"""JavaScript is not a kind of Java."""
BOUNDS = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9]{3})"
GROUPS = r"[+]?[0-9]+(?:[ ().\u00a0/-]{1,3}[0-9]+){0,8}"

SEARCH_FUNCTIONS = rf"""
CREATE FUNCTION nous_agent_lexemes(agent bigint, terms tsvector) RETURNS text[]
    -- The cost keeps the planner from computing this for every row instead of using the index.
    LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1000
    AS $$ SELECT ARRAY(SELECT agent::text || ':' || lexeme FROM unnest(tsvector_to_array(terms)) AS lexeme) $$;

CREATE FUNCTION nous_word_count(terms tsvector) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT coalesce(sum(cardinality(positions)), 0)::integer FROM unnest(terms) $$;

-- Of each letter the piece of so many that begins with it, at most three; a shorter run is one piece. One pass over the
-- letters: `substr` would count them from the beginning for each piece.
CREATE FUNCTION nous_pieces(run text, size integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT coalesce(string_agg(piece, ' ' ORDER BY place), '')
        FROM (
            SELECT place, lead(letter, size - 1) OVER following AS last,
                letter || CASE WHEN size > 1 THEN coalesce(lead(letter) OVER following, '') ELSE '' END
                    || CASE WHEN size > 2 THEN coalesce(lead(letter, 2) OVER following, '') ELSE '' END AS piece
            FROM unnest(string_to_array(run, NULL)) WITH ORDINALITY AS letters (letter, place)
            WINDOW following AS (ORDER BY place)) AS pieces
        WHERE (place = 1 OR last IS NOT NULL) AND piece <> ALL (string_to_array('{STOPPED}', ' ')));

CREATE FUNCTION nous_spaced(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT string_agg(CASE
            WHEN part ~ '^[{HAN}]' THEN nous_pieces(part, 1) || ' ' || nous_pieces(part, 2)
            WHEN part ~ '^[{SOUTHEAST}]' THEN nous_pieces(part, 3)
            WHEN part ~ '^[{UNSPACED}]' THEN nous_pieces(part, 2)
            ELSE part END, ' ')
        FROM regexp_matches(words, '{RUNS}', 'g') AS found (parts), unnest(parts) AS part);

CREATE FUNCTION nous_split(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN regexp_replace(
        regexp_replace(
            regexp_replace(translate(words, U&'\2010\2011\2212', '---'), '([A-Za-z])[+][+]', '\1 plusplus', 'g'),
            '\m([A-Za-z])#(?![A-Za-z0-9])', '\1 sharp', 'g'),
        '{UNSAID}|{SEPARATORS}', '\2\3\4\5\1 ', 'g');

CREATE FUNCTION nous_parts(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT coalesce(string_agg(regexp_replace(found[1], '{BOUNDS}', ' ', 'g'), ' '), '')
        FROM regexp_matches(words, '{COMPOUND}', 'g') AS found);

CREATE FUNCTION nous_numbers(words text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT coalesce(array_agg(DISTINCT number), '{{}}')
        FROM regexp_matches(words, '{GROUPS}', 'g') WITH ORDINALITY AS found (run, place),
            LATERAL (
                SELECT string_agg(digits[1], '') OVER (PARTITION BY place ORDER BY nth) AS until,
                    count(*) OVER (PARTITION BY place) AS groups
                FROM regexp_matches(run[1], '[0-9]+', 'g') WITH ORDINALITY AS part (digits, nth)
            ) AS part,
            unnest(CASE WHEN length(until) BETWEEN 9 AND 40 AND (groups > 1 OR run[1] ~ '^[+0]' OR length(until) > 12)
                THEN ARRAY[until, 'tail' || right(until, 9), regexp_replace(until, '^1([0-9]{{10}})$', '\1')]
                WHEN length(until) BETWEEN 7 AND 8 AND groups > 1 THEN ARRAY[until] END) AS number);

CREATE FUNCTION nous_terms(dictionary text, words text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN words ~ '{SPECIAL}' THEN
        to_tsvector(dictionary::regconfig, CASE WHEN words ~ '[{UNSPACED}]'
            THEN nous_spaced(nous_split(words)) ELSE nous_split(words) END)
        || strip(to_tsvector(dictionary::regconfig, nous_parts(words))) || array_to_tsvector(nous_numbers(words))
    ELSE to_tsvector(dictionary::regconfig, CASE WHEN words ~ '[{UNSPACED}]' THEN nous_spaced(words) ELSE words END)
    END;
"""
"""The words of a text by the language of its agent.

Texts of scripts without spaces between words are read as overlapping pieces of the script: of Chinese characters each
one and each pair, of kana and Hangul each pair, of Thai, Lao, Khmer and Burmese letters each three.
"""

# The subject counts once, also where the text begins with it.
TERMS = """nous_terms(
        dictionary, CASE WHEN starts_with(lower(text), lower(subject)) THEN text ELSE subject || ' ' || text END)"""
TIMES = (
    "yesterday | today | tonight | tomorrow | ago | last | next | week | weekend | month | year | day | morning"
    " | monday | tuesday | wednesday | thursday | friday | saturday | sunday | january | february | march | april"
    " | may | june | july | august | september | october | november | december | recently | since"
    " | summer | winter | spring | fall"
)
SEARCH_ITEMS = f"""
CREATE TABLE memory_searchitem (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    agent_id bigint NOT NULL REFERENCES identity_agent (id) ON DELETE CASCADE,
    persona varchar(20) NOT NULL,
    item_type varchar(10) NOT NULL,
    item_id varchar(36) NOT NULL,
    kind varchar(50) NOT NULL DEFAULT '',
    category varchar(50) NOT NULL DEFAULT '',
    scope varchar(10) NOT NULL DEFAULT 'global',
    subject varchar(200) NOT NULL DEFAULT '',
    loop_id varchar(100) NOT NULL DEFAULT '',
    position bigint NOT NULL DEFAULT 0,
    tags jsonb NOT NULL DEFAULT '[]',
    importance double precision NOT NULL DEFAULT 0.5,
    active boolean NOT NULL DEFAULT true,
    happened_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    retired_at timestamptz,
    text text NOT NULL,
    embedding halfvec,
    model varchar(100) NOT NULL DEFAULT '',
    status varchar(10) NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'ready', 'failed')),
    attempts smallint NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    due_at timestamptz,
    next_embedding halfvec,
    next_model varchar(100) NOT NULL DEFAULT '',
    -- Worked out once when an item is written instead of at every search.
    says_time boolean GENERATED ALWAYS AS (to_tsvector('english', text) @@ to_tsquery('english', '{TIMES}')) STORED,
    project varchar(100) NOT NULL DEFAULT '',
    task varchar(100) NOT NULL DEFAULT '',
    passages smallint CHECK (passages >= 0),
    standing varchar(20) NOT NULL DEFAULT '',
    dictionary varchar(20) NOT NULL DEFAULT 'english',
    terms tsvector GENERATED ALWAYS AS ({TERMS}) STORED,
    words integer GENERATED ALWAYS AS (nous_word_count({TERMS})) STORED,
    valid_from timestamptz,
    valid_until timestamptz,
    names text[] GENERATED ALWAYS AS (tsvector_to_array(nous_terms(dictionary, subject))) STORED,
    PRIMARY KEY (persona, id),
    CONSTRAINT memory_searchitem_once UNIQUE (persona, item_type, item_id, agent_id)
) PARTITION BY LIST (persona);

CREATE TABLE memory_searchitem_actor PARTITION OF memory_searchitem FOR VALUES IN ('actor');
CREATE TABLE memory_searchitem_subconscious PARTITION OF memory_searchitem FOR VALUES IN ('subconscious');

-- One tree for all, in which each agent's words are its own: a search reads no other agent's rows.
CREATE INDEX memory_searchitem_words ON memory_searchitem USING gin (nous_agent_lexemes(agent_id, terms));
CREATE INDEX memory_searchitem_agent ON memory_searchitem (agent_id, active) INCLUDE (words);
CREATE INDEX memory_searchitem_loop ON memory_searchitem (agent_id, loop_id, position) WHERE loop_id <> '';
CREATE INDEX memory_searchitem_unready ON memory_searchitem (status, due_at, id) WHERE status <> 'ready';
-- What was retired last, for explanations.
CREATE INDEX memory_searchitem_gone ON memory_searchitem (agent_id, retired_at DESC NULLS LAST) WHERE NOT active;
CREATE INDEX memory_searchitem_standing ON memory_searchitem (agent_id) WHERE standing <> '';
-- What happened, or was learnt, in a period.
CREATE INDEX memory_searchitem_time ON memory_searchitem
    (agent_id, (CASE item_type WHEN 'fact' THEN recorded_at ELSE happened_at END));
-- What is not valid now, for explanations.
CREATE INDEX memory_searchitem_ends ON memory_searchitem (agent_id, valid_until)
    WHERE active AND valid_until IS NOT NULL;
CREATE INDEX memory_searchitem_begins ON memory_searchitem (agent_id, valid_from)
    WHERE active AND valid_from IS NOT NULL;
"""
"""The search index, a collection of its own for each persona. Django knows no partitions, so SQL makes the table."""

SEARCH_PASSAGES = """
CREATE TABLE memory_searchpassage (
    agent_id bigint NOT NULL REFERENCES identity_agent (id) ON DELETE CASCADE,
    persona varchar(20) NOT NULL,
    row_id bigint NOT NULL,
    model varchar(100) NOT NULL,
    place smallint NOT NULL,
    begins integer NOT NULL,
    ends integer NOT NULL,
    embedding halfvec NOT NULL,
    PRIMARY KEY (row_id, model, place, persona, agent_id),
    FOREIGN KEY (persona, row_id) REFERENCES memory_searchitem (persona, id) ON DELETE CASCADE
) PARTITION BY LIST (persona);

CREATE TABLE memory_searchpassage_actor PARTITION OF memory_searchpassage FOR VALUES IN ('actor');
CREATE TABLE memory_searchpassage_subconscious PARTITION OF memory_searchpassage FOR VALUES IN ('subconscious');
CREATE INDEX memory_searchpassage_agent ON memory_searchpassage (agent_id, model);
"""
"""Passages of long texts with vectors of their own, in partitions as the search index."""

SPELLING_WORDS = """
ALTER TABLE memory_subjectalias
    ADD COLUMN lexemes text[] GENERATED ALWAYS AS (tsvector_to_array(nous_terms(dictionary, spelling))) STORED;
CREATE INDEX memory_subjectalias_lead ON memory_subjectalias (agent_id, persona, (lexemes[1]));
"""
"""The words of a spelling, and an index by its first word. Django would not
let the column be null."""

SAME_WORDS = r"""
CREATE INDEX memory_fact_said ON memory_fact
    (agent_id, persona, md5(rtrim(regexp_replace(btrim(content), '\s+', ' ', 'g'), ' .!')))
    WHERE active;
CREATE INDEX memory_fact_rejected ON memory_fact
    (agent_id, persona, md5(rtrim(regexp_replace(btrim(content), '\s+', ' ', 'g'), ' .!')))
    WHERE invalidated_at IS NOT NULL;
"""
"""They find what was said before, and what was found wrong, in the same words. `SAME_WORDS` in memory/models/facts.py
has the same form."""

APPEND_ONLY = """
CREATE TRIGGER event_rows_append_only BEFORE UPDATE OR DELETE ON memory_event
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER event_table_append_only BEFORE TRUNCATE ON memory_event
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER fact_change_rows_append_only BEFORE UPDATE OR DELETE ON memory_factchange
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER fact_change_table_append_only BEFORE TRUNCATE ON memory_factchange
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER judge_call_rows_append_only BEFORE UPDATE OR DELETE ON memory_judgecall
    FOR EACH ROW EXECUTE FUNCTION nous_append_only();
CREATE TRIGGER judge_call_table_append_only BEFORE TRUNCATE ON memory_judgecall
    FOR EACH STATEMENT EXECUTE FUNCTION nous_append_only();
"""
"""Events, the history of facts and the calls of the judge are append-only, as the audit trail is."""

HOLES = """
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

CREATE TRIGGER auditevent_holes_delete AFTER DELETE ON identity_auditevent REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('auditevent', 'number');
CREATE TRIGGER auditevent_holes_update AFTER UPDATE ON identity_auditevent REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('auditevent', 'number');
CREATE TRIGGER identityversion_holes_delete AFTER DELETE ON identity_identityversion REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('identityversion', 'uuid');
CREATE TRIGGER event_holes_delete AFTER DELETE ON memory_event REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('event', 'number');
CREATE TRIGGER factchange_holes_delete AFTER DELETE ON memory_factchange REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('factchange', 'number');
CREATE TRIGGER judgecall_holes_delete AFTER DELETE ON memory_judgecall REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION nous_log_hole('judgecall', 'number');
"""
"""Erasures of sealed rows leave holes, each with the receipt of its erasure.

The append-only tables have a trigger per statement that takes rows out or empties columns. It makes the salt of each
row's leaf zero, so that nobody can try out what the row may have said, and notes the hole. The digest of columns that
were emptied stays, so that the rest of the row can be checked; that of a row that is gone goes too. The receipt, which
ends each erasure, tells how many holes there are and their digest: no hole can be added to it later.

The sealer has the lock `nous.log` for itself, and erasures share it: a row that is erased is either not sealed
afterwards, or its leaf is found here.
"""

ERASURE_RECEIPT = """
CREATE FUNCTION nous_erasure_receipt(agent bigint, receipt jsonb, done jsonb) RETURNS jsonb
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
    SELECT jsonb_build_object('log', jsonb_build_object('holes', count(*), 'digest',\
 encode(sha256(convert_to(string_agg(
            format('%s:%s:%s', h.seal_id, h.slot, h.blanked::int), E'\\n' ORDER BY h.seal_id, h.slot, h.blanked),
            'UTF8')), 'hex'))) INTO holes
    FROM identity_loghole h\
 WHERE h.receipt_id IS NULL AND h.transaction = pg_current_xact_id()::text HAVING count(*) > 0;
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
"""
"""The audit record that each erasure ends with.

Erasing is done by functions of the tables' owner: the running product itself may take nothing out of what only grows.
Each takes away all it is for or nothing, decides itself which rows those are, and writes the receipt: the product
tells who erases and why (`receipt` holds columns of the audit trail by name), and what it has erased of ordinary
tables ("rows" in it). A receipt is never blanked. The functions return the rows by table, the product's among them.
"""

RECEIPTS = "'document.erase', 'fact.erase', 'project.erase', 'subject.erase', 'agent.erase'"
"""The actions of receipts."""

BLANKED = (
    "'filerun', 'contextrecall', 'importedmemory', 'document', 'searchpassage', 'subjectchange',"
    " 'subjectalias', 'subject', 'expectationwatch', 'expectationresult', 'expectation', 'job', \n"
    "                'contextpin', 'contextrun', 'decision', 'embeddingmodel', 'episode', 'episodeevent', 'event',\n"
    "                'eventsequence', 'fact', 'factchange', 'judgecall', 'knownsource', 'longtermentry',"
    " 'loopsummary',\n"
    "                'memoryreview', 'memoryusage', 'procedure', 'searchitem', 'searchstatistics', 'workingmemory'"
)
"""What the records are about that an erasure may blank where they quote what is erased.

Whoever may learn and erase could else make any record of the trail unreadable: learn its words as a fact, and erase
that. So of the records that quote an erased fact without being about it, only those about memory are blanked, only
those made since the fact was recorded, and by its words only where these are twenty characters or more. What people
decided (identity, proposals, tokens, agents, censors, profiles) stays readable, and is counted as still quoting it.

Words count as quoted however white space, escapes and hidden characters stand between them, as in a prompt: where the
letters and digits are the same.
"""

PARTS = """LATERAL (
            SELECT left(content.text, 60) AS part
            UNION SELECT substr(content.text, start, 40)
            FROM generate_series(31, length(content.text) - 40, greatest(20, length(content.text) / 200)) start
            WHERE length(content.text) > 60
            UNION SELECT right(content.text, 40) WHERE length(content.text) > 60) parts
        WHERE length(part) >= 20 GROUP BY part"""
"""Pieces of an erased text by which a quotation of it is found; the same as `parts_of` (memory/services/erasure)."""

EXPORTS = """    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.action = 'list.export' AND (a.agent_id = agent OR a.agent_id IS NULL) AND EXISTS (
        SELECT 1
        FROM jsonb_each(a.after->'filters') kept(name, given),
            jsonb_array_elements_text(kept.given) wanted,
            regexp_split_to_table(lower(wanted), '[^[:alnum:]]+') word
        WHERE kept.name IN ('q', 'subject', 'tag', 'loop', 'namespace', 'project', 'task', 'author', 'object',
                'domain', 'category')
            AND length(word) >= 3 AND strpos(words_of, word) > 0);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', (done->>'auditevent')::bigint + count);
"""
"""Filters of exported lists that name a word of an erased text are blanked."""

FORGET_SUBJECTS = """
CREATE FUNCTION nous_forget_subjects(agent bigint, things uuid[], spelled uuid[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    gone uuid[];
    asked text[];
    done jsonb := '{}';
    count bigint;
BEGIN
    -- Those without facts, and what was merged into them.
    WITH RECURSIVE every AS (
        SELECT s.id FROM memory_subject s
        WHERE s.agent_id = agent AND s.id = ANY (things) AND NOT EXISTS (
            SELECT 1 FROM memory_fact f JOIN memory_subjectalias a ON a.id = f.subject_alias_id
            WHERE f.agent_id = agent AND a.agent_id = agent AND a.subject_id = s.id)
        UNION SELECT m.id FROM memory_subject m JOIN every ON m.merged_into_id = every.id WHERE m.agent_id = agent)
    SELECT array_agg(every.id) INTO gone FROM every;
    DELETE FROM memory_subjectalias a WHERE a.agent_id = agent AND (
        a.subject_id = ANY (gone) OR (a.id = ANY (spelled) AND a.origin = 'seen' AND NOT EXISTS (
            SELECT 1 FROM memory_fact f WHERE f.agent_id = agent AND f.subject_alias_id = a.id)));
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('subjectalias', count);
    DELETE FROM memory_subjectchange c
    WHERE c.agent_id = agent AND (c.subject_id = ANY (gone) OR c.other_id = ANY (gone));
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('subjectchange', count);
    WITH answered AS (
        DELETE FROM memory_memoryreview r WHERE r.agent_id = agent AND r.subjects && gone RETURNING r.id)
    SELECT array_agg(answered.id::text), count(*) INTO asked, count FROM answered;
    done := done || jsonb_build_object('subjectreview', count);
    DELETE FROM memory_subject s WHERE s.agent_id = agent AND s.id = ANY (gone);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('subject', count);
    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent AND a.action NOT IN ({receipts}) AND (
        (a.object_type = 'memoryreview' AND a.object_id = ANY (asked))
        OR (a.object_type = 'subject' AND (a.object_id = ANY (gone::text[]) OR EXISTS (
            SELECT 1 FROM unnest(gone) one(id)
            WHERE strpos(concat(a.before, a.after), one.id::text) > 0))));
    GET DIAGNOSTICS count = ROW_COUNT;
    RETURN done || jsonb_build_object('subjectaudit', count);
END $$;
""".replace("{receipts}", RECEIPTS)
"""Erasing facts forgets the subjects and spellings that no fact is about any more, with all that names them.

It is for the owner's own functions alone. Subjects that are erased by name come in the receipt ("subjects"), so that
one of which there are no facts left can be erased too; none goes while facts are about it.
"""

ERASE_FACTS = (
    """
CREATE FUNCTION nous_erase_facts(agent bigint, erased uuid[], quoting bigint[], receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    texts text[];
    since timestamptz[];
    asked text[];
    naming memory_factchange[];
    done jsonb := '{}';
    things uuid[];
    spelled uuid[];
    forgotten jsonb;
    count bigint;
    words_of text;
BEGIN
    IF receipt->>'action' NOT IN ('fact.erase', 'project.erase', 'subject.erase') THEN
        RAISE EXCEPTION 'this erases facts' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM memory_fact f WHERE f.agent_id = agent AND f.id = ANY (erased) AND f.agent_id = agent\
 ORDER BY f.id FOR UPDATE;
    SELECT array_agg(f.id) INTO erased FROM memory_fact f\
 WHERE f.agent_id = agent AND f.id = ANY (erased) AND f.agent_id = agent;
    SELECT array_agg(DISTINCT a.subject_id), array_agg(DISTINCT a.id) INTO things, spelled
    FROM memory_fact f JOIN memory_subjectalias a ON a.agent_id = agent AND a.id = f.subject_alias_id\
 WHERE f.agent_id = agent AND f.id = ANY (erased);
    things := coalesce(things, '{}') || coalesce((
        SELECT array_agg(one::uuid) FROM jsonb_array_elements_text(receipt->'subjects') one), '{}');
    IF erased IS NULL AND things = '{}' THEN
        RAISE EXCEPTION 'there is no such fact' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);
    SELECT lower(string_agg(one.text, E'\\n')) INTO words_of FROM (
        SELECT concat_ws(' ', f.content, f.subject) AS text FROM memory_fact f
        WHERE f.agent_id = agent AND f.id = ANY (erased)
        UNION ALL SELECT c.before->>'content' FROM memory_factchange c
        WHERE c.agent_id = agent AND c.fact_id = ANY (erased)
        UNION ALL SELECT s.spelling FROM memory_subjectalias s
        WHERE s.agent_id = agent AND s.subject_id = ANY (things)) one;

    -- Whatever an edit replaced was content too. What may be cut where it is quoted is looked for by its beginning,
    -- and a short text says nothing of where it came from; an id always does.
    SELECT array_agg(held.text), array_agg(held.since) INTO texts, since FROM (
        SELECT part AS text, min(content.since) AS since FROM (
            SELECT f.content AS text, f.recorded_at AS since FROM memory_fact f\
 WHERE f.agent_id = agent AND f.id = ANY (erased)
            UNION ALL SELECT c.before->>'content', f.recorded_at
            FROM memory_factchange c JOIN memory_fact f ON c.agent_id = agent AND f.id = c.fact_id\
 WHERE f.agent_id = agent AND f.id = ANY (erased)) content, {parts}
        UNION ALL SELECT one.id::text, '-infinity' FROM unnest(erased) one(id)) held;

    DELETE FROM memory_factchange c WHERE c.agent_id = agent AND c.fact_id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('factchange', count);
    -- A row of another fact's history that names an erased one is written anew without, at its old place.
    SELECT array_agg(c) INTO naming FROM memory_factchange c WHERE c.agent_id = agent AND c.other_id = ANY (erased);
    PERFORM set_config('nous.emptying', 'on', true);
    DELETE FROM memory_factchange c WHERE c.agent_id = agent AND c.other_id = ANY (erased);
    PERFORM set_config('nous.emptying', 'off', true);
    INSERT INTO memory_factchange
    SELECT blank.* FROM unnest(naming) one,
        jsonb_populate_record(one, '{"other_id": null, "reason": "", "evidence": {}}') blank;

    WITH gone AS (
        DELETE FROM memory_memoryreview r
        WHERE r.agent_id = agent AND (r.old_id = ANY (erased) OR r.new_id = ANY (erased) OR r.facts && erased)
        RETURNING r.id)
    SELECT array_agg(gone.id::text), count(*) INTO asked, count FROM gone;
    done := done || jsonb_build_object('memoryreview', count);
    DELETE FROM memory_fact f WHERE f.agent_id = agent AND f.id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('fact', count);
    forgotten := nous_forget_subjects(agent, things, spelled);

    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.action NOT IN ({receipts}) AND (
        (a.object_type = 'fact' AND a.object_id = ANY (erased::text[]))
        OR (a.object_type = 'memoryreview' AND a.object_id = ANY (asked))
        -- Records about memory alone: what people decided stays readable, whatever it quotes.
        OR (a.agent_id = agent AND a.id = ANY (quoting) AND a.object_type IN ({blanked})
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
    done := done || (forgotten - 'subjectaudit' - 'subjectreview') || jsonb_build_object(
        'auditevent', count + (forgotten->>'subjectaudit')::bigint,
        'memoryreview', (done->>'memoryreview')::bigint + (forgotten->>'subjectreview')::bigint);
    -- A reference to a row that is gone has to show here, and not at the end of some wider transaction.
{exports}    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;
""".replace("{receipts}", RECEIPTS)
    .replace("{blanked}", BLANKED)
    .replace("{exports}", EXPORTS)
    .replace("{parts}", PARTS)
)
"""Deletes facts of one agent with their history and the questions about them, and blanks what the audit trail says of
them; of `quoting`, records that may quote one, those that do."""

ERASE_DOCUMENTS = (
    """
CREATE FUNCTION nous_erase_documents(agent bigint, erased uuid[], quoting bigint[], receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    texts text[];
    since timestamptz[];
    done jsonb := '{}';
    count bigint;
    words_of text;
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
    PERFORM 1 FROM memory_document d WHERE d.agent_id = agent AND d.id = ANY (erased) AND d.agent_id = agent\
 ORDER BY d.id FOR UPDATE;
    PERFORM set_config('nous.erasure', 'on', true);
    SELECT lower(string_agg(concat_ws(' ', d.namespace::text, d.key, d.text, d.value::text), E'\\n')) INTO words_of
    FROM memory_document d WHERE d.agent_id = agent AND d.id = ANY (erased);
    SELECT array_agg(held.text), array_agg(held.since) INTO texts, since FROM (
        SELECT part AS text, min(content.since) AS since FROM (
            SELECT d.text AS text, d.created_at AS since FROM memory_document d\
 WHERE d.agent_id = agent AND d.id = ANY (erased)
            UNION ALL SELECT told.one #>> '{}', d.created_at
            FROM memory_document d, jsonb_path_query(d.value, 'strict $.**') told(one)
            WHERE d.agent_id = agent AND d.id = ANY (erased) AND jsonb_typeof(told.one) = 'string') content, {parts}
        UNION ALL SELECT one.id::text, '-infinity' FROM unnest(erased) one(id)) held;
    DELETE FROM memory_document d WHERE d.agent_id = agent AND d.id = ANY (erased);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('document', count);
    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent
        AND a.action NOT IN ({receipts}) AND (
        (a.object_type = 'document' AND a.object_id = ANY (erased::text[]))
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
""".replace("{receipts}", RECEIPTS)
    .replace("{blanked}", BLANKED)
    .replace("{exports}", EXPORTS)
    .replace("{parts}", PARTS)
)
"""Deletes whole documents, all versions of each key, and blanks what the audit trail says of them: the records about
them, and of `quoting` those about memory that quote a text of theirs of twenty characters or more and are no older."""

ERASE_PROJECT = """
CREATE FUNCTION nous_erase_project(agent bigint, named text, receipt jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    happened bigint[];
    told uuid[];
    gone text[];
    done jsonb := '{}';
    count bigint;
    words_of text;
BEGIN
    IF receipt->>'action' <> 'project.erase' OR coalesce(named, '') = '' THEN
        RAISE EXCEPTION 'this erases a project' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM memory_fact f WHERE f.agent_id = agent AND f.project = named;
    IF FOUND THEN
        RAISE EXCEPTION 'its facts are erased first' USING ERRCODE = 'check_violation';
    END IF;
    PERFORM set_config('nous.erasure', 'on', true);
    SELECT lower(string_agg(one.text, E'\\n')) INTO words_of FROM (
        SELECT named AS text
        UNION ALL SELECT d.description FROM memory_decision d WHERE d.agent_id = agent AND d.project = named
        UNION ALL SELECT concat_ws(' ', d.key, d.text) FROM memory_document d
        WHERE d.agent_id = agent AND d.project = named
        UNION ALL SELECT concat_ws(' ', p.name, p.description) FROM memory_procedure p
        WHERE p.agent_id = agent AND p.project = named
        UNION ALL SELECT concat_ws(' ', e.title, e.summary, e.detail) FROM memory_episode e
        WHERE e.agent_id = agent AND e.project = named
        UNION ALL SELECT concat_ws(' ', e.content, e.loop_id) FROM memory_event e
        WHERE e.agent_id = agent AND e.project = named) one;
    SELECT coalesce(array_agg(e.id), '{}') INTO happened FROM memory_event e\
 WHERE e.agent_id = agent AND e.project = named;
    SELECT coalesce(array_agg(e.id), '{}') INTO told FROM memory_episode e\
 WHERE e.agent_id = agent AND e.project = named;

    -- What stays no longer names what goes.
    UPDATE memory_fact f SET source_event_id = NULL WHERE f.agent_id = agent AND f.source_event_id = ANY (happened);
    UPDATE memory_fact f SET source_episode_id = NULL WHERE f.agent_id = agent AND f.source_episode_id = ANY (told);
    UPDATE memory_decision d SET episode_id = NULL WHERE d.agent_id = agent AND d.episode_id = ANY (told);
    DELETE FROM memory_episodeevent m\
 WHERE m.agent_id = agent AND (m.episode_id = ANY (told) OR m.event_id = ANY (happened));
    DELETE FROM memory_longtermentry l WHERE l.agent_id = agent AND l.event_id = ANY (happened);
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('longtermentry', count);

    WITH erased AS (DELETE FROM memory_decision d WHERE d.agent_id = agent AND d.project = named RETURNING d.id)
    SELECT coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('decision', count);
    WITH erased AS (DELETE FROM memory_document d WHERE d.agent_id = agent AND d.project = named RETURNING d.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('document', count);
    WITH erased AS (DELETE FROM memory_procedure p WHERE p.agent_id = agent AND p.project = named RETURNING p.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('procedure', count);
    WITH erased AS (DELETE FROM memory_workingmemory w WHERE w.agent_id = agent AND w.project = named RETURNING w.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('workingmemory', count);
    DELETE FROM memory_knownsource k WHERE k.agent_id = agent AND k.project = named;
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('knownsource', count);
    WITH erased AS (
        DELETE FROM memory_memoryreview r WHERE r.agent_id = agent AND r.details->>'project' = named RETURNING r.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('memoryreview', count);
    WITH erased AS (DELETE FROM memory_episode e WHERE e.agent_id = agent AND e.id = ANY (told) RETURNING e.id)
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
        AND a.action NOT IN ('document.erase', 'fact.erase', 'subject.erase', 'project.erase', 'agent.erase')
        AND ((a.object_type IN ('decision', 'document', 'procedure', 'workingmemory', 'memoryreview', 'episode',\
 'loopsummary')
                AND a.object_id = ANY (gone))
            OR (a.object_type = 'event' AND a.object_id = ANY (happened::text[]))
            OR (a.object_type = 'expectation' AND EXISTS (
                SELECT 1 FROM unnest(ARRAY[a.before->'request', a.after->'request']) asked
                WHERE asked->>'project' = named OR asked->'include_projects' ? named)));
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', count);
{exports}    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;
""".replace("{exports}", EXPORTS)
"""Deletes whatever else carries the key of a project once its facts are gone: events, episodes, decisions, documents,
procedures, working memories and reviews, with what derives from them, and blanks what the audit trail says of each. It
finds the rows by the key itself, so it blanks nothing about anything that stays."""

ERASE_AGENT = """
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
    DELETE FROM memory_factchange c USING memory_fact f\
 WHERE c.agent_id = agent AND c.fact_id = f.id AND f.agent_id = agent;
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
        WHERE c.oid NOT IN ('identity_auditevent'::regclass, 'memory_factchange'::regclass)
    LOOP
        EXECUTE format('DELETE FROM %s WHERE agent_id = $1', grows.name) USING agent;
        GET DIAGNOSTICS count = ROW_COUNT;
        done := done || jsonb_build_object(grows.said, count);
    END LOOP;
    DELETE FROM identity_agent g WHERE g.id = agent;
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('agent', count);
    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
    WHERE a.agent_id = agent AND a.action NOT IN ({receipts});
    GET DIAGNOSTICS count = ROW_COUNT;
    done := done || jsonb_build_object('auditevent', count);
    -- What still refers to the agent stops it here: no history goes while the agent stays.
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
    PERFORM set_config('nous.erasure', 'off', true);
    RETURN nous_erasure_receipt(agent, receipt, done);
END $$;
""".replace("{receipts}", RECEIPTS)
"""Deletes an agent whose ordinary rows have gone, with every append-only row of it, and blanks its audit trail."""

SAMPLE_RENEW = """
CREATE FUNCTION nous_sample_renew(of_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    found regclass;
    is_empty boolean;
BEGIN
    SELECT c.oid INTO found FROM pg_class c
    WHERE c.oid = to_regclass(quote_ident(of_table)) AND c.relkind IN ('r', 'p')
      AND pg_get_userbyid(c.relowner) = current_user;
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no such table' USING ERRCODE = 'undefined_table';
    END IF;
    EXECUTE format('ANALYZE %s', found);
    -- Of an empty table it keeps what it knew.
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s)', found) INTO is_empty;
    IF is_empty AND to_regprocedure('pg_clear_attribute_stats(text, text, text, boolean)') IS NOT NULL THEN
        PERFORM pg_clear_attribute_stats(s.schemaname, s.tablename, s.attname, s.inherited)
        FROM pg_stats s WHERE format('%I.%I', s.schemaname, s.tablename)::regclass = found;
    END IF;
END $$;
"""
"""Takes the planner's sample of a table again, which its owner alone may.

PostgreSQL keeps values of each column as statistics (`pg_statistic`), which go on holding those of erased rows until a
table is sampled again: by autovacuum that is when a tenth of it has changed. Of a table without rows they stay;
PostgreSQL 18 and newer can clear them.
"""

OWNERS = """
DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY[
        'nous_log_hole()',
        'nous_erasure_receipt(bigint, jsonb, jsonb)',
        'nous_forget_subjects(bigint, uuid[], uuid[])',
        'nous_erase_facts(bigint, uuid[], bigint[], jsonb)',
        'nous_erase_documents(bigint, uuid[], bigint[], jsonb)',
        'nous_erase_project(bigint, text, jsonb)',
        'nous_erase_agent(bigint, jsonb)',
        'nous_sample_renew(text)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
"""
"""The search path of these functions is fixed, so that nobody's tables or operators stand in for the real ones."""


def nothing_stored(apps, schema_editor):
    """Where nothing is stored yet, the gate has read all: it reads what comes from now on."""
    apps.get_model("memory", "Screening").objects.create(
        rules=RULES_NAME, status="done", finished_at=now(), author_kind="system", author_name="installation"
    )


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("identity", "0001_initial"),
    ]

    operations = [
        migrations.RunSQL(SEARCH_FUNCTIONS),
        migrations.RunSQL(
            SEARCH_ITEMS,
            state_operations=[
                migrations.CreateModel(
                    name="SearchItem",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20
                            ),
                        ),
                        (
                            "item_type",
                            models.CharField(
                                choices=[
                                    ("event", "Event"),
                                    ("fact", "Fact"),
                                    ("episode", "Episode"),
                                    ("procedure", "Procedure"),
                                    ("decision", "Decision"),
                                    ("document", "Document"),
                                ],
                                max_length=10,
                            ),
                        ),
                        ("item_id", models.CharField(max_length=36)),
                        ("kind", models.CharField(blank=True, max_length=50)),
                        ("category", models.CharField(blank=True, max_length=50)),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")], max_length=10
                            ),
                        ),
                        ("subject", models.CharField(blank=True, max_length=200)),
                        ("loop_id", models.CharField(blank=True, max_length=100)),
                        ("position", models.BigIntegerField(default=0)),
                        ("tags", models.JSONField(default=list)),
                        ("importance", models.FloatField()),
                        ("active", models.BooleanField(default=True)),
                        ("happened_at", models.DateTimeField()),
                        ("recorded_at", models.DateTimeField()),
                        ("retired_at", models.DateTimeField(null=True)),
                        ("valid_from", models.DateTimeField(null=True)),
                        ("valid_until", models.DateTimeField(null=True)),
                        ("text", models.TextField()),
                        ("terms", django.contrib.postgres.search.SearchVectorField()),
                        ("words", models.IntegerField(default=0)),
                        ("embedding", pgvector.django.halfvec.HalfVectorField(null=True)),
                        ("model", models.CharField(blank=True, max_length=100)),
                        (
                            "status",
                            models.CharField(
                                choices=[("pending", "Pending"), ("ready", "Ready"), ("failed", "Failed")],
                                default="pending",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("error", models.TextField(blank=True)),
                        ("due_at", models.DateTimeField(null=True)),
                        ("next_embedding", pgvector.django.halfvec.HalfVectorField(null=True)),
                        ("next_model", models.CharField(blank=True, max_length=100)),
                        ("passages", models.PositiveSmallIntegerField(null=True)),
                        ("standing", models.CharField(blank=True, db_default="", default="", max_length=20)),
                        ("dictionary", models.CharField(db_default="english", default="english", max_length=20)),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "db_table": "memory_searchitem",
                    },
                ),
            ],
        ),
        migrations.RunSQL(
            SEARCH_PASSAGES,
            state_operations=[
                migrations.CreateModel(
                    name="SearchPassage",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "row_id",
                                "model",
                                "place",
                                "persona",
                                "agent",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20
                            ),
                        ),
                        ("row_id", models.BigIntegerField()),
                        ("model", models.CharField(max_length=100)),
                        ("place", models.PositiveSmallIntegerField()),
                        ("begins", models.PositiveIntegerField()),
                        ("ends", models.PositiveIntegerField()),
                        ("embedding", pgvector.django.halfvec.HalfVectorField()),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "db_table": "memory_searchpassage",
                    },
                ),
            ],
        ),
        CreateTables(
            [
                migrations.CreateModel(
                    name="EmbeddingModel",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("name", models.CharField(max_length=100)),
                        ("dimension", models.PositiveIntegerField()),
                        (
                            "state",
                            models.CharField(
                                choices=[("active", "Active"), ("building", "Building")], max_length=10, unique=True
                            ),
                        ),
                        ("since", models.DateTimeField(default=now)),
                    ],
                ),
                migrations.CreateModel(
                    name="Event",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("ts", models.DateTimeField()),
                        ("recorded_at", models.DateTimeField(default=now, editable=False)),
                        ("loop_id", models.CharField(max_length=100)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("user_input", "User input"),
                                    ("actor_output", "Actor output"),
                                    ("tool_call", "Tool call"),
                                    ("tool_result", "Tool result"),
                                    ("subconscious_prompt", "Subconscious prompt"),
                                    ("subconscious_output", "Subconscious output"),
                                    ("system_event", "System event"),
                                    ("error", "Error"),
                                ],
                                max_length=30,
                            ),
                        ),
                        ("visibility", models.CharField(max_length=50)),
                        ("content", models.TextField()),
                        ("metadata", models.JSONField(blank=True, default=dict)),
                        ("key", models.CharField(blank=True, max_length=200, null=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="events", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "persona", "-id"], name="memory_even_agent_i_780004_idx"),
                            models.Index(
                                condition=models.Q(("project", ""), _negated=True),
                                fields=["agent", "persona", "project", "-id"],
                                name="event_of_project",
                            ),
                            models.Index(fields=["agent", "persona", "ts", "id"], name="memory_even_agent_i_f2e4ec_idx"),
                            models.Index(
                                fields=["agent", "persona", "loop_id", "ts", "id"], name="memory_even_agent_i_429910_idx"
                            ),
                            models.Index(fields=["recorded_at"], include=("agent", "persona"), name="event_figures"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("key__isnull", False)),
                                fields=("agent", "persona", "key"),
                                name="one_event_per_key",
                            ),
                        ],
                        "ordering": ["-recorded_at", "-id"],
                        "permissions": [
                            ("view_subconscious", "Can see the subconscious memory of agents"),
                            ("erase_memory", "Can erase memories for good"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Screening",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("rules", models.CharField(max_length=20)),
                        (
                            "status",
                            models.CharField(
                                choices=[("waiting", "Pending"), ("running", "Running"), ("done", "Done")],
                                default="waiting",
                                max_length=10,
                            ),
                        ),
                        ("asked_at", models.DateTimeField(default=now)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("worked_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("place", models.JSONField(default=list)),
                        ("total", models.PositiveBigIntegerField(default=0)),
                        ("checked", models.PositiveBigIntegerField(default=0)),
                        ("quarantined", models.PositiveBigIntegerField(default=0)),
                    ],
                    options={
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="SearchLanguage",
                    fields=[
                        (
                            "agent",
                            models.OneToOneField(
                                on_delete=models.CASCADE,
                                primary_key=True,
                                related_name="+",
                                serialize=False,
                                to="identity.agent",
                            ),
                        ),
                        ("dictionary", models.CharField(default="english", max_length=20)),
                        ("detected", models.CharField(blank=True, max_length=10)),
                        ("looked_at", models.PositiveIntegerField(default=0)),
                        ("since", models.DateTimeField(default=now)),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name="Censor",
                    fields=[
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")],
                                default="global",
                                max_length=10,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("active", models.BooleanField(default=True)),
                        ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now, editable=False)),
                        ("pattern", models.TextField()),
                        (
                            "match",
                            models.CharField(
                                choices=[("regex", "Pattern"), ("semantic", "Meaning")], default="regex", max_length=10
                            ),
                        ),
                        ("similarity_threshold", models.FloatField(default=0.6)),
                        (
                            "severity",
                            models.CharField(
                                choices=[("warn", "Warn"), ("block", "Block"), ("absolute", "Absolute")],
                                default="warn",
                                max_length=10,
                            ),
                        ),
                        ("domain", models.CharField(blank=True, max_length=50)),
                        ("reason", models.TextField(blank=True)),
                        ("escalation_threshold", models.PositiveIntegerField(default=5)),
                        ("activation_count", models.PositiveIntegerField(default=0)),
                        ("false_positive_count", models.PositiveIntegerField(default=0)),
                        ("last_activated_at", models.DateTimeField(blank=True, null=True)),
                        ("author_kind", models.CharField(max_length=10)),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("endorsed", models.BooleanField(default=False)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="%(class)ss", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "persona", "active"], name="memory_cens_agent_i_869b76_idx"),
                        ],
                        "ordering": ["-created_at", "-id"],
                        "permissions": [("trigger_censor", "Can check text against censors and count what matches")],
                    },
                ),
                migrations.CreateModel(
                    name="KnownSource",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("locator", models.CharField(max_length=1000)),
                        ("sha256", models.CharField(max_length=64)),
                        ("seen_at", models.DateTimeField()),
                        ("changed_at", models.DateTimeField(blank=True, null=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="known_sources", to="identity.agent")),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                models.F("agent"),
                                models.F("persona"),
                                models.F("project"),
                                django.db.models.functions.text.MD5("locator"),
                                name="source_known_once",
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Document",
                    fields=[
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")],
                                default="global",
                                max_length=10,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("active", models.BooleanField(default=True)),
                        ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now, editable=False)),
                        ("endorsed", models.BooleanField(default=False, editable=False)),
                        (
                            "namespace",
                            django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), size=None),
                        ),
                        ("key", models.CharField(max_length=300)),
                        ("address", models.CharField(editable=False, max_length=64)),
                        ("value", models.JSONField(default=dict)),
                        (
                            "index_fields",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=200), blank=True, null=True, size=None
                            ),
                        ),
                        ("text", models.TextField(blank=True)),
                        ("version", models.PositiveIntegerField(default=1)),
                        ("first_created_at", models.DateTimeField(default=now, editable=False)),
                        ("retired_by", models.CharField(blank=True, max_length=200)),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("ttl", models.PositiveIntegerField(blank=True, null=True)),
                        ("source_ref", models.JSONField(blank=True, null=True)),
                        ("source_changed_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="%(class)ss", to="identity.agent")),
                        (
                            "superseded_by",
                            models.OneToOneField(
                                blank=True, null=True, on_delete=models.PROTECT, related_name="supersedes", to="memory.document"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            django.contrib.postgres.indexes.GinIndex(
                                condition=models.Q(("active", True)), fields=["namespace"], name="document_of_namespace"
                            ),
                            models.Index(fields=["agent", "persona", "-created_at", "-id"], name="document_latest"),
                            models.Index(
                                condition=models.Q(("project", ""), _negated=True),
                                fields=["agent", "persona", "project", "-created_at", "-id"],
                                name="document_of_project",
                            ),
                            models.Index(
                                condition=models.Q(("expires_at__isnull", False)),
                                fields=["expires_at"],
                                name="document_expiring",
                            ),
                            django.contrib.postgres.indexes.GinIndex(
                                condition=models.Q(("source_ref__isnull", False)),
                                fields=["source_ref"],
                                name="document_source",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("active", True)),
                                fields=("agent", "persona", "address"),
                                name="document_one_active",
                            ),
                            models.UniqueConstraint(
                                fields=("agent", "persona", "address", "version"), name="document_versions"
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    models.Q(("active", True), ("retired_at__isnull", True), ("superseded_by__isnull", True)),
                                    models.Q(("active", False), ("retired_at__isnull", False)),
                                    _connector="OR",
                                ),
                                name="document_active_until_retired",
                            ),
                        ],
                        "ordering": ["-created_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Episode",
                    fields=[
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")],
                                default="global",
                                max_length=10,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("active", models.BooleanField(default=True)),
                        ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now, editable=False)),
                        ("endorsed", models.BooleanField(default=False, editable=False)),
                        ("title", models.CharField(blank=True, max_length=200)),
                        ("summary", models.TextField(blank=True)),
                        (
                            "summary_kind",
                            models.CharField(
                                choices=[
                                    ("none", "None yet"),
                                    ("given", "Written by the agent"),
                                    ("extractive", "Extracted"),
                                    ("judge", "Written by the judge"),
                                ],
                                default="none",
                                max_length=12,
                            ),
                        ),
                        ("detail", models.TextField(blank=True)),
                        (
                            "outcome",
                            models.CharField(
                                choices=[
                                    ("unknown", "Not given"),
                                    ("success", "Success"),
                                    ("partial", "Partly"),
                                    ("failure", "Failure"),
                                    ("ongoing", "Continued elsewhere"),
                                ],
                                default="unknown",
                                max_length=10,
                            ),
                        ),
                        (
                            "lessons",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "participants",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=100), blank=True, default=list, size=None
                            ),
                        ),
                        ("started_at", models.DateTimeField(default=now)),
                        ("ended_at", models.DateTimeField(blank=True, null=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="%(class)ss", to="identity.agent")),
                    ],
                    options={
                        "ordering": ["-started_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Decision",
                    fields=[
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")],
                                default="global",
                                max_length=10,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("active", models.BooleanField(default=True)),
                        ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now, editable=False)),
                        ("endorsed", models.BooleanField(default=False, editable=False)),
                        ("description", models.TextField()),
                        ("context", models.TextField(blank=True)),
                        ("category", models.CharField(blank=True, max_length=50)),
                        (
                            "confidence",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        (
                            "stakes",
                            models.CharField(
                                choices=[("low", "Low"), ("medium", "Medium"), ("high", "High"), ("critical", "Critical")],
                                default="medium",
                                max_length=10,
                            ),
                        ),
                        (
                            "reasons",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "outcome",
                            models.CharField(
                                choices=[
                                    ("pending", "Not known yet"),
                                    ("success", "Success"),
                                    ("partial", "Partly"),
                                    ("failure", "Failure"),
                                ],
                                default="pending",
                                max_length=10,
                            ),
                        ),
                        ("outcome_note", models.TextField(blank=True)),
                        ("reviewed_at", models.DateTimeField(blank=True, null=True)),
                        ("reviewed_by", models.CharField(blank=True, max_length=200)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="%(class)ss", to="identity.agent")),
                        (
                            "episode",
                            models.ForeignKey(
                                blank=True, null=True, on_delete=models.PROTECT, related_name="decisions", to="memory.episode"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["agent", "persona", "-created_at", "-id"], name="memory_deci_agent_i_dc4842_idx"
                            ),
                            models.Index(
                                condition=models.Q(("project", ""), _negated=True),
                                fields=["agent", "persona", "project", "-created_at", "-id"],
                                name="decision_of_project",
                            ),
                        ],
                        "ordering": ["-created_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="LongTermEntry",
                    fields=[
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        (
                            "event",
                            models.OneToOneField(
                                on_delete=models.PROTECT,
                                primary_key=True,
                                related_name="long_term",
                                serialize=False,
                                to="memory.event",
                            ),
                        ),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("loop_id", models.CharField(max_length=100)),
                        ("text", models.TextField()),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                    ],
                ),
                migrations.CreateModel(
                    name="EpisodeEvent",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=models.PROTECT,
                                related_name="+",
                                to="identity.agent",
                            ),
                        ),
                        ("episode", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="memory.episode")),
                        ("event", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="memory.event")),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("episode", "event"), name="event_once_in_episode"),
                        ],
                        "ordering": ["event_id"],
                    },
                ),
                migrations.AddField(
                    model_name="episode",
                    name="events",
                    field=models.ManyToManyField(related_name="episodes", through="memory.EpisodeEvent", to="memory.event"),
                ),
                migrations.CreateModel(
                    name="EventSequence",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "agent", "persona", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("last", models.BigIntegerField()),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "abstract": False,
                    },
                ),
                migrations.CreateModel(
                    name='FileRun',
                    fields=[
                        ('author_kind', models.CharField(choices=[('person', 'Person'), ('token', 'Agent'), ('system', 'System')], max_length=10)),
                        ('author_id', models.CharField(max_length=100)),
                        ('author_name', models.CharField(max_length=200)),
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('kind', models.CharField(choices=[('import', 'Import'), ('export', 'Export')], max_length=10)),
                        ('persona', models.CharField(blank=True, choices=[('actor', 'Actor'), ('subconscious', 'Subconscious')], max_length=20)),
                        ('status', models.CharField(choices=[('uploading', 'Uploading'), ('checking', 'Being checked'), ('ready', 'Checked, not started'), ('refused', 'Refused'), ('running', 'Running'), ('stopped', 'Stopped'), ('done', 'Done'), ('failed', 'Failed'), ('discarded', 'File deleted')], max_length=10)),
                        ('file_name', models.CharField(blank=True, max_length=255)),
                        ('file_bytes', models.BigIntegerField(default=0)),
                        ('received_bytes', models.BigIntegerField(default=0)),
                        ('system', models.CharField(blank=True, max_length=30)),
                        ('options', models.JSONField(default=dict)),
                        ('survey', models.JSONField(default=dict)),
                        ('outcomes', models.JSONField(default=dict)),
                        ('known', models.JSONField(default=dict)),
                        ('changed', models.JSONField(default=dict)),
                        ('position', models.PositiveBigIntegerField(default=0)),
                        ('share', models.FloatField(default=0.0)),
                        ('work_seconds', models.FloatField(default=0.0)),
                        ('slice', models.PositiveIntegerField(default=0)),
                        ('error', models.TextField(blank=True)),
                        ('created_at', models.DateTimeField(default=now)),
                        ('changed_at', models.DateTimeField(default=now)),
                        ('agent', models.ForeignKey(on_delete=models.CASCADE, related_name='+', to='identity.agent')),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['agent', 'kind', '-created_at', '-id'], name='file_run_of_agent'),
                        ],
                        'constraints': [
                            models.UniqueConstraint(condition=models.Q(('kind', 'export'), ('status', 'running')), fields=('agent',), name='one_export_of_an_agent_runs'),
                        ],
                        'ordering': ['-created_at', '-id'],
                        'permissions': [('import_memory', 'Can import memories from a file')],
                    },
                ),
                migrations.CreateModel(
                    name="Fact",
                    fields=[
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("content", models.TextField()),
                        ("subject", models.CharField(blank=True, max_length=200)),
                        ("attribute", models.CharField(blank=True, db_default="", default="", max_length=80)),
                        ("value", models.CharField(blank=True, db_default="", default="", max_length=200)),
                        ("category", models.CharField(default="concept", max_length=50)),
                        ("kind", models.CharField(blank=True, max_length=50)),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")],
                                default="global",
                                max_length=10,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "confidence",
                            models.FloatField(
                                default=1.0,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("source", models.CharField(blank=True, max_length=200)),
                        ("confirmation_count", models.PositiveIntegerField(default=0)),
                        ("last_confirmed_at", models.DateTimeField(blank=True, null=True)),
                        ("active", models.BooleanField(default=True)),
                        ("valid_from", models.DateTimeField(blank=True, null=True)),
                        ("valid_until", models.DateTimeField(blank=True, null=True)),
                        ("expires_at", models.DateTimeField(blank=True, null=True)),
                        ("source_ref", models.JSONField(blank=True, null=True)),
                        ("source_changed_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("recorded_at", models.DateTimeField(default=now)),
                        ("retired_at", models.DateTimeField(blank=True, null=True)),
                        ("invalidated_at", models.DateTimeField(blank=True, null=True)),
                        ("endorsed", models.BooleanField(default=False)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="%(class)ss", to="identity.agent")),
                        (
                            "contradiction_of",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=models.PROTECT,
                                related_name="contradicted_by",
                                to="memory.fact",
                            ),
                        ),
                        (
                            "source_episode",
                            models.ForeignKey(
                                blank=True, null=True, on_delete=models.PROTECT, related_name="facts", to="memory.episode"
                            ),
                        ),
                        (
                            "source_event",
                            models.ForeignKey(
                                blank=True, null=True, on_delete=models.PROTECT, related_name="facts", to="memory.event"
                            ),
                        ),
                        (
                            "superseded_by",
                            models.ForeignKey(
                                blank=True, null=True, on_delete=models.PROTECT, related_name="supersedes", to="memory.fact"
                            ),
                        ),
                    ],
                    options={
                        "ordering": ["-recorded_at", "-id"],
                        "permissions": [("add_rule_fact", "Can write facts of the category rule")],
                    },
                ),
                migrations.CreateModel(
                    name="FactChange",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("at", models.DateTimeField(default=now, editable=False)),
                        (
                            "action",
                            models.CharField(
                                choices=[
                                    ("stored", "Stored"),
                                    ("confirmed", "Confirmed"),
                                    ("superseded", "Superseded"),
                                    ("invalidated", "Marked as wrong"),
                                    ("restored", "Restored"),
                                    ("merged", "Merged into another"),
                                    ("edited", "Edited"),
                                    ("quarantined", "Quarantined"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("score", models.FloatField(null=True)),
                        ("reason", models.TextField(blank=True)),
                        ("before", models.JSONField(default=dict)),
                        ("evidence", models.JSONField(default=dict)),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=models.PROTECT,
                                related_name="+",
                                to="identity.agent",
                            ),
                        ),
                        ("fact", models.ForeignKey(on_delete=models.PROTECT, related_name="changes", to="memory.fact")),
                        ("other", models.ForeignKey(null=True, on_delete=models.PROTECT, related_name="+", to="memory.fact")),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("action", "superseded")), fields=["-at"], name="fact_supersessions"
                            ),
                            models.Index(
                                condition=models.Q(("action", "confirmed"), ("score__isnull", False)),
                                fields=["-at"],
                                name="fact_confirmations",
                            ),
                            models.Index(
                                condition=models.Q(("before__has_key", "category")), fields=["at"], name="fact_refiled"
                            ),
                        ],
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="ImportedMemory",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("system", models.CharField(max_length=30)),
                        ("key", models.CharField(max_length=64)),
                        ("source_id", models.CharField(blank=True, max_length=300)),
                        ("content_hash", models.CharField(blank=True, max_length=64)),
                        ("item_type", models.CharField(max_length=20)),
                        ("item_id", models.CharField(blank=True, max_length=40)),
                        (
                            "earlier_item_ids",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=40), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "outcome",
                            models.CharField(
                                choices=[
                                    ("stored", "Stored"),
                                    ("confirmed", "Already known, confirmed"),
                                    ("superseded", "Stored, and replaced another"),
                                    ("queued", "Pending review"),
                                    ("decided", "Not stored because of people's decisions"),
                                    ("proposed", "Proposed for the identity"),
                                    ("unchanged", "Already in the identity"),
                                    ("erased", "Erased later"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("file", models.CharField(blank=True, max_length=255)),
                        ("imported_at", models.DateTimeField(default=now)),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "item_type", "item_id"], name="import_of_item"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("agent", "persona", "system", "key"), name="one_import_per_source_id"
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Job",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("key", models.CharField(max_length=200, unique=True)),
                        ("handler", models.CharField(max_length=50)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("subject_type", models.CharField(blank=True, max_length=30)),
                        ("subject_id", models.CharField(blank=True, max_length=40)),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("queued", "Queued"),
                                    ("running", "Running"),
                                    ("done", "Done"),
                                    ("failed", "Failed, retrying"),
                                    ("dead", "Failed permanently"),
                                ],
                                default="queued",
                                max_length=10,
                            ),
                        ),
                        ("attempts", models.PositiveSmallIntegerField(default=0)),
                        ("queued_at", models.DateTimeField(default=now)),
                        ("next_attempt_at", models.DateTimeField(default=now)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        ("duration_ms", models.PositiveIntegerField(null=True)),
                        ("tokens", models.PositiveIntegerField(default=0)),
                        ("result", models.JSONField(default=dict)),
                        ("error", models.TextField(blank=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="jobs", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("status__in", ["done", "dead"]), _negated=True),
                                fields=["next_attempt_at"],
                                name="job_due",
                            ),
                            models.Index(
                                fields=["agent", "persona", "-queued_at", "-id"], name="memory_job_agent_i_e40fb0_idx"
                            ),
                            models.Index(fields=["status", "-queued_at"], name="memory_job_status_a5ecce_idx"),
                        ],
                        "ordering": ["-queued_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="JudgeCall",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        (
                            "task",
                            models.CharField(
                                choices=[
                                    ("relation", "Relation of two facts"),
                                    ("summarise", "Summary of an episode"),
                                    ("extract_facts", "Facts of an episode"),
                                    ("merge", "Merging of facts"),
                                    ("chat", "Conversation in the playground"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("model", models.CharField(max_length=100)),
                        ("prompt_version", models.CharField(max_length=20)),
                        ("attempts", models.PositiveSmallIntegerField()),
                        ("tokens_in", models.PositiveIntegerField(default=0)),
                        ("tokens_out", models.PositiveIntegerField(default=0)),
                        ("duration_ms", models.PositiveIntegerField()),
                        ("verdict", models.JSONField(default=dict)),
                        ("error", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="judge_calls", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["-created_at"], name="memory_judg_created_40cddd_idx"),
                            models.Index(fields=["agent", "persona", "-created_at"], name="memory_judg_agent_i_0fbc33_idx"),
                        ],
                        "ordering": ["-id"],
                    },
                ),
                migrations.CreateModel(
                    name="LoopSummary",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("loop_id", models.CharField(max_length=100)),
                        ("summary", models.TextField(blank=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("user_input", "User input"),
                                    ("actor_output", "Actor output"),
                                    ("tool_call", "Tool call"),
                                    ("tool_result", "Tool result"),
                                    ("subconscious_prompt", "Subconscious prompt"),
                                    ("subconscious_output", "Subconscious output"),
                                    ("system_event", "System event"),
                                    ("error", "Error"),
                                ],
                                max_length=30,
                            ),
                        ),
                        ("visibility", models.CharField(max_length=50)),
                        (
                            "long_term_ids",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(), default=list, size=None
                            ),
                        ),
                        ("event_count", models.PositiveIntegerField(default=0)),
                        ("covered_events", models.PositiveIntegerField(default=0)),
                        ("first_event_at", models.DateTimeField()),
                        ("last_event_at", models.DateTimeField()),
                        ("closed_at", models.DateTimeField(null=True)),
                        (
                            "closed_by",
                            models.CharField(
                                blank=True,
                                choices=[("output", "Final output"), ("request", "Request"), ("idle", "Idle time")],
                                max_length=10,
                            ),
                        ),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="loops", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["agent", "persona", "-last_event_at", "-id"], name="memory_loop_agent_i_303bd4_idx"
                            ),
                            models.Index(
                                condition=models.Q(("project", ""), _negated=True),
                                fields=["agent", "persona", "project", "-last_event_at", "-id"],
                                name="loop_of_project",
                            ),
                            models.Index(
                                condition=models.Q(("closed_at__isnull", True)), fields=["last_event_at"], name="open_loops"
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("closed_at__isnull", False), ("covered_events__lt", models.F("event_count"))
                                ),
                                fields=["closed_at"],
                                name="stale_loops",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "persona", "loop_id"), name="one_summary_per_loop"),
                        ],
                        "ordering": ["-last_event_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="MemoryReview",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("duplicate", "Possible duplicate"),
                                    ("contradiction", "Possible contradiction"),
                                    ("escalation", "Censor escalated"),
                                    ("low_confidence", "Uncertain fact"),
                                    ("compaction", "Many facts on one subject"),
                                    ("relearned", "Learned again after being marked as wrong"),
                                    ("repeated", "Same sentence about another subject"),
                                    ("same_subject", "Possibly the same subject"),
                                    ("quarantined", "Reads like an instruction"),
                                    ("attribute", "One value at a time or several"),
                                ],
                                max_length=20,
                            ),
                        ),
                        (
                            "status",
                            models.CharField(
                                choices=[
                                    ("pending", "Pending"),
                                    ("resolved", "Resolved"),
                                    ("expired", "Expired"),
                                    ("joined", "Asked with its attribute"),
                                    ("undecided", "Undecided"),
                                ],
                                default="pending",
                                max_length=10,
                            ),
                        ),
                        ("subject", models.CharField(blank=True, max_length=200)),
                        (
                            "facts",
                            django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
                        ),
                        (
                            "subjects",
                            django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
                        ),
                        ("details", models.JSONField(default=dict)),
                        ("about", models.CharField(max_length=200, unique=True)),
                        ("score", models.FloatField(null=True)),
                        ("reasons", models.JSONField(default=list)),
                        ("verdict", models.JSONField(default=dict)),
                        ("proposal", models.TextField(blank=True)),
                        (
                            "resolution",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("same", "Same"),
                                    ("replace", "New replaces old"),
                                    ("old_wrong", "Old was wrong"),
                                    ("new_wrong", "New is wrong"),
                                    ("both", "Both are true"),
                                    ("different", "Different subjects"),
                                    ("merge", "Merged"),
                                    ("keep", "Kept"),
                                    ("reverse", "Reversed"),
                                    ("allow", "Allowed"),
                                    ("hold", "Quarantined"),
                                    ("moot", "No longer applicable"),
                                ],
                                max_length=12,
                            ),
                        ),
                        ("comment", models.TextField(blank=True)),
                        ("resolver_kind", models.CharField(blank=True, max_length=10)),
                        ("resolver_id", models.CharField(blank=True, max_length=100)),
                        ("resolver_name", models.CharField(blank=True, max_length=200)),
                        ("resolved_at", models.DateTimeField(null=True)),
                        ("before", models.JSONField(default=dict)),
                        ("batch", models.UUIDField(null=True)),
                        ("created_at", models.DateTimeField(default=now)),
                        ("asked_at", models.DateTimeField(null=True)),
                        ("expires_at", models.DateTimeField()),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="memory_reviews", to="identity.agent"),
                        ),
                        (
                            "censor",
                            models.ForeignKey(null=True, on_delete=models.PROTECT, related_name="reviews", to="memory.censor"),
                        ),
                        (
                            "judge_call",
                            models.ForeignKey(null=True, on_delete=models.PROTECT, related_name="+", to="memory.judgecall"),
                        ),
                        ("new", models.ForeignKey(null=True, on_delete=models.PROTECT, related_name="+", to="memory.fact")),
                        ("old", models.ForeignKey(null=True, on_delete=models.PROTECT, related_name="+", to="memory.fact")),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("status", "pending")),
                                fields=["created_at", "id"],
                                name="memory_review_waiting",
                            ),
                            models.Index(
                                fields=["agent", "persona", "-created_at", "-id"], name="memory_memo_agent_i_c5c7c0_idx"
                            ),
                            models.Index(
                                condition=models.Q(("asked_at__isnull", False)),
                                fields=["agent", "asked_at"],
                                name="memory_review_asked",
                            ),
                            models.Index(
                                condition=models.Q(("status", "undecided")),
                                fields=["agent", "persona"],
                                name="memory_review_undecided",
                            ),
                            models.Index(
                                condition=models.Q(("details__has_key", "blind")), fields=["agent"], name="memory_review_blind"
                            ),
                            models.Index(
                                condition=models.Q(("batch__isnull", False)), fields=["batch"], name="memory_review_batch"
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("kind__in", ["contradiction", "duplicate"]),
                                    ("status__in", ["pending", "joined", "expired", "undecided"]),
                                ),
                                fields=["old"],
                                name="memory_review_old",
                            ),
                            models.Index(
                                condition=models.Q(
                                    ("kind__in", ["contradiction", "duplicate"]),
                                    ("status__in", ["pending", "joined", "expired", "undecided"]),
                                ),
                                fields=["new"],
                                name="memory_review_new",
                            ),
                        ],
                        "ordering": ["created_at", "id"],
                        "permissions": [("review_memory", "Can answer questions about memories")],
                    },
                ),
                migrations.CreateModel(
                    name="Procedure",
                    fields=[
                        (
                            "origin",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("agent", "Agent"),
                                    ("tool", "Tool output"),
                                    ("imported", "Imported"),
                                    ("web", "Web"),
                                ],
                                db_default="agent",
                                default="agent",
                                editable=False,
                                max_length=10,
                            ),
                        ),
                        ("quarantined", models.BooleanField(db_default=False, default=False, editable=False)),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "scope",
                            models.CharField(
                                choices=[("task", "Task"), ("project", "Project"), ("global", "Global")],
                                default="global",
                                max_length=10,
                            ),
                        ),
                        (
                            "tags",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                            ),
                        ),
                        (
                            "importance",
                            models.FloatField(
                                default=0.5,
                                validators=[
                                    django.core.validators.MinValueValidator(0.0),
                                    django.core.validators.MaxValueValidator(1.0),
                                ],
                            ),
                        ),
                        ("active", models.BooleanField(default=True)),
                        ("retired_at", models.DateTimeField(blank=True, editable=False, null=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now, editable=False)),
                        ("endorsed", models.BooleanField(default=False, editable=False)),
                        ("name", models.CharField(max_length=200)),
                        ("domain", models.CharField(blank=True, max_length=50)),
                        ("description", models.TextField(blank=True)),
                        (
                            "steps",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), blank=True, default=list, size=None
                            ),
                        ),
                        ("activation_count", models.PositiveIntegerField(default=0)),
                        ("success_count", models.PositiveIntegerField(default=0)),
                        ("failure_count", models.PositiveIntegerField(default=0)),
                        ("last_activated_at", models.DateTimeField(blank=True, null=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="%(class)ss", to="identity.agent")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "persona", "name", "id"], name="memory_proc_agent_i_50af60_idx"),
                            models.Index(
                                condition=models.Q(("project", ""), _negated=True),
                                fields=["agent", "persona", "project", "name", "id"],
                                name="procedure_of_project",
                            ),
                        ],
                        "ordering": ["name", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="SearchStatistics",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("items", models.PositiveIntegerField()),
                        ("mean_words", models.FloatField()),
                        ("common", models.JSONField(default=dict)),
                        ("vector_index_model", models.CharField(blank=True, max_length=100)),
                        ("counted_at", models.DateTimeField(default=now)),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "persona"), name="one_count_per_collection"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="Subject",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("name", models.CharField(max_length=200)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("person", "Person"),
                                    ("system", "System"),
                                    ("project", "Project"),
                                    ("place", "Place"),
                                    ("organisation", "Organisation"),
                                    ("other", "Other"),
                                ],
                                default="other",
                                max_length=20,
                            ),
                        ),
                        ("is_user", models.BooleanField(default=False)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="subjects", to="identity.agent")),
                        (
                            "merged_into",
                            models.ForeignKey(
                                blank=True, null=True, on_delete=models.PROTECT, related_name="merged", to="memory.subject"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "persona", "-created_at", "-id"], name="subject_listed"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("is_user", True)),
                                fields=("agent", "persona"),
                                name="subject_one_user_per_persona",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(
                                    ("merged_into__isnull", True),
                                    models.Q(("merged_into", models.F("id")), _negated=True),
                                    _connector="OR",
                                ),
                                name="subject_not_into_itself",
                            ),
                        ],
                        "ordering": ["name", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="SubjectAlias",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("spelling", models.CharField(max_length=200)),
                        ("key", models.CharField(max_length=200)),
                        ("meaning", models.CharField(max_length=200)),
                        (
                            "origin",
                            models.CharField(
                                choices=[("seen", "Seen in a fact"), ("given", "Given by a person")],
                                default="seen",
                                max_length=10,
                            ),
                        ),
                        ("dictionary", models.CharField(db_default="english", default="english", max_length=20)),
                        (
                            "blocks",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(), default=list, size=None
                            ),
                        ),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="subject_aliases", to="identity.agent"),
                        ),
                        ("subject", models.ForeignKey(on_delete=models.PROTECT, related_name="aliases", to="memory.subject")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "persona", "meaning"], name="subject_alias_meaning"),
                            django.contrib.postgres.indexes.GinIndex(fields=["blocks"], name="subject_alias_blocks"),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "persona", "key"), name="subject_alias_key"),
                        ],
                        "ordering": ["created_at", "id"],
                    },
                ),
                migrations.AddField(
                    model_name="fact",
                    name="subject_alias",
                    field=models.ForeignKey(
                        blank=True, null=True, on_delete=models.PROTECT, related_name="facts", to="memory.subjectalias"
                    ),
                ),
                migrations.CreateModel(
                    name="SubjectChange",
                    fields=[
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        (
                            "action",
                            models.CharField(
                                choices=[
                                    ("created", "Created"),
                                    ("alias", "Spelling added"),
                                    ("edited", "Changed"),
                                    ("merged", "Merged"),
                                    ("split", "Split"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("summary", models.TextField()),
                        ("reason", models.TextField(blank=True)),
                        ("details", models.JSONField(default=dict)),
                        ("at", models.DateTimeField(default=now, editable=False)),
                        ("undone_at", models.DateTimeField(null=True)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="subject_changes", to="identity.agent"),
                        ),
                        (
                            "other",
                            models.ForeignKey(
                                null=True, on_delete=models.PROTECT, related_name="changes_as_other", to="memory.subject"
                            ),
                        ),
                        ("subject", models.ForeignKey(on_delete=models.PROTECT, related_name="changes", to="memory.subject")),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "subject", "-at"], name="subject_change_listed"),
                        ],
                        "ordering": ["-at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="WorkingMemory",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("session_id", models.CharField(max_length=200)),
                        ("task", models.TextField(blank=True)),
                        ("project", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("task_key", models.CharField(blank=True, db_default="", default="", max_length=100)),
                        ("frame", models.CharField(blank=True, max_length=30)),
                        ("items", models.JSONField(default=list)),
                        ("open_threads", models.JSONField(default=list)),
                        ("quarantined_entries", models.JSONField(db_default=models.Value([], models.JSONField()), default=list)),
                        ("capacity", models.PositiveSmallIntegerField(default=20)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="working_memories", to="identity.agent"),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("agent", "persona", "session_id", "project"), name="one_working_memory_per_session"
                            ),
                        ],
                        "ordering": ["-updated_at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="Attribute",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("name", models.CharField(max_length=80)),
                        ("cardinality", models.CharField(choices=[("one", "one"), ("many", "many")], max_length=10)),
                        ("decided_by", models.CharField(max_length=200)),
                        ("decided_at", models.DateTimeField(default=now, editable=False)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "ordering": ["name", "id"],
                        "constraints": [models.UniqueConstraint(fields=("agent", "persona", "name"), name="attribute_name")],
                    },
                ),
                migrations.AddField(
                    model_name="longtermentry",
                    name="agent",
                    field=models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent"),
                ),
                migrations.AddIndex(
                    model_name="episode",
                    index=models.Index(
                        fields=["agent", "persona", "-started_at", "-id"], name="memory_epis_agent_i_4fc2be_idx"
                    ),
                ),
                migrations.AddIndex(
                    model_name="episode",
                    index=models.Index(
                        condition=models.Q(("project", ""), _negated=True),
                        fields=["agent", "persona", "project", "-started_at", "-id"],
                        name="episode_of_project",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="episode",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True), ("ended_at__gte", models.F("started_at")), _connector="OR"
                        ),
                        name="episode_ends_after_its_start",
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        fields=["agent", "persona", "-recorded_at", "-id"], name="memory_fact_agent_i_a25081_idx"
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        condition=models.Q(("project", ""), _negated=True),
                        fields=["agent", "persona", "project", "-recorded_at", "-id"],
                        name="fact_of_project",
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        condition=models.Q(("active", True)),
                        fields=["agent", "persona", "category", "-confidence", "-importance", "-recorded_at"],
                        name="fact_profile",
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        models.F("agent"),
                        models.F("persona"),
                        models.OrderBy(models.F("endorsed"), descending=True),
                        models.Case(models.When(category__in=("rule",), then=0), default=1, output_field=models.IntegerField()),
                        models.OrderBy(models.F("confidence"), descending=True),
                        models.OrderBy(models.F("importance"), descending=True),
                        models.OrderBy(models.F("recorded_at"), descending=True),
                        models.OrderBy(models.F("id")),
                        condition=models.Q(("active", True), ("category__in", ("person", "preference", "rule"))),
                        name="fact_core",
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        fields=["recorded_at"],
                        include=("agent", "persona", "active", "invalidated_at", "valid_from", "valid_until"),
                        name="fact_figures",
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        condition=models.Q(("active", True), models.Q(("attribute", ""), _negated=True)),
                        fields=["agent", "persona", "attribute", "-recorded_at"],
                        name="fact_attribute",
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        condition=models.Q(("superseded_by__isnull", False)), fields=["superseded_by"], name="fact_chain"
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=models.Index(
                        condition=models.Q(("expires_at__isnull", False)), fields=["expires_at"], name="fact_expiring"
                    ),
                ),
                migrations.AddIndex(
                    model_name="fact",
                    index=django.contrib.postgres.indexes.GinIndex(
                        condition=models.Q(("source_ref__isnull", False)), fields=["source_ref"], name="fact_source"
                    ),
                ),
                migrations.AddConstraint(
                    model_name="fact",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("confidence__gte", 0), ("confidence__lte", 1), ("importance__gte", 0), ("importance__lte", 1)
                        ),
                        name="fact_scores_in_unit_interval",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="fact",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("valid_from__isnull", True),
                            ("valid_until__isnull", True),
                            ("valid_until__gt", models.F("valid_from")),
                            _connector="OR",
                        ),
                        name="fact_valid_span_is_positive",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="fact",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("active", True), ("retired_at__isnull", True)),
                            models.Q(("active", False), ("retired_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="fact_active_until_retired",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="fact",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("active", False),
                            models.Q(("invalidated_at__isnull", True), ("superseded_by__isnull", True)),
                            _connector="OR",
                        ),
                        name="fact_active_is_not_replaced",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="fact",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("superseded_by__isnull", True),
                            models.Q(("superseded_by", models.F("id")), _negated=True),
                            _connector="OR",
                        ),
                        name="fact_not_by_itself",
                    ),
                ),
                migrations.AddIndex(
                    model_name="longtermentry",
                    index=models.Index(fields=["agent", "persona", "loop_id"], name="memory_long_agent_i_fa21df_idx"),
                ),
                migrations.AddIndex(
                    model_name="longtermentry",
                    index=models.Index(condition=models.Q(("quarantined", True)), fields=["agent", "event"], name="quarantined_events"),
                ),
            ]
        ),
        migrations.RunSQL(
            SPELLING_WORDS,
            state_operations=[
                migrations.AddField(
                    "subjectalias",
                    "lexemes",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.Func(models.F("dictionary"), models.F("spelling"), function="nous_terms"),
                            function="tsvector_to_array",
                        ),
                        output_field=django.contrib.postgres.fields.ArrayField(
                            base_field=models.TextField(), size=None
                        ),
                    ),
                ),
            ],
        ),
        migrations.RunSQL(SAME_WORDS),
        migrations.RunSQL(APPEND_ONLY),
        migrations.RunSQL(HOLES),
        migrations.RunSQL(ERASURE_RECEIPT),
        migrations.RunSQL(FORGET_SUBJECTS),
        migrations.RunSQL(ERASE_FACTS),
        migrations.RunSQL(ERASE_DOCUMENTS),
        migrations.RunSQL(ERASE_PROJECT),
        migrations.RunSQL(ERASE_AGENT),
        migrations.RunSQL(SAMPLE_RENEW),
        migrations.RunSQL(OWNERS),
        migrations.RunPython(nothing_stored, migrations.RunPython.noop),
    ]
