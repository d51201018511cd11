"""Figures that are counted in the background, because counting them for each page would take too long."""

from django.db import models

from identity.models import Agent, Persona
from identity.policy.sections import Risk


class FigureSnapshot(models.Model):
    """Figures of a large memory at one moment. Those of small memories are counted when they are read, but for the
    health scores of past days.

    `agent` is None for the figures of all agents. `persona` is the persona whose view is counted: the subconscious sees
    both.
    """

    name = models.CharField(max_length=40)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, null=True, related_name="figures")
    persona = models.CharField(max_length=20, choices=Persona)
    value = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "agent", "persona"], nulls_distinct=False, name="one_snapshot")
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.agent_id or 'all agents'}"


class InboxRank(models.Model):
    """The rank of an item of a long inbox: its risk, its group, and the number of recent prompts that would have
    included it.

    `prompts` counts those of the actor, `prompts_both` those of the subconscious too. Items without a rank are ranked
    when the inbox is read.
    """

    item_id = models.UUIDField(primary_key=True)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    risk = models.CharField(max_length=10, choices=Risk)
    prompts = models.BigIntegerField()
    prompts_both = models.BigIntegerField()
    alike = models.CharField(max_length=32)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.risk}, {self.prompts} prompts"
