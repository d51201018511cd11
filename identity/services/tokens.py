"""Tokens of agents: made once, shown once, stored as a hash, revocable, never able to approve."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from identity.models import Agent, ApiToken, OAuthClient, Persona
from identity.policy.oauth import SECRET_LIFETIME
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.services.audit import audit_record
from nousweb.lib import Conflict, Invalid, clock, name_check
from nousweb.lib.bounds import EVERYBODY, key_text, user_text
from nousweb.lib.prepared_statements import columns_of, instance_of, rows_prepared

MAX_TOKEN_PROJECTS = 20
TOKEN_PREFIX = "nous_"  # noqa: S105
# The time of last use is for people to read; a write per request would cost more than it tells.
LAST_USED_RESOLUTION = timedelta(minutes=1)


@transaction.atomic
def token_create(
    *,
    agent: Agent,
    persona: str,
    name: str,
    scopes: Sequence[str] = DEFAULT_SCOPES,
    expires_at: datetime | None = None,
    projects: Sequence[str] = (),
    global_memory: str = ApiToken.GlobalMemory.WRITE,
    user: str = "",
    client: OAuthClient | None = None,
    resource: str = "",
    by: Principal,
) -> tuple[ApiToken, str]:
    """Make a token; returns it with its secret, which cannot be had again.

    With `projects` it reaches their memory and global memory only; the latter it may write or only read, as
    `global_memory` says. With `user` it reads that user's memory and everybody's, and writes that user's. One for a
    `client` of OAuth opens `resource` only, and has to be renewed. Raises Invalid for an unknown persona or scope, a
    bad name, project or user, or an expiry in the past.
    """
    by.require("identity.add_apitoken", agent)
    rights = token_rights_check(
        persona=persona,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
        projects=projects,
        global_memory=global_memory,
        user=user,
    )
    secret = secret_make()
    token = ApiToken.objects.create(
        agent=agent,
        **rights,
        client=client,
        resource=resource,
        secret_expires_at=clock.now() + SECRET_LIFETIME if client else None,
        prefix=secret_prefix(secret),
        digest=secret_digest(secret),
        created_by=by.name,
        maker_kind=by.kind,
        maker_id=by.id,
    )
    audit_record(
        by=by,
        action="token.create",
        target=token,
        agent=agent,
        after={
            "name": token.name,
            "persona": persona,
            "scopes": token.scopes,
            "prefix": token.prefix,
            **({"projects": token.projects, "global_memory": token.global_memory} if projects else {}),
            **({"user": token.user} if token.user else {}),
            **({"client": client.name, "client_id": client.client_id, "resource": resource} if client else {}),
        },
    )
    return token, secret


def token_rights_check(
    *,
    persona: str,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    projects: Sequence[str],
    global_memory: str,
    user: str = "",
) -> dict[str, Any]:
    """Validate the rights of a token; returns them as they are stored. Raises Invalid as `token_create` does."""
    if persona not in Persona.values:
        raise Invalid(f"There is no persona {persona!r}; use {' or '.join(Persona.values)}.", field="persona")
    unknown = sorted(set(scopes) - SCOPE_PERMISSIONS.keys())
    if unknown or not scopes:
        raise Invalid(
            f"Unknown scope {', '.join(unknown)}; the scopes are {', '.join(SCOPE_PERMISSIONS)}."
            if unknown
            else "Choose at least one scope.",
            field="scopes",
        )
    name = name_check(name)
    if expires_at is not None and expires_at <= clock.now():
        raise Invalid("The expiry is in the past.", field="expires_at")
    projects, user = _projects_check(projects), _user_check(user)
    if global_memory not in ApiToken.GlobalMemory.values:
        raise Invalid("global_memory must be read or write.", field="global_memory")
    return {
        "persona": persona,
        "name": name,
        "scopes": sorted(set(scopes)),
        "projects": projects,
        "global_memory": global_memory if projects else ApiToken.GlobalMemory.WRITE,
        "user": user,
        "expires_at": expires_at,
    }


def secret_renew(*, token: ApiToken) -> str:
    """Replace the secret of a client's token, which ends the present one; called by its renewal."""
    secret = secret_make()
    token.prefix, token.digest = secret_prefix(secret), secret_digest(secret)
    token.secret_expires_at = clock.now() + SECRET_LIFETIME
    token.save(update_fields=["prefix", "digest", "secret_expires_at"])
    return secret


def _projects_check(projects: Sequence[str]) -> list[str]:
    if len(projects) > MAX_TOKEN_PROJECTS:
        raise Invalid(f"A token is limited to at most {MAX_TOKEN_PROJECTS} projects.", field="projects")
    try:
        keys = [key_text(project) for project in projects]
    except ValueError as error:
        raise Invalid(f"projects: {error}", field="projects") from error
    if not all(keys):
        raise Invalid("The key of a project must not be empty.", field="projects")
    return sorted(set(keys))


