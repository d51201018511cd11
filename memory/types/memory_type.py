"""What a type of memory declares of itself: everything that lists types below the context and the console reads it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, Model, QuerySet, UUIDField

from memory.models import ItemType, Memory
from memory.models.base import ProjectKeyFields
from memory.types.index_entry import IndexEntry

Values = Mapping[str, Any]


def _unchanged(row: Any, action: str, after: Values) -> Values:
    return {}


def _settled(row: Any, moment: datetime, undone: Collection[str]) -> None:
    return None


OF_AGENT = "{agent}"
"""Stands for the number of the agent in `subject_sql` and `trust_sql`: every statement names it."""


@dataclass(frozen=True, slots=True)
class MemoryType:
    """A type of memory that is searched.

    `entry` builds its row of the index, from a row of `indexed_model` where that is not the memory's own. `text` is
    what a prompt says of a memory, "" for nothing; `words` are all texts that a reader of it is given; `about` names
    the attributes that describe it, or `metadata_field` the one JSON column that does. `text_sql`, `about_sql` (for
    attributes that are no columns) and `source_sql` say the same to the statement that loads hits, `subject_sql` what
    the thing is called that it is about and `trust_sql` its trust class.

    A search as of a moment takes back what the audit trail has since: the values before each record, then what
    `take_back` gives for a record (row, action, the record's "after"), and at last what `settle` sets on the row
    (row, moment, actions taken back).

    `tables` are further models of its own that an erasure looks into. `tokens_may` with the scopes memory:read (view)
    and memory:write (the others), and `reviewers_may` name actions of Django's permissions; all people may view.

    `audit_verbs` are those of "create", "update", "retire" and "restore" that its services write into the audit trail,
    as "note.create"; the change feed and the console know what to say of them. An action called otherwise has a row
    in `identity/policy/changes.py` and a phrase in `nousweb/console/common/audit_phrases.py`.
    """

    key: ItemType
    model: type[Model]
    entry: Callable[[Any], IndexEntry]
    text: Callable[[Any], str]
    text_sql: str
    words: Callable[[Any], Iterable[str]]
    about: tuple[str, ...] = ()
    about_sql: Mapping[str, str] = field(default_factory=dict)
    metadata_field: str = ""
    source_sql: str = "''"
    subject_sql: str = "NULL"
    trust_sql: str = "CASE WHEN endorsed THEN 'person' ELSE origin END"
    indexed_model: type[Model] | None = None
    indexed_key: str = "id"
    take_back: Callable[[Any, str, Values], Values] = _unchanged
    settle: Callable[[Any, datetime, Collection[str]], None] = _settled
    tables: tuple[type[Model], ...] = ()
    tokens_may: tuple[str, ...] = ("view", "add", "change")
    reviewers_may: tuple[str, ...] = ("add", "change")
    audit_verbs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model's, as permissions and audit records have it."""
        return self.model._meta.model_name or ""

    @property
    def is_store(self) -> bool:
        """Whether its past stands in the audit trail, as that of all that derives from `Memory`."""
        return issubclass(self.model, Memory)

    @property
    def retires(self) -> bool:
        """Whether its rows can be out of use."""
        return any(column.name == "active" for column in self.model._meta.concrete_fields)

    @property
    def has_project(self) -> bool:
        """Whether its rows carry the key of a project."""
        return issubclass(self.model, ProjectKeyFields)

    @property
    def table(self) -> str:
        return self.model._meta.db_table

    @property
    def key_type(self) -> str:
        """The primary key's type in SQL."""
        return "uuid" if isinstance(self.model._meta.pk, UUIDField) else "bigint"

    @property
    def moments(self) -> tuple[str, ...]:
        """Those of `about` that are moments."""
        columns = {column.name for column in self.model._meta.concrete_fields if isinstance(column, DateTimeField)}
        return tuple(name for name in self.about if name in columns)

    @property
    def metadata_sql(self) -> str:
        """The metadata of a row as JSON, an expression."""
        if self.metadata_field:
            return self.metadata_field
        parts = (f"'{name}', {self.about_sql.get(name, name)}" for name in self.about)
        return f"json_build_object({', '.join(parts)})"

    def metadata(self, memory: object) -> Values:
        """What describes a memory, by name."""
        if self.metadata_field:
            described: Values = getattr(memory, self.metadata_field)
            return described
        return {name: getattr(memory, name) for name in self.about}

    def permission(self, action: str) -> str:
        """The right to `action` ("view", "add", "change") on it."""
        return f"{self.model._meta.app_label}.{action}_{self.name}"

    def indexed_rows(self) -> QuerySet[Any]:
        """The rows from which `entry` builds the index, with what it needs of others."""
        if self.indexed_model is None:
            return self.model._default_manager.all()
        return self.indexed_model._default_manager.select_related(self.name)
