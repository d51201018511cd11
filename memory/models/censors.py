"""Censors: what an agent must be warned of, or kept from."""

from typing import Any

from django.db import models

from identity.models import AuthorFields
from memory.models.base import Memory, MemoryQuerySet
from memory.policy import CENSOR_SEVERITIES_BY_AUTHOR, ESCALATES_TO


def _by_strictness() -> tuple[Any, ...]:
    rank = models.Case(
        models.When(severity=Censor.Severity.ABSOLUTE, then=0),
        models.When(severity=Censor.Severity.BLOCK, then=1),
        default=2,
        output_field=models.IntegerField(),
    )
    return rank, "created_at", "id"


class CensorQuerySet(MemoryQuerySet["Censor"]):
    def binding(self) -> "CensorQuerySet":
        """The censors of people and of the product, and those that people confirmed: see `Censor.binding`."""
        return self.exclude(author_kind=AuthorFields.Kind.TOKEN, endorsed=False)

    def binding_first(self) -> "CensorQuerySet":
        """People's and the product's before those of agents, the strictest of each first."""
        rank = models.Case(
            models.When(author_kind=AuthorFields.Kind.TOKEN, endorsed=False, then=1),
            default=0,
            output_field=models.IntegerField(),
        )
        return self.order_by(rank, *_by_strictness())

    def strictest_first(self) -> "CensorQuerySet":
        return self.order_by(*_by_strictness())


class Censor(Memory):
    """A trigger with what happens when it matches. `author_kind` caps how far it may escalate by itself."""

    class Severity(models.TextChoices):
        WARN = "warn", "Warn"
        BLOCK = "block", "Block"
        ABSOLUTE = "absolute", "Absolute"

    class Match(models.TextChoices):
        REGEX = "regex", "Pattern"
        SEMANTIC = "semantic", "Meaning"

    pattern = models.TextField()
    match = models.CharField(max_length=10, choices=Match, default=Match.REGEX)
    # Least cosine at which text counts as meaning the same; 0 to 1, only for a semantic match.
    similarity_threshold = models.FloatField(default=0.6)
    severity = models.CharField(max_length=10, choices=Severity, default=Severity.WARN)
    domain = models.CharField(max_length=50, blank=True)
    reason = models.TextField(blank=True)
    escalation_threshold = models.PositiveIntegerField(default=5)
    activation_count = models.PositiveIntegerField(default=0)
    false_positive_count = models.PositiveIntegerField(default=0)
    last_activated_at = models.DateTimeField(null=True, blank=True)
    author_kind = models.CharField(max_length=10)
    author_id = models.CharField(max_length=100)
    author_name = models.CharField(max_length=200)
    # A person has changed it, brought it back or kept it: from then on an agent's censor is verified by people.
    endorsed = models.BooleanField(default=False)

    objects = CensorQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("trigger_censor", "Can check text against censors and count what matches")]
        indexes = [models.Index(fields=["agent", "persona", "active"])]

    @property
    def escalates_to(self) -> str:
        """The severity that it rises to by now, or "" when it stays: one step, at the threshold, within its author's
        cap."""
        higher = ESCALATES_TO.get(self.severity, "")
        allowed = higher in CENSOR_SEVERITIES_BY_AUTHOR.get(self.author_kind, ())
        return higher if allowed and self.activation_count >= self.escalation_threshold else ""

    def __str__(self) -> str:
        name = self.reason or self.pattern
        return name if len(name) <= 80 else f"{name[:79]}…"

    @property
    def binding(self) -> bool:
        """Whether a person or the product made or confirmed it. Then it fails closed."""
        return self.author_kind != AuthorFields.Kind.TOKEN or self.endorsed
