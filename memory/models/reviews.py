"""Reviews: pending decisions of people about memories."""

import uuid
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.urls import reverse

from identity.models import Agent, AgentForeignKey, AgentRow, AuthorFields, Persona
from memory.models.censors import Censor
from memory.models.facts import Fact
from memory.models.jobs import JudgeCall
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder


class MemoryReviewQuerySet(models.QuerySet["MemoryReview"]):
    def pending(self) -> "MemoryReviewQuerySet":
        return self.filter(status=MemoryReview.Status.PENDING)

    def held_back(self) -> "MemoryReviewQuerySet":
        """The undecided reviews. A pair of an undecided attribute is listed with its attribute."""
        return self.filter(status=MemoryReview.Status.UNDECIDED, details__question__isnull=True)

    def asked_of(self, by: PermissionHolder) -> "MemoryReviewQuerySet":
        """The reviews that the API shows to `by`: no undecided ones, and blind samples only to people."""
        asked = self.exclude(status=MemoryReview.Status.UNDECIDED)
        return asked if by.may("memory.review_memory") else asked.exclude(details__has_key="blind")


class MemoryReview(AgentRow):
    """Something about memories that waits for a person, and how it was resolved.

    `old` and `new` are a pair of facts, `new` learned later; a fact that is reviewed alone is `new`. A pair is reviewed
    once: its resolution is remembered. `facts` are those of a compaction, or the one that was invalidated and is
    learned again, in the words of `proposal`; or the one that says of another subject what is learned, which is not
    stored before it is answered: `details` are its fields. For quarantined texts and new memories `details` name the
    memories, and `facts` those of them that are facts. `subjects` are the two that may be one thing, the older first.
    Of an attribute `details` has the name, and `facts` are those with different values of it; each pair of them is a
    row too, `joined` until the attribute is decided about. `reasons` is what the comparison found, `verdict` what a
    judge said. `before` is what the resolution changed, so that it can be undone. `undecided` ones are over the
    attention budget (`details` has `undecided`): nobody is asked. `asked_at` is set for those that count in the budget.
    A `blind` one in `details` is about what was decided automatically.
    """

    class Kind(models.TextChoices):
        DUPLICATE = "duplicate", "Possible duplicate"
        CONTRADICTION = "contradiction", "Contradiction"
        ESCALATION = "escalation", "Censor escalated"
        LOW_CONFIDENCE = "low_confidence", "Uncertain fact"
        COMPACTION = "compaction", "Many facts on one subject"
        RELEARNED = "relearned", "Learned again after being marked as wrong"
        REPEATED = "repeated", "Same sentence about another subject"
        SAME_SUBJECT = "same_subject", "Possibly the same subject"
        QUARANTINED = "quarantined", "Quarantined"
        NEW_MEMORY = "new_memory", "New memory"
        ATTRIBUTE = "attribute", "One value at a time or several"

    ABOUT_TEXTS = (Kind.QUARANTINED, Kind.NEW_MEMORY)
    """Kinds about memories of one text, whatever their types."""

    class Status(models.TextChoices):
        PENDING = "pending", "Pending"
        RESOLVED = "resolved", "Resolved"
        EXPIRED = "expired", "Expired"
        JOINED = "joined", "Asked with its attribute"
        UNDECIDED = "undecided", "Undecided"

    ASKED = (Status.PENDING, Status.JOINED)
    """People are asked."""
    OPEN = (*ASKED, Status.UNDECIDED)
    """People or a judge may still decide."""
    UNANSWERED = (*ASKED, Status.EXPIRED)
    CONTESTING = Q(status__in=UNANSWERED, old__active=True, new__active=True)
    """Of two facts that both hold. Of a blind sample, one does not: prompts keep the decision until a person
    disagrees."""

    class Resolution(models.TextChoices):
        SAME = "same", "Same"
        REPLACE = "replace", "New replaces old"
        OLD_WRONG = "old_wrong", "Old was wrong"
        NEW_WRONG = "new_wrong", "New is wrong"
        BOTH = "both", "Both are true"
        DIFFERENT = "different", "Different subjects"
        MERGE = "merge", "Merged"
        KEEP = "keep", "Kept"
        REVERSE = "reverse", "Reversed"
        ALLOW = "allow", "Allowed"
        HOLD = "hold", "Quarantined"
        MOOT = "moot", "No longer applicable"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="memory_reviews")
    persona = models.CharField(max_length=20, choices=Persona)
    kind = models.CharField(max_length=20, choices=Kind)
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    old = AgentForeignKey(Fact, on_delete=models.PROTECT, null=True, related_name="+")
    new = AgentForeignKey(Fact, on_delete=models.PROTECT, null=True, related_name="+")
    censor = AgentForeignKey(Censor, on_delete=models.PROTECT, null=True, related_name="reviews")
    subject = models.CharField(max_length=200, blank=True)
    facts = ArrayField(models.UUIDField(), default=list)
    subjects = ArrayField(models.UUIDField(), default=list)
    details = models.JSONField(default=dict)
    # What it is about, in a form that is the same whenever the same comes up; one review each.
    about = models.CharField(max_length=200, unique=True)
    score = models.FloatField(null=True)
    reasons = models.JSONField(default=list)
    verdict = models.JSONField(default=dict)
    judge_call = AgentForeignKey(JudgeCall, on_delete=models.PROTECT, null=True, related_name="+")
    proposal = models.TextField(blank=True)
    resolution = models.CharField(max_length=12, choices=Resolution, blank=True)
    comment = models.TextField(blank=True)
    resolver_kind = models.CharField(max_length=10, blank=True)
    resolver_id = models.CharField(max_length=100, blank=True)
    resolver_name = models.CharField(max_length=200, blank=True)
    resolved_at = models.DateTimeField(null=True)
    before = models.JSONField(default=dict)
    batch = models.UUIDField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    asked_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    texts: list[str] | None = None
    """The texts of the memories that it is about, where a list has read them for many reviews at once."""

    objects = MemoryReviewQuerySet.as_manager()

    class Meta:
        ordering = ["created_at", "id"]
        permissions = [("review_memory", "Can answer questions about memories")]
        indexes = [
            models.Index(fields=["created_at", "id"], condition=Q(status="pending"), name="memory_review_waiting"),
            models.Index(fields=["agent", "persona", "-created_at", "-id"]),
            models.Index(fields=["agent", "asked_at"], condition=Q(asked_at__isnull=False), name="memory_review_asked"),
            models.Index(fields=["agent", "persona"], condition=Q(status="undecided"), name="memory_review_undecided"),
            models.Index(fields=["agent"], condition=Q(details__has_key="blind"), name="memory_review_blind"),
            models.Index(fields=["batch"], condition=Q(batch__isnull=False), name="memory_review_batch"),
            # The few pairs of facts that nobody has decided about, by either of the two, as
            # memory/search/contested_facts.py looks for them.
            *(
                models.Index(
                    fields=[fact],
                    condition=Q(
                        kind__in=["contradiction", "duplicate"],
                        status__in=["pending", "joined", "expired", "undecided"],
                    ),
                    name=f"memory_review_{fact}",
                )
                for fact in ("old", "new")
            ),
        ]

    def __str__(self) -> str:
        about = self.subject or (self.new or self.censor or self.proposal)
        return ": ".join(filter(None, [self.label, str(about)]))[:200]

    @property
    def is_mark(self) -> bool:
        """Whether a person marked the memories as wrong: nobody is asked about them."""
        return bool(self.details.get("codes") == ["marked"])

    @property
    def label(self) -> str:
        """What kind of review it is, for people."""
        return "Marked as wrong" if self.is_mark else self.get_kind_display()

    @property
    def answer(self) -> str:
        """How it was resolved, for people; "" while it is not."""
        is_taken_back = self.is_mark and self.resolution == self.Resolution.MOOT
        return "Undone" if is_taken_back else self.get_resolution_display()

    @property
    def resolver(self) -> str:
        """Who resolved it; "" where it closed by itself."""
        return "" if self.resolution == self.Resolution.MOOT else self.resolver_name

    @property
    def undoable(self) -> bool:
        """Whether somebody has decided it, so that this can be taken back."""
        return bool(self.status == self.Status.RESOLVED and self.resolution != self.Resolution.MOOT)

    @property
    def asked_by(self) -> str:
        """The id of the review by which people are asked: that of the attribute for a pair that joined it."""
        return str(self.details.get("question") or self.pk)

    def was_undecided(self, moment: datetime) -> bool:
        """Whether nobody was asked about it at `moment`."""
        until = self.details.get("undecided_until")
        return bool(self.details.get("undecided")) or (until is not None and datetime.fromisoformat(until) > moment)

    def get_absolute_url(self) -> str:
        return reverse("memory_review_detail", args=[self.pk])


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
    quarantined = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
