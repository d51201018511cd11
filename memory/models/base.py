"""Base classes of the models of memory, and the valid time of what is true only for a time."""

import uuid
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Self, TypeVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentRow, Persona
from memory.policy.oversight import ConsentRequest
from nousweb.lib import clock
from nousweb.lib.bounds import MAX_KEY_CHARACTERS, UNASSIGNED

UNIT_INTERVAL = [MinValueValidator(0.0), MaxValueValidator(1.0)]


class Scope(models.TextChoices):
    """How far a memory reaches: one task, one project, or everything the agent does."""

    TASK = "task", "Task"
    PROJECT = "project", "Project"
    GLOBAL = "global", "Global"


class Trust(models.TextChoices):
    """Where the words of a memory come from; `memory.policy.TRUST_ORDER` has the order."""

    PERSON = "person", "Person"
    AGENT = "agent", "Agent"
    TOOL = "tool", "Tool output"
    IMPORTED = "imported", "Imported"
    WEB = "web", "Web"


TRUST_WORDS = {
    Trust.PERSON: "From a person",
    Trust.AGENT: "From the agent",
    Trust.TOOL: "From a tool",
    Trust.IMPORTED: "Imported",
    Trust.WEB: "From the web",
}
ORIGIN_WORDS = {
    Trust.PERSON: "A person wrote these words.",
    Trust.AGENT: "The agent recorded these words.",
    Trust.TOOL: "These words come from a tool.",
    Trust.IMPORTED: "These words come from another system.",
    Trust.WEB: "These words come from the web.",
}


class OriginFields(AgentRow):
    """The trust class of a memory, and whether it is quarantined until a person has read it.

    `origin` is the least trusted of what the memory rests on. It is never raised by being repeated, confirmed or
    replaced; `trust` is what a reader goes by.
    """

    origin = models.CharField(max_length=10, choices=Trust, default=Trust.AGENT, db_default=Trust.AGENT, editable=False)
    quarantined = models.BooleanField(default=False, db_default=False, editable=False)

    screened_as: str = ""
    """Of a new row, the class by which it is screened, where that is not its trust class."""
    consent: ConsentRequest | None = None
    """Of a row that is written, what the agent's consent policy asks people about it."""
    pending: bool = False
    """Of a row that was written, whether it waits for consent alone."""
    review: UUID | None = None
    """Of a row that was written, the review by which people are asked about it."""

    class Meta:
        abstract = True

    @property
    def trust(self) -> str:
        """The trust class: a person's once a person wrote, confirmed or allowed it, else its origin's."""
        return Trust.PERSON.value if getattr(self, "endorsed", False) else str(self.origin)

    @property
    def trust_words(self) -> str:
        """The trust class for people."""
        return TRUST_WORDS[Trust(self.trust)]

    @property
    def origin_words(self) -> str:
        """Where the words come from, and whether people verified them, for people."""
        verified = getattr(self, "endorsed", False) and self.origin != Trust.PERSON
        return ORIGIN_WORDS[Trust(self.origin)] + " People verified them." * verified


def user_key_field() -> Any:
    """The key of a user; in SQL `user` is a word of its own."""
    return models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="", db_column="user_key")


def whose_words(user: str) -> str:
    """Whose a memory is, for people; "" for everybody's."""
    return "nobody’s yet" if user == UNASSIGNED else user and f"user {user}"


class ProjectKeyFields(AgentRow):
    """What may belong to a project, a task and a user, by the keys of its writer ("" for none); see `project_scope`.

    A memory without a user is everybody's. The user UNASSIGNED is nobody's, until people assign the memory.
    """

    project = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    task = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    user = user_key_field()

    class Meta:
        abstract = True

    @property
    def whose(self) -> str:
        """Whose it is, for people; "" for everybody's."""
        return whose_words(self.user)


Row = TypeVar("Row", bound=models.Model)


class MemoryQuerySet(models.QuerySet[Row]):
    def active(self) -> Self:
        return self.filter(active=True)

    def current(self, moment: datetime | None = None) -> Self:
        """Active rows that are valid at `moment`, by default now: those that prompts and searches may include."""
        return self.active().filter(valid_at_q(self.model, moment or clock.now()))


