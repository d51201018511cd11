"""Programs that request access from a person by OAuth, and their codes and refresh tokens."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from identity.models.agents import Agent
from identity.models.tokens import ApiToken
from identity.policy.oauth import MAX_REDIRECT_URI_CHARACTERS
from nousweb.lib import clock


class OAuthClient(models.Model):
    """A program that may request access from people. Nobody has verified its name, unless a person wrote it."""

    class Source(models.TextChoices):
        REGISTERED = "registered", "Registered itself"
        PERSON = "person", "Made by a person"

    client_id = models.CharField(max_length=60, unique=True)
    name = models.CharField(max_length=100)
    redirect_uris = ArrayField(models.CharField(max_length=MAX_REDIRECT_URI_CHARACTERS))
    source = models.CharField(max_length=20, choices=Source)
    # Of a client that registered itself, to bound how many come from one place; "" once a person has connected it.
    registered_from = models.CharField(max_length=45, blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["-created_at", "-pk"]
        indexes = [models.Index(fields=["registered_from", "-created_at"])]

    def __str__(self) -> str:
        return self.name


class OAuthCode(models.Model):
    """A person's consent, which the client exchanges for a token: once, within a minute or two."""

    digest = models.CharField(max_length=64, unique=True)
    client = models.ForeignKey(OAuthClient, on_delete=models.CASCADE, related_name="codes")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="oauth_codes")
    # The rights of the future token, as arguments of `token_create`.
    rights = models.JSONField()
    redirect_uri = models.CharField(max_length=MAX_REDIRECT_URI_CHARACTERS)
    code_challenge = models.CharField(max_length=128)
    resource = models.CharField(max_length=500)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    # Made from it, and revoked where the code comes a second time.
    token = models.ForeignKey(ApiToken, on_delete=models.SET_NULL, null=True, related_name="+")

    def __str__(self) -> str:
        return f"code of {self.client}"


class OAuthRefreshToken(models.Model):
    """Lets the client renew the secret of its token, once; used ones stay, so that a second use is noticed."""

    digest = models.CharField(max_length=64, unique=True)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="oauth_refresh_tokens")
    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, related_name="refresh_tokens")
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"refresh token of {self.token}"
