"""Erasures also blank records that quote a later part of an erased text, and filters of exports that name its words."""

from django.db import migrations

_REPLACE = """
DO $$
DECLARE
    source text := pg_get_functiondef('{function}'::regprocedure);
    pair text[];
BEGIN
    FOREACH pair SLICE 1 IN ARRAY ARRAY[{pairs}] LOOP
        IF strpos(source, pair[1]) = 0 THEN
            RAISE EXCEPTION '{function} no longer reads as %', pair[1];
        END IF;
        source := replace(source, pair[1], pair[2]);
    END LOOP;
    EXECUTE source;
END $$;
"""

# The same parts as `parts_of` (memory/services/erasure/scope.py).
_PARTS = (
    ("SELECT content.text, min(content.since) AS since FROM (", "SELECT part AS text, min(content.since) AS since FROM ("),
    (
        ") content\n        WHERE length(content.text) >= 20 GROUP BY content.text",
        """) content, LATERAL (
            SELECT left(content.text, 60) AS part
            UNION SELECT substr(content.text, start, 40)
            FROM generate_series(31, length(content.text) - 40, greatest(20, length(content.text) / 200)) start
            WHERE length(content.text) > 60
            UNION SELECT right(content.text, 40) WHERE length(content.text) > 60) parts
        WHERE length(part) >= 20 GROUP BY part""",
    ),
)
_DECLARED = ("    count bigint;\nBEGIN", "    count bigint;\n    words_of text;\nBEGIN")
_ERASING = "    PERFORM set_config('nous.erasure', 'on', true);\n"
_ENDS = "    SET CONSTRAINTS ALL IMMEDIATE;\n"
_EXPORTS = """    UPDATE identity_auditevent a SET before = NULL, after = NULL, message = '', object_label = ''
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

FACTS = (
    *_PARTS,
    ("SELECT left(f.content, 60) AS text,", "SELECT f.content AS text,"),
    ("SELECT left(c.before->>'content', 60),", "SELECT c.before->>'content',"),
    _DECLARED,
    (
        _ERASING,
        _ERASING
        + """    SELECT lower(string_agg(one.text, E'\\n')) INTO words_of FROM (
        SELECT concat_ws(' ', f.content, f.subject) AS text FROM memory_fact f
        WHERE f.agent_id = agent AND f.id = ANY (erased)
        UNION ALL SELECT c.before->>'content' FROM memory_factchange c
        WHERE c.agent_id = agent AND c.fact_id = ANY (erased)
        UNION ALL SELECT s.spelling FROM memory_subjectalias s
        WHERE s.agent_id = agent AND s.subject_id = ANY (things)) one;
""",
    ),
    (_ENDS, _EXPORTS + _ENDS),
)
DOCUMENTS = (
    *_PARTS,
    ("SELECT left(d.text, 60) AS text,", "SELECT d.text AS text,"),
    ("SELECT left(told.one #>> '{}', 60),", "SELECT told.one #>> '{}',"),
    _DECLARED,
    (
        _ERASING,
        _ERASING
        + """    SELECT lower(string_agg(concat_ws(' ', d.namespace::text, d.key, d.text, d.value::text), E'\\n')) INTO words_of
    FROM memory_document d WHERE d.agent_id = agent AND d.id = ANY (erased);
""",
    ),
    (_ENDS, _EXPORTS + _ENDS),
)
PROJECT = (
    _DECLARED,
    (
        _ERASING,
        _ERASING
        + """    SELECT lower(string_agg(one.text, E'\\n')) INTO words_of FROM (
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
""",
    ),
    (_ENDS, _EXPORTS + _ENDS),
)


def _replacing(function, pairs):
    def statement(rows):
        texts = ", ".join(f"ARRAY[$text${before}$text$, $text${after}$text$]" for before, after in rows)
        return _REPLACE.replace("{function}", function).replace("{pairs}", texts)

    return migrations.RunSQL(statement(pairs), statement([(after, before) for before, after in reversed(pairs)]))


class Migration(migrations.Migration):
    dependencies = [("memory", "0048_parts_of_words")]

    operations = [
        _replacing("nous_erase_facts(bigint, uuid[], bigint[], jsonb)", FACTS),
        _replacing("nous_erase_documents(bigint, uuid[], bigint[], jsonb)", DOCUMENTS),
        _replacing("nous_erase_project(bigint, text, jsonb)", PROJECT),
    ]
