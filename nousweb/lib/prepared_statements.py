"""Statements that every request sends again: bound by the server, so that a connection need not plan them each time."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Literal, Self, TypeVar

from django.conf import settings as django_settings
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import AutoField, CharField, Field, JSONField, Model, QuerySet, TextField
from psycopg import RawCursor
from psycopg.pq import Format
from psycopg.sql import quote
from pydantic_core import to_json

Row = TypeVar("Row", bound=Model)
Rows = list[tuple[Any, ...]]


class PreparedCursor:
    """Sends statements without parsing them again in Django or psycopg."""

    __slots__ = ("_own", "_raw")

    def __init__(self, own: Any, kind: "Kind") -> None:
        own.validate_thread_sharing()
        self._own = own
        # Kept with the connection, which one thread has: making one takes as long as a short statement.
        kept = own.connection.__dict__.setdefault("nous_cursors", {})
        if kind not in kept:
            kept[kind] = _cursor_of(own.connection, kind)
        self._raw: RawCursor[Any] = kept[kind]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """All rows have been read, and the next statement takes the place of this one."""

    def execute(self, statement: str, values: Mapping[str, Any]) -> None:
        """Send a statement with its parameters. Raises Django's database errors."""
        text, names = _numbered(statement)
        self._own.validate_no_broken_transaction()
        with self._own.wrap_database_errors:
            self._raw.execute(text, [values[name] for name in names])

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows of the statement."""
        with self._own.wrap_database_errors:
            return self._raw.fetchall()

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement read or wrote."""
        return self._raw.rowcount


cursor_type: type[PreparedCursor] = PreparedCursor
"""The class of cursors for prepared statements; telemetry sets one that creates a span for each."""

Kind = Literal["text", "binary", "arrays"]
"""The format of rows: text, binary, or binary with arrays of numbers as numpy's."""


def _cursor_of(raw: Any, kind: Kind) -> RawCursor[Any]:
    cursor: RawCursor[Any] = RawCursor(raw)
    cursor.format = Format.TEXT if kind == "text" else Format.BINARY
    if kind == "arrays":
        # numpy is most of what this module would load.
        from nousweb.lib.number_arrays import number_arrays_read

        number_arrays_read(cursor)
    return cursor


def prepared_cursor(*, kind: Kind = "text") -> PreparedCursor | CursorWrapper:
    """A cursor whose statements are prepared from their second use on a connection on (NOUS_DB_PREPARE).

    Their text must not hold what changes from call to call, and each parameter needs a cast where its type is not
    plain from its place. Django's own cursors put the parameters into the text.
    """
    own: Any = connections[DEFAULT_DB_ALIAS]
    # As Django's own cursors do: replace a connection that broke since the last request.
    own.close_if_health_check_failed()
    own.ensure_connection()
    # A prepared statement cannot say what was sent, so where queries are logged or watched Django's cursor sends them.
    if own.queries_logged or own.execute_wrappers:
        cursor: CursorWrapper = own._prepare_cursor(own.create_cursor())
        return cursor
    return cursor_type(own, kind)


@lru_cache(maxsize=1_024)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """A statement with its parameters numbered as PostgreSQL has them, and their names in that order."""
    places: dict[str, int] = {}

    def placed(match: re.Match[str]) -> str:
        return f"${places.setdefault(match[1], len(places) + 1)}" if match[1] else "%"

    return re.sub(r"%%|%\((\w+)\)s", placed, statement).encode(), tuple(places)


def array_text(values: Iterable[int | str]) -> str:
    """An array of numbers, ids or words of the program's own as PostgreSQL reads it: quicker to send than a list."""
    return "{" + ",".join(map(str, values)) + "}"


def rows_prepared(statement: str, values: Mapping[str, Any], *, binary: bool = False) -> list[tuple[Any, ...]]:
    """All rows of one statement, prepared. In `binary` moments and numbers are read several times as fast, but JSONB
    comes as Python's values instead of text: such a statement says ::json."""
    with prepared_cursor(kind="binary" if binary else "text") as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def columns_prepared(statement: str, values: Mapping[str, Any]) -> list[Any]:
    """The columns of one row that holds arrays, without NULLs: numbers for numpy, other values as a list.

    It is the quickest way to read a few hundred rows: no value of theirs becomes an object of its own.
    """
    with prepared_cursor(kind="arrays") as cursor:
        cursor.execute(statement, values)
        [row] = cursor.fetchall()
        return [() if column is None else column for column in row]


