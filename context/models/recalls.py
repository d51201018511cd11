"""The log of recalls: an agent's searches within a turn."""

import uuid

from django.db import models

from context.models.context_runs import ContextRun
from identity.models import Agent, AgentForeignKey, AgentRow, Persona
from nousweb.lib import clock


class ContextRecall(AgentRow):
    """A search or an expansion that a run's agent requested while it worked on its answer.

    `request` is the request, with its projects; `items` are the returned memories, each with its type, id, score and
    text (`context.services.recall`). They count as shown, like those of the prompt. Source: seed 005.1, D6.
    """

    class Action(models.TextChoices):
        SEARCH = "search", "Searched"
        EXPAND = "expand", "Expanded"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = AgentForeignKey(ContextRun, on_delete=models.CASCADE, related_name="recalls")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    action = models.CharField(max_length=10, choices=Action)
    request = models.JSONField()
    items = models.JSONField(default=list)
    principal_name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.get_action_display()} at {self.created_at:%Y-%m-%d %H:%M} UTC"
