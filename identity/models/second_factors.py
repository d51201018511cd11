"""The second factor of a person's log-in: codes of an authenticator app, and recovery codes for when it is lost."""

from django.conf import settings
from django.db import models
from django.urls import reverse

from nousweb.lib import clock


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
