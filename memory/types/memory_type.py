"""The declaration of a memory type, from which everything below context and console that lists types derives, and its
rows of the search index."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, Model, QuerySet, UUIDField

from memory.models import ItemType, Memory, ProjectKeyFields, Scope, Trust, ends_at, keys_of, tier_of

MAX_TEXT_CHARACTERS = 20_000
"""Indexed of one memory; embedding models read less still."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row of the index, before its embedding. `text` is what is searched and embedded, `standing` whether it is
    to be kept to (memory.types.stores)."""

    agent_id: int
    persona: str
    item_type: str
    item_id: str
    text: str
    happened_at: datetime
    recorded_at: datetime
    kind: str = ""
    category: str = ""
    scope: str = Scope.GLOBAL
    project: str = ""
    task: str = ""
    user: str = ""
    subject: str = ""
    loop_id: str = ""
    position: int = 0
    tags: list[str] = field(default_factory=list)
    importance: float = 0.5
    active: bool = True
    retired_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    standing: str = ""
    trust: str = Trust.AGENT
    quarantined: bool = False


KEPT_ELSEWHERE = frozenset({"trust", "quarantined"})
"""Fields that are no columns of the index: quarantined memories have no row, and trust is read from the memory."""


def store_entry(memory: Any, item_type: ItemType, text: str, **own: Any) -> IndexEntry:
    """The row of a memory of a store, with what all that carry keys have in common; `own` are columns of its type."""
    common: dict[str, Any] = {
        "happened_at": memory.created_at,
        "recorded_at": memory.created_at,
        "scope": tier_of(memory.scope, memory.project, memory.task),
        **keys_of(memory),
        "tags": memory.tags,
        "importance": memory.importance,
        "active": memory.active,
        "retired_at": memory.retired_at,
        "valid_until": ends_at(memory),
        "trust": memory.trust,
        "quarantined": memory.quarantined,
    }
    return IndexEntry(
        agent_id=memory.agent_id,
        persona=memory.persona,
        item_type=item_type,
        item_id=str(memory.pk),
        text=text,
        **{**common, **own},
    )


def lines(*parts: str) -> str:
    """The parts that say something, one below the other."""
    return "\n".join(part for part in parts if part)


Values = Mapping[str, Any]


def fields_sql(column: str, names: Iterable[str]) -> str:
    """The first of these fields of a JSON object that is given, as text; "" for none."""
    return f"coalesce({', '.join(f'{column}->>{name!r}' for name in names)}, '')"


OF_AGENT = "{agent}"
"""Stands for the number of the agent in `subject_sql` and `trust_sql`: every statement names it."""


@dataclass(frozen=True, slots=True)
class MemoryType:
    """A type of memory that is searched.

    `entry`: builds its index row from a row of `indexed_model`, or of `model` if that is None.
    `text`: the text of a memory in a prompt, "" for none. `words`: the fields with all
    texts that a reader of the memory gets.
    `about`: the attributes that describe a memory; or `metadata_field`: the JSON column that does.
    `text_sql`, `about_sql` (for attributes that are not columns), `source_sql`, `subject_sql` (the name of the subject)
    and `trust_sql` (the trust class): the same values in SQL, for the statement that loads hits.

    A search as of a moment undoes the later records of the audit trail: it sets the values from before each record,
    then those that `undo_change` returns for it (row, action, the record's "after"), and finally calls `restore_as_of`
    (row, moment, undone actions), which may set further attributes of the row.

    `tables`: further models of this type that an erasure scans.
    `tokens_may`, `reviewers_may`: actions of Django's permissions; tokens need the scope memory:read to view and
    memory:write for the others. All people may view.
    `audit_verbs`: those of "create", "update", "retire" and "restore" that its services write into the audit trail, as
    "note.create"; the change feed and the console know them. Any other action needs a row in
    `identity/policy/changes.py`.
    """

    key: ItemType
    model: type[Model]
    entry: Callable[[Any], IndexEntry]
    text: Callable[[Any], str]
    text_sql: str
    words: tuple[str, ...]
    about: tuple[str, ...] = ()
    about_sql: Mapping[str, str] = field(default_factory=dict)
    metadata_field: str = ""
    source_sql: str = "''"
    subject_sql: str = "NULL"
    trust_sql: str = "CASE WHEN endorsed THEN 'person' ELSE origin END"
    indexed_model: type[Model] | None = None
    indexed_key: str = "id"
    undo_change: Callable[[Any, str, Values], Values] = lambda row, action, after: {}
    restore_as_of: Callable[[Any, datetime, Collection[str]], None] = lambda row, moment, undone: None
    tables: tuple[type[Model], ...] = ()
    tokens_may: tuple[str, ...] = ("view", "add", "change")
    reviewers_may: tuple[str, ...] = ("add", "change")
    audit_verbs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the model, as in permissions and audit records."""
        return self.model._meta.model_name or ""

    @property
    def is_store(self) -> bool:
        """Whether its changes are in the audit trail, as for all models that derive from `Memory`."""
        return issubclass(self.model, Memory)

    @property
    def retires(self) -> bool:
        """Whether its rows can be retired."""
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
        """The attributes in `about` that are moments."""
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
        """The attributes that describe a memory, by name."""
        if self.metadata_field:
            described: Values = getattr(memory, self.metadata_field)
            return described
        return {name: getattr(memory, name) for name in self.about}

    def permission(self, action: str) -> str:
        """The permission for `action` ("view", "add", "change") on this type."""
        return f"{self.model._meta.app_label}.{action}_{self.name}"

    def indexed_rows(self) -> QuerySet[Any]:
        """The rows from which `entry` builds index rows, with their related rows selected."""
        if self.indexed_model is None:
            return self.model._default_manager.all()
        return self.indexed_model._default_manager.select_related(self.name)
