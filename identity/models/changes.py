"""The change feed and its webhooks: changes, by ids and kinds, in the order in which they became visible."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models.agents import Agent, AgentRow, Persona
from nousweb.lib import clock


class Change(AgentRow):
    """One change of one persona of an agent, recorded in the transaction of the change itself.

    `position` numbers the stream of (agent, persona) without gaps. The database assigns it after the commit
    (`nous_changes_publish`), so a reader that has read up to a position has missed nothing before it; until then it is
    null. `id` is the order of writing, over all streams, and is never sent: `key` is the public name. `details`
    contains ids, numbers and fixed words of our own, never text of a memory.
    """

    key = models.UUIDField(default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="changes", db_index=False)
    persona = models.CharField(max_length=20, choices=Persona)
    kind = models.CharField(max_length=40)
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=200)
    details = models.JSONField(default=dict)
    at = models.DateTimeField(default=clock.now, editable=False)
    position = models.PositiveBigIntegerField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["agent", "persona", "id"], condition=Q(position__isnull=True), name="change_unpublished"
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "persona", "position"], condition=Q(position__isnull=False), name="change_position"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.object_type} {self.object_id}"


class ChangeStream(AgentRow):
    """The extent of a stream: the position of its last change, and the position up to which changes were deleted by
    age.

    Only the database's own functions write here.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="change_streams")
    persona = models.CharField(max_length=20, choices=Persona)
    last = models.PositiveBigIntegerField(default=0)
    purged = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "persona"], name="one_stream_per_persona")]

    def __str__(self) -> str:
        return f"Changes of {self.agent_id} {self.persona}"


class Webhook(models.Model):
    """An address that receives the changes of one agent, and the rights of its receiver: persona, scopes, kinds.

    `actor_position` and `subconscious_position` are the positions up to which each stream has been turned into
    deliveries. `due_at` is the earliest time of the next delivery; until `leased_until` the worker with `lease` handles
    it.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "Active"
        PAUSED = "paused", "Paused"
        DISABLED = "disabled", "Disabled after failures"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="webhooks")
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    url = models.CharField(max_length=500)
    # They have to sign, so they are encrypted and not hashed; no page, answer or record gives them.
    secret = models.CharField(max_length=1_200, editable=False)
    former_secret = models.CharField(max_length=1_200, default="", editable=False)
    former_secret_until = models.DateTimeField(null=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=40))
    kinds = ArrayField(models.CharField(max_length=40), default=list)
    bodies = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State, default=State.ACTIVE)
    actor_position = models.PositiveBigIntegerField(default=0)
    subconscious_position = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(default=clock.now)
    lease = models.UUIDField(null=True)
    leased_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    created_by = models.CharField(max_length=200)

    class Meta:
        ordering = ["created_at", "id"]
        permissions = [("manage_webhook", "Can let addresses know of an agent's changes")]

    def __str__(self) -> str:
        return self.url

    def get_absolute_url(self) -> str:
        return reverse("agent_webhook", args=[self.agent.slug, self.pk])

    @property
    def messages(self) -> "models.QuerySet[WebhookDelivery]":
        """The past and pending messages, filtered by agent like all rows."""
        return WebhookDelivery.objects.filter(agent=self.agent_id, webhook=self)


class WebhookDelivery(models.Model):
    """One message to a webhook: changes in their order, by key; their bodies are read when it is sent."""

    class Status(models.TextChoices):
        WAITING = "waiting", "Pending"
        DELIVERED = "delivered", "Delivered"
        DEAD = "dead", "Failed permanently"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    number = models.PositiveBigIntegerField()
    changes = ArrayField(models.BigIntegerField())
    kinds = ArrayField(models.CharField(max_length=40))
    status = models.CharField(max_length=10, choices=Status, default=Status.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(default=clock.now)
    tried_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    answer_status = models.PositiveSmallIntegerField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["agent", "webhook", "number"], name="one_delivery_per_number")]
        indexes = [
            models.Index(fields=["webhook", "number"], condition=Q(status="waiting"), name="delivery_waiting"),
            models.Index(fields=["webhook", "status", "-number"]),
        ]

    def __str__(self) -> str:
        return f"Delivery {self.number} to {self.webhook_id}"


class WriteMark(models.Model):
    """The place in the log of the last write of an agent's tokens, or of people. Kept only where there is a replica."""

    key = models.CharField(max_length=40, primary_key=True)
    position = models.BigIntegerField()

    def __str__(self) -> str:
        return self.key
