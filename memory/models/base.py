"""Base classes of the models of memory, and the valid time of what is true only for a time."""

import uuid
from datetime import datetime
from typing import Self, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentRow, Persona
from nousweb.lib import clock
from nousweb.lib.constrained_types import MAX_KEY_CHARACTERS

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


class OriginFields(AgentRow):
    """The trust class of a memory, and whether it is quarantined until a person has read it.

    `origin` is the least trusted of what the memory rests on. It is never raised by being repeated, confirmed or
    replaced; `trust` is what a reader goes by.
    """

    origin = models.CharField(max_length=10, choices=Trust, default=Trust.AGENT, db_default=Trust.AGENT, editable=False)
    quarantined = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        abstract = True

    @property
    def trust(self) -> str:
        """The trust class: a person's once a person wrote, confirmed or allowed it, else its origin's."""
        return Trust.PERSON.value if getattr(self, "endorsed", False) else str(self.origin)

    @property
    def trust_words(self) -> str:
        """The trust class for people."""
        return f"Trust: {Trust(self.trust).label.lower()}"


class ProjectKeyFields(AgentRow):
    """What may belong to a project and a task, by the keys of its writer ("" for none); see `project_scope`."""

    project = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    task = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")

    class Meta:
        abstract = True


Row = TypeVar("Row", bound=models.Model)


class MemoryQuerySet(models.QuerySet[Row]):
    def active(self) -> Self:
        return self.filter(active=True)


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


def valid_at_q(moment: datetime) -> Q:
    """The condition that a row is valid at `moment`."""
    begun = Q(valid_from__isnull=True) | Q(valid_from__lte=moment)
    return begun & (Q(valid_until__isnull=True) | Q(valid_until__gt=moment))


def expired_q(moment: datetime) -> Q:
    """The condition that the valid time of a row has ended at `moment`."""
    return Q(valid_until__lte=moment)


def not_yet_valid_q(moment: datetime) -> Q:
    """The condition that the valid time of a row begins after `moment`."""
    return Q(valid_from__gt=moment)


def valid_at_sql(moment: str, alias: str = "") -> str:
    """`valid_at_q` in SQL, for the columns of `alias`; `moment` is an expression."""
    column = f"{alias}." if alias else ""
    return (
        f"({column}valid_until IS NULL OR {column}valid_until > {moment})"
        f" AND ({column}valid_from IS NULL OR {column}valid_from <= {moment})"
    )


def not_valid_at_sql(moment: str) -> str:
    """The opposite of `valid_at_sql`, so that indexes of the few rows with a valid time are used."""
    return f"(valid_until <= {moment} OR valid_from > {moment})"


def validity_at(valid_from: datetime | None, valid_until: datetime | None, moment: datetime) -> Validity:
    """`valid_at_q` in Python, with what is not valid told apart."""
    if valid_until is not None and valid_until <= moment:
        return Validity.EXPIRED
    if valid_from is not None and valid_from > moment:
        return Validity.NOT_YET_VALID
    return Validity.CURRENT