def _user_check(user: str) -> str:
    try:
        key = user_text(user)
    except ValueError as error:
        raise Invalid(f"user: {error}", field="user") from error
    if key == EVERYBODY:
        raise Invalid("A token is bound to one user, or to none.", field="user")
    return key


@transaction.atomic
def token_revoke(*, token: ApiToken, by: Principal, message: str = "") -> ApiToken:
    """Make a token useless at once and for good."""
    by.require("identity.revoke_apitoken", token.agent)
    changed = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
        revoked_at=clock.now(), revoked_by=by.name
    )
    if not changed:
        raise Conflict("This token is already revoked.")
    token.refresh_from_db()
    audit_record(
        by=by,
        action="token.revoke",
        target=token,
        agent=token.agent,
        before={"state": "active"},
        after={"state": "revoked"},
        message=message,
    )
    return token


def token_authenticate(secret: str, *, resource: str = "") -> ApiToken | None:
    """The usable token with this secret, with its agent; None for any other. Notes the time of use.

    A token that was issued for one resource (RFC 8707) opens no other: `resource` is the address that is asked.
    """
    if not secret.startswith(TOKEN_PREFIX):
        return None
    now = clock.now()
    # The secret has 256 random bits, so a plain hash cannot be guessed back and a look-up by it leaks nothing.
    digest = secret_digest(secret)
    token = _usable(digest, now) or _usable(digest, now, former=True)
    if token is not None and token.resource not in ("", resource):
        return None
    if token is not None and (token.last_used_at is None or token.last_used_at < now - LAST_USED_RESOLUTION):
        ApiToken.objects.filter(
            Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - LAST_USED_RESOLUTION), pk=token.pk
        ).update(last_used_at=now)
    return token


_LOOKUP = f"""
SELECT {columns_of(ApiToken, "token")}, {columns_of(Agent, "agent")}
FROM {ApiToken._meta.db_table} AS token JOIN {Agent._meta.db_table} AS agent ON agent.id = token.agent_id
WHERE {{condition}} AND token.revoked_at IS NULL
    AND (token.expires_at IS NULL OR token.expires_at > %(now)s)
    AND (token.secret_expires_at IS NULL OR token.secret_expires_at > %(now)s)
"""  # noqa: S608
_BY_SECRET = _LOOKUP.format(condition="token.digest = %(digest)s")
# Apart, so that every call needs one look into one index; only what opens nothing now needs another.
_BY_FORMER_SECRET = _LOOKUP.format(
    condition="token.former_digest = %(digest)s AND token.former_digest <> '' AND token.former_until > %(now)s"
)


def _usable(digest: str, now: datetime, *, former: bool = False) -> ApiToken | None:
    """The token with its agent. Every call of the API begins with this statement, so it is a prepared one."""
    for row in rows_prepared(_BY_FORMER_SECRET if former else _BY_SECRET, {"digest": digest, "now": now}):
        width = len(ApiToken._meta.concrete_fields)
        token = instance_of(ApiToken, row[:width])
        token.agent = instance_of(Agent, row[width:])
        return token
    return None


def secret_make() -> str:
    """A new secret of a token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def secret_prefix(secret: str) -> str:
    """As much of a secret as people may see, to tell it from others."""
    return secret[: len(TOKEN_PREFIX) + 6]


def secret_digest(secret: str) -> str:
    """The stored digest of a secret of 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


LONGEST_GRACE = timedelta(days=7)


@transaction.atomic
def token_rotate(*, token: ApiToken, grace: timedelta, by: Principal) -> str:
    """Give a token another secret, which cannot be had again; the former one opens the same for `grace`.

    Whoever does it counts as one who made it, where four eyes are asked for. Raises NotAllowed, Invalid for a time
    below zero or above seven days, and Conflict for a token that opens nothing any more or that a client renews.
    """
    by.require("identity.add_apitoken", token.agent)
    if not timedelta() <= grace <= LONGEST_GRACE:
        raise Invalid("The previous secret can stay valid for at most seven days.", field="grace")
    token = ApiToken.objects.select_for_update(of=("self",)).select_related("agent").get(pk=token.pk)
    if token.state != "active":
        raise Conflict(f"This token is {token.state}: create a new one.")
    if token.secret_expires_at is not None:
        raise Conflict("Its client renews this token automatically.")
    secret, before = secret_make(), token.prefix
    token.former_digest, token.former_until = "", None
    if grace:
        token.former_digest, token.former_until = token.digest, clock.now() + grace
    token.prefix, token.digest = secret_prefix(secret), secret_digest(secret)
    token.secret_holders = sorted({*token.secret_holders, f"{by.kind}:{by.id}"})
    token.save(update_fields=["prefix", "digest", "former_digest", "former_until", "secret_holders"])
    audit_record(
        by=by,
        action="token.rotate",
        target=token,
        agent=token.agent,
        before={"prefix": before},
        after={
            "prefix": token.prefix,
            "former_until": token.former_until.isoformat() if token.former_until is not None else None,
        },
    )
    return secret
