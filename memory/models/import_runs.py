"""Imports of a file that a person uploaded, with their progress."""

import uuid

from django.db import models
from django.urls import reverse

from identity.models import Agent, AuthorFields, Persona
from nousweb.lib import clock


class ImportRun(AuthorFields):
    """One uploaded file on its way into an agent's memory.

    `options` are the choices of an ImportRequest. `survey` says what the file holds, `outcomes`, `known` and `changed`
    what became of it so far, by kind. `position` counts the entries of the file that are done, `share` (0 to 1) what is
    done of the check, then of the import; `work_seconds` is how long the import has worked. `slice` numbers the jobs
    that work on it, one after another. The author is who uploaded it.
    """

    class Status(models.TextChoices):
        UPLOADING = "uploading", "Uploading"
        CHECKING = "checking", "Being checked"
        READY = "ready", "Checked, not started"
        REFUSED = "refused", "Refused"
        RUNNING = "running", "Running"
        STOPPED = "stopped", "Stopped"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        DISCARDED = "discarded", "Discarded"

    WORKING = (Status.CHECKING, Status.RUNNING)
    WITH_FILE = (Status.UPLOADING, Status.CHECKING, Status.READY, Status.RUNNING, Status.STOPPED, Status.FAILED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    status = models.CharField(max_length=10, choices=Status, default=Status.UPLOADING)
    file_name = models.CharField(max_length=255)
    file_bytes = models.BigIntegerField()
    received_bytes = models.BigIntegerField(default=0)
    system = models.CharField(max_length=30, blank=True)
    options = models.JSONField(default=dict)
    survey = models.JSONField(default=dict)
    outcomes = models.JSONField(default=dict)
    known = models.JSONField(default=dict)
    changed = models.JSONField(default=dict)
    position = models.PositiveIntegerField(default=0)
    share = models.FloatField(default=0.0)
    work_seconds = models.FloatField(default=0.0)
    slice = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now)
    changed_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("import_memory", "Can import memories from a file")]
        indexes = [models.Index(fields=["agent", "-created_at", "-id"], name="import_run_of_agent")]

    def __str__(self) -> str:
        return self.file_name

    def get_absolute_url(self) -> str:
        return reverse("agent_import", args=[self.agent.slug, self.pk])
