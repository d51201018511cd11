"""The audit trail."""

from django.db import models
from django.db.models import Q

from identity.models.agents import Agent, Persona
from identity.models.author import AuthorFields
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    def of_object(self, type_name: str, object_id: object) -> "AuditEventQuerySet":
        return self.filter(object_type=type_name, object_id=str(object_id))

    def visible_to(self, by: PermissionHolder) -> "AuditEventQuerySet":
        """The records that `by` may see. Records of the subconscious require its permission. Records without an agent
        require access to all agents, since they name some."""
        seen: AuditEventQuerySet = for_visible_agents(self, by)  # type: ignore[assignment]
        return seen if by.may(VIEW_SUBCONSCIOUS) else seen.exclude(persona=Persona.SUBCONSCIOUS)


class AuditEvent(AuthorFields):
    """A record of an action: who did what to what. Append-only in the database, and readable after everything it names
    is gone."""

    BOTH = "both"
    """Persona of a record that everybody may see, but whose states concern the subconscious too."""
    CHANNELS = (
        ("console", "Console"),
        ("api", "API"),
        ("mcp", "MCP"),
        ("import", "Import"),
        ("command", "Command line"),
    )

    at = models.DateTimeField(default=clock.now, editable=False)
    # No constraint: the trail of an erased agent stays.
    agent = models.ForeignKey(
        Agent, on_delete=models.DO_NOTHING, null=True, db_constraint=False, related_name="audit_events"
    )
    agent_slug = models.CharField(max_length=50, blank=True)
    # Whose memory the record is about; "" where it is about none.
    persona = models.CharField(max_length=20, choices=[*Persona.choices, (BOTH, "Both")], blank=True, default="")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=100)
    object_label = models.CharField(max_length=200)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    message = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    # The way in; "" for what the product does by itself. A default of the database, for receipts that it writes itself.
    channel = models.CharField(max_length=20, choices=CHANNELS, blank=True, db_default="")

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["agent", "-id"]),
            models.Index(fields=["action", "-id"]),
            models.Index(fields=["object_type", "object_id", "-id"]),
            models.Index(fields=["request_id"], condition=~Q(request_id=""), name="audit_request"),
            # So that the actions to choose from can be listed for those who may not see all of them.
            models.Index(fields=["action"], condition=~Q(persona="subconscious"), name="audit_action_shown"),
            models.Index(fields=["at"]),
        ]

    def __str__(self) -> str:
        return f"{self.author_name}: {self.action} {self.object_label}"

    def shows_states(self, by: PermissionHolder) -> bool:
        """Whether `by` may read the states before and after; the record itself is one that they may see."""
        return self.persona not in (self.BOTH, Persona.SUBCONSCIOUS) or by.may(VIEW_SUBCONSCIOUS)
