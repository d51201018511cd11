"""The tables of an agent export, and the encoding of a row as JSON."""

from typing import Any

from django.db import models

from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from memory.models import (
    Attribute,
    Censor,
    Decision,
    Document,
    Episode,
    EpisodeEvent,
    Event,
    Fact,
    FactChange,
    ImportedMemory,
    KnownSource,
    LongTermEntry,
    LoopSummary,
    Procedure,
    Subject,
    SubjectAlias,
    SubjectChange,
    Trust,
    WorkingMemory,
    plain,
)
from memory.types import MEMORY_TYPES

FORMAT = "nous-agent"
VERSION = 1

_FIRST: tuple[type[models.Model], ...] = (
    IdentityVersion,
    ChangeProposal,
    Event,
    LongTermEntry,
    LoopSummary,
    Episode,
    EpisodeEvent,
    Subject,
    SubjectAlias,
    SubjectChange,
    Fact,
    FactChange,
    Decision,
    Procedure,
    Censor,
    WorkingMemory,
)
TABLES: list[type[models.Model]] = [
    *_FIRST,
    *(
        model
        for memory_type in MEMORY_TYPES.values()
        for model in (memory_type.model, *memory_type.tables)
        if model not in _FIRST
    ),
    Attribute,
    ImportedMemory,
    KnownSource,
]
"""In the order of a file: events, whose ids change, come before what refers to them.

The order of the first ones is the format's; what types of memory were added since follow. Other apps add theirs while
they are set up, so that memory depends on none of them.
"""

AUDIT_TABLE: type[models.Model] = AuditEvent

LEFT_OUT = frozenset(
    {
        "ApiToken",
        "AuditEvent",
        "Change",
        "ChangeStream",
        "EventSequence",
        "FileRun",
        "ItemAssignment",
        "ItemComment",
        "ItemSnooze",
        "JudgeCall",
        "Job",
        "MemoryReview",
        "Notification",
        "OAuthCode",
        "OAuthRefreshToken",
        "SearchItem",
        "SearchLanguage",
        "SearchPassage",
        "SearchStatistics",
        "SecondOpinion",
        "Webhook",
        "WebhookDelivery",
    }
)
"""Tables with rows of an agent that an export does not carry: secrets, the trail unless asked for, what calls
cost, what is derived or counted again, what was made known elsewhere, and what people here do with what waits."""

LATER: dict[tuple[type[models.Model], str], Any] = {
    **{(model, "retired_at"): None for model in (Episode, Decision, Procedure, Censor)},
    (ChangeProposal, "persona"): "actor",
    **{
        (model, name): ""
        for model in (Event, LoopSummary, Episode, Fact, Decision, Procedure)
        for name in ("project", "task")
    },
    **{
        (model, "user"): ""
        for model in (Event, LoopSummary, Episode, Fact, Decision, Procedure, Document, WorkingMemory, KnownSource)
    },
    (WorkingMemory, "project"): "",
    (WorkingMemory, "task_key"): "",
    **{(model, "endorsed"): False for model in (Fact, Episode, Decision, Procedure, Censor)},
    (Fact, "subject_alias_id"): None,
    (Fact, "attribute"): "",
    (Fact, "value"): "",
    (Document, "ttl"): None,
    **{(model, name): None for model in (Fact, Document) for name in ("expires_at", "source_ref", "source_changed_at")},
    (ImportedMemory, "earlier_item_ids"): [],
    (WorkingMemory, "quarantined_entries"): [],
    **{
        (model, name): held
        for model in (Fact, Episode, Decision, Procedure, Document, Censor, LongTermEntry)
        for name, held in (("origin", Trust.IMPORTED.value), ("quarantined", False))
    },
}
"""Columns that files written before there were any lack, with what they are read as."""

RENAMED = {"held": "quarantined", "held_entries": "quarantined_entries"}
"""Columns, and words in `RENAMED_IN`, of files written before 0.1.0, with their present names."""
RENAMED_IN: dict[type[models.Model], tuple[str, ...]] = {FactChange: ("action", "before")}
"""Columns whose value, or the names in it, are words of our own; elsewhere they are the writer's."""

DERIVED = frozenset(
    {
        (SubjectAlias, "key"),
        (SubjectAlias, "meaning"),
        (SubjectAlias, "blocks"),
        (SubjectAlias, "dictionary"),
        (Document, "address"),
        (Document, "text"),
        # Events come later in a file, with ids that an import replaces.
        (ChangeProposal, "learned_from"),
    }
)
"""Columns that an import works out again, or cannot."""

AGENT_FIELDS = ("slug", "name", "kind", "config", "initiated_at", "created_at")

VERBATIM = frozenset({(Event, "metadata"), (Document, "value")})
"""JSON columns in which nothing is looked for: the log and what agents keep by key stay word for word."""


OWN = "of_the_persona"
"""Ends the name by which a row says whether what a column refers to is of the persona that is exported."""


def table_name(model: type[models.Model]) -> str:
    return model._meta.model_name or ""


def columns(model: type[models.Model]) -> list[models.Field]:
    """The columns of a row in a file: all but the agent, which the file is of, numbers nothing refers to, and what is
    derived from the others."""
    return [
        column
        for column in model._meta.concrete_fields
        if column.name != "agent"
        and not (isinstance(column, models.AutoField) and model is not Event)
        and not column.generated
        and (model, column.name) not in DERIVED
    ]


def row_of(model: type[models.Model], row: models.Model) -> dict[str, Any]:
    """One row, ready for JSON; `importing` reads back exactly the same."""
    return {
        column.attname: plain(getattr(row, column.attname)) if getattr(row, f"{column.name}_{OWN}", True) else None
        for column in columns(model)
    }


_THROUGH: dict[type[models.Model], str] = {FactChange: "fact__", EpisodeEvent: "episode__"}
"""What says of which persona the rows of a table are that does not name it."""


def rows_of(model: type[models.Model], agent_id: int, persona: str = "") -> models.QuerySet:
    """An agent's rows of one table, in an order that is the same every time; those of one `persona` where it is named.

    What is of neither persona, such as the identity, is of both. References to rows of the other one are None.
    """
    through = _THROUGH.get(model, "")
    rows = model._default_manager.filter(**dict.fromkeys({f"{through}agent_id", "agent_id"}, agent_id)).order_by("pk")
    if not persona or not (through or _has_persona(model)):
        return rows
    rows = rows.filter(**{f"{through}persona": persona})
    for column in model._meta.concrete_fields:
        if isinstance(column, models.ForeignKey) and column.null and _has_persona(column.related_model):
            own = models.Q(**{f"{column.name}__persona": persona})
            rows = rows.annotate(**{f"{column.name}_{OWN}": models.Case(models.When(own, then=True), default=False)})
    return rows


def _has_persona(model: Any) -> bool:
    return any(column.name == "persona" for column in model._meta.concrete_fields)
