"""The owner's database functions in the form that Citus needs.

A setting of the transaction reaches the servers of a table by `SET LOCAL`, not by `set_config`. A trigger on a part of
a table sees no other table, so the functions themselves record the sealed rows that they delete: elsewhere triggers do
that (`HOLES` in memory/migrations/0001_initial.py). Derived from the functions' own text, so that nothing
is duplicated.
"""

# ruff: noqa: S608 - names of our own tables and functions.

import re
from typing import Any

import psycopg

from nousweb.database.distributed_tables import SEALED

ERASING = (
    "nous_erase_facts",
    "nous_erase_documents",
    "nous_erase_project",
    "nous_erase_agent",
    "nous_forget_subjects",
)
NOTED = "nous_log_holes"

_HOLES = (
    (r"nous_log_hole\(\)\s+RETURNS trigger", f"{NOTED}(named text, gone text[], emptied boolean)\n RETURNS void"),
    (r"    named text := TG_ARGV\[0\];\n", ""),
    (r"    emptied boolean := [^;]*;\n", ""),
    (r"SELECT count\(\*\) INTO many FROM gone;", "many := coalesce(cardinality(gone), 0);"),
    (r"RETURN NULL;", "RETURN;"),
    (r"TG_ARGV\[1\] = 'number'", "named <> 'identityversion'"),
    (r"g\.id::text::bigint", "g::bigint"),
    (r"FROM gone g;", "FROM unnest(gone) g;"),
    (r"JOIN gone g ON g\.id::text = one\.key", "JOIN unnest(gone) g ON g = one.key"),
)
_NAMING = "SELECT array_agg(c) INTO naming FROM memory_factchange c WHERE"
_NAMING_ROWS = """FOR written IN SELECT c.* FROM memory_factchange c WHERE"""


class FunctionChanged(Exception):
    """The text of a function no longer matches the replacements."""


def functions_rewrite(connection: psycopg.Connection[Any]) -> list[str]:
    """Rewrite those that have not been; returns their names. Raises FunctionChanged."""
    done = []
    holes = _source(connection, "nous_log_hole")
    for pattern, new in _HOLES:
        holes = _replaced(pattern, new, holes)
    connection.execute(holes.encode())
    for name in ERASING:
        source = _source(connection, name)
        if NOTED in source:
            continue
        connection.execute(_rewritten(source).encode())
        done.append(name)
    connection.execute(f"REVOKE ALL ON FUNCTION {NOTED}(text, text[], boolean) FROM PUBLIC".encode())
    return done


def _rewritten(source: str) -> str:
    source = re.sub(r"PERFORM set_config\('(nous\.\w+)', '(\w+)', true\);", r"SET LOCAL \1 = '\2';", source)
    source = _replaced(r"\nAS \$function\$", "\n SET citus.propagate_set_commands TO 'local'\nAS $function$", source)
    declared = f"DECLARE\n    gone_keys text[];\n    written memory_factchange;\n    -- {NOTED}\n"
    source = _replaced(r"DECLARE\n", declared, source)
    for table in SEALED:
        source = re.sub(rf"DELETE FROM ({table}) (\w) (?:USING \w+ \w )?WHERE ([^;]*);", _noted, source)
    source = source.replace(
        "EXECUTE format('DELETE FROM %s WHERE agent_id = $1', grows.name) USING agent;",
        "EXECUTE format('SELECT array_agg(id::text) FROM %s WHERE agent_id = $1', grows.name)"
        " INTO gone_keys USING agent;"
        f"\n        PERFORM {NOTED}(grows.said, gone_keys, false);"
        "\n        EXECUTE format('DELETE FROM %s WHERE agent_id = $1', grows.name) USING agent;",
    )
    # A deletion of which it is plain that it finds nothing is refused within another statement.
    source = re.sub(r"&& (gone|erased)\b", r"&& coalesce(\1, '{}')", source)
    # A row as a whole has another type on each part of a table.
    return re.sub(
        re.escape(_NAMING) + r"([^;]*);",
        lambda found: f"{_NAMING_ROWS}{found[1]} LOOP\n        naming := naming || written;\n    END LOOP;",
        source,
    )


def _noted(delete: re.Match[str]) -> str:
    """A deletion of sealed rows, with their keys noted before."""
    joined = re.search(r"USING (\w+ \w) WHERE", delete[0])
    tables = f"{delete[1]} {delete[2]}" + (f", {joined[1]}" if joined else "")
    emptied = "coalesce(current_setting('nous.emptying', true), '') = 'on'"
    return (
        f"SELECT array_agg({delete[2]}.id::text) INTO gone_keys FROM {tables} WHERE {delete[3]};\n"
        f"    PERFORM {NOTED}('{SEALED[delete[1]]}', gone_keys, {emptied});\n    {delete[0]}"
    )


def _source(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("SELECT pg_get_functiondef(%s::regproc)", [name]).fetchone()
    return str(row[0]) if row else ""


def _replaced(pattern: str, new: str, source: str) -> str:
    text, count = re.subn(pattern, lambda found: new, source, count=0)
    if not count:
        raise FunctionChanged(f"Nothing in the function reads as {pattern}.")
    return text
