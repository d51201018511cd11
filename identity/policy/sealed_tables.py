"""The sealed tables of identity; `memory/sealed_tables.py` adds those of memory.

A seal covers every column of a row except those of `open_columns`, each with the reason why it may change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import models

FORMAT = 1
"""The format of leaves and seals. Other columns or another encoding need a new one; old seals are read by their own."""
VIEW = "identity.view_auditevent"


@dataclass(frozen=True, slots=True)
class SealedTable:
    """A sealed table. `model_label` names the model of the rows. `blanks` are columns that an erasure may empty in a
    row that stays. `agent` and `persona` are SQL on `t`, or on the tables of `join`. Keys of a `numbered` table are
    numbers: from a sequence of the table, or with `by_chain` rising within each persona of an agent in the order of
    commits, of which the model named by `counters_label` has the last. Only the product writes `clock_column`. A row
    that fails the `condition`, SQL on `t`, counts as missing."""

    name: str
    model_label: str
    label: str
    agent: str = "t.agent_id"
    persona: str = "t.persona"
    join: str = ""
    numbered: bool = True
    by_chain: bool = False
    counters_label: str = ""
    blanks: tuple[str, ...] = ()
    open_columns: Mapping[str, str] = field(default_factory=dict)
    clock_column: str = ""
    condition: str = "true"

    @property
    def model(self) -> type[models.Model]:
        return apps.get_model(self.model_label)

    @property
    def counters(self) -> type[models.Model] | None:
        return apps.get_model(self.counters_label) if self.counters_label else None

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    @property
    def columns(self) -> "tuple[models.Field[Any, Any], ...]":
        """The columns that a seal covers, in the order of its encoding: by the names of the columns."""
        found = (column for column in self.model._meta.concrete_fields if column.attname not in self.open_columns)
        return tuple(sorted(found, key=lambda column: column.attname))


_OF_IDENTITY = (
    SealedTable(
        "auditevent",
        "identity.AuditEvent",
        "Audit record",
        persona="CASE t.persona WHEN 'subconscious' THEN 'subconscious' ELSE 'actor' END",
        blanks=("after", "before", "message", "object_label"),
        clock_column="at",
    ),
    SealedTable(
        "identityversion",
        "identity.IdentityVersion",
        "Identity version",
        persona="'actor'",
        numbered=False,
        open_columns={
            "is_current": "It is lost when the next version comes; that the latest has it is checked instead."
        },
    ),
)

SEALED_TABLES: dict[str, SealedTable] = {table.name: table for table in _OF_IDENTITY}
"""By name; those of other apps are added while these are set up."""


SEAL_ROWS = 1_000
"""At most so many rows stand in one seal; a chain that has them is sealed at once."""
SEAL_EVERY = timedelta(minutes=5)
"""A chain with fewer rows gets a seal so often at most, so that a busy agent does not fill a table with seals."""
SELECT_ROWS = 20_000
TRANSACTION_ROWS = 5_000
"""Erasures wait for a transaction of the sealer, so it seals no more rows than this."""
ROUND_SECONDS = 40.0
LATE = timedelta(hours=6)
"""The maximum age of a transaction whose rows are sealed; rows that claim to be older were inserted later."""
SETTLED = timedelta(seconds=5)
"""Between the number that a row is given and its transaction's own there lie microseconds; so long is waited."""
VERIFY_EVERY = timedelta(days=1)
VERIFY_SECONDS = 45.0
"""A part of a verification takes so long, and the next one begins with the next minute."""
OVERDUE = timedelta(hours=1)
"""A sealer that was last done so long ago is reported."""
