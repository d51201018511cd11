"""The log of the prompts that agents were sent, of their recalls, and of the usage of their memories."""

import uuid
from datetime import datetime

from django.db import models
from django.urls import reverse

from identity.models import Agent, AgentForeignKey, AgentRow, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.persona import VIEWS
from nousweb.lib import clock

ASSEMBLE = "context.assemble_context"
"""The right to ask for a context."""
VIEW_RUN = "context.view_contextrun"
REPORT = "context.report_context"
"""The permission to report an agent's answer and outcome."""


class ContextRunQuerySet(models.QuerySet["ContextRun"]):
    def older_than(self, moment: datetime) -> "ContextRunQuerySet":
        return self.filter(created_at__lt=moment)

    def visible_to(self, by: Principal) -> "ContextRunQuerySet":
        """The runs of personas that `by` may see. A token sees the personas that its own may read; people see runs of
        the subconscious only with the permission for it."""
        if by.token is not None:
            return self.filter(persona__in=VIEWS[by.persona].personas)
        return self.all() if by.may(VIEW_SUBCONSCIOUS) else self.filter(persona=Persona.ACTOR)


class ContextRun(AgentRow):
    """One prompt as it was sent, stored as structure: `sections` and their items are never re-parsed from the text.

    `decisions` are those behind it: frame, intent, plan, profile, policy, budget. `candidates` has a verdict on each
    memory considered. `fingerprint` characterises the task, to be related to `outcome`. `tokens` is the estimate that
    the budget limits; `counted_tokens` is exact, by the model `counted_by`, once it has been counted. `censors` has the
    checks of the input and of the answer, with positions but without their words; {} in older runs. `response` is the
    answer as it was reported at `responded_at`; empty if an older version did not store it. `trace_id` is that of the
    request if traces were collected (docs/operations.md), else empty.
    """

    class Outcome(models.TextChoices):
        UNKNOWN = "", "Not reported"
        SUCCESS = "success", "Success"
        FAILURE = "failure", "Failure"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="context_runs", db_index=False)
    persona = models.CharField(max_length=20, choices=Persona)
    session_id = models.CharField(max_length=200)
    input = models.TextField()
    request = models.JSONField()
    system_prompt = models.TextField()
    sections = models.JSONField()
    tokens = models.PositiveIntegerField()
    counted_tokens = models.PositiveIntegerField(null=True)
    counted_by = models.CharField(max_length=100, blank=True)
    budget_tokens = models.PositiveIntegerField(default=0)
    frame = models.CharField(max_length=20, blank=True)
    profile = models.CharField(max_length=100, blank=True)
    decisions = models.JSONField(default=dict)
    candidates = models.JSONField(default=list)
    fingerprint_id = models.CharField(max_length=20, blank=True)
    fingerprint = models.JSONField(default=dict)
    failed_sections = models.JSONField(default=list)
    timings = models.JSONField(default=dict)
    censors = models.JSONField(default=dict)
    as_of = models.DateTimeField(null=True)
    duration_ms = models.FloatField()
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    outcome_note = models.TextField(blank=True)
    responded_at = models.DateTimeField(null=True)
    response = models.TextField(blank=True, default="", db_default="")
    principal_name = models.CharField(max_length=200)
    trace_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = ContextRunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [
            ("assemble_context", "Can ask for a context"),
            ("report_context", "Can report what became of a context"),
            ("talk_to_agent", "Can talk to an agent in the playground"),
        ]
        indexes = [
            models.Index(fields=["agent", "-created_at", "-id"]),
            # Holds what the figures of a period need, so that they are counted without the wide rows themselves.
            models.Index(
                fields=["created_at"],
                include=["agent", "persona", "tokens", "duration_ms", "responded_at", "outcome"],
                name="context_run_figures",
            ),
            models.Index(fields=["agent", "fingerprint_id", "-created_at"]),
        ]

    def __str__(self) -> str:
        return f"Context sent at {self.created_at:%Y-%m-%d %H:%M} UTC"

    def get_absolute_url(self) -> str:
        return reverse("agent_context_run", args=[self.agent.slug, self.pk])

    @property
    def blocked(self) -> bool:
        """Whether a censor blocked the input or the answer."""
        return "block" in self._censor_verdicts

    @property
    def unchecked(self) -> bool:
        """Whether the client wanted the input or the answer unchecked."""
        return "unchecked" in self._censor_verdicts

    @property
    def _censor_verdicts(self) -> list[str]:
        return [check["verdict"] for check in self.censors.values()]


class MemoryUsage(AgentRow):
    """One observation: a memory was shown in a run, and the answer did or did not refer to it.

    `overlap` in [0, 1] is how surely the answer refers to it; in older rows the share of its words that the answer
    repeats. `spans` are the characters of the answer that a reference stands on, as pairs of begin and end; None in
    older rows. `counted`: whether it changes the rank of the memory, which whoever reports it must be able to write.
    Source: seed 005.1, D3 and D5.
    """

    run = AgentForeignKey(ContextRun, on_delete=models.CASCADE, related_name="usages")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    item_type = models.CharField(max_length=10)
    item_id = models.CharField(max_length=36)
    referenced = models.BooleanField()
    overlap = models.FloatField()
    spans = models.JSONField(null=True)
    tokens = models.PositiveIntegerField(default=0)
    section = models.CharField(max_length=30, blank=True)
    counted = models.BooleanField(default=True, db_default=True)
    at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["run", "item_type", "item_id"], name="one_usage_per_run")]
        indexes = [
            models.Index(fields=["agent", "item_type", "item_id", "-at"]),
            models.Index(fields=["agent", "-at"]),
            models.Index(
                fields=["at"], include=["agent", "persona", "section", "tokens", "referenced"], name="usage_figures"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.item_type} {self.item_id}: {'referenced' if self.referenced else 'not referenced'}"


class ContextRecall(AgentRow):
    """A search or an expansion that a run's agent requested while it worked on its answer.

    `request` is the request, with its projects; `items` are the returned memories, each with its type, id, score and
    text (`context.services.recall`). They count as shown, like those of the prompt. Source: seed 005.1, D6.
    """

    class Action(models.TextChoices):
        SEARCH = "search", "Searched"
        EXPAND = "expand", "Expanded"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = AgentForeignKey(ContextRun, on_delete=models.CASCADE, related_name="recalls")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    action = models.CharField(max_length=10, choices=Action)
    request = models.JSONField()
    items = models.JSONField(default=list)
    principal_name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.get_action_display()} at {self.created_at:%Y-%m-%d %H:%M} UTC"
