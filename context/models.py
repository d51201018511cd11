"""Models of context: profiles, pins, the log of prompts, the usage of memories, expectations."""

import uuid
from datetime import timedelta
from typing import Any

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KeyTransform
from django.urls import reverse

from identity.models import Agent, AgentForeignKey, AgentKind, AgentRow, AuthorFields, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sections import Risk
from identity.principal import Principal
from memory.persona import VIEWS
from nousweb.lib import clock

ASSEMBLE = "context.assemble_context"
"""The right to ask for a context."""
VIEW_RUN = "context.view_contextrun"
REPORT = "context.report_context"
"""The permission to report an agent's answer and outcome."""
NOT_SUPPORTED = "Not supported by memory"
"""What an answer `in_doubt` is."""
RECENT = timedelta(days=7)
"""The time whose prompts measure what a change or a pending item concerns."""


class ContextRunQuerySet(models.QuerySet["ContextRun"]):
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
    answer as it was reported at `responded_at`; empty if an older version did not store it. `finding` is the worst that
    a memory says beside it, until a person judges the outcome; empty in older runs. `trace_id` is that of the request
    if traces were collected (docs/operations.md), else empty.
    """

    class Outcome(models.TextChoices):
        UNKNOWN = "", "Not reported"
        SUCCESS = "success", "Success"
        FAILURE = "failure", "Failure"

    class Finding(models.TextChoices):
        """What a memory of the prompt says beside what the answer does, the worst first."""

        CHANGED = "changed", "says something else"
        COMING = "coming", "only plans this"
        DONE = "done", "says that this is done already"

    DOUBT = ~Q(finding="") & ~Q(outcome=Outcome.FAILURE)
    """Where it is `in_doubt`."""

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
    finding = models.CharField(max_length=10, choices=Finding, blank=True, default="", db_default="")
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
                include=["agent", "persona", "tokens", "duration_ms", "responded_at", "outcome", "finding"],
                name="context_run_figures",
            ),
            models.Index(fields=["agent", "fingerprint_id", "-created_at"]),
            models.Index(fields=["agent", "session_id", "-created_at"], name="context_run_session"),
            models.Index("agent", KeyTransform("user", "request"), name="context_run_user"),
        ]

    def __str__(self) -> str:
        return f"Prompt of {self.created_at:%Y-%m-%d %H:%M} UTC"

    def get_absolute_url(self) -> str:
        return reverse("agent_context_run", args=[self.agent.slug, self.pk])

    @property
    def in_doubt(self) -> bool:
        """Whether a memory of the prompt says something else than the answer, and nobody judged it."""
        return bool(self.finding) and self.outcome != self.Outcome.FAILURE

    @property
    def verdict(self) -> str:
        """Whether its task succeeded, or why that is in doubt."""
        if not self.in_doubt:
            return self.get_outcome_display()
        said = f"Reported success, {NOT_SUPPORTED.lower()}" if self.outcome else NOT_SUPPORTED
        return f"{said}: one {self.get_finding_display()}"

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


class FigureSnapshot(models.Model):
    """Figures of a large memory at one moment. Those of small memories are counted when they are read, but for the
    health scores of past days.

    `agent` is None for the figures of all agents. `persona` is the persona whose view is counted: the subconscious sees
    both.
    """

    name = models.CharField(max_length=40)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, related_name="figures")
    persona = models.CharField(max_length=20, choices=Persona)
    value = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "agent", "persona"], nulls_distinct=False, name="one_snapshot")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.agent_id or 'all agents'}"


class InboxRank(models.Model):
    """The rank of an item of a long inbox: its risk, its group, and the number of recent prompts that would have
    included it.

    `prompts` counts those of the actor, `prompts_both` those of the subconscious too. Items without a rank are ranked
    when the inbox is read.
    """

    item_id = models.UUIDField(primary_key=True)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    risk = models.CharField(max_length=10, choices=Risk)
    prompts = models.BigIntegerField()
    prompts_both = models.BigIntegerField()
    alike = models.CharField(max_length=32)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.risk}, {self.prompts} prompts"


class ContextProfile(models.Model):
    """A named profile. `kind` makes it the default of agents of that kind; `base` is the profile from which it inherits
    settings."""

    slug = models.CharField(
        max_length=50,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]{0,49}$", "Use lower-case letters, digits, - or _.")],
    )
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=AgentKind, blank=True)
    base = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="heirs")
    built_in = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.UniqueConstraint(fields=["kind"], condition=~Q(kind=""), name="one_profile_per_kind"),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("context_profile", args=[self.slug])


class ContextProfileVersion(AuthorFields):
    """One version of a profile's own settings. Other settings come from its base, then from the defaults."""

    profile = models.ForeignKey(ContextProfile, on_delete=models.PROTECT, related_name="versions")
    version = models.PositiveIntegerField()
    values: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    is_current = models.BooleanField(default=True)
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["profile", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "version"], name="one_row_per_profile_version"),
            models.UniqueConstraint(
                fields=["profile"], condition=Q(is_current=True), name="one_current_profile_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.profile} version {self.version}"


class ContextPin(AgentRow, AuthorFields):
    """A memory that comes before all others of its section, if the agent's persona and profile allow it at all."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="context_pins")
    item_type = models.CharField(max_length=10)
    item_id = models.CharField(max_length=36)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["agent", "item_type", "item_id"], name="one_pin_per_memory")]

    def __str__(self) -> str:
        return f"{self.item_type} {self.item_id}"

    def get_absolute_url(self) -> str:
        return reverse("agent_context_item", args=[self.agent.slug, self.item_type, self.item_id])
