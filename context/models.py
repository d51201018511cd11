"""The log of what agents were shown."""

import uuid
from datetime import datetime

from django.db import models

from identity.models import Agent, Persona
from nousweb.lib import clock


class ContextRunQuerySet(models.QuerySet["ContextRun"]):
    def older_than(self, moment: datetime) -> "ContextRunQuerySet":
        return self.filter(created_at__lt=moment)


class ContextRun(models.Model):
    """One prompt as it was sent, kept as structure: `sections` and their items, never re-parsed from the text."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="context_runs")
    persona = models.CharField(max_length=20, choices=Persona)
    session_id = models.CharField(max_length=200)
    input = models.TextField()
    request = models.JSONField()
    system_prompt = models.TextField()
    sections = models.JSONField()
    tokens = models.PositiveIntegerField()
    duration_ms = models.FloatField()
    principal_name = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = ContextRunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("assemble_context", "Can ask for a context")]
        indexes = [models.Index(fields=["agent", "-created_at", "-id"]), models.Index(fields=["created_at"])]

    def __str__(self) -> str:
        return f"Context of {self.agent_id} at {self.created_at:%Y-%m-%d %H:%M}"
