"""Rotate the secret of a token; the former secret stays valid for a time, so that no agent is interrupted."""

from datetime import timedelta

from django.db import transaction

from identity.models import ApiToken
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.tokens import secret_digest, secret_make, secret_prefix
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid

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
