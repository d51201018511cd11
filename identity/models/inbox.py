"""Actions of people on pending items besides deciding them: assigning, snoozing, commenting."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from identity.models.agents import Agent, Persona
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents


class ItemRow(models.Model):
    """A row about one item of the inbox.

    `item_id` is the key of the item, a proposal or a review of memories: a UUID, so one key is enough over all kinds.
    `item_type` is its model, as in the audit trail.
    """

    item_id = models.UUIDField()
    item_type = models.CharField(max_length=20)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    at = models.DateTimeField(default=clock.now)

    class Meta:
        abstract = True


class ItemAssignment(ItemRow):
    """The person who is to decide an item. Others may decide it too."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    by_name = models.CharField(max_length=200)

    class Meta:
        ordering = ["-at"]
        constraints = [models.UniqueConstraint(fields=["item_id"], name="one_assignment_per_item")]

    def __str__(self) -> str:
        return f"{self.item_type} {self.item_id} is {self.person}'s"


class ItemSnooze(ItemRow):
    """One person does not see an item in their inbox until a moment, or until it is seen again; others still do.

    Without `until` it comes back when it changes, or is in a prompt again. `ended_at` is when it did.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(fields=["item_id", "person"], condition=Q(ended_at=None), name="one_snooze_each")
        ]

    def __str__(self) -> str:
        return f"{self.item_type} {self.item_id}, snoozed by {self.person}"


class ItemComment(ItemRow):
    """A person's comment on an item for their colleagues. No agent reads it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    author_name = models.CharField(max_length=200)
    text = models.TextField()

    class Meta:
        ordering = ["at", "id"]
        indexes = [models.Index(fields=["item_id", "at"])]

    def __str__(self) -> str:
        return f"Comment of {self.author_name}"


class SecondOpinion(ItemRow):
    """A request to a person for their opinion on an item. The answer is stored, and decides nothing."""

    class Answer(models.TextChoices):
        FOR = "for", "For it"
        AGAINST = "against", "Against it"
        UNSURE = "unsure", "Unsure"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asker = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    asker_name = models.CharField(max_length=200)
    answer = models.CharField(max_length=10, choices=Answer, blank=True)
    note = models.TextField(blank=True)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["at", "id"]
        constraints = [models.UniqueConstraint(fields=["item_id", "person"], name="one_opinion_each")]

    def __str__(self) -> str:
        return f"Opinion of {self.person}, asked by {self.asker_name}"


class NotificationQuerySet(models.QuerySet["Notification"]):
    def visible_to(self, by: PermissionHolder) -> "NotificationQuerySet":
        """The notifications about agents that `by` may still see."""
        return for_visible_agents(self, by)  # type: ignore[return-value]

    def unread(self) -> "NotificationQuerySet":
        return self.filter(read_at=None)


class Notification(ItemRow):
    """A notification of a person about an item, sent once: `source` is the key of its cause."""

    class Kind(models.TextChoices):
        MENTION = "mention", "Mentioned you"
        ASSIGNMENT = "assignment", "Assigned to you"
        OPINION = "opinion", "Asked for your opinion"
        ANSWER = "answer", "Answered your opinion request"
        RETURNED = "returned", "Snooze ended"
        HIGH_RISK = "high_risk", "High risk"
        ERRED = "erred", "Automatic decisions erred: people are asked again"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=12, choices=Kind)
    source = models.CharField(max_length=40)
    by_name = models.CharField(max_length=200, blank=True)
    read_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)

    ASKING = (Kind.ASSIGNMENT, Kind.OPINION, Kind.RETURNED, Kind.HIGH_RISK)
    """The kinds that ask for something until their item is decided."""

    objects = NotificationQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["person", "kind", "item_id", "source"], name="told_of_it_once")]
        indexes = [
            models.Index(fields=["person", "-at", "-id"]),
            models.Index(fields=["person"], condition=Q(read_at=None), name="notification_unread"),
            models.Index(fields=["item_id"]),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.item_type} {self.item_id}"


class SavedFilter(models.Model):
    """A part of the inbox that a person keeps under a name: the query of its address."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=500)
    created_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["person", "name"], name="one_filter_per_name")]

    def __str__(self) -> str:
        return self.name


class MailPreference(models.Model):
    """A person's e-mail settings. Without a row: high risk at once, and the digest."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_preference")
    at_once = models.BooleanField(default=True)
    digest = models.BooleanField(default=True)
    digest_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"E-mail to {self.person}"
