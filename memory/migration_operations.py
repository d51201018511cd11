"""Operations that migrations of memory share."""

from django.db import migrations

_REPLACE = """
DO $$
DECLARE
    called regprocedure;
    source text;
BEGIN
    FOREACH called IN ARRAY array_remove(ARRAY[
        to_regprocedure('nous_erase_facts(bigint, uuid[], bigint[], jsonb)'),
        to_regprocedure('nous_erase_documents(bigint, uuid[], bigint[], jsonb)'),
        to_regprocedure('nous_erase_events(bigint, bigint[], bigint[], jsonb)')], NULL) LOOP
        source := pg_get_functiondef(called);
        IF strpos(source, $text${before}$text$) = 0 THEN
            RAISE EXCEPTION '% no longer says which records it blanks', called;
        END IF;
        EXECUTE replace(source, $text${before}$text$, $text${after}$text$);
    END LOOP;
END $$;
"""
_LIST = "a.object_type IN ("


def erasure_blanks(name: str) -> migrations.RunSQL:
    """Let the erasure of a fact, a document or an event blank audit records about the model `name` that quote it.

    For every new model of memory and contexts; not for one whose records are decisions of people.
    """
    longer = f"{_LIST}'{name}', "
    return migrations.RunSQL(
        _REPLACE.replace("{before}", _LIST).replace("{after}", longer),
        _REPLACE.replace("{before}", longer).replace("{after}", _LIST),
    )


_DELETE = """
DO $$
DECLARE
    of_users constant regprocedure := 'nous_erase_user(bigint, text, jsonb)'::regprocedure;
    called regprocedure;
    source text;
    before text;
    after text;
BEGIN
    FOREACH called IN ARRAY ARRAY['nous_erase_project(bigint, text, jsonb)'::regprocedure, of_users] LOOP
        source := pg_get_functiondef(called);
        before := $text${delete}$text$;
        after := $text${delete_after}$text$;
        IF called = of_users THEN
            before := replace(before, 'd.project = named', 'd.user_key = named');
            after := replace(after, 'd.project = named', 'd.user_key = named');
        END IF;
        IF strpos(source, before) = 0 OR strpos(source, $text${listed}$text$) = 0 THEN
            RAISE EXCEPTION '% no longer says what it deletes', called;
        END IF;
        EXECUTE replace(replace(source, before, after), $text${listed}$text$, $text${listed_after}$text$);
    END LOOP;
END $$;
"""
_PROCEDURES = """
    WITH erased AS (DELETE FROM memory_procedure p"""
_ROWS = """
    WITH erased AS (DELETE FROM memory_{name} d WHERE d.agent_id = agent AND d.project = named RETURNING d.id)
    SELECT gone || coalesce(array_agg(erased.id::text), '{{}}'), count(*) INTO gone, count FROM erased;
    done := done || jsonb_build_object('{name}', count);"""
_LISTED = "a.object_type IN ('decision', "


def project_erasure_deletes(name: str) -> migrations.RunSQL:
    """Let the erasures of a project and of a user delete the rows of the model `name`, and blank the audit records
    about them.

    For every new model of memory that derives from `ProjectKeyFields`, after the table is made.
    """
    both, longer = _ROWS.format(name=name) + _PROCEDURES, f"{_LISTED}'{name}', "
    return migrations.RunSQL(
        _delete_sql(delete=_PROCEDURES, delete_after=both, listed=_LISTED, listed_after=longer),
        _delete_sql(delete=both, delete_after=_PROCEDURES, listed=longer, listed_after=_LISTED),
    )


def _delete_sql(**parts: str) -> str:
    text = _DELETE
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text
