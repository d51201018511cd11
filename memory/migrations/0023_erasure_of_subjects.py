"""Erasing facts forgets the subjects and spellings that no fact is about any more, with all that names them.

`nous_forget_subjects` is for the owner's own functions alone. Subjects that are erased by name come in the receipt
("subjects"), so that one of which there are no facts left can be erased too; none goes while facts are about it.
"""

from django.db import migrations

from memory.migration_operations import erasure_blanks

FORGET = r"""
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
    WHERE a.agent_id = agent AND a.action NOT IN ('fact.erase', 'subject.erase', 'agent.erase') AND (
        (a.object_type = 'memoryreview' AND a.object_id = ANY (asked))
        OR (a.object_type = 'subject' AND (a.object_id = ANY (gone::text[]) OR EXISTS (
            SELECT 1 FROM unnest(gone) one(id)
            WHERE strpos(concat(a.before, a.after), one.id::text) > 0))));
    GET DIAGNOSTICS count = ROW_COUNT;
    RETURN done || jsonb_build_object('subjectaudit', count);
END $$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION nous_forget_subjects(bigint, uuid[], uuid[]) '
                   'SET search_path = pg_catalog, %I, pg_temp', current_schema());
    REVOKE ALL ON FUNCTION nous_forget_subjects(bigint, uuid[], uuid[]) FROM PUBLIC;
END $$;
"""

CHANGES = (
    (
        "    done jsonb := '{}';\n",
        "    done jsonb := '{}';\n    things uuid[];\n    spelled uuid[];\n    forgotten jsonb;\n",
    ),
    (
        "    IF erased IS NULL THEN\n",
        "    SELECT array_agg(DISTINCT a.subject_id), array_agg(DISTINCT a.id) INTO things, spelled\n"
        "    FROM memory_fact f JOIN memory_subjectalias a ON a.id = f.subject_alias_id WHERE f.id = ANY (erased);\n"
        "    things := coalesce(things, '{}') || coalesce((\n"
        "        SELECT array_agg(one::uuid) FROM jsonb_array_elements_text(receipt->'subjects') one), '{}');\n"
        "    IF erased IS NULL AND things = '{}' THEN\n",
    ),
    (
        "    done := done || jsonb_build_object('fact', count);\n",
        "    done := done || jsonb_build_object('fact', count);\n"
        "    forgotten := nous_forget_subjects(agent, things, spelled);\n",
    ),
    (
        "    done := done || jsonb_build_object('auditevent', count);\n",
        "    done := done || (forgotten - 'subjectaudit' - 'subjectreview') || jsonb_build_object(\n"
        "        'auditevent', count + (forgotten->>'subjectaudit')::bigint,\n"
        "        'memoryreview', (done->>'memoryreview')::bigint + (forgotten->>'subjectreview')::bigint);\n",
    ),
)

CHANGE = """
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


def _replaced(before: str, after: str) -> str:
    return CHANGE.replace("{before}", before).replace("{after}", after)


class Migration(migrations.Migration):
    dependencies = [("memory", "0022_subject_registry")]
    operations = [
        migrations.RunSQL(FORGET, "DROP FUNCTION nous_forget_subjects(bigint, uuid[], uuid[])"),
        *(
            migrations.RunSQL(_replaced(before, after), _replaced(after, before))
            for before, after in CHANGES
        ),
        *(erasure_blanks(name) for name in ("subject", "subjectalias", "subjectchange")),
    ]
