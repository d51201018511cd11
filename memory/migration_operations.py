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
        to_regprocedure('nous_erase_documents(bigint, uuid[], bigint[], jsonb)')], NULL) LOOP
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
    """Let the erasure of a fact, or a document, blank audit records about the model `name` that quote it.

    For every new model of memory and contexts; not for one whose records are decisions of people.
    """
    longer = f"{_LIST}'{name}', "
    return migrations.RunSQL(
        _REPLACE.replace("{before}", _LIST).replace("{after}", longer),
        _REPLACE.replace("{before}", longer).replace("{after}", _LIST),
    )
