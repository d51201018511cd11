"""The change feed: changes, by ids and kinds, in the order in which they became visible."""

import uuid

from django.db import models
from django.db.models import Q

from identity.models.agent_rows import AgentRow
from identity.models.agents import Agent, Persona
from nousweb.lib import clock


class Change(AgentRow):
    """One change of one persona of an agent, recorded in the transaction of the change itself.

    `position` numbers the stream of (agent, persona) without gaps. The database assigns it after the commit
    (`nous_changes_publish`), so a reader that has read up to a position has missed nothing before it; until then it is
    null. `id` is the order of writing, over all streams, and is never sent: `key` is the public name. `details`
    contains ids, numbers and fixed words of our own, never text of a memory.
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
    """The extent of a stream: the position of its last change, and the position up to which changes were deleted by
    age.

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
