"""Decisions of an agent, and their outcomes."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from identity.models import AgentForeignKey
from memory.models.base import UNIT_INTERVAL, Memory, ProjectKeyFields
from memory.models.episodes import Episode


class Decision(ProjectKeyFields, Memory):
    """A choice with the confidence, the stakes and the reasons it was made with, and what came of it."""

    class Stakes(models.TextChoices):
        LOW = "low", "Low"
        MEDIUM = "medium", "Medium"
        HIGH = "high", "High"
        CRITICAL = "critical", "Critical"

    class Outcome(models.TextChoices):
        PENDING = "pending", "Not known yet"
        SUCCESS = "success", "Success"
        PARTIAL = "partial", "Partly"
        FAILURE = "failure", "Failure"

    description = models.TextField()
    context = models.TextField(blank=True)
    category = models.CharField(max_length=50, blank=True)
    confidence = models.FloatField(default=0.5, validators=UNIT_INTERVAL)
    stakes = models.CharField(max_length=10, choices=Stakes, default=Stakes.MEDIUM)
    reasons = ArrayField(models.TextField(), default=list, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.PENDING)
    outcome_note = models.TextField(blank=True)
    reviewed_at = models.DateTimeField(null=True, blank=True)
    reviewed_by = models.CharField(max_length=200, blank=True)
    episode = AgentForeignKey(Episode, on_delete=models.PROTECT, null=True, blank=True, related_name="decisions")

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["agent", "persona", "-created_at", "-id"]),
            models.Index(
                fields=["agent", "persona", "project", "-created_at", "-id"],
                condition=~Q(project=""),
                name="decision_of_project",
            ),
            models.Index(
                fields=["agent", "persona", "user", "-created_at", "-id"],
                condition=~Q(user=""),
                name="decision_of_user",
            ),
        ]

    def __str__(self) -> str:
        return self.description if len(self.description) <= 80 else f"{self.description[:79]}…"
