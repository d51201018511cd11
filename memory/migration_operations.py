"""Operations that migrations of memory share."""

from django.db import migrations

_REPLACE = """
DO $$
DECLARE
    source text := pg_get_functiondef('nous_erase_facts(bigint, uuid[], bigint[], jsonb)'::regprocedure);
BEGIN
    IF strpos(source, $text${before}$text$) = 0 THEN
        RAISE EXCEPTION 'nous_erase_facts no longer says which records it blanks';
    END IF;
    EXECUTE replace(source, $text${before}$text$, $text${after}$text$);
END $$;
"""
_LIST = "a.object_type IN ("


def erasure_blanks(name: str) -> migrations.RunSQL:
    """Let the erasure of a fact blank audit records about the model `name` that quote the fact.

    For every new model of memory and contexts; not for one whose records are decisions of people.
    """
    longer = f"{_LIST}'{name}', "
    return migrations.RunSQL(
        _REPLACE.replace("{before}", _LIST).replace("{after}", longer),
        _REPLACE.replace("{before}", longer).replace("{after}", _LIST),
    )
