"""What an agent has decided and what it knows how to do."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Cast, NullIf
from django.urls import reverse

from memory.models.base import UNIT_INTERVAL, Memory
from memory.models.episodes import Episode


class DecisionQuerySet(models.QuerySet["Decision"]):
    def active(self) -> "DecisionQuerySet":
        return self.filter(active=True)

    def unreviewed(self) -> "DecisionQuerySet":
        return self.filter(reviewed_at__isnull=True)


class Decision(Memory):
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
    episode = models.ForeignKey(Episode, on_delete=models.PROTECT, null=True, blank=True, related_name="decisions")

    objects = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["agent", "persona", "-created_at", "-id"])]

    def __str__(self) -> str:
        return self.description if len(self.description) <= 80 else f"{self.description[:79]}…"

    def get_absolute_url(self) -> str:
        return reverse("agent_decision", args=[self.agent.slug, self.pk])


class ProcedureQuerySet(models.QuerySet["Procedure"]):
    def active(self) -> "ProcedureQuerySet":
        return self.filter(active=True)

    def effective_from(self, share: float) -> "ProcedureQuerySet":
        """Those that succeeded in at least `share`, 0 to 1, of the uses whose outcome is known, of at least one."""
        known = NullIf(models.F("success_count") + models.F("failure_count"), models.Value(0))
        found = self.alias(effective=Cast("success_count", models.FloatField()) / Cast(known, models.FloatField()))
        return found.filter(effective__gte=share)


class Procedure(Memory):
    """A way of doing something, with the record of how often it helped."""

    name = models.CharField(max_length=200)
    domain = models.CharField(max_length=50, blank=True)
    description = models.TextField(blank=True)
    steps = ArrayField(models.TextField(), default=list, blank=True)
    activation_count = models.PositiveIntegerField(default=0)
    success_count = models.PositiveIntegerField(default=0)
    failure_count = models.PositiveIntegerField(default=0)
    last_activated_at = models.DateTimeField(null=True, blank=True)

    objects = ProcedureQuerySet.as_manager()

    class Meta:
        ordering = ["name", "id"]
        indexes = [models.Index(fields=["agent", "persona", "name", "id"])]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("agent_procedure", args=[self.agent.slug, self.pk])

    @property
    def effectiveness(self) -> float | None:
        """Share of successes among the uses whose outcome is known, 0 to 1; None before the first."""
        known = self.success_count + self.failure_count
        return self.success_count / known if known else None
