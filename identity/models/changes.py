"""The change feed: what happened, by ids and kinds, in the order in which it became visible."""

import uuid

from django.db import models
from django.db.models import Q

from identity.models.agent_rows import AgentRow
from identity.models.agents import Agent, Persona
from nousweb.lib import clock


class Change(AgentRow):
    """One domain event of one persona of an agent, written in the transaction of what it tells of.

    `position` counts the stream of (agent, persona) without gaps. It is given by the database after the commit
    (`nous_changes_publish`), so whoever has read up to a position has missed nothing before it; until then it is null.
    `id` is the order of writing. It is shared by everybody and given to nobody: `key` is the name that travels.
    `details` holds ids, numbers and words of our own, never text of a memory.
    """

    key = models.UUIDField(default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="changes", db_index=False)
    persona = models.CharField(max_length=20, choices=Persona)
    kind = models.CharField(max_length=40)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=200)
    details = models.JSONField(default=dict)
    at = models.DateTimeField(default=clock.now, editable=False)
    position = models.PositiveBigIntegerField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["agent", "persona", "id"], condition=Q(position__isnull=True), name="change_unpublished"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "persona", "position"], condition=Q(position__isnull=False), name="change_position"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.object_type} {self.object_id}"


class ChangeStream(AgentRow):
    """How far a stream goes: the position of its last change, and up to which they were deleted by age.

    Only the database's own functions write here.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="change_streams")
    persona = models.CharField(max_length=20, choices=Persona)
    last = models.PositiveBigIntegerField(default=0)
    purged = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "persona"], name="one_stream_per_persona")]

    def __str__(self) -> str:
        return f"Changes of {self.agent_id} {self.persona}"
