"""The texts of an identity over time, and the proposals of others."""

import uuid
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.urls import reverse

from identity.models.agents import Agent, AgentForeignKey, AgentRow, AuthorFields, Persona, PersonaQuerySet
from identity.policy.sections import SECTION_POLICY, Risk, Section, SectionPolicy
from nousweb.lib import clock


class IdentityVersionQuerySet(models.QuerySet["IdentityVersion"]):
    def current(self) -> "IdentityVersionQuerySet":
        return self.filter(is_current=True)

    def in_prompt_order(self) -> "IdentityVersionQuerySet":
        order = [models.When(section=name, then=place) for place, name in enumerate(Section.values)]
        return self.order_by(models.Case(*order, output_field=models.IntegerField()), "-version")

    def as_of(self, moment: datetime) -> "IdentityVersionQuerySet":
        """The version of each section that was current at `moment`."""
        return self.filter(created_at__lte=moment).order_by("section", "-version").distinct("section")


class IdentityVersion(AgentRow, AuthorFields):
    """One text of one section, never edited: the database refuses any change but losing `is_current`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="identity_versions")
    section = models.CharField(max_length=20, choices=Section)
    version = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    is_current = models.BooleanField(default=True)
    previous = AgentForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    restores = AgentForeignKey("self", on_delete=models.PROTECT, null=True, related_name="restored_by")
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = IdentityVersionQuerySet.as_manager()

    class Meta:
        ordering = ["agent", "section", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "section", "version"], name="one_row_per_version"),
            models.UniqueConstraint(
                fields=["agent", "section"], condition=Q(is_current=True), name="one_current_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_section_display()} version {self.version}"

    def get_absolute_url(self) -> str:
        return reverse("section_history", args=[self.agent.slug, self.section])

    @property
    def etag(self) -> str:
        """Validator of this section, also read back as the base of an edit."""
        return f'"{self.section}={self.version}"'


class ChangeProposalQuerySet(PersonaQuerySet):
    def pending(self) -> "ChangeProposalQuerySet":
        return self.filter(status=ChangeProposal.Status.PENDING)

    def waiting(self) -> "ChangeProposalQuerySet":
        return self.filter(status__in=ChangeProposal.WAITING)

    def with_stale(self) -> "ChangeProposalQuerySet":
        """Annotate `current_version`, the number of the section's current version (0 for none)."""
        current = IdentityVersion.objects.current().filter(
            agent=models.OuterRef("agent"), section=models.OuterRef("section")
        )
        return self.annotate(current_version=Coalesce(models.Subquery(current.values("version")[:1]), 0))

    def riskiest_first(self) -> "ChangeProposalQuerySet":
        rank = models.Case(
            models.When(risk=Risk.HIGH, then=0),
            models.When(risk=Risk.MEDIUM, then=1),
            default=2,
            output_field=models.IntegerField(),
        )
        return self.order_by(rank, "created_at", "id")


class ChangeProposal(AgentRow, AuthorFields):
    """A proposed change of one section: its present text, the new text, the reason, and people's decision."""

    class Status(models.TextChoices):
        PENDING = "pending", "Pending"
        APPLIED = "applied", "Applied without review"
        APPROVED = "approved", "Approved"
        REJECTED = "rejected", "Rejected"
        WITHDRAWN = "withdrawn", "Withdrawn"
        EXPIRED = "expired", "Expired"
        REVERTED = "reverted", "Reverted"

    WAITING = (Status.PENDING, Status.APPLIED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="proposals")
    # Of the token that proposed it: the actor never learns of what the subconscious proposes.
    persona = models.CharField(max_length=20, choices=Persona, default=Persona.ACTOR)
    section = models.CharField(max_length=20, choices=Section)
    # 0 when the section had no version yet.
    base_version = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    reason = models.TextField(blank=True)
    # The events and facts that its author names for it, as "event 12"; they may be gone.
    learned_from = ArrayField(models.CharField(max_length=50), default=list)
    risk = models.CharField(max_length=10, choices=Risk)
    # Why it waits or why it was applied at once, in the guardrail's own words.
    guardrail = models.CharField(max_length=300)
    restores = AgentForeignKey(IdentityVersion, on_delete=models.PROTECT, null=True, related_name="+")
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    version = AgentForeignKey(IdentityVersion, on_delete=models.PROTECT, null=True, related_name="proposals")
    reviewer_id = models.CharField(max_length=100, blank=True)
    reviewer_name = models.CharField(max_length=200, blank=True)
    comment = models.TextField(blank=True)
    edited = models.BooleanField(default=False)
    # The guardrails let its author, an agent, apply it without waiting.
    self_applied = models.BooleanField(default=False)
    decided_at = models.DateTimeField(null=True)
    # Decisions taken in one bulk action share a batch, so that one undo takes all of them back.
    batch = models.UUIDField(null=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()

    objects = ChangeProposalQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        permissions = [
            ("propose_changeproposal", "Can propose a change of identity"),
            ("review_changeproposal", "Can approve, reject, roll back and undo changes of identity"),
        ]
        indexes = [
            models.Index(fields=["agent", "status", "created_at"]),
            models.Index(fields=["status", "expires_at"], condition=Q(status="pending"), name="pending_expiry"),
            models.Index(fields=["batch"], condition=Q(batch__isnull=False), name="proposal_batch"),
        ]

    def __str__(self) -> str:
        return f"{self.get_section_display()} of {self.agent.name}, proposed by {self.author_name}"

    def get_absolute_url(self) -> str:
        return reverse("proposal", args=[self.pk])

    @property
    def policy(self) -> SectionPolicy:
        return SECTION_POLICY[self.section]
