"""OAuth clients, and the codes and tokens that people grant them.

Clients register themselves, limited in number, or are created by a person.
"""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog
from django.contrib.auth.models import User
from django.db import transaction

from identity.models import Agent, ApiToken, OAuthClient, OAuthCode, OAuthRefreshToken
from identity.policy.oauth import (
    APP_SCHEMES,
    CODE_LIFETIME,
    MAX_REDIRECT_URI_CHARACTERS,
    MAX_REDIRECT_URIS,
    REFRESH_LIFETIME,
    REGISTRATION_WINDOW,
    REGISTRATIONS_OF_ADDRESS,
    REGISTRATIONS_WAITING,
    UNCONNECTED_LIFETIME,
)
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.tokens import (
    secret_digest,
    secret_renew,
    token_create,
    token_revoke,
    token_rights_check,
)
from nousweb.lib import Invalid, NotAllowed, TooMany, clock, existing, is_blank, unapprovable_reason
from nousweb.lib.redirect_uris import redirect_place, redirect_uri_problem
from nousweb.lib.transactions import transaction_lock

MAX_NAME_CHARACTERS = 100

log = structlog.get_logger(__name__)


@transaction.atomic
def oauth_client_register(*, name: str, redirect_uris: Sequence[str], address: str) -> OAuthClient:
    """A client that nobody has vouched for, as it registers itself (RFC 7591) from `address`; it can do nothing yet.

    Raises Invalid for a bad name or address to redirect to, TooMany where too many register.
    """
    uris = redirect_uris_check(redirect_uris)
    name = name_check(name) if name else f"A program at {redirect_place(uris[0])}"[:MAX_NAME_CHARACTERS]
    # Counted one at a time: the bound would not be one.
    transaction_lock("oauth_clients")
    unconnected_clients_purge()
    waiting = OAuthClient.objects.filter(source=OAuthClient.Source.REGISTERED, tokens__isnull=True)
    since = clock.now() - REGISTRATION_WINDOW
    if waiting.filter(registered_from=address, created_at__gt=since).count() >= REGISTRATIONS_OF_ADDRESS:
        raise TooMany(
            f"At most {REGISTRATIONS_OF_ADDRESS} clients that nobody has connected register from one address in an"
            " hour.",
            retry_after=int(REGISTRATION_WINDOW.total_seconds()),
        )
    if waiting.count() >= REGISTRATIONS_WAITING:
        raise TooMany("Too many registered clients have not been connected yet.", retry_after=3600)
    client = OAuthClient.objects.create(
        client_id=f"client_{secrets.token_urlsafe(16)}",
        name=name,
        redirect_uris=uris,
        source=OAuthClient.Source.REGISTERED,
        registered_from=address,
        created_by=address,
    )
    log.info("oauth.client_registered", client_id=client.client_id, address=address)
    audit_record(
        by=Principal.of_system("self-registration", channel="api"),
        action="oauth_client.register",
        target=client,
        agent=None,
        after={"redirect_uris": uris, "address": address},
        message="This client is not verified. It has no access until a person connects it.",
    )
    return client


@transaction.atomic
def oauth_client_create(*, name: str, redirect_uris: Sequence[str], by: Principal) -> OAuthClient:
    """A client that a person vouches for. Raises Invalid for a bad name or address to redirect to."""
    by.require("identity.add_apitoken")
    client = OAuthClient.objects.create(
        client_id=f"client_{secrets.token_urlsafe(16)}",
        name=name_check(name),
        redirect_uris=redirect_uris_check(redirect_uris),
        source=OAuthClient.Source.PERSON,
        created_by=by.name,
    )
    audit_record(by=by, action="oauth_client.create", target=client, agent=None, after=_client_state(client))
    return client


