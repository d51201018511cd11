"""The provenance of imported memories."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from identity.models import Agent, AgentRow, Persona
from nousweb.lib import clock


class ImportedMemory(AgentRow):
    """One thing of another system, and what it became here: its provenance, and how a repeated import knows it.

    `key` stands for `source_id`, and stays when any memory that came of it is erased: what people erased is not
    imported again. Its other texts are then blank, and `outcome` says so.
    """

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

    def __str__(self) -> str:
        return f"{self.system} {self.source_id}"