def instance_insert(
    row: Model,
    *,
    durable: bool = True,
    where: str = "",
    values: Mapping[str, Any] | None = None,
    also_insert: Model | None = None,
) -> bool:
    """Insert an instance by one prepared statement, without signals. Returns whether it was inserted.

    It is inserted only if the condition `where` holds: SQL, with `values` for its own parameters. Without `durable`,
    and outside of a transaction, the statement does not wait for the disk: a crash of PostgreSQL may lose the rows of
    the last half second, never a part of a row. `also_insert` is inserted by the same statement, if `row` is. The
    instance does not get a number that the database assigned.
    """
    columns, given = _insertion(type(row), row.pk is None, "")
    parameters = _values(row, "")
    condition = f" WHERE {where}" if where else ""
    hurried = "" if durable or connection.in_atomic_block else " FROM set_config('synchronous_commit', 'off', true)"
    # Citus sends values to the part of the table that takes them; the rows of a SELECT it collects first.
    source = f"SELECT {given}{hurried}{condition}" if hurried or condition else f"VALUES ({given})"
    statement = f"INSERT INTO {columns} {source}"
    if also_insert is not None:
        columns, given = _insertion(type(also_insert), also_insert.pk is None, "also_")
        follows = f"INSERT INTO {columns} SELECT {given} FROM inserted"  # noqa: S608  (names of our own tables)
        statement = f"WITH inserted AS ({statement} RETURNING 1) {follows}"
        parameters |= _values(also_insert, "also_")
    with prepared_cursor() as cursor:
        cursor.execute(statement, parameters | dict(values or {}))
        inserted = bool(cursor.rowcount)
    row._state.adding = not inserted
    return inserted


@cache
def _fields(model: type[Model], unnumbered: bool) -> "tuple[Field[Any, Any], ...]":
    """The fields of a table that a new row has; one that is `unnumbered` gets its number from the database."""
    return tuple(field for field in model._meta.concrete_fields if not (unnumbered and isinstance(field, AutoField)))


@cache
def _insertion(model: type[Model], unnumbered: bool, prefix: str) -> tuple[str, str]:
    """The table with its columns, and their placeholders, whose names begin with `prefix`."""
    fields = _fields(model, unnumbered)
    names = ", ".join(f'"{field.column}"' for field in fields)
    given = ", ".join(f"%({prefix}{field.column})s{'::jsonb' if _is_json(field) else ''}" for field in fields)
    return f'"{model._meta.db_table}" ({names})', given


def _values(row: Model, prefix: str) -> dict[str, Any]:
    """The values of a new row by the name of their placeholder."""
    own = connections[DEFAULT_DB_ALIAS]
    values: dict[str, Any] = {}
    for field in _fields(type(row), row.pk is None):
        value = field.pre_save(row, True)
        if value is not None and _is_json(field):
            # The largest inserted values; this encodes them several times as fast as Python's own encoder.
            value = to_json(value).decode()
        elif type(value) is not str or not isinstance(field, (CharField, TextField)):
            value = field.get_db_prep_save(value, own)
        values[f"{prefix}{field.column}"] = value
    return values


def _is_json(field: "Field[Any, Any]") -> bool:
    """Whether the values of a field are written as JSON without an encoder of its own."""
    return isinstance(field, JSONField) and field.encoder is None


