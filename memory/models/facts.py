"""Bitemporal facts, and the history of every change to them."""

import enum
from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Subquery, When
from django.db.models.expressions import Expression
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce

from identity.models import Agent, AgentForeignKey, AgentRow, AuthorFields
from memory.models.base import (
    UNIT_INTERVAL,
    ExpiringFields,
    MemoryFields,
    MemoryQuerySet,
    ProjectKeyFields,
    Scope,
    Validity,
    ends_at,
    valid_at_q,
    validity_at,
)
from memory.models.episodes import Episode
from memory.models.events import Event
from memory.models.sources import SourceFields
from memory.models.subjects import SubjectAlias
from memory.policy import BINDING_CATEGORIES, DEFAULT_CATEGORY, MAX_ATTRIBUTE_CHARACTERS, PROFILE_CATEGORIES, UNTRUSTED
from nousweb.lib import clock

SAME_WORDS = "md5(rtrim(regexp_replace(btrim({}), '\\s+', ' ', 'g'), ' .!'))"
"""SQL of a digest that is equal for texts with equal words, whatever their spacing and end, as the index
memory_fact_words has it."""
SUBJECT_NAME = Coalesce("subject_alias__subject__name", "subject")
"""The current name of a fact's subject in the registry, or the fact's own spelling without one."""

HUMAN_VERIFIED_FIRST: tuple[Expression, ...] = (
    F("endorsed").desc(),
    Case(When(category__in=BINDING_CATEGORIES, then=0), default=1, output_field=models.IntegerField()),
    F("confidence").desc(),
    F("importance").desc(),
    F("recorded_at").desc(),
    F("id").asc(),
)
"""The order of `human_verified_first`: facts verified by people first; then rules, then by confidence."""


class FactQuerySet(MemoryQuerySet["Fact"]):
    """`active` are those that are not retired, whatever their valid time."""

    def profile(self) -> "FactQuerySet":
        """Facts that are always on: about the people served, what they prefer, and the rules they set."""
        return self.filter(category__in=PROFILE_CATEGORIES)

    def reported(self, is_reported: bool = True) -> "FactQuerySet":
        """Facts that rest on a tool, an import or the web and that nobody verified; else all others."""
        reported = Q(endorsed=False, origin__in=UNTRUSTED)
        return self.filter(reported if is_reported else ~reported)

    def profile_as_of(self, moment: datetime, without: Collection[str] = ()) -> "FactQuerySet":
        """Facts that were known, true and always on at `moment`, but for those of a category or kind of `without`."""
        recategorised = FactChange.objects.filter(at__gt=moment, before__has_key="category")
        return (
            # Few are always on, and few have been since: the history of all others need not be read.
            self.filter(Q(category__in=PROFILE_CATEGORIES) | Q(pk__in=recategorised.values("fact")))
            .as_of(moment)
            .with_category_as_of(moment)
            .filter(Q(category_as_of__in=PROFILE_CATEGORIES) & ~Q(category_as_of__in=without))
            .exclude(kind__in=without)
        )

    def with_category_as_of(self, moment: datetime) -> "FactQuerySet":
        """Name `category_as_of` the category at `moment`: the one that the first change since took away."""
        since = FactChange.objects.filter(
            agent=OuterRef("agent"), fact=OuterRef("pk"), at__gt=moment, before__has_key="category"
        )
        first = since.order_by("at", "id").values(text=KeyTextTransform("category", "before"))[:1]
        return self.alias(category_as_of=Coalesce(Subquery(first), F("category"), output_field=models.TextField()))

    def recorded_as_of(self, moment: datetime) -> "FactQuerySet":
        """Facts that the agent held to be true at `moment`, right or wrong."""
        # A restored fact has lost its retirement, so only its history tells of the time in between.
        turns = FactChange.objects.filter(
            agent=OuterRef("agent"), fact=OuterRef("pk"), at__lte=moment, action__in=FactChange.VALIDITY_TRANSITIONS
        )
        last_turn = Subquery(turns.order_by("-at", "-id").values("action")[:1])
        return self.alias(last_turn=last_turn).filter(
            Q(retired_at__isnull=True) | Q(retired_at__gt=moment),
            Q(last_turn__isnull=True) | Q(last_turn=FactChange.Action.RESTORED),
            recorded_at__lte=moment,
        )

    def valid_at(self, moment: datetime) -> "FactQuerySet":
        """Facts that were true in the world at `moment`, by what is known today, whenever it was learned."""
        return self.filter(
            valid_at_q(self.model, moment),
            # What was replaced before its time came has never begun.
            Q(superseded_by__isnull=True) | Q(valid_from__isnull=True) | Q(valid_from__lt=F("retired_at")),
            invalidated_at__isnull=True,
        )

    def as_of(self, moment: datetime) -> "FactQuerySet":
        """Facts that were recorded at `moment` and valid then, by the valid times of today."""
        return self.recorded_as_of(moment).valid_at(moment)

    def human_verified_first(self) -> "FactQuerySet":
        """Order: facts verified by people first, then the others; within each, rules first, then by confidence."""
        return self.order_by(*HUMAN_VERIFIED_FIRST)

    def with_subject_name(self, agent: int | None = None) -> "FactQuerySet":
        """Annotate facts with `subject_name`, the current name of the subject. With the
        `agent` of all facts, the query reads only that agent's subjects."""
        if agent is None:
            return self.annotate(subject_name=SUBJECT_NAME)
        spelling = SubjectAlias.objects.filter(pk=OuterRef("subject_alias"), agent=agent, subject__agent=agent)
        return self.annotate(subject_name=Coalesce(Subquery(spelling.values("subject__name")), "subject"))

    def surest_first(self) -> "FactQuerySet":
        return self.order_by("-confidence", "-importance", "-recorded_at", "id")


