"""Statements that every request sends again: bound by the server, so that a connection need not plan them each time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Model
from psycopg import Cursor

Row = TypeVar("Row", bound=Model)


@contextmanager
def prepared_cursor() -> Iterator[Any]:
    """A cursor whose statements are prepared from their second use on a connection on (NOUS_DB_PREPARE).

    Their text must not hold what changes from call to call, and each parameter needs a cast where its type is not
    plain from its place. Django's own cursors put the parameters into the text.
    """
    connection.ensure_connection()
    with connection._prepare_cursor(Cursor(connection.connection)) as cursor:  # type: ignore[attr-defined]
        yield cursor


def rows_prepared(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of one statement, prepared."""
    with prepared_cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def columns_of(model: type[Model], alias: str) -> str:
    """All columns of a model's table in the order of `instance_of`."""
    return ", ".join(f"{alias}.{field.column}" for field in model._meta.concrete_fields)


def instance_of(model: type[Row], values: Sequence[Any]) -> Row:
    """The instance that Django would make of a row with `columns_of` the model."""
    fields = model._meta.concrete_fields
    python = list(values)
    for place, field in enumerate(fields):
        for convert in field.get_db_converters(connection):
            python[place] = convert(python[place], None, connection)
    return model.from_db(connection.alias, [field.attname for field in fields], python)


def session_tuned(name: str, settings: Mapping[str, str]) -> None:
    """Make settings of PostgreSQL hold for what follows: once a connection or, in a transaction, until its end.

    `name` says what has been set, and is remembered with the connection.
    """
    connection.ensure_connection()
    raw = connection.connection
    local = connection.in_atomic_block
    if not local and name in getattr(raw, "nous_tuned", ()):
        return
    asked = ", ".join(f"set_config('{key}', '{value}', {str(local).lower()})" for key, value in settings.items())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {asked}")
    if not local:
        raw.nous_tuned = {name, *getattr(raw, "nous_tuned", ())}
