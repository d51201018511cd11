"""OAuth 2.1 grants: consent, authorization codes, access and refresh tokens, revocation."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from django.contrib.auth.models import User
from django.db import transaction

from identity.models import Agent, ApiToken, OAuthClient, OAuthCode, OAuthRefreshToken
from identity.policy.oauth import CODE_LIFETIME, REFRESH_LIFETIME, UNCONNECTED_LIFETIME
from identity.principal import Principal
from identity.services.tokens import (
    secret_digest,
    secret_renew,
    token_create,
    token_revoke,
    token_rights_check,
)
from nousweb.lib import clock
from nousweb.lib.errors import NotAllowed

REFRESH_PREFIX = "nousr_"

log = structlog.get_logger(__name__)


def by_client(client: OAuthClient | None) -> Principal:
    """The principal of a client's actions without a person, as in the audit trail."""
    return Principal.of_system(f"client {client.name}" if client else "OAuth", channel="mcp")


@transaction.atomic
def oauth_consent(
    *,
    code: str,
    client: OAuthClient,
    agent: Agent,
    rights: Mapping[str, Any],
    redirect_uri: str,
    code_challenge: str,
    resource: str,
    by: Principal,
) -> OAuthCode:
    """Record that a person lets `client` act as `agent` with `rights`, as `token_rights_check` takes them.

    This opens nothing yet: the client exchanges `code`. Raises NotAllowed for people who may not create tokens, and
    Invalid.
    """
    by.require("identity.add_apitoken", agent)
    if by.user is None:
        raise NotAllowed("Only a signed-in person may connect a client.")
    checked = token_rights_check(name=client.name, **rights)
    expires_at = checked["expires_at"]
    return OAuthCode.objects.create(
        digest=secret_digest(code),
        client=client,
        person_id=by.user.pk,
        agent=agent,
        rights={**checked, "expires_at": expires_at.isoformat() if expires_at else None},
        redirect_uri=redirect_uri,
        code_challenge=code_challenge,
        resource=resource,
        expires_at=clock.now() + CODE_LIFETIME,
    )


@transaction.atomic
def oauth_code_claim(*, code: str, client: OAuthClient) -> OAuthCode | None:
    """Lock the row of an unused code of `client`; None for any other.

    A code that is used again was copied: the token of its exchange is revoked.
    """
    found = (
        OAuthCode.objects.select_for_update(of=("self",))
        .select_related("agent", "client", "token__agent")
        .filter(digest=secret_digest(code), client=client)
        .first()
    )
    if found is None or found.expires_at <= clock.now():
        return None
    if found.used_at is not None:
        if found.token is not None:
            _end(found.token, f"A code of {client.name} was used twice.", by_client(client))
        return None
    return found


@transaction.atomic
def oauth_code_exchange(*, code: OAuthCode, request_id: str = "") -> tuple[ApiToken, str, str]:
    """The token that a person agreed to, with its secret and the refresh token. By that person, whose rights are asked
    again: NotAllowed where they have lost them since."""
    person = User.objects.get(pk=code.person_id)
    ends = code.rights["expires_at"]
    token, secret = token_create(
        agent=code.agent,
        client=code.client,
        resource=code.resource,
        by=Principal.of_user(person, request_id=request_id),
        **{**code.rights, "expires_at": datetime.fromisoformat(ends) if ends else None},
    )
    code.used_at, code.token = clock.now(), token
    code.save(update_fields=["used_at", "token"])
    # Clients that were connected once are not part of a flood.
    OAuthClient.objects.filter(pk=code.client_id).exclude(registered_from="").update(registered_from="")
    return token, secret, _refresh_token_make(token)


@transaction.atomic
def oauth_refresh_claim(*, secret: str, client: OAuthClient) -> OAuthRefreshToken | None:
    """Lock the unused refresh token with this secret and its token; None for any other.

    A token that is used again was stolen, from the client or by it: its whole family is revoked.
    """
    found = (
        OAuthRefreshToken.objects.select_for_update(of=("self", "token"))
        .select_related("token__agent")
        .filter(digest=secret_digest(secret), token__client=client)
        .first()
    )
    if found is None or found.token.revoked_at is not None:
        return None
    if found.used_at is not None:
        _end(found.token, f"A refresh token of {client.name} was used twice.", by_client(client))
        return None
    over = [found.expires_at, found.token.expires_at]
    return None if any(end is not None and end <= clock.now() for end in over) else found


@transaction.atomic
def oauth_refresh(*, refresh_token: OAuthRefreshToken) -> tuple[ApiToken, str, str]:
    """Use up a refresh token; returns its token with another secret, and the next refresh token."""
    refresh_token.used_at = clock.now()
    refresh_token.save(update_fields=["used_at"])
    secret = secret_renew(token=refresh_token.token)
    return refresh_token.token, secret, _refresh_token_make(refresh_token.token)


@transaction.atomic
def oauth_revoke(*, secret: str, client: OAuthClient) -> None:
    """End the connection that an access token or a refresh token of `client` is of; nothing for any other."""
    digest = secret_digest(secret)
    found = ApiToken.objects.filter(client=client, digest=digest).select_related("agent").first()
    if found is None:
        refresh = OAuthRefreshToken.objects.filter(digest=digest, token__client=client).select_related("token__agent")
        found = next((one.token for one in refresh), None)
    if found is not None:
        _end(found, f"{client.name} ended the connection.", by_client(client))


def oauth_purge() -> int:
    """Delete codes and refresh tokens that are of no use any more; returns how many."""
    now = clock.now()
    # Used codes are kept for a day: one that comes again is noticed.
    codes = OAuthCode.objects.filter(expires_at__lt=now - UNCONNECTED_LIFETIME).delete()[0]
    return codes + OAuthRefreshToken.objects.filter(expires_at__lt=now).delete()[0]


def _refresh_token_make(token: ApiToken) -> str:
    secret = REFRESH_PREFIX + secrets.token_urlsafe(32)
    now = clock.now()
    OAuthRefreshToken.objects.create(
        agent_id=token.agent_id, token=token, digest=secret_digest(secret), expires_at=now + REFRESH_LIFETIME
    )
    return secret


def _end(token: ApiToken, why: str, by: Principal) -> None:
    if token.revoked_at is None:
        log.warning("oauth.connection_ended", token=token.pk, why=why)
        token_revoke(token=token, by=by, message=why)