@transaction.atomic
def oauth_client_delete(*, client: OAuthClient, by: Principal) -> int:
    """Forget a client and revoke all that it holds; returns how many tokens were revoked.

    Raises NotFound where somebody else has just deleted it.
    """
    by.require("identity.revoke_apitoken")
    # A token that is being made from a code is waited for, and goes with the others; codes first, as an exchange does.
    list(OAuthCode.objects.select_for_update(of=("self",)).filter(client=client).order_by("pk"))
    existing(OAuthClient.objects.select_for_update().filter(pk=client.pk).first(), "There is no such client.")
    tokens = list(client.tokens.filter(revoked_at__isnull=True).select_related("agent"))
    for token in tokens:
        token_revoke(token=token, by=by, message=f"The client {client.name} was deleted.")
    audit_record(
        by=by,
        action="oauth_client.delete",
        target=client,
        agent=None,
        before=_client_state(client),
        after={"revoked": len(tokens)},
    )
    client.delete()
    return len(tokens)


def _client_state(client: OAuthClient) -> dict[str, Any]:
    return {"name": client.name, "client_id": client.client_id, "redirect_uris": client.redirect_uris}


def unconnected_clients_purge() -> int:
    """Delete clients that registered themselves and that nobody has connected in time; returns how many."""
    old = clock.now() - UNCONNECTED_LIFETIME
    found = OAuthClient.objects.filter(
        source=OAuthClient.Source.REGISTERED, created_at__lt=old, tokens__isnull=True, codes__isnull=True
    )
    return found.delete()[1].get(OAuthClient._meta.label, 0)


def name_check(name: str) -> str:
    """Validate the name of a client that people will read. Raises Invalid."""
    name = " ".join(name.split())
    if is_blank(name) or len(name) > MAX_NAME_CHARACTERS:
        raise Invalid(f"A client's name must have 1 to {MAX_NAME_CHARACTERS} characters.", field="name")
    if reason := unapprovable_reason(name):
        raise Invalid(f"People see the client's name. {reason}", field="name")
    return name


def redirect_uris_check(uris: Sequence[str]) -> list[str]:
    """Addresses to which people may be sent back. Raises Invalid, naming the first that is none."""
    if not 1 <= len(uris) <= MAX_REDIRECT_URIS:
        raise Invalid(f"A client must have 1 to {MAX_REDIRECT_URIS} redirect addresses.", field="redirect_uris")
    for uri in uris:
        if len(uri) > MAX_REDIRECT_URI_CHARACTERS:
            raise Invalid(
                f"An address must have at most {MAX_REDIRECT_URI_CHARACTERS} characters.", field="redirect_uris"
            )
        if problem := redirect_uri_problem(uri, app_schemes=APP_SCHEMES):
            raise Invalid(f"{uri[:80]!r}: {problem}", field="redirect_uris")
    return list(dict.fromkeys(uris))


REFRESH_PREFIX = "nousr_"


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
    if found.used_at is None:
        return found
    if found.token is not None:
        _end(found.token, f"A code of {client.name} was used twice.", client)
    return None


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
        _end(found.token, f"A refresh token of {client.name} was used twice.", client)
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
        _end(found, f"{client.name} ended the connection.", client)


def oauth_purge() -> int:
    """Delete codes and refresh tokens that are of no use any more; returns how many."""
    now = clock.now()
    # Used codes are kept for a day: one that comes again is noticed.
    codes = OAuthCode.objects.filter(expires_at__lt=now - UNCONNECTED_LIFETIME).delete()[0]
    return codes + OAuthRefreshToken.objects.filter(expires_at__lt=now).delete()[0]


def _refresh_token_make(token: ApiToken) -> str:
    secret = REFRESH_PREFIX + secrets.token_urlsafe(32)
    OAuthRefreshToken.objects.create(
        agent_id=token.agent_id,
        token=token,
        digest=secret_digest(secret),
        expires_at=clock.now() + REFRESH_LIFETIME,
    )
    return secret


def _end(token: ApiToken, why: str, client: OAuthClient) -> None:
    if token.revoked_at is None:
        log.warning("oauth.connection_ended", token=token.pk, why=why)
        token_revoke(token=token, by=Principal.of_system(f"client {client.name}", channel="mcp"), message=why)
