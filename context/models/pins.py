"""Pins: memories that prompts include before all others."""

from django.db import models
from django.urls import reverse

from identity.models import Agent, AgentRow, AuthorFields
from nousweb.lib import clock


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