class Fact(MemoryFields, ProjectKeyFields, ExpiringFields, SourceFields):
    """One thing an agent believes. Never overwritten: what replaces it names it.

    Bitemporal: `valid_from`/`valid_until` say when it was true in the world, `recorded_at`/`retired_at` when
    the agent knew it. A superseded fact was true until its `valid_until`; one with `invalidated_at` was never
    true, whatever its span says. `confidence` and `importance` lie in [0, 1].

    `as_given`: the texts of a new fact with the hidden characters that are not stored, for the screening.
    """

    as_given = ""

    content = models.TextField()
    # As it was written; which thing that is, its spelling knows. What is about nothing in particular has neither.
    subject = models.CharField(max_length=200, blank=True)
    subject_alias = AgentForeignKey(SubjectAlias, on_delete=models.PROTECT, null=True, blank=True, related_name="facts")
    # What its writer says that it states of the subject: "job title" and "nurse"; "" if it says nothing.
    attribute = models.CharField(max_length=MAX_ATTRIBUTE_CHARACTERS, blank=True, default="", db_default="")
    value = models.CharField(max_length=200, blank=True, default="", db_default="")
    category = models.CharField(max_length=50, default=DEFAULT_CATEGORY)
    kind = models.CharField(max_length=50, blank=True)
    scope = models.CharField(max_length=10, choices=Scope, default=Scope.GLOBAL)
    tags = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    confidence = models.FloatField(default=1.0, validators=UNIT_INTERVAL)
    importance = models.FloatField(default=0.5, validators=UNIT_INTERVAL)
    source = models.CharField(max_length=200, blank=True)
    source_event = AgentForeignKey(Event, on_delete=models.PROTECT, null=True, blank=True, related_name="facts")
    source_episode = AgentForeignKey(Episode, on_delete=models.PROTECT, null=True, blank=True, related_name="facts")
    confirmation_count = models.PositiveIntegerField(default=0)
    last_confirmed_at = models.DateTimeField(null=True, blank=True)
    active = models.BooleanField(default=True)
    superseded_by = AgentForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="supersedes")
    contradiction_of = AgentForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="contradicted_by"
    )
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    recorded_at = models.DateTimeField(default=clock.now)
    retired_at = models.DateTimeField(null=True, blank=True)
    invalidated_at = models.DateTimeField(null=True, blank=True)
    # A person wrote, confirmed, edited, restored or kept it, and only people take that back (services.facts.word).
    endorsed = models.BooleanField(default=False)

    objects = FactQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-recorded_at", "-id"]
        permissions = [("add_rule_fact", "Can write facts of the category rule")]
        constraints = [
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1, importance__gte=0, importance__lte=1),
                name="fact_scores_in_unit_interval",
            ),
            models.CheckConstraint(
                condition=Q(valid_from__isnull=True) | Q(valid_until__isnull=True) | Q(valid_until__gt=F("valid_from")),
                name="fact_valid_span_is_positive",
            ),
            models.CheckConstraint(
                condition=Q(active=True, retired_at__isnull=True) | Q(active=False, retired_at__isnull=False),
                name="fact_active_until_retired",
            ),
            # Only the last of a chain is active and only what is active can replace, so no chain closes a circle.
            models.CheckConstraint(
                condition=Q(active=False) | Q(superseded_by__isnull=True, invalidated_at__isnull=True),
                name="fact_active_is_not_replaced",
            ),
            models.CheckConstraint(
                condition=Q(superseded_by__isnull=True) | ~Q(superseded_by=F("id")), name="fact_not_by_itself"
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "persona", "-recorded_at", "-id"]),
            models.Index(
                fields=["agent", "persona", "project", "-recorded_at", "-id"],
                condition=~Q(project=""),
                name="fact_of_project",
            ),
            models.Index(
                fields=["agent", "persona", "user", "-recorded_at", "-id"],
                condition=~Q(user=""),
                name="fact_of_user",
            ),
            models.Index(
                fields=["agent", "persona", "category", "-confidence", "-importance", "-recorded_at"],
                condition=Q(active=True),
                name="fact_profile",
            ),
            # The first of core memory, which every prompt reads, however many facts of it there are.
            models.Index(
                "agent",
                "persona",
                *HUMAN_VERIFIED_FIRST,
                condition=Q(active=True, category__in=PROFILE_CATEGORIES),
                name="fact_core",
            ),
            # The figures of the home page, counted without the rows.
            models.Index(
                fields=["recorded_at"],
                include=["agent", "persona", "active", "invalidated_at", "valid_from", "valid_until", "expires_at"],
                name="fact_figures",
            ),
            models.Index(
                fields=["agent", "persona", "attribute", "-recorded_at"],
                condition=Q(active=True) & ~Q(attribute=""),
                name="fact_attribute",
            ),
            models.Index(fields=["superseded_by"], condition=Q(superseded_by__isnull=False), name="fact_chain"),
            models.Index(fields=["expires_at"], condition=Q(expires_at__isnull=False), name="fact_expiring"),
            GinIndex(fields=["source_ref"], condition=Q(source_ref__isnull=False), name="fact_source"),
        ]

    @property
    def validity(self) -> Validity:
        """Whether it is valid now, expired or not yet valid."""
        return self.validity_at(clock.now())

    @property
    def is_current(self) -> bool:
        """Whether prompts and searches may include it now: it is active and valid."""
        return self.active and self.validity == Validity.CURRENT

    def validity_at(self, moment: datetime) -> Validity:
        """Whether it is valid at `moment`, expired or not yet valid."""
        return validity_at(self.valid_from, ends_at(self), moment)

    def __str__(self) -> str:
        return self.content if len(self.content) <= 80 else f"{self.content[:79]}…"


