"""Exports of an agent that a person started, with their progress."""

import uuid

from django.db import models
from django.urls import reverse

from identity.models import Agent, AuthorFields, Persona
from nousweb.lib import clock


class ExportRun(AuthorFields):
    """One agent on its way into a file that is downloaded.

    `persona` is whose memory it holds, "" for both; `lines` are written so far of about `expected` ones. The author is
    who started it.
    """

    class Status(models.TextChoices):
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        STOPPED = "stopped", "Stopped"
        FAILED = "failed", "Failed"
        DELETED = "deleted", "File deleted"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona, blank=True)
    with_audit = models.BooleanField(default=False)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    lines = models.PositiveBigIntegerField(default=0)
    expected = models.PositiveBigIntegerField(default=0)
    file_bytes = models.BigIntegerField(default=0)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now)
    changed_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent"], condition=models.Q(status="running"), name="one_export_of_an_agent_runs"
            )
        ]
        indexes = [models.Index(fields=["agent", "-created_at", "-id"], name="export_run_of_agent")]

    def __str__(self) -> str:
        return f"Export of {self.agent.slug}"

    def get_absolute_url(self) -> str:
        return reverse("agent_export", args=[self.agent.slug, self.pk])
