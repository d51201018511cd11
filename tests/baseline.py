"""The rows of a newly migrated database, and their restoration after a test of real transactions.

Django's own restoration truncates every table and then lets the apps fill theirs again, which takes longer than most
tests. Here only tables with rows are emptied, and their original rows are copied back.

Some tables are append-only: a trigger refuses UPDATE, DELETE and TRUNCATE. So here and only here rows are removed as
the owner of the tables, with the triggers of these tables off.
"""

from typing import Any, LiteralString

from django.db import connection, transaction
from psycopg import sql

from nousweb.lib.distribution import is_distributed
from nousweb.lib.transactions import transaction_retried

MAX_DELETED = 1_000
"""Rows of a table up to which deleting them is faster than truncating all tables."""


class Baseline:
    """The present rows of the tables of the default database."""

    def __init__(self) -> None:
        self._tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        with connection.cursor() as cursor:
            self._rows = {table: _rows(cursor, table) for table in self._filled(cursor, 0)}
            cursor.execute(
                "SELECT DISTINCT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE NOT tgisinternal"
            )
            self._guarded = {row[0] for row in cursor.fetchall()}

    def restore(self) -> None:
        """Bring every table back to these rows. Sequences go on, as they do after a flush.

        The server may still be at the last statement of a worker that a test has killed.
        """
        transaction_retried(self._restore)

    def _restore(self) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL ROLE NONE")
            if is_distributed():
                # No trigger of a part of a table can be turned off after its rows were changed.
                cursor.execute("SET LOCAL citus.propagate_set_commands = 'local'")
                cursor.execute("SET LOCAL session_replication_role = 'replica'")
            filled = self._filled(cursor, 0)
            changed = [name for name in self._rows if _rows(cursor, name) != self._rows[name]]
            touched = sorted({*filled} - {*self._rows} | {*changed})
            if not is_distributed() and self._filled(cursor, MAX_DELETED):
                touched = self._tables
            for name in touched:
                self._triggers(cursor, "DISABLE", name)
            if touched is self._tables:
                _execute(cursor, "TRUNCATE {}", *touched)
            else:
                # In any order: foreign keys are checked at the end.
                for name in touched:
                    _execute(cursor, "DELETE FROM {}", name)
            for name in {*touched} & {*self._rows}:
                with cursor.copy(_composed("COPY {} FROM STDIN (FORMAT binary)", name)) as copy:
                    copy.write(self._rows[name])
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for name in touched:
                self._triggers(cursor, "ENABLE", name)

    def _filled(self, cursor: Any, more_than: int) -> list[str]:
        """The tables that hold more rows than so many."""
        asked = [
            sql.SQL("SELECT {} WHERE EXISTS (SELECT 1 FROM {} OFFSET {})").format(
                sql.Literal(name), sql.Identifier(name), more_than
            )
            for name in self._tables
        ]
        cursor.execute(sql.SQL(" UNION ALL ").join(asked))
        return [row[0] for row in cursor.fetchall()]

    def _triggers(self, cursor: Any, verb: LiteralString, table: str) -> None:
        if table in self._guarded and not is_distributed():
            _execute(cursor, "ALTER TABLE {} " + verb + " TRIGGER USER", table)


def _rows(cursor: Any, table: str) -> bytes:
    with cursor.copy(_composed("COPY {} TO STDOUT (FORMAT binary)", table)) as copy:
        return b"".join(copy)


def _execute(cursor: Any, statement: LiteralString, *tables: str) -> None:
    cursor.execute(_composed(statement, *tables))


def _composed(statement: LiteralString, *tables: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.SQL(", ").join(map(sql.Identifier, tables)))
