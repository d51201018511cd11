"""OAuth clients: those that register themselves, limited in number, and those that a person creates."""

import secrets
from collections.abc import Sequence

import structlog
from django.db import transaction

from identity.models import OAuthClient, OAuthCode
from identity.policy.oauth import (
    APP_SCHEMES,
    MAX_REDIRECT_URI_CHARACTERS,
    MAX_REDIRECT_URIS,
    REGISTRATION_WINDOW,
    REGISTRATIONS_OF_ADDRESS,
    REGISTRATIONS_WAITING,
    UNCONNECTED_LIFETIME,
)
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.tokens import token_revoke
from nousweb.lib import clock
from nousweb.lib.advisory_lock import transaction_lock
from nousweb.lib.errors import Invalid, NotFound, TooMany
from nousweb.lib.redirect_uris import redirect_place, redirect_uri_problem
from nousweb.lib.validation import is_blank, unapprovable_reason

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
    after = {"name": client.name, "client_id": client.client_id, "redirect_uris": client.redirect_uris}
    audit_record(by=by, action="oauth_client.create", target=client, agent=None, after=after)
    return client


@transaction.atomic
def oauth_client_delete(*, client: OAuthClient, by: Principal) -> int:
    """Forget a client and revoke all that it holds; returns how many tokens were revoked.

    Raises NotFound where somebody else has just deleted it.
    """
    by.require("identity.revoke_apitoken")
    # A token that is being made from a code is waited for, and goes with the others; codes first, as an exchange does.
    list(OAuthCode.objects.select_for_update(of=("self",)).filter(client=client).order_by("pk"))
    if OAuthClient.objects.select_for_update().filter(pk=client.pk).first() is None:
        raise NotFound("There is no such client.")
    tokens = list(client.tokens.filter(revoked_at__isnull=True).select_related("agent"))
    for token in tokens:
        token_revoke(token=token, by=by, message=f"The client {client.name} was deleted.")
    before = {"name": client.name, "client_id": client.client_id, "redirect_uris": client.redirect_uris}
    audit_record(
        by=by, action="oauth_client.delete", target=client, agent=None, before=before, after={"revoked": len(tokens)}
    )
    client.delete()
    return len(tokens)


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
