"""Seals over append-only tables, and the data for checking rows against them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from identity.models.agents import Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents


class LogSealQuerySet(models.QuerySet["LogSeal"]):
    def visible_to(self, by: PermissionHolder) -> "LogSealQuerySet":
        """The seals that `by` may see, by the same rules as the sealed records."""
        seen: LogSealQuerySet = for_visible_agents(self, by)  # type: ignore[assignment]
        return seen if by.may(VIEW_SUBCONSCIOUS) else seen.exclude(persona=Persona.SUBCONSCIOUS)


class LogSeal(models.Model):
    """One link of the chain of a kind of rows of one persona of an agent, and of the chain of all seals.

    `serial` counts all seals and `number` those of the chain, both without gaps. `first` is the place in the chain of
    the first of `count` rows. All rows of a numbered table with a key up to `floor` stand in earlier seals; `since` is
    when the sealer was last done with the whole table before. Hashes are SHA-256 in hexadecimal. Written once: the
    database refuses any change. No constraint on the agent, whose seals stay when it is erased.
    """

    serial = models.PositiveBigIntegerField(primary_key=True)
    format = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=30)
    agent_id = models.BigIntegerField(null=True)
    agent_slug = models.CharField(max_length=50, blank=True)
    persona = models.CharField(max_length=20, choices=Persona)
    number = models.PositiveBigIntegerField()
    first = models.PositiveBigIntegerField()
    count = models.PositiveIntegerField()
    floor = models.BigIntegerField(null=True)
    since = models.DateTimeField(null=True)
    sealed_at = models.DateTimeField()
    root = models.CharField(max_length=64)
    chain_previous = models.CharField(max_length=64, blank=True)
    previous = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    objects = LogSealQuerySet.as_manager()

    class Meta:
        ordering = ["-serial"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent_id", "persona", "kind", "number"], nulls_distinct=False, name="one_seal_per_number"
            )
        ]
        indexes = [models.Index(fields=["kind", "-serial"], name="seals_of_kind")]

    def __str__(self) -> str:
        return f"Seal {self.serial}"


class LogLeaves(models.Model):
    """The leaves of a seal, row by row: keys, and in parallel hashes, salts and digests.

    `contents` has 32 bytes a row: the hash of its columns. `salts` has 16, without which nobody can guess the text of
    an erased row; an erasure sets them to zero. `digests`, for tables with columns that an erasure may empty, has 32:
    the salted hash of these, so that the rest of an emptied row can still be checked.
    """

    seal = models.OneToOneField(LogSeal, on_delete=models.PROTECT, primary_key=True, related_name="leaves")
    kind = models.CharField(max_length=30)
    first_key = models.BigIntegerField(null=True)
    last_key = models.BigIntegerField(null=True)
    keys = ArrayField(models.TextField())
    contents = models.BinaryField()
    salts = models.BinaryField()
    digests = models.BinaryField(null=True)

    class Meta:
        indexes = [models.Index(fields=["kind", "last_key"], name="leaves_by_key")]

    def __str__(self) -> str:
        return f"Leaves of seal {self.seal_id}"


class LogHole(models.Model):
    """A tombstone: a sealed row was erased, or emptied if `blanked`; written by the database itself.

    `receipt_id` is the audit record of the erasure, which has the number of its tombstones and their digest.
    """

    seal = models.ForeignKey(LogSeal, on_delete=models.PROTECT, related_name="holes")
    slot = models.PositiveIntegerField()
    key = models.TextField()
    blanked = models.BooleanField()
    receipt_id = models.BigIntegerField(null=True)
    transaction = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["receipt_id"], name="holes_of_receipt")]

    def __str__(self) -> str:
        return f"Hole in seal {self.seal_id}"


class LogHorizon(models.Model):
    """The progress of the sealer in one table: the key from which it looks for rows, and when it last finished all.

    `next_floor` becomes the floor when every transaction has ended that may still write a key below it, which are those
    before `next_transaction`.
    """

    kind = models.CharField(max_length=30, primary_key=True)
    floor = models.BigIntegerField(default=0)
    next_floor = models.BigIntegerField(null=True)
    next_transaction = models.BigIntegerField(null=True)
    noted_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.kind} up to {self.floor}"


class LogVerification(models.Model):
    """One check of the whole log against its seals, made by the worker in parts; `serial` says how far it is."""

    class Status(models.TextChoices):
        WAITING = "waiting", "Pending"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    asked_by = models.CharField(max_length=200)
    asked_at = models.DateTimeField(default=clock.now)
    status = models.CharField(max_length=10, choices=Status, default=Status.WAITING)
    started_at = models.DateTimeField(null=True)
    worked_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    serial = models.PositiveBigIntegerField(default=0)
    last_serial = models.PositiveBigIntegerField(default=0)
    rows = models.PositiveBigIntegerField(default=0)
    holes = models.PositiveBigIntegerField(default=0)
    problems = models.PositiveBigIntegerField(default=0)
    # The first findings: a sentence each, with the agent and persona concerned.
    findings = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"Verification {self.pk}"
