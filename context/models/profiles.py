"""Context profiles as rows that people can copy, edit and inherit from. Every edit is a new version."""

from typing import Any

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentKind, AgentRow, AuthorFields
from nousweb.lib import clock


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
