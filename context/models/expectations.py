"""Tests of an agent's memory: what its prompts must or must not include, and the results of their checks."""

import uuid

from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentForeignKey, AgentRow, AuthorFields, Persona
from nousweb.lib import clock


class ExpectationQuerySet(models.QuerySet["Expectation"]):
    def active(self) -> "ExpectationQuerySet":
        return self.filter(active=True)


class Expectation(AgentRow, AuthorFields):
    """A requirement on the prompt for one request. Only people write expectations.

    `request` is the request as a run logs it (`ContextRequest.as_json`). Depending on `target`, `item_type` and
    `item_id`, `text` or `section` are filled. `revision` counts the edits; each result belongs to one revision.
    """

    class Requirement(models.TextChoices):
        PRESENT = "present", "Must be in the prompt"
        ABSENT = "absent", "Must not be in the prompt"
        ONLY = "only_of_subject", "Must be the only fact of its subject"

    class Target(models.TextChoices):
        MEMORY = "memory", "Memory"
        TEXT = "text", "Text"
        SECTION = "section", "Section"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="expectations")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    request = models.JSONField(default=dict)
    requirement = models.CharField(max_length=20, choices=Requirement)
    target = models.CharField(max_length=10, choices=Target)
    item_type = models.CharField(max_length=10, blank=True)
    item_id = models.CharField(max_length=36, blank=True)
    text = models.TextField(blank=True)
    section = models.CharField(max_length=50, blank=True)
    reason = models.TextField(blank=True)
    active = models.BooleanField(default=True)
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    updated_at = models.DateTimeField(default=clock.now, editable=False)

    objects = ExpectationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("run_expectation", "Can check expectations")]
        indexes = [models.Index(fields=["agent", "persona", "-created_at", "-id"])]

    def __str__(self) -> str:
        return f"{self.get_target_display()} {self.get_requirement_display().lower()}"

    def get_absolute_url(self) -> str:
        return reverse("agent_expectation", args=[self.agent.slug, self.pk])

    @property
    def input(self) -> str:
        """The question that is asked."""
        return str(self.request.get("input", ""))

    @property
    def target_words(self) -> str:
        """The target of the requirement in words: a type with an id, a text, or the name of a section."""
        match self.target:
            case self.Target.MEMORY:
                return f"{self.item_type} {self.item_id}"
            case self.Target.TEXT:
                return self.text
        return self.section


class ExpectationResult(AgentRow):
    """A time in which every check of an expectation came to the same: from `since` to `checked_at`, the last check.

    `code` and `detail` say why in words of ours, without any text of a memory. `cause` is the change that led from the
    state before to this one (`context.expectations.cause_bisection.Cause.as_json`); empty where nothing has changed
    before it.
    `positions` says how far the change feed went when the last check began, by persona.
    """

    class State(models.TextChoices):
        PASSED = "passed", "Passed"
        FAILED = "failed", "Failed"
        ERROR = "error", "Could not run"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    expectation = AgentForeignKey(Expectation, on_delete=models.CASCADE, related_name="results")
    revision = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=10, choices=State)
    code = models.CharField(max_length=30)
    detail = models.TextField(blank=True)
    cause = models.JSONField(default=dict)
    positions = models.JSONField(default=dict)
    since = models.DateTimeField(default=clock.now, editable=False)
    checked_at = models.DateTimeField(default=clock.now, editable=False)
    checks = models.PositiveIntegerField(default=1)
    is_current = models.BooleanField(default=True)

    class Meta:
        ordering = ["-since", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["expectation"], condition=Q(is_current=True), name="one_current_expectation_result"
            )
        ]
        indexes = [
            models.Index(fields=["expectation", "-since"]),
            models.Index(
                fields=["agent", "persona"],
                condition=Q(is_current=True) & ~Q(state="passed"),
                name="expectation_broken",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_state_display()} since {self.since:%Y-%m-%d %H:%M} UTC"

    @property
    def passed(self) -> bool:
        return self.state == self.State.PASSED


class ExpectationWatch(AgentRow):
    """The progress of background checks of one persona of an agent.

    `positions` are those in the change feed by persona, `profiles` is the key of the last version of any profile.
    `duration_ms` is the duration of the last check of all, after which the next one waits in proportion.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    positions = models.JSONField(default=dict)
    profiles = models.PositiveBigIntegerField(default=0)
    checked_at = models.DateTimeField(default=clock.now)
    duration_ms = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "persona"], name="one_expectation_watch")]

    def __str__(self) -> str:
        return f"Checked at {self.checked_at:%Y-%m-%d %H:%M} UTC"
