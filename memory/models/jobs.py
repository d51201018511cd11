"""Jobs of the memory lifecycle (queued, running and finished), and calls to models with their tokens."""

from datetime import date, datetime

from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import TruncDate

from identity.models import Agent, AgentRow, Persona
from nousweb.lib import clock


class JobQuerySet(models.QuerySet["Job"]):
    def due(self, moment: datetime) -> "JobQuerySet":
        """Jobs that somebody should take up: waiting, or taken by a worker whose lease is over."""
        return self.filter(status__in=Job.OPEN, next_attempt_at__lte=moment)


class Job(models.Model):
    """One reaction to one event, however often its message is delivered. The source of truth of the queue.

    `next_attempt_at` is when a waiting job is tried at the earliest; of a running one it is the end of its lease,
    after which another worker takes it over. `duration_ms` and `tokens` are of the last attempt and of all of them.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed, retrying"
        DEAD = "dead", "Failed permanently"

    OPEN = (Status.QUEUED, Status.FAILED, Status.RUNNING)

    key = models.CharField(max_length=200, unique=True)
    handler = models.CharField(max_length=50)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="jobs")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    subject_type = models.CharField(max_length=30, blank=True)
    subject_id = models.CharField(max_length=40, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    queued_at = models.DateTimeField(default=clock.now)
    next_attempt_at = models.DateTimeField(default=clock.now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    tokens = models.PositiveIntegerField(default=0)
    result = models.JSONField(default=dict)
    error = models.TextField(blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-queued_at", "-id"]
        indexes = [
            models.Index(fields=["next_attempt_at"], condition=~Q(status__in=["done", "dead"]), name="job_due"),
            models.Index(fields=["agent", "persona", "-queued_at", "-id"]),
            models.Index(fields=["status", "-queued_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.handler} of {self.subject_type} {self.subject_id}"


class JudgeTask(models.TextChoices):
    RELATION = "relation", "Relation of two facts"
    SUMMARISE = "summarise", "Summary of an episode"
    EXTRACT_FACTS = "extract_facts", "Facts of an episode"
    MERGE = "merge", "Merging of facts"
    CHAT = "chat", "Conversation in the playground"


class JudgeCallQuerySet(models.QuerySet["JudgeCall"]):
    def spent(self) -> int:
        """Tokens in and out of these calls together."""
        total: int | None = self.aggregate(total=Sum(F("tokens_in") + F("tokens_out")))["total"]
        return total or 0

    def spent_by_day(self) -> dict[date, int]:
        """Tokens in and out by day in UTC, the latest day first; days without a call are left out."""
        rows = (
            self.annotate(day=TruncDate("created_at"))
            .values("day")
            .annotate(total=Sum(F("tokens_in") + F("tokens_out")))
            .order_by("-day")
        )
        return {row["day"]: row["total"] for row in rows}


class JudgeCall(AgentRow):
    """One question to the judge, with all its tries. Append-only in the database.

    `verdict` is the checked answer, and of texts, a verdict's reason too, only their measures: the texts themselves are
    kept where they are used, and erased there. `tokens_in` counts what was sent with every try, cached or not.
    `duration_ms` is the time from the question to the answer, pauses included. `error` is empty when there was a usable
    answer.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="judge_calls")
    persona = models.CharField(max_length=20, choices=Persona)
    task = models.CharField(max_length=20, choices=JudgeTask)
    model = models.CharField(max_length=100)
    prompt_version = models.CharField(max_length=20)
    attempts = models.PositiveSmallIntegerField()
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    duration_ms = models.PositiveIntegerField()
    verdict = models.JSONField(default=dict)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = JudgeCallQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["-created_at"]),
            models.Index(fields=["agent", "persona", "-created_at"]),
        ]
