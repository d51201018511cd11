"""Episodes: periods of work with a beginning, an end and an outcome."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from identity.models import Agent, AgentForeignKey, AgentRow
from memory.models.base import Memory, ProjectKeyFields
from memory.models.events import Event
from nousweb.lib import clock


class Episode(ProjectKeyFields, Memory):
    """Closed when `ended_at` is set, which says nothing about whether it is shown: `active` does."""

    class Outcome(models.TextChoices):
        UNKNOWN = "unknown", "Not given"
        SUCCESS = "success", "Success"
        PARTIAL = "partial", "Partly"
        FAILURE = "failure", "Failure"
        ONGOING = "ongoing", "Continued elsewhere"

    class SummaryKind(models.TextChoices):
        NONE = "none", "None yet"
        GIVEN = "given", "Written by the agent"
        EXTRACTIVE = "extractive", "Extracted"
        JUDGE = "judge", "Written by the judge"

    title = models.CharField(max_length=200, blank=True)
    summary = models.TextField(blank=True)
    summary_kind = models.CharField(max_length=12, choices=SummaryKind, default=SummaryKind.NONE)
    # What was said in words, for episodes that are not made of logged events.
    detail = models.TextField(blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.UNKNOWN)
    lessons = ArrayField(models.TextField(), default=list, blank=True)
    participants = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    started_at = models.DateTimeField(default=clock.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    events: "models.ManyToManyField[Event, EpisodeEvent]" = models.ManyToManyField(
        Event, through="EpisodeEvent", related_name="episodes"
    )

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="episode_ends_after_its_start",
            )
        ]
        indexes = [
            models.Index(fields=["agent", "persona", "-started_at", "-id"]),
            models.Index(
                fields=["agent", "persona", "project", "-started_at", "-id"],
                condition=~Q(project=""),
                name="episode_of_project",
            ),
            models.Index(
                fields=["agent", "persona", "user", "-started_at", "-id"],
                condition=~Q(user=""),
                name="episode_of_user",
            ),
        ]

    def __str__(self) -> str:
        return self.title or f"Episode of {self.started_at:%Y-%m-%d %H:%M} UTC"


class EpisodeEvent(AgentRow):
    """One event's place in an episode's transcript. Its agent is that of both."""

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="+", db_index=False, db_constraint=False)
    episode = AgentForeignKey(Episode, on_delete=models.PROTECT, related_name="+")
    event = AgentForeignKey(Event, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["event_id"]
        constraints = [models.UniqueConstraint(fields=["episode", "event"], name="event_once_in_episode")]
