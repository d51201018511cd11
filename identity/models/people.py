"""Access of people: invitations, and the sessions in which they are signed in."""

import uuid

from django.conf import settings
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
