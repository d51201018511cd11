"""Agents, who they are over time, who asked for it, who agreed, and what was done by whom."""

import uuid
from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.urls import reverse

from identity.policy import SECTION_POLICY, VIEW_SUBCONSCIOUS, Risk, Section, SectionPolicy
from nousweb.lib import clock
from nousweb.lib.permissions import PermissionHolder


class Persona(models.TextChoices):
    ACTOR = "actor", "Actor"
    SUBCONSCIOUS = "subconscious", "Subconscious"


class AgentKind(models.TextChoices):
    """The role an agent plays, which chooses its context profile."""

    KNIGHT = "knight", "Knight: carries work out"
    SQUIRE = "squire", "Squire: reviews and helps"
    ROYALTY = "royalty", "Royalty: plans and delegates"
    PEASANT = "peasant", "Peasant: one narrow helper task"


SLUG_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,49}$"
validate_slug = RegexValidator(
    SLUG_PATTERN,
    "Use 1 to 50 lower-case letters, digits, - or _, beginning with a letter or digit.",
)


class AgentQuerySet(models.QuerySet["Agent"]):
    def with_waiting(self, by: PermissionHolder) -> "AgentQuerySet":
        """Annotate `waiting`: the number of pending proposals that `by` may see."""
        pending = Q(proposals__status=ChangeProposal.Status.PENDING)
        if not by.may(VIEW_SUBCONSCIOUS):
            pending &= ~Q(proposals__persona=Persona.SUBCONSCIOUS)
        return self.annotate(waiting=models.Count("proposals", filter=pending))


class Agent(models.Model):
    slug = models.CharField(max_length=50, unique=True, validators=[validate_slug])
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=AgentKind, default=AgentKind.SQUIRE)
    config = models.JSONField(default=dict, blank=True)
    # A moment and not a state machine: initiation is one transaction, so nothing can be left half-way.
    initiated_at = models.DateTimeField(null=True, blank=True)
    # Whoever reads its memory and writes later what it read knows by it whether anything was erased in between.
    erasures = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        permissions = [("reinitiate_agent", "Can seed an agent's identity again")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("agent_identity", args=[self.slug])

    @property
    def initiation_state(self) -> str:
        return "initiated" if self.initiated_at else "new"


class AuthorFields(models.Model):
    """Who did it, kept as text so that a record outlives the person or token."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        TOKEN = "token", "Agent"
        SYSTEM = "system", "System"

    author_kind = models.CharField(max_length=10, choices=Kind)
    author_id = models.CharField(max_length=100)
    author_name = models.CharField(max_length=200)

    class Meta:
        abstract = True


class IdentityVersionQuerySet(models.QuerySet["IdentityVersion"]):
    def current(self) -> "IdentityVersionQuerySet":
        return self.filter(is_current=True)

    def in_prompt_order(self) -> "IdentityVersionQuerySet":
        order = [models.When(section=name, then=place) for place, name in enumerate(Section.values)]
        return self.order_by(models.Case(*order, output_field=models.IntegerField()), "-version")

    def as_of(self, moment: datetime) -> "IdentityVersionQuerySet":
        """The version of each section that was current at `moment`."""
        return self.filter(created_at__lte=moment).order_by("section", "-version").distinct("section")


class IdentityVersion(AuthorFields):
    """One text of one section, never edited: the database refuses any change but losing `is_current`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="identity_versions")
    section = models.CharField(max_length=20, choices=Section)
    version = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    is_current = models.BooleanField(default=True)
    previous = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+")
    restores = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="restored_by")
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


class ChangeProposalQuerySet(models.QuerySet["ChangeProposal"]):
    def seen_by(self, by: PermissionHolder) -> "ChangeProposalQuerySet":
        """What `by`, a person, may know of: proposals of the subconscious are for holders of its right."""
        return self if by.may(VIEW_SUBCONSCIOUS) else self.exclude(persona=Persona.SUBCONSCIOUS)

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


class ChangeProposal(AuthorFields):
    """A wish to change one section: what it said, what it should say, why, and what people decided."""

    class Status(models.TextChoices):
        PENDING = "pending", "Pending"
        APPLIED = "applied", "Applied by agent, not looked over"
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
    risk = models.CharField(max_length=10, choices=Risk)
    # Why it waits or why it was applied at once, in the guardrail's own words.
    guardrail = models.CharField(max_length=300)
    restores = models.ForeignKey(IdentityVersion, on_delete=models.PROTECT, null=True, related_name="+")
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    version = models.ForeignKey(IdentityVersion, on_delete=models.PROTECT, null=True, related_name="proposals")
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


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def usable(self) -> "ApiTokenQuerySet":
        """Tokens that still open a door: not revoked and not past their expiry."""
        return self.filter(revoked_at__isnull=True).filter(Q(expires_at__isnull=True) | Q(expires_at__gt=clock.now()))


class ApiToken(models.Model):
    """A secret that lets one agent act as one persona within its scopes. Only the secret's hash is kept."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tokens")
    persona = models.CharField(max_length=20, choices=Persona)
    name = models.CharField(max_length=100)
    scopes = ArrayField(models.CharField(max_length=40))
    prefix = models.CharField(max_length=20, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200)
    # Who made it, for those who must not approve what it proposes: names change, keys do not.
    maker_kind = models.CharField(
        max_length=10, choices=AuthorFields.Kind, default=AuthorFields.Kind.SYSTEM, editable=False
    )
    maker_id = models.CharField(max_length=100, default="", editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.CharField(max_length=200, blank=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = [F("revoked_at").desc(nulls_first=True), "-created_at"]
        permissions = [("revoke_apitoken", "Can revoke an agent's token")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def get_absolute_url(self) -> str:
        return reverse("agent_tokens", args=[self.agent.slug])

    @property
    def state(self) -> str:
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at and self.expires_at <= clock.now() else "active"


class AuditEventQuerySet(models.QuerySet["AuditEvent"]):
    def of_object(self, type_name: str, object_id: object) -> "AuditEventQuerySet":
        return self.filter(object_type=type_name, object_id=str(object_id))

    def seen_by(self, by: PermissionHolder) -> "AuditEventQuerySet":
        """The records that `by` may know of: those about the subconscious are for holders of its right."""
        return self if by.may(VIEW_SUBCONSCIOUS) else self.exclude(persona=Persona.SUBCONSCIOUS)


class AuditEvent(AuthorFields):
    """Who did what to what. Append-only in the database, and readable after everything it names is gone."""

    BOTH = "both"
    """Persona of a record that everybody may know of, and whose states speak of the subconscious too."""

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

    def shows_states(self, by: PermissionHolder) -> bool:
        """Whether `by` may read what was before and after; the record itself is one that they may know of."""
        return self.persona not in (self.BOTH, Persona.SUBCONSCIOUS) or by.may(VIEW_SUBCONSCIOUS)