class PersonaRow(AgentRow):
    """A row of one persona, with a key that tells nothing of other rows."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)

    class Meta:
        abstract = True


class MemoryFields(PersonaRow, OriginFields):
    """What facts and other memories have in common, but for columns with another place in exported files."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="%(class)ss")

    objects = MemoryQuerySet.as_manager()

    class Meta:
        abstract = True

    def get_absolute_url(self) -> str:
        return reverse(f"agent_{self._meta.model_name}", args=[self.agent.slug, self.pk])


class Memory(MemoryFields):
    """A memory of one persona of one agent, whose changes are in the audit trail.

    `active` has one meaning: whether search and prompts may show it. `retired_at` says since when they may not; what
    came without its history has none. `endorsed`: a person wrote, changed, reviewed or closed it, and only people
    change it from then on.
    """

    scope = models.CharField(max_length=10, choices=Scope, default=Scope.GLOBAL)
    tags = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    importance = models.FloatField(default=0.5, validators=UNIT_INTERVAL)
    active = models.BooleanField(default=True)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    updated_at = models.DateTimeField(default=clock.now, editable=False)
    endorsed = models.BooleanField(default=False, editable=False)

    class Meta:
        abstract = True


class Validity(models.TextChoices):
    CURRENT = "current", "Current"
    EXPIRED = "expired", "Expired"
    NOT_YET_VALID = "not_yet_valid", "Not yet valid"


ENDS = ("valid_until", "expires_at")
"""Columns with a moment from which on a row is left out. A row of the index has the earlier one as `valid_until`."""


class ExpiringFields(AgentRow):
    """What is forgotten at a moment: left out from `expires_at` on, and erased after the retention
    (`expired_purge`). What is only no longer true has a `valid_until` instead, and stays in the history."""

    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


def columns_among(model: type[models.Model], names: tuple[str, ...]) -> list[str]:
    """Those of `names` that are columns of the model."""
    columns = {column.name for column in model._meta.concrete_fields}
    return [name for name in names if name in columns]


def valid_at_q(model: type[models.Model], moment: datetime) -> Q:
    """The condition that a row of the model is valid at `moment`: it has begun, and has no end by then."""
    condition = Q()
    for name in columns_among(model, ENDS):
        condition &= Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__gt": moment})
    for name in columns_among(model, ("valid_from",)):
        condition &= Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__lte": moment})
    return condition


def expired_q(model: type[models.Model], moment: Any) -> Q:
    """The condition that a row of the model has ended at `moment`."""
    return reduce(or_, (Q(**{f"{name}__lte": moment}) for name in columns_among(model, ENDS)))


def ends_at(row: models.Model) -> datetime | None:
    """The earlier end of a row; None without one."""
    ends = [end for name in columns_among(type(row), ENDS) if (end := getattr(row, name)) is not None]
    return min(ends, default=None)


def valid_at_sql(model: type[models.Model], moment: str, alias: str = "") -> str:
    """`valid_at_q` in SQL, for the columns of `alias`; `moment` is an expression. "" if it holds of every row."""
    column = f"{alias}." if alias else ""
    begun = [
        f"({column}{name} IS NULL OR {column}{name} <= {moment})" for name in columns_among(model, ("valid_from",))
    ]
    return " AND ".join([part for part in (not_ended_sql(model, moment, alias), *begun) if part])


def not_ended_sql(model: type[models.Model], moment: str, alias: str = "") -> str:
    """The opposite of `expired_q` in SQL."""
    column = f"{alias}." if alias else ""
    return " AND ".join(f"({column}{name} IS NULL OR {column}{name} > {moment})" for name in columns_among(model, ENDS))


def not_valid_at_sql(moment: str) -> str:
    """The opposite of `valid_at_sql` for the index, so that indexes of the few rows with a valid time are used."""
    return f"(valid_until <= {moment} OR valid_from > {moment})"


def validity_at(valid_from: datetime | None, valid_until: datetime | None, moment: datetime) -> Validity:
    """`valid_at_q` in Python, with what is not valid told apart."""
    if valid_until is not None and valid_until <= moment:
        return Validity.EXPIRED
    return Validity.NOT_YET_VALID if valid_from is not None and valid_from > moment else Validity.CURRENT


def plain(value: Any) -> Any:
    """A moment or a key as JSON has it; anything else unchanged."""
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value
