"""Webhooks: people create, change and delete them, each with an audit record."""

import secrets
from collections.abc import Collection, Sequence
from typing import Any

from identity.models import Agent, ChangeStream, Persona, Webhook, WebhookDelivery
from identity.policy.changes import CHANGE_KINDS
from identity.policy.permissions import SCOPE_PERMISSIONS, VIEW_SUBCONSCIOUS
from identity.policy.webhooks import FORMER_SECRET, MANAGE, MAX_WEBHOOKS, SHORTEST_SECRET
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.change_feed import stream_publish
from identity.services.encrypted_secrets import is_encrypted, secret_decrypt, secret_encrypt
from identity.services.webhook_address import url_check
from nousweb.lib import Conflict, Invalid, clock, existing, unstorable_reason

PURPOSE = "webhook"
State, Status = Webhook.State, WebhookDelivery.Status
RECEIVER_SCOPES = ("identity:read", "memory:read", "context:read", "expectations:run")
"""Scopes that a receiver may have: those that only read."""


def webhooks_of(agent: Agent, by: Principal) -> Any:
    """The webhooks of an agent that `by` may know of, as a queryset. Raises NotAllowed."""
    by.require(MANAGE, agent)
    found = Webhook.objects.filter(agent=agent)
    return found if by.may(VIEW_SUBCONSCIOUS) else found.exclude(persona=Persona.SUBCONSCIOUS)


@agent_transaction()
def webhook_create(
    *,
    agent: Agent,
    url: str,
    scopes: Sequence[str],
    kinds: Collection[str] = (),
    persona: str = Persona.ACTOR,
    bodies: bool = False,
    secret: str = "",
    by: Principal,
) -> tuple[Webhook, str]:
    """Send changes to an address from now on; returns it with its secret, which cannot be had again.

    Without `kinds` it receives all that its scopes let it know. Raises NotAllowed, Invalid or Conflict.
    """
    by.require(MANAGE, agent)
    if persona == Persona.SUBCONSCIOUS:
        by.require(VIEW_SUBCONSCIOUS, agent)
    if persona not in Persona.values:
        raise Invalid(f"persona must be one of {', '.join(Persona.values)}.", field="persona")
    if Webhook.objects.filter(agent=agent).count() >= MAX_WEBHOOKS:
        raise Conflict(f"An agent has at most {MAX_WEBHOOKS} webhooks.")
    secret = _secret_check(secret) if secret else secret_make()
    url, scopes, kinds = url_check(url), _scopes_check(scopes), _kinds_check(kinds, scopes)
    # It begins where the streams end, which are locked from here on.
    for stream in Persona.values:
        stream_publish(agent.pk, stream)
    ends = dict(ChangeStream.objects.filter(agent=agent).values_list("persona", "last"))
    webhook = Webhook.objects.create(
        agent=agent,
        persona=persona,
        url=url,
        secret=secret_encrypt(secret, PURPOSE),
        scopes=scopes,
        kinds=kinds,
        bodies=bodies,
        actor_position=ends.get(Persona.ACTOR, 0),
        subconscious_position=ends.get(Persona.SUBCONSCIOUS, 0),
        created_by=by.name,
    )
    audit_record(by=by, action="webhook.create", target=webhook, agent=agent, after=_state(webhook), persona=persona)
    return webhook, secret


@agent_transaction(of="webhook")
def webhook_update(
    *,
    webhook: Webhook,
    by: Principal,
    url: str | None = None,
    scopes: Sequence[str] | None = None,
    kinds: Collection[str] | None = None,
    bodies: bool | None = None,
    secret: str | None = None,
    active: bool | None = None,
) -> Webhook:
    """Change a webhook, pause it or resume it; None leaves a field as it is. Changes during a pause are sent
    afterwards.

    After a change of the secret the former one also signs for a while.
    """
    webhook = _lock(webhook, by)
    before = _state(webhook)
    if url is not None:
        webhook.url = url_check(url)
    if scopes is not None:
        webhook.scopes = _scopes_check(scopes)
    if scopes is not None or kinds is not None:
        webhook.kinds = _kinds_check(webhook.kinds if kinds is None else kinds, webhook.scopes)
    if bodies is not None:
        webhook.bodies = bodies
    if secret is not None:
        webhook.former_secret, webhook.former_secret_until = webhook.secret, clock.now() + FORMER_SECRET
        webhook.secret = secret_encrypt(_secret_check(secret), PURPOSE)
    if active is not None and active != (webhook.state == State.ACTIVE):
        webhook.state = State.ACTIVE if active else State.PAUSED
        webhook.failures, webhook.due_at = 0, clock.now()
    webhook.save()
    after = _state(webhook)
    changed = [name for name in after if after[name] != before[name]]
    audit_record(
        by=by,
        action="webhook.update",
        target=webhook,
        agent=webhook.agent,
        before={name: before[name] for name in changed},
        after={name: after[name] for name in changed} | ({"secret": "changed"} if secret is not None else {}),
    )
    return webhook


