"""The three layers of memory: the perfect log, its compacted mirror, and one summary per loop.

Source: seed "Agentic Memory System".
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentOneToOneField, AgentRow, Persona
from memory.models.base import ORIGIN_WORDS, UNIT_INTERVAL, OriginFields, ProjectKeyFields, Trust
from nousweb.lib import clock


class EventKind(models.TextChoices):
    USER_INPUT = "user_input", "User input"
    ACTOR_OUTPUT = "actor_output", "Actor output"
    TOOL_CALL = "tool_call", "Tool call"
    TOOL_RESULT = "tool_result", "Tool result"
    SUBCONSCIOUS_PROMPT = "subconscious_prompt", "Subconscious prompt"
    SUBCONSCIOUS_OUTPUT = "subconscious_output", "Subconscious output"
    SYSTEM_EVENT = "system_event", "System event"
    ERROR = "error", "Error"


class EventQuerySet(models.QuerySet["Event"]):
    def of_loop(self, loop_id: str) -> "EventQuerySet":
        return self.filter(loop_id=loop_id).order_by("ts", "id")

    def with_details(self) -> "EventQuerySet":
        """Load what an answer says besides the row's own columns: the agent, and trust and quarantine."""
        return self.select_related("agent", "long_term")


class EventSequence(AgentRow):
    """The last number given to an event of one persona of one agent: see `memory.services.events`.

    Its row is also the lock under which that persona's events are written, one call after another.
    """

    pk = models.CompositePrimaryKey("agent", "persona")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    last = models.BigIntegerField()


class Event(ProjectKeyFields):
    """One thing that happened (idetic memory). Append-only in the database.

    Ids rise in the order of arrival within one persona of one agent and tell nothing across: `recorded_at` does.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="events")
    persona = models.CharField(max_length=20, choices=Persona)
    ts = models.DateTimeField()
    recorded_at = models.DateTimeField(default=clock.now, editable=False)
    loop_id = models.CharField(max_length=100)
    kind = models.CharField(max_length=30, choices=EventKind)
    visibility = models.CharField(max_length=50)
    content = models.TextField()
    metadata = models.JSONField(default=dict, blank=True)
    # The writer's own name for the event: a repeated write with the same key stores nothing.
    key = models.CharField(max_length=200, null=True, blank=True)

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ["-recorded_at", "-id"]
        permissions = [
            ("view_subconscious", "Can see the subconscious memory of agents"),
            ("erase_memory", "Can erase memories for good"),
            ("manage_user", "Can export and erase everything of a user"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "persona", "key"], condition=Q(key__isnull=False), name="one_event_per_key"
            )
        ]
        indexes = [
            models.Index(fields=["agent", "persona", "-id"]),
            models.Index(
                fields=["agent", "persona", "project", "-id"], condition=~Q(project=""), name="event_of_project"
            ),
            models.Index(fields=["agent", "persona", "user", "-id"], condition=~Q(user=""), name="event_of_user"),
            models.Index(fields=["agent", "persona", "ts", "id"]),
            models.Index(fields=["agent", "persona", "loop_id", "ts", "id"]),
            models.Index(fields=["recorded_at"], include=["agent", "persona"], name="event_figures"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("agent_event", args=[self.agent.slug, self.pk])

    @property
    def trust(self) -> str:
        """The trust class of its words, as its long-term entry has it."""
        entry = getattr(self, "long_term", None)
        return entry.trust if entry is not None else Trust.AGENT.value

    @property
    def origin_words(self) -> str:
        """Where its words come from, for people."""
        return ORIGIN_WORDS[Trust(self.trust)]

    @property
    def quarantined(self) -> bool:
        """Whether the event is quarantined until a person has read it."""
        entry = getattr(self, "long_term", None)
        return entry is not None and entry.quarantined


class LongTermEntry(OriginFields):
    """The compacted mirror of one event, 1:1 with it; search reads it through the index.

    The log never changes, so the trust class and the quarantine of an event stand here.
    """

    event = AgentOneToOneField(Event, on_delete=models.PROTECT, primary_key=True, related_name="long_term")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    loop_id = models.CharField(max_length=100)
    text = models.TextField()
    importance = models.FloatField(default=0.5, validators=UNIT_INTERVAL)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["agent", "persona", "loop_id"]),
            # The few quarantined events: every read of the log excludes them by this index.
            models.Index(fields=["agent", "event"], condition=Q(quarantined=True), name="quarantined_events"),
        ]


class LoopSummaryQuerySet(models.QuerySet["LoopSummary"]):
    def summarised(self) -> "LoopSummaryQuerySet":
        return self.exclude(summary="")

    def stale(self) -> "LoopSummaryQuerySet":
        """Closed loops whose summary does not cover all their events yet."""
        return self.filter(closed_at__isnull=False, covered_events__lt=models.F("event_count"))


class LoopSummary(ProjectKeyFields):
    """Short-term memory: exactly one entry per loop, made with the loop's first event.

    `event_count` counts what has arrived and `covered_events` what the summary covers, so that late events
    are seen to be missing and update this one entry. Its project and task are the narrowest that its events name, since
    its summary tells of all of them.
    """

    class ClosedBy(models.TextChoices):
        OUTPUT = "output", "Final output"
        REQUEST = "request", "Request"
        IDLE = "idle", "Idle time"

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="loops")
    persona = models.CharField(max_length=20, choices=Persona)
    loop_id = models.CharField(max_length=100)
    summary = models.TextField(blank=True)
    kind = models.CharField(max_length=30, choices=EventKind)
    visibility = models.CharField(max_length=50)
    long_term_ids = ArrayField(models.BigIntegerField(), default=list)
    event_count = models.PositiveIntegerField(default=0)
    covered_events = models.PositiveIntegerField(default=0)
    first_event_at = models.DateTimeField()
    last_event_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_by = models.CharField(max_length=10, choices=ClosedBy, blank=True)

    objects = LoopSummaryQuerySet.as_manager()

    class Meta:
        ordering = ["-last_event_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["agent", "persona", "loop_id"], name="one_summary_per_loop")]
        indexes = [
            models.Index(fields=["agent", "persona", "-last_event_at", "-id"]),
            models.Index(
                fields=["agent", "persona", "project", "-last_event_at", "-id"],
                condition=~Q(project=""),
                name="loop_of_project",
            ),
            models.Index(
                fields=["agent", "persona", "user", "-last_event_at", "-id"],
                condition=~Q(user=""),
                name="loop_of_user",
            ),
            models.Index(fields=["last_event_at"], condition=Q(closed_at__isnull=True), name="open_loops"),
            models.Index(
                fields=["closed_at"],
                condition=Q(closed_at__isnull=False, covered_events__lt=models.F("event_count")),
                name="stale_loops",
            ),
        ]

    def __str__(self) -> str:
        return f"Session {self.loop_id}"

    def get_absolute_url(self) -> str:
        return reverse("agent_loop", args=[self.agent.slug, self.loop_id])