class CachedQuery:
    """A queryset that is repeated with other values, compiled to SQL once and prepared.

    `build` makes it for a shape (whatever changes the SQL itself) from `stand_ins`: for each value that changes from
    call to call, one of its type that occurs nowhere else in the query. Rows are the columns of the SELECT, without
    Django's conversions.
    """

    def __init__(self, build: Callable[..., QuerySet[Any, Any]], **stand_ins: int | str | datetime) -> None:
        self._build = build
        self._stand_ins = stand_ins
        self._made: dict[Any, str] = {}

    def rows(self, shape: Any, **values: Any) -> list[tuple[Any, ...]]:
        """The rows for these values; all that have a stand-in must be given."""
        return rows_prepared(self.text(shape), values)

    def bound(self, shape: Any, **values: Any) -> "BoundQuery":
        """The query for these values, to be asked for together with others."""
        return BoundQuery(self, shape, values)

    def text(self, shape: Any) -> str:
        """The statement for a shape."""
        if shape not in self._made:
            self._made[shape] = self._written(shape)
        return self._made[shape]

    def _written(self, shape: Any) -> str:
        text, parameters = self._build(shape, **self._stand_ins).query.sql_with_params()
        names = {value: name for name, value in self._stand_ins.items()}
        given = iter(parameters)

        def placed(match: re.Match[str]) -> str:
            if match[0] == "%%":
                return "%%"
            value = next(given)
            if isinstance(value, (int, str, datetime)) and value in names:
                return f"%({names[value]})s"
            # A generic plan can estimate the number of rows only from literals.
            return quote(value, connection.connection).replace("%", "%%")

        return re.sub("%%|%s", placed, text)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A cached query with its values. Queries that are fetched together must have equal values for equal names.

    Columns come in their JSON form: keys and moments as text, JSONB as Python values.
    """

    query: CachedQuery
    shape: Any
    values: Mapping[str, Any]

    def rows(self) -> Rows:
        """Fetch the rows of this query alone."""
        return fetch_combined({"rows": self})["rows"]


def fetch_combined(queries: Mapping[str, BoundQuery]) -> dict[str, Rows]:
    """Fetch the rows of several queries, by their names, in one statement: sending a few short queries costs more than
    running them. If one fails, all fail."""
    statement = _combined_statement(tuple((query.query, query.shape) for query in queries.values()))
    values = {name: value for query in queries.values() for name, value in query.values.items()}
    [found] = rows_prepared(statement, values)
    return {name: [tuple(row.values()) for row in rows or ()] for name, rows in zip(queries, found, strict=True)}


@lru_cache(maxsize=256)
def _combined_statement(queries: tuple[tuple[CachedQuery, Any], ...]) -> str:
    parts = (f"(SELECT json_agg(to_json(part)) FROM ({query.text(shape)}) AS part)" for query, shape in queries)  # noqa: S608
    return f"SELECT {', '.join(parts)}"


def columns_of(model: type[Model], alias: str) -> str:
    """All columns of a model's table in the order of `instance_of`."""
    return ", ".join(f"{alias}.{field.column}" for field in model._meta.concrete_fields)


def instance_of(model: type[Row], values: Sequence[Any]) -> Row:
    """Build the instance of a row with `columns_of` the model, as Django would."""
    names, converters = _conversion(model)
    python = list(values)
    for place, convert in converters:
        python[place] = convert(python[place], None, connection)
    return model.from_db(DEFAULT_DB_ALIAS, names, python)


@cache
def _conversion(model: type[Model]) -> tuple[list[str], list[tuple[int, Callable[..., Any]]]]:
    """The attributes of a model in the order of its columns, and Django's converters by the position of the column."""
    fields = model._meta.concrete_fields
    return [field.attname for field in fields], [
        (place, convert) for place, field in enumerate(fields) for convert in field.get_db_converters(connection)
    ]


def session_settings_set(name: str, settings: Mapping[str, str]) -> None:
    """Apply settings of PostgreSQL to the following statements: once per connection, or until the end of a transaction.

    `name` identifies the settings, and is remembered with the connection. Outside of a transaction nothing is set
    behind a pooler that shares connections (NOUS_DB_PREPARE=0), since other clients would get the settings.
    """
    own = connections[DEFAULT_DB_ALIAS]
    own.ensure_connection()
    raw: Any = own.connection
    local = own.in_atomic_block
    if not local and (not django_settings.DB_PREPARE or name in getattr(raw, "nous_tuned", ())):
        return
    asked = ", ".join(f"set_config('{key}', '{value}', {str(local).lower()})" for key, value in settings.items())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {asked}")
    if not local:
        raw.nous_tuned = {name, *getattr(raw, "nous_tuned", ())}


@contextmanager
def statement_settings(name: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings of PostgreSQL to the statements of the block, if `session_settings_set`, called before, could not:
    behind a pooler that shares connections the block becomes a transaction."""
    if django_settings.DB_PREPARE:
        yield
        return
    with transaction.atomic():
        session_settings_set(name, settings)
        yield