class FactChange(AgentRow, AuthorFields):
    """One change of a fact, its author and reason. Append-only in the database. Its agent is that of the fact."""

    class Action(models.TextChoices):
        STORED = "stored", "Stored"
        CONFIRMED = "confirmed", "Confirmed"
        SUPERSEDED = "superseded", "Replaced"
        INVALIDATED = "invalidated", "Marked as wrong"
        RESTORED = "restored", "Restored"
        MERGED = "merged", "Merged into another"
        EDITED = "edited", "Edited"
        QUARANTINED = "quarantined", "Quarantined"

    VALIDITY_TRANSITIONS = (Action.SUPERSEDED, Action.INVALIDATED, Action.MERGED, Action.RESTORED, Action.QUARANTINED)
    """The changes that decide whether a fact is held to be true."""

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    fact = AgentForeignKey(Fact, on_delete=models.PROTECT, related_name="changes")
    at = models.DateTimeField(default=clock.now, editable=False)
    action = models.CharField(max_length=20, choices=Action)
    other = AgentForeignKey(Fact, on_delete=models.PROTECT, null=True, related_name="+")
    score = models.FloatField(null=True)
    reason = models.TextField(blank=True)
    # What the changed fields held before, by name; moments in ISO form.
    before = models.JSONField(default=dict)
    # What it rests on: the differences that were found, the judge's verdict, the review that a person resolved.
    evidence = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["-at"], condition=Q(action="superseded"), name="fact_supersessions"),
            # Of other words: the same words need no decision.
            models.Index(
                fields=["-at"], condition=Q(action="confirmed", score__isnull=False), name="fact_confirmations"
            ),
            # The few that moved a fact between core memory and what is searched.
            models.Index(fields=["at"], condition=Q(before__has_key="category"), name="fact_refiled"),
        ]


class Relation(enum.StrEnum):
    """The relation of a new fact to an old one. Update is first, because a judge overuses "contradiction" otherwise."""

    UPDATE = "update"
    CONTRADICTION = "contradiction"
    REFINEMENT = "refinement"
    DUPLICATE = "duplicate"
    UNRELATED = "unrelated"


class RelationOpinion(Protocol):
    """A verdict about two facts, with its confidence, 0 to 1."""

    @property
    def relation(self) -> Relation: ...

    @property
    def confidence(self) -> float: ...
