"""Distribute the tables of this database with Citus. As a superuser, on the coordinator."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.apps import apps
from psycopg import sql

from identity.models import AgentRow
from memory.search.row_retrieval import TUNING

COLUMN = "agent_id"

COLOCATED_WITH = "memory_event"
"""The table that is distributed first: the rows of an agent in all others lie on the same server."""


def distributed_tables() -> tuple[str, ...]:
    """The tables whose rows belong to one agent, its memory, its prompts, its identity and its changes: those of every
    `AgentRow`. COLOCATED_WITH is the first."""
    names = {model._meta.db_table for model in apps.get_models() if issubclass(model, AgentRow)}
    return (COLOCATED_WITH, *sorted(names - {COLOCATED_WITH}))


REFERENCE = ("identity_agent", "memory_embeddingmodel", "context_contextprofile", "context_contextprofileversion")
"""Small tables that statements read together with those: each server has a copy. All others stay on the coordinator:
accounts, sessions, tokens, webhooks, the queue and its jobs, the inbox, the audit trail
and the seals."""

PARTITIONED = ("memory_searchitem", "memory_searchpassage")
CASCADES = {
    f"memory_searchpassage_{persona}": (
        f"FOREIGN KEY (agent_id, persona, row_id) REFERENCES memory_searchitem_{persona} (agent_id, persona, id)"
        " ON DELETE CASCADE"
    )
    for persona in ("actor", "subconscious")
}
"""Foreign keys between distributed tables that delete rows, with the agent in them; of the partitions, since Citus
makes none between tables that have some."""

SEALED = {
    "identity_identityversion": "identityversion",
    "memory_event": "event",
    "memory_factchange": "factchange",
    "memory_judgecall": "judgecall",
}
"""Distributed tables whose rows are sealed, and how seals call them (`HOLES` in
memory/migrations/0001_initial.py)."""

SETTINGS = {
    "citus.enable_unsafe_triggers": "on",
    "citus.multi_shard_modify_mode": "sequential",
}
"""Settings of the database on the coordinator. Triggers of append-only tables read no other row, so that they are safe
on parts of a table. One connection to each server makes a statement on all parts safe beside one on a reference table.
"""


# ruff: noqa: S608 - names of our own tables and functions.


ERASING = (
    "nous_erase_facts",
    "nous_erase_documents",
    "nous_erase_events",
    "nous_erase_project",
    "nous_erase_user",
    "nous_erase_agent",
    "nous_forget_subjects",
)
ASSIGNING = "nous_assign_events"
NOTED = "nous_log_holes"
PROPAGATES = "citus.propagate_set_commands"

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
    assigns = _source(connection, ASSIGNING)
    if PROPAGATES not in assigns:
        connection.execute(_told_everywhere(assigns).encode())
        done.append(ASSIGNING)
    connection.execute(f"REVOKE ALL ON FUNCTION {NOTED}(text, text[], boolean) FROM PUBLIC".encode())
    return done


def _told_everywhere(source: str) -> str:
    """A function whose settings the triggers of the parts of a table read, on whatever server."""
    source = re.sub(r"PERFORM set_config\('(nous\.\w+)', '(\w+)', true\);", r"SET LOCAL \1 = '\2';", source)
    return _replaced(r"\nAS \$function\$", f"\n SET {PROPAGATES} TO 'local'\nAS $function$", source)


def _rewritten(source: str) -> str:
    source = _told_everywhere(source)
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


class NotDistributable(Exception):
    """Why this database cannot be distributed, in a sentence for the operator."""


@dataclass(slots=True)
class Distribution:
    """The result: names of distributed tables and changed keys, and rows moved by table; `emptied` are the
    coordinator's copies."""

    distributed: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    emptied: list[str] = field(default_factory=list)
    local: int = 0


