"""The agents to which a person's role is limited."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from nousweb.lib import clock


class AgentLimit(models.Model):
    """Limits a person to these agents. Without a row, the person sees all agents.

    Keys instead of relations: when the last of the agents is erased, the person sees none, and not all.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="agent_limit")
    agents = ArrayField(models.BigIntegerField(), default=list)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return f"Agents of {self.person}"
