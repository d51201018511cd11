"""Screenings: runs of the screening rules over stored texts."""

from django.db import models

from identity.models import AuthorFields
from nousweb.lib import clock


class Screening(AuthorFields):
    """One reading of all stored texts by the rules that held when it began; the author is who asked for it.

    `rules` names these rules. `place` is how far it is: the kind of memory, and the key of the last one that was read.
    The worker reads in parts; `worked_at` is when the part that goes on last said so, empty between two parts.
    """

    class Status(models.TextChoices):
        WAITING = "waiting", "Pending"
        RUNNING = "running", "Running"
        DONE = "done", "Done"

    OPEN = (Status.WAITING, Status.RUNNING)

    rules = models.CharField(max_length=20)
    status = models.CharField(max_length=10, choices=Status, default=Status.WAITING)
    asked_at = models.DateTimeField(default=clock.now)
    started_at = models.DateTimeField(null=True)
    worked_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    place = models.JSONField(default=list)
    total = models.PositiveBigIntegerField(default=0)
    checked = models.PositiveBigIntegerField(default=0)
    held = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"Screening {self.pk}"
