"""Records of calls to models: task, verdict and tokens."""

from datetime import date

from django.db import models
from django.db.models import F, Sum
from django.db.models.functions import TruncDate

from identity.models import Agent, AgentRow, Persona
from nousweb.lib import clock


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

    def __str__(self) -> str:
        return f"{self.get_task_display()} {self.pk}"