def webhook_secrets(webhook: Webhook) -> list[str]:
    """The secrets that sign a message: the one of now, and the former one for a while after a change.

    Raises ValueError where the installation has another secret than when they were kept.
    """
    until = webhook.former_secret_until
    kept = [webhook.secret, *([webhook.former_secret] if until is not None and until > clock.now() else [])]
    # Those of old are not encrypted before `manage.py secret rewrite`.
    return [secret_decrypt(one, PURPOSE) if is_encrypted(one) else one for one in kept]


def secret_make() -> str:
    """A new secret to sign messages with."""
    return f"whsec_{secrets.token_urlsafe(32)}"


@agent_transaction(of="webhook")
def webhook_delete(*, webhook: Webhook, by: Principal) -> None:
    """Stop sending to an address, and delete its deliveries."""
    webhook = _lock(webhook, by)
    audit_record(by=by, action="webhook.delete", target=webhook, agent=webhook.agent, before=_state(webhook))
    webhook.delete()


@agent_transaction(of="webhook")
def deliveries_replay(*, webhook: Webhook, by: Principal, delivery: WebhookDelivery | None = None) -> int:
    """Send one message again, or without one all that were given up; returns how many. One that waits is tried now."""
    webhook = _lock(webhook, by)
    found = webhook.messages
    found = found.filter(status=Status.DEAD) if delivery is None else found.filter(pk=delivery.pk)
    waiting = found.filter(status=Status.WAITING).count()
    again = found.exclude(status=Status.WAITING)
    count = waiting + again.update(status=Status.WAITING, attempts=0, finished_at=None, error="")
    if count:
        Webhook.objects.filter(pk=webhook.pk).update(due_at=clock.now(), failures=0)
        audit_record(
            by=by,
            action="delivery.replay",
            target=webhook,
            agent=webhook.agent,
            after={"deliveries": count, "delivery": str(delivery.pk) if delivery else None},
        )
    return count


def webhook_kinds(webhook: Webhook) -> list[str]:
    """The kinds of changes that a webhook receives: those that its scopes allow and that it requested."""
    return [kind for kind in _kinds_known(webhook.scopes) if not webhook.kinds or kind in webhook.kinds]


def _kinds_known(scopes: Sequence[str]) -> list[str]:
    """The kinds of change that a receiver with these scopes may know of."""
    allowed = frozenset().union(*(SCOPE_PERMISSIONS.get(scope, frozenset()) for scope in scopes))
    return [kind for kind, declared in CHANGE_KINDS.items() if declared.permission in allowed]


def _lock(webhook: Webhook, by: Principal) -> Webhook:
    rows = webhooks_of(webhook.agent, by).select_for_update(of=("self",)).select_related("agent")
    return existing(rows.filter(pk=webhook.pk).first(), "There is no such webhook.")


def _scopes_check(scopes: Sequence[str]) -> list[str]:
    unknown = sorted(set(scopes) - set(RECEIVER_SCOPES))
    if unknown or not scopes:
        raise Invalid(f"A receiver must have one or more of the scopes {', '.join(RECEIVER_SCOPES)}.", field="scopes")
    return sorted(set(scopes))


def _kinds_check(kinds: Collection[str], scopes: Sequence[str]) -> list[str]:
    unknown = sorted(set(kinds) - CHANGE_KINDS.keys())
    if unknown:
        raise Invalid(f"There is no kind of change {unknown[0][:60]!r}.", field="kinds")
    if hidden := sorted(set(kinds) - set(_kinds_known(scopes))):
        raise Invalid(f"With these scopes the receiver must not get {hidden[0]}.", field="kinds")
    return [kind for kind in CHANGE_KINDS if kind in set(kinds)]


def _secret_check(secret: str) -> str:
    if not SHORTEST_SECRET <= len(secret.strip()) <= len(secret) <= 200 or unstorable_reason(secret):
        raise Invalid(f"A secret must have {SHORTEST_SECRET} to 200 characters.", field="secret")
    return secret


def _state(webhook: Webhook) -> dict[str, Any]:
    return {name: getattr(webhook, name) for name in ("url", "persona", "scopes", "kinds", "bodies", "state")}
