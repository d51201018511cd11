"""Hashes of rows as leaves of a seal: the columns that are read, and their encoding."""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import connection, models

from identity.policy.sealed_tables import FORMAT, SealedTable
from nousweb.lib.merkle_tree import encode, leaf_hash

HASH, SALT = 32, 16
"""Bytes of a hash, and of the salt of a leaf."""
NUMBER, UUID = re.compile(r"-?[0-9]{1,18}"), re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Patterns of keys; a leaf that was altered may contain anything."""
EMPTY = re.compile(r"(-|0:|2:\{\}|2:\[\]|4:null)*")
"""The encoding of columns as an erasure leaves them."""


class Row(NamedTuple):
    """A row by its key: its columns as the database encodes them, as `nousweb.lib.merkle_tree.encode` does, those apart
    that an erasure may empty, and when it says it was written where only the product says so."""

    key: str
    kept: str
    blanks: str
    at: datetime | None = None


class Leaf(NamedTuple):
    """One row as a seal keeps it; `digest` is empty for tables of which an erasure empties no column."""

    key: str
    content: bytes
    salt: bytes
    digest: bytes = b""


def rows_read(table: SealedTable, keys: Sequence[str]) -> dict[str, Row]:
    """The rows with these keys, as they are now."""
    type_of_key, form = ("bigint", NUMBER) if table.numbered else ("uuid", UUID)
    columns = [column for column in table.columns if column.attname != "id"]
    names = {column.attname: f"c{place}" for place, column in enumerate(columns)}
    texts = ", ".join(f"{_text(column)} AS {names[column.attname]}" for column in columns)
    kept = _encoded(name for column, name in names.items() if column not in table.blanks)
    blanks = _encoded(name for column, name in names.items() if column in table.blanks)
    at = f"t.{_name(table.clock_column)}" if table.clock_column else "NULL::timestamptz"
    with connection.cursor() as cursor:
        cursor.execute(
            # The offset keeps the texts from being made twice.
            f"SELECT key, {kept}, {blanks}, at FROM (SELECT t.id::text AS key, {at} AS at, {texts}"  # noqa: S608
            f" FROM {table.table} t WHERE t.id = ANY(%s::{type_of_key}[]) AND {table.condition} OFFSET 0) read",
            [[key for key in keys if form.fullmatch(key)]],
        )
        return {row[0]: Row(*row) for row in cursor.fetchall()}


def leaf_of(table: SealedTable, row: Row, salt: bytes) -> Leaf:
    """The leaf of a row with this salt."""
    digest = hashlib.sha256(salt + row.blanks.encode()).digest()
    return Leaf(row.key, content_hash(table, row, digest), salt, digest if table.blanks else b"")


def content_hash(table: SealedTable, row: Row, digest: bytes) -> bytes:
    """The hash of a row of which the columns that an erasure may empty are known by their digest alone."""
    return hashlib.sha256(_head(table.name) + encode((row.key,)) + row.kept.encode() + digest).digest()


def is_blank(row: Row) -> bool:
    """Whether the columns that an erasure may empty are empty."""
    return EMPTY.fullmatch(row.blanks) is not None


def node_of(key: str, content: bytes) -> bytes:
    """The leaf of the tree of a seal: a row's key and the hash of its content."""
    return leaf_hash(encode((key,)) + content)


@cache
def _head(name: str) -> bytes:
    return encode((str(FORMAT), name))


def _name(column: str) -> str:
    return connection.ops.quote_name(column)


def _encoded(names: Any) -> str:
    """SQL for the encoding of columns that are texts."""
    return " || ".join(f"coalesce(octet_length({name}) || ':' || {name}, '-')" for name in names) or "''"


def _text(column: "models.Field[Any, Any]") -> str:
    """SQL for the text of a column, which must say all of it and always the same."""
    name = f"t.{_name(column.column or '')}"
    if isinstance(column, models.DateTimeField):
        return f"extract(epoch FROM {name})::text"
    if isinstance(column, models.FloatField):
        return f"encode(float8send({name}), 'hex')"
    return f"{name}::text"
