"""Tokens of agents, and the OAuth clients that hold some of them."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from identity.models.agents import Agent, AuthorFields, Persona
from identity.policy.oauth import MAX_REDIRECT_URI_CHARACTERS, REFRESH_LIFETIME, SECRET_LIFETIME
from nousweb.lib import clock
from nousweb.lib.bounds import MAX_KEY_CHARACTERS


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def usable(self) -> "ApiTokenQuerySet":
        """Valid tokens: not revoked and not past their expiry."""
        return self.filter(revoked_at__isnull=True).filter(Q(expires_at__isnull=True) | Q(expires_at__gt=clock.now()))


class ApiToken(models.Model):
    """A secret that lets one agent act as one persona within its scopes. Only the secret's hash is kept.

    One that names `projects` reaches their memory only, and global memory as `global_memory` says. One that is bound
    to a `user` reads that user's memory and everybody's, and writes that user's only. One that a client got by OAuth
    opens its `resource` only, and its secret is another one after each renewal.
    """

    class GlobalMemory(models.TextChoices):
        READ = "read", "Reads global memory"
        WRITE = "write", "Reads and writes global memory"

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="tokens")
    persona = models.CharField(max_length=20, choices=Persona)
    name = models.CharField(max_length=100)
    scopes = ArrayField(models.CharField(max_length=40))
    projects = ArrayField(models.CharField(max_length=MAX_KEY_CHARACTERS), default=list, blank=True)
    user = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="")
    global_memory = models.CharField(max_length=10, choices=GlobalMemory, default=GlobalMemory.WRITE)
    prefix = models.CharField(max_length=20, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    # The secret before the one of now opens the same until then.
    former_digest = models.CharField(max_length=64, default="", editable=False)
    former_until = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.CharField(max_length=200)
    # The maker, who must not approve the token's proposals: names change, keys do not.
    maker_kind = models.CharField(
        max_length=10, choices=AuthorFields.Kind, default=AuthorFields.Kind.SYSTEM, editable=False
    )
    maker_id = models.CharField(max_length=100, default="", editable=False)
    # Others who were shown a secret of the token, as "kind:id".
    secret_holders = ArrayField(models.CharField(max_length=120), default=list, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    client = models.ForeignKey("identity.OAuthClient", on_delete=models.SET_NULL, null=True, related_name="tokens")
    resource = models.CharField(max_length=500, blank=True, default="", editable=False)
    # Until when the secret of now holds; null for one that is never renewed.
    secret_expires_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.CharField(max_length=200, blank=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = [F("revoked_at").desc(nulls_first=True), "-created_at"]
        permissions = [("revoke_apitoken", "Can revoke an agent's token")]
        indexes = [models.Index(fields=["former_digest"], condition=~Q(former_digest=""), name="token_former_secret")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def get_absolute_url(self) -> str:
        return reverse("agent_tokens", args=[self.agent.slug])

    @property
    def state(self) -> str:
        if self.revoked_at:
            return "revoked"
        # It also expires unless its client renews the secret.
        renewal = self.secret_expires_at and self.secret_expires_at - SECRET_LIFETIME + REFRESH_LIFETIME
        ends = (self.expires_at, renewal)
        return "expired" if any(end is not None and end <= clock.now() for end in ends) else "active"

    @property
    def limits(self) -> str:
        """The projects and the user to which it is limited, for people; "" without a limit."""
        projects = f"in {', '.join(self.projects)}. {self.get_global_memory_display()}." if self.projects else ""
        return " ".join(filter(None, [projects, f"Only the user {self.user}." if self.user else ""]))

    @property
    def previous_secret_is_valid(self) -> bool:
        """Whether the previous secret of the token is still accepted."""
        return self.former_until is not None and self.former_until > clock.now() and self.state == "active"


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
