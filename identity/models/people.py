"""Access of people: invitations, sessions, limits to agents, second factors, and the demo that they follow."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.urls import reverse

from nousweb.lib import clock


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self) -> "InvitationQuerySet":
        """Invitations that still let somebody in."""
        return self.filter(accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=clock.now())


class Invitation(models.Model):
    """A link with which one person makes an account of one role, once. Only the link's hash is kept."""

    OWNER = "Owner"
    """Instead of a role: an account that manages people, and may do everything that a role may."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    role = models.CharField(max_length=40)
    note = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.CharField(max_length=200, blank=True, editable=False)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        # Without the note: the audit trail carries this, and more people read that than the note is for.
        return f"Invitation for the role {self.role}"

    def get_absolute_url(self) -> str:
        return reverse("people")

    @property
    def state(self) -> str:
        if self.accepted_at:
            return "accepted"
        if self.revoked_at:
            return "revoked"
        return "expired" if self.expires_at <= clock.now() else "open"


class SignIn(models.Model):
    """A session in which a person signed in, for the person and the owners to see and to end.

    `session_key` is that of Django's own table of sessions, where it stands too; the row outlives the session.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    browser = models.CharField(max_length=200, blank=True)
    address = models.CharField(max_length=60, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"Session of {self.person}"


class AgentLimit(models.Model):
    """Limits a person to these agents. Without a row, the person sees all agents.

    Keys instead of relations: when the last of the agents is erased, the person sees none, and not all.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="agent_limit")
    agents = ArrayField(models.BigIntegerField(), default=list)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return f"Agents of {self.person}"


class SecondFactor(models.Model):
    """A person's authenticator app: a secret that both sides know, from which each makes the code of a time step.

    The secret is encrypted with a key of the installation. `last_step` is the time step of the last code that was
    taken: neither it nor an earlier one is taken again.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="second_factor")
    secret = models.CharField(max_length=300, editable=False)
    last_step = models.BigIntegerField(default=0, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    failed_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    used_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return f"Second factor of {self.person}"


class RecoveryCode(models.Model):
    """A code that takes the app's place once. Only its hash is kept."""

    factor = models.ForeignKey(SecondFactor, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64, editable=False)
    used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["factor", "digest"], name="recovery_code_once")]

    def __str__(self) -> str:
        return f"Recovery code of {self.factor.person}"


class SecondFactorRequirement(models.Model):
    """A role that nobody uses without a second factor."""

    role = models.CharField(max_length=40, unique=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    def __str__(self) -> str:
        return f"the role {self.role}"

    def get_absolute_url(self) -> str:
        return reverse("people")


class DemoTour(models.Model):
    """A person who is guided through the demo data; only the people whom the demo created have a row.

    The audit trail since `began_at` shows the finished steps. The agent is named and not referred to, so that it can be
    erased.
    """

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="demo_tour")
    agent_slug = models.CharField(max_length=50)
    began_at = models.DateTimeField(default=clock.now)
    left_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.agent_slug
