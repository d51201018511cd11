"""The append-only tables whose rows are sealed, declared as data; other apps add theirs while they are set up.

A seal covers every column of a row but those of `open_columns`, each with the reason why it may change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import models

FORMAT = 1
"""Of leaves and seals. Another one for other columns or another encoding: old seals are read by their own."""
SEAL_ROWS = 1_000
"""At most so many rows stand in one seal; a chain that has them is sealed at once."""
SEAL_EVERY = timedelta(minutes=5)
"""A chain with fewer rows gets a seal so often at most, so that a busy agent does not fill a table with seals."""
SELECT_ROWS = 20_000
TRANSACTION_ROWS = 5_000
"""Erasures wait for a transaction of the sealer, so it seals no more rows than this."""
ROUND_SECONDS = 40.0
LATE = timedelta(hours=6)
"""So long a transaction may have been open before what it wrote is sealed; what claims to be older was inserted."""
SETTLED = timedelta(seconds=5)
"""Between the number that a row is given and its transaction's own there lie microseconds; so long is waited."""
VERIFY_EVERY = timedelta(days=1)
VERIFY_SECONDS = 45.0
"""A part of a verification takes so long, and the next one begins with the next minute."""
OVERDUE = timedelta(hours=1)
"""A sealer that was last done so long ago is reported."""
VIEW = "identity.view_auditevent"


@dataclass(frozen=True, slots=True)
class SealedTable:
    """`blanks` are columns that an erasure may empty in a row that stays. `agent` and `persona` are SQL on `t`, or
    on what `join` brings. Keys of a `numbered` table are numbers: given by a sequence of the table, or with
    `by_chain` rising within each persona of an agent in the order of commits, of which `counters` knows the last.
    `clock_column` is written by the product alone. A row that fails the `condition`, SQL on `t`, counts as missing.
    """

    name: str
    model: type[models.Model]
    label: str
    agent: str = "t.agent_id"
    persona: str = "t.persona"
    join: str = ""
    numbered: bool = True
    by_chain: bool = False
    counters: type[models.Model] | None = None
    blanks: tuple[str, ...] = ()
    open_columns: Mapping[str, str] = field(default_factory=dict)
    clock_column: str = ""
    condition: str = "true"

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    @property
    def columns(self) -> "tuple[models.Field[Any, Any], ...]":
        """What a seal covers, in the order of its encoding: by the names of the columns."""
        found = (column for column in self.model._meta.concrete_fields if column.attname not in self.open_columns)
        return tuple(sorted(found, key=lambda column: column.attname))


SEALED_TABLES: dict[str, SealedTable] = {}
"""By name."""


def sealed_declare(*tables: SealedTable) -> None:
    """Let the rows of these tables be sealed: once, while the apps are set up."""
    SEALED_TABLES.update({table.name: table for table in tables})
