"""The audit trail, and the seals over it."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models.agents import Agent, AuthorFields, Persona, PersonaQuerySet
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder


class AuditEventQuerySet(PersonaQuerySet):
    def of_object(self, type_name: str, object_id: object) -> "AuditEventQuerySet":
        return self.filter(object_type=type_name, object_id=str(object_id))


class AuditEvent(AuthorFields):
    """A record of an action: who did what to what. Append-only in the database, and readable after everything it names
    is gone."""

    BOTH = "both"
    """Persona of a record that everybody may see, but whose states concern the subconscious too."""
    CHANNELS = (
        ("console", "Console"),
        ("api", "API"),
        ("mcp", "MCP"),
        ("import", "Import"),
        ("command", "Command line"),
    )

    at = models.DateTimeField(default=clock.now, editable=False)
    # No constraint: the trail of an erased agent stays.
    agent = models.ForeignKey(
        Agent, on_delete=models.DO_NOTHING, null=True, db_constraint=False, related_name="audit_events"
    )
    agent_slug = models.CharField(max_length=50, blank=True)
    # Whose memory the record is about; "" where it is about none.
    persona = models.CharField(max_length=20, choices=[*Persona.choices, (BOTH, "Both")], blank=True, default="")
    action = models.CharField(max_length=60)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=100)
    object_label = models.CharField(max_length=200)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    message = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    # The way in; "" for what the product does by itself. A default of the database, for receipts that it writes itself.
    channel = models.CharField(max_length=20, choices=CHANNELS, blank=True, db_default="")

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["agent", "-id"]),
            models.Index(fields=["action", "-id"]),
            models.Index(fields=["object_type", "object_id", "-id"]),
            models.Index(fields=["request_id"], condition=~Q(request_id=""), name="audit_request"),
            # So that the actions to choose from can be listed for those who may not see all of them.
            models.Index(fields=["action"], condition=~Q(persona="subconscious"), name="audit_action_shown"),
            models.Index(fields=["at"]),
        ]

    def __str__(self) -> str:
        return f"{self.author_name}: {self.action} {self.object_label}"

    def get_absolute_url(self) -> str:
        return reverse("audit_event", args=[self.pk])

    def shows_states(self, by: PermissionHolder) -> bool:
        """Whether `by` may read the states before and after; the record itself is one that they may see."""
        return self.persona not in (self.BOTH, Persona.SUBCONSCIOUS) or by.may(VIEW_SUBCONSCIOUS)


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

    objects = PersonaQuerySet.as_manager()

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
