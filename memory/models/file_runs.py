"""Imports and exports that a person started in the console, and where imported memories come from."""

import hashlib
import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentRow, AuthorFields, Persona
from nousweb.lib import clock


class FileRunQuerySet(models.QuerySet["FileRun"]):
    def with_file(self) -> "FileRunQuerySet":
        """Runs that have a file in the data folder."""
        states = (Q(kind=kind, status__in=statuses) for kind, statuses in FileRun.WITH_FILE.items())
        return self.filter(Q(*states, _connector=Q.OR))


class FileRun(AuthorFields):
    """A file on its way into an agent's memory, or an agent on its way into a file. The author is who started it.

    `persona` is whose memory it is, "" for both. `position` counts the entries of the file that are imported, or the
    lines that are written; `share` (0 to 1) is what is done of the check, then of the import, or of the export.

    Of an import, `options` are the choices of an ImportRequest, `survey` says what the file holds, and `outcomes`,
    `known` and `changed` what became of it so far, by kind; `work_seconds` is how long it has worked, and `slice`
    numbers the jobs that work on it, one after another. What was imported since `counted_at` is not counted in them
    yet. Of an export, `options` say whether it has the audit trail.
    """

    class Kind(models.TextChoices):
        IMPORT = "import", "Import"
        EXPORT = "export", "Export"

    class Status(models.TextChoices):
        UPLOADING = "uploading", "Uploading"
        CHECKING = "checking", "Being checked"
        READY = "ready", "Checked, not started"
        REFUSED = "refused", "Refused"
        RUNNING = "running", "Running"
        STOPPED = "stopped", "Stopped"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        DISCARDED = "discarded", "File deleted"

    WORKING = (Status.CHECKING, Status.RUNNING)
    STARTABLE = (Status.READY, Status.STOPPED, Status.FAILED)
    """An import in one of these states can be started or resumed."""
    WITH_FILE = {Kind.IMPORT: (Status.UPLOADING, *WORKING, *STARTABLE), Kind.EXPORT: (Status.RUNNING, Status.DONE)}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=10, choices=Kind)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona, blank=True)
    status = models.CharField(max_length=10, choices=Status)
    file_name = models.CharField(max_length=255, blank=True)
    file_bytes = models.BigIntegerField(default=0)
    received_bytes = models.BigIntegerField(default=0)
    system = models.CharField(max_length=30, blank=True)
    options = models.JSONField(default=dict)
    survey = models.JSONField(default=dict)
    outcomes = models.JSONField(default=dict)
    known = models.JSONField(default=dict)
    changed = models.JSONField(default=dict)
    position = models.PositiveBigIntegerField(default=0)
    share = models.FloatField(default=0.0)
    work_seconds = models.FloatField(default=0.0)
    slice = models.PositiveIntegerField(default=0)
    counted_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now)
    changed_at = models.DateTimeField(default=clock.now)

    objects = FileRunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("import_memory", "Can import memories from a file")]
        constraints = [
            models.UniqueConstraint(
                fields=["agent"], condition=Q(kind="export", status="running"), name="one_export_of_an_agent_runs"
            )
        ]
        indexes = [models.Index(fields=["agent", "kind", "-created_at", "-id"], name="file_run_of_agent")]

    def __str__(self) -> str:
        return self.file_name or f"Export of {self.agent.slug}"

    def get_absolute_url(self) -> str:
        return reverse(f"agent_{self.kind}", args=[self.agent.slug, self.pk])

    @property
    def is_working(self) -> bool:
        """Whether the worker has something to do."""
        return self.status in self.WORKING

    @property
    def has_file(self) -> bool:
        """Whether it needs its file in the data folder."""
        return self.status in self.WITH_FILE[self.Kind(self.kind)]


class ImportedMemory(AgentRow):
    """One thing of another system, and what it became here: its provenance, and how a repeated import knows it.

    `key` stands for `source_id`, and stays when any memory that came of it is erased: what people erased is not
    imported again. Its other texts are then blank, and `outcome` says so. An erased event that its writer named leaves
    one of the system AGENT, so that it is not written again.
    """

    AGENT = "agent"

    class Outcome(models.TextChoices):
        STORED = "stored", "Stored"
        CONFIRMED = "confirmed", "Already known, confirmed"
        SUPERSEDED = "superseded", "Stored, and replaced another"
        QUEUED = "queued", "Pending review"
        DECIDED = "decided", "Not stored because of people's decisions"
        PROPOSED = "proposed", "Proposed for the identity"
        UNCHANGED = "unchanged", "Already in the identity"
        ERASED = "erased", "Erased later"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    system = models.CharField(max_length=30)
    key = models.CharField(max_length=64)
    source_id = models.CharField(max_length=300, blank=True)
    # Of what it said, so that what its source changed since is noticed.
    content_hash = models.CharField(max_length=64, blank=True)
    item_type = models.CharField(max_length=20)
    item_id = models.CharField(max_length=40, blank=True)
    # What it became before its source said something else.
    earlier_item_ids = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    outcome = models.CharField(max_length=20, choices=Outcome)
    file = models.CharField(max_length=255, blank=True)
    imported_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "persona", "system", "key"], name="one_import_per_source_id")
        ]
        indexes = [models.Index(fields=["agent", "item_type", "item_id"], name="import_of_item")]

    @staticmethod
    def digest(key: str) -> str:
        """What stands for the key of an erased event."""
        return hashlib.sha256(key.encode()).hexdigest()
