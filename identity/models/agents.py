"""Agents, their personas and kinds."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.policy.permissions import VIEW_SUBCONSCIOUS
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents


class Persona(models.TextChoices):
    ACTOR = "actor", "Actor"
    SUBCONSCIOUS = "subconscious", "Subconscious"


class AgentKind(models.TextChoices):
    """The role an agent plays, which chooses its context profile."""

    KNIGHT = "knight", "Knight: carries work out"
    SQUIRE = "squire", "Squire: reviews and helps"
    ROYALTY = "royalty", "Royalty: plans and delegates"
    PEASANT = "peasant", "Peasant: one narrow helper task"


SLUG_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,49}$"
validate_slug = RegexValidator(
    SLUG_PATTERN,
    "Use 1 to 50 lower-case letters, digits, - or _, beginning with a letter or digit.",
)


class AgentQuerySet(models.QuerySet["Agent"]):
    def visible_to(self, by: PermissionHolder) -> "AgentQuerySet":
        """The agents that `by` may see. Every page that lists agents starts with this."""
        return for_visible_agents(self, by, "pk")  # type: ignore[return-value]

    def with_waiting(self, by: PermissionHolder) -> "AgentQuerySet":
        """Annotate `waiting`: the number of pending proposals that `by` may see."""
        pending = Q(proposals__status="pending")
        if not by.may(VIEW_SUBCONSCIOUS):
            pending &= ~Q(proposals__persona=Persona.SUBCONSCIOUS)
        return self.annotate(waiting=models.Count("proposals", filter=pending))


class Agent(models.Model):
    slug = models.CharField(max_length=50, unique=True, validators=[validate_slug])
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=AgentKind, default=AgentKind.SQUIRE)
    config = models.JSONField(default=dict, blank=True)
    # A moment and not a state machine: initiation is one transaction, so nothing can be left half-way.
    initiated_at = models.DateTimeField(null=True, blank=True)
    # A writer of data that it read before can tell by this number whether anything was erased in between.
    erasures = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        permissions = [("reinitiate_agent", "Can seed an agent's identity again")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("agent_identity", args=[self.slug])

    @property
    def initiation_state(self) -> str:
        return "initiated" if self.initiated_at else "new"