def distribute(connection: psycopg.Connection[Any], *, shards: int = 32) -> Distribution:
    """Distribute the tables that are not distributed yet, in one transaction: either all or none.

    No other client may write meanwhile. Raises NotDistributable.
    """
    _check(connection)
    done = Distribution()
    with connection.transaction():
        for name, value in {**SETTINGS, "citus.shard_count": str(shards)}.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])
        _functions_share(connection)
        held = _citus_tables(connection)
        new = [name for name in distributed_tables() if held.get(name) != "distributed"]
        # Without foreign keys first: Citus converts all the tables that are tied to one by them.
        kept = [key for name in new for key in _foreign_keys_drop(connection, name, done)]
        for name in new:
            _keys_widen(connection, name, done)
            done.rows[name] = _rows(connection, name)
            for trigger in _hole_triggers(connection, name):
                connection.execute(_sql("DROP TRIGGER {} ON {}", trigger, name))
            near = "none" if name == COLOCATED_WITH else COLOCATED_WITH
            connection.execute("SELECT create_distributed_table(%s, %s, colocate_with => %s)", [name, COLUMN, near])
            done.distributed.append(name)
        for name in REFERENCE:
            if held.get(name) != "reference":
                done.rows[name] = _rows(connection, name)
                connection.execute("SELECT create_reference_table(%s)", [name])
                done.reference.append(name)
        for name, key, definition in kept:
            connection.execute(_sql(f"ALTER TABLE {{}} ADD CONSTRAINT {{}} {definition}", name, key))
        functions_rewrite(connection)
        _sequences_keep(connection)
        if new:
            for name, definition in CASCADES.items():
                connection.execute(_sql(f"ALTER TABLE {{}} ADD {definition}", name))
        done.emptied = _hidden_rows_remove(connection)
        done.local = int(_one(connection, LOCAL, [list(REFERENCE)]))
    _settings_keep(connection)
    return done


NEEDS = {
    "EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')": (
        "This database has no extension citus: CREATE EXTENSION citus on each server first."
    ),
    "EXISTS (SELECT FROM pg_dist_node WHERE isactive AND groupid <> 0)": (
        "This coordinator knows no other server: SELECT citus_add_node(host, port) first."
    ),
    "EXISTS (SELECT FROM pg_dist_node WHERE groupid = 0)": (
        "The coordinator has no address yet: SELECT citus_set_coordinator_host(…) first."
    ),
    "to_regclass('memory_event') IS NOT NULL": "The database has no tables yet: run migrate first.",
}
"""What has to be true, in their order, and the problem where it is not."""


def _check(connection: psycopg.Connection[Any]) -> None:
    for question, problem in NEEDS.items():
        if not _one(connection, f"SELECT {question}"):
            raise NotDistributable(problem)


def _functions_share(connection: psycopg.Connection[Any]) -> None:
    """Let every server know the functions that indexes, triggers and searches call: those made before it was added."""
    rows = connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = to_regnamespace(current_schema())"
        " AND starts_with(proname, 'nous_') AND NOT prosecdef AND oid NOT IN ("
        "  SELECT objid FROM pg_catalog.pg_dist_object WHERE classid = 'pg_proc'::regclass)"
    ).fetchall()
    for (name,) in rows:
        connection.execute("SELECT create_distributed_function(%s)", [name])


def _citus_tables(connection: psycopg.Connection[Any]) -> dict[str, str]:
    rows = connection.execute(
        "SELECT c.relname, CASE WHEN p.partmethod = 'h' THEN 'distributed' WHEN p.repmodel = 't' THEN 'reference'"
        " ELSE 'local' END FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
    )
    return dict(rows.fetchall())


def _foreign_keys_drop(
    connection: psycopg.Connection[Any], table: str, done: Distribution
) -> list[tuple[str, str, str]]:
    """Drop those of a table and to it; returns those to reference tables, which come back: table, name, definition."""
    rows = connection.execute(
        "SELECT k.conrelid::regclass::text, k.conname, k.confrelid::regclass::text, pg_get_constraintdef(k.oid)"
        " FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0"
        " AND %(table)s::regclass IN (k.conrelid, k.confrelid)",
        {"table": table},
    ).fetchall()
    kept = []
    for owner, name, to, definition in rows:
        connection.execute(_sql("ALTER TABLE {} DROP CONSTRAINT {}", owner, name))
        if to in REFERENCE:
            kept.append((owner, name, definition))
        elif owner in distributed_tables() and owner not in PARTITIONED:
            kept.append((owner, name, re.sub(r"\((\w+)\)", rf"(\1, {COLUMN})", definition, count=2)))
        else:
            done.dropped.append(f"{owner} -> {to}")
    return kept


def _keys_widen(connection: psycopg.Connection[Any], table: str, done: Distribution) -> None:
    """Let every unique key of a table contain its agent."""
    rows = connection.execute(
        "SELECT i.indexrelid::regclass::text, k.conname, k.contype::text, pg_get_indexdef(i.indexrelid)"
        " FROM pg_index i LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u')"
        " WHERE i.indrelid = %(table)s::regclass AND i.indisunique AND NOT EXISTS ("
        "  SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attname = %(column)s"
        "  AND a.attnum = ANY (i.indkey))",
        {"table": table, "column": COLUMN},
    ).fetchall()
    for index, constraint, kind, definition in rows:
        before, inside, after = _parts(definition)
        wider = f"{inside}, {COLUMN}"
        if constraint:
            verb = "PRIMARY KEY" if kind == "p" else "UNIQUE"
            connection.execute(_sql("ALTER TABLE {} DROP CONSTRAINT {}", table, constraint))
            connection.execute(_sql(f"ALTER TABLE {{}} ADD CONSTRAINT {{}} {verb} ({wider})", table, constraint))
        else:
            connection.execute(_sql("DROP INDEX {}", index))
            connection.execute(_sql("{}", raw=f"{before}({wider}){after}"))
        done.keys.append(constraint or index)


def _parts(definition: str) -> tuple[str, str, str]:
    """An index definition before its columns, its columns, and the rest."""
    before, _, rest = definition.partition("(")
    inside, _, after = rest.partition(")")
    return before, inside, after


def _sequences_keep(connection: psycopg.Connection[Any]) -> None:
    """Let numbers go on where they were: Citus makes the sequences of a table that it converts."""
    rows = connection.execute(
        "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " WHERE c.relnamespace = to_regnamespace(current_schema()) AND c.relkind IN ('r', 'p') AND a.attidentity <> ''"
        " AND NOT a.attisdropped"
        " AND NOT c.relispartition"
    ).fetchall()
    for table, column in rows:
        connection.execute(
            _sql(
                "SELECT setval(s, greatest(nextval(s), (SELECT max({}) FROM {})))"
                f" FROM pg_get_serial_sequence('{table}', '{column}') s",
                column,
                table,
            )
        )


def _hole_triggers(connection: psycopg.Connection[Any], table: str) -> list[str]:
    rows = connection.execute(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgfoid = 'nous_log_hole'::regproc", [table]
    )
    return [name for (name,) in rows.fetchall()]


def _hidden_rows_remove(connection: psycopg.Connection[Any]) -> list[str]:
    """Remove the rows that were moved: Citus leaves them on the coordinator, where no statement and no erasure finds
    them; returns the names of the tables that had some."""
    # The triggers of append-only tables refuse this.
    connection.execute("SELECT set_config('session_replication_role', 'replica', true)")
    size = "SELECT sum(pg_relation_size(relid)) > 0 FROM pg_partition_tree(%s)"
    filled = [name for name in (*distributed_tables(), *REFERENCE) if _one(connection, size, [name])]
    for name in filled:
        connection.execute("SELECT truncate_local_data_after_distributing_table(%s)", [name])
    connection.execute("SELECT set_config('session_replication_role', 'origin', true)")
    return filled


LOCAL = """
SELECT count(*) FROM pg_class c WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r'
AND NOT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid AND p.partmethod = 'h')
AND NOT relname = ANY (%s)"""


def _settings_keep(connection: psycopg.Connection[Any]) -> None:
    """Let new connections to each server have SETTINGS, and those of vector indexes: what a search sets for itself,
    only the coordinator gets."""
    of_vectors = {name: value for name, value in TUNING.items() if name.startswith("hnsw.")}
    for name, value in (SETTINGS | of_vectors).items():
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                sql.Identifier(connection.info.dbname),
                sql.SQL(name),
                sql.Literal(value),
            )
        )


def _rows(connection: psycopg.Connection[Any], table: str) -> int:
    return int(_one(connection, _sql("SELECT count(*) FROM {}", table)))


def _one(connection: psycopg.Connection[Any], query: Any, values: list[Any] | None = None) -> Any:
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None


def _sql(text: str, *names: str, raw: str = "") -> sql.Composed:
    identifiers: Iterator[sql.Composable] = map(sql.Identifier, names)
    parts = [*identifiers, *([sql.SQL(raw)] if raw else [])]
    return sql.SQL(text).format(*parts)
