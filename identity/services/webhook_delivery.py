"""Deliver changes to webhooks: in order, signed, at least once, retried with growing pauses, given up visibly.

One worker at a time has a webhook, by a lease on its row. It turns all that is new in the feed into a message, and
sends the oldest that waits, again and again for a turn; one that fails ends the turn and holds back those after it. A
worker that is killed after the answer and before its record leaves the message to be sent again, under the same id,
when its lease is over.
"""

import hashlib
import hmac
import json
import math
import time
import uuid
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import timedelta

import structlog
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Greatest

from identity.models import Change, ChangeStream, Persona, Webhook, WebhookDelivery
from identity.policy.webhooks import (
    AT_ONCE,
    CHANGES_IN_A_MESSAGE,
    CHANGES_WITH_BODIES,
    DELIVERY,
    DISABLED_AFTER,
    LOOK_EVERY,
    LOOK_SOON,
    LOOK_SOON_FOR,
    TURN_SECONDS,
)
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.change_feed import changes_json, streams_publish, streams_told
from identity.services.webhook_address import NotSent, message_send
from identity.services.webhooks import State, Status, webhook_kinds, webhook_secrets
from nousweb.lib import clock
from nousweb.lib.background import repeat

log = structlog.get_logger(__name__)
POSITIONS: dict[str, str] = {Persona.ACTOR: "actor_position", Persona.SUBCONSCIOUS: "subconscious_position"}


def webhooks_start() -> None:
    """Let a worker process send to webhooks until it ends.

    Webhooks have threads besides the tasks, so that a slow receiver delays neither a task nor another receiver. The due
    webhook that has waited longest gets the next free thread.
    """
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook")
    busy: dict[uuid.UUID, Future[None]] = {}
    busy_at = -math.inf

    def pause() -> timedelta:
        nonlocal busy_at
        if busy:
            busy_at = time.monotonic()
        return LOOK_SOON if time.monotonic() - busy_at < LOOK_SOON_FOR.total_seconds() else LOOK_EVERY

    repeat(lambda: webhooks_look(busy, pool), name="webhooks", pause=pause)


def webhooks_look(busy: dict[uuid.UUID, Future[None]], pool: Executor) -> None:
    """Give webhooks that are due a thread each, while there are free ones; `busy` holds those that have one."""
    for key in [key for key, future in busy.items() if future.done()]:
        del busy[key]
    for key in webhooks_due():
        if len(busy) >= AT_ONCE:
            break
        if key not in busy:
            busy[key] = pool.submit(_serve, key)


def _serve(key: uuid.UUID) -> None:
    try:
        webhook_serve(key)
    except Exception as error:  # The lease ends by itself, and the message is sent again.
        log.warning("webhook_not_served", webhook=str(key), error=type(error).__name__)
    finally:
        connection.close()


def webhooks_due() -> list[uuid.UUID]:
    """The webhooks that have something to send now, and that nobody is about: those that wait the longest come first.

    Numbers the streams first.
    """
    streams_publish()
    waiting = WebhookDelivery.objects.filter(agent=OuterRef("agent"), webhook=OuterRef("pk"), status=Status.WAITING)
    free = list(_free().annotate(waits=Exists(waiting)).order_by("due_at", "pk"))
    # A statement of its own: on a cluster, webhooks and streams are on different servers.
    streams = ChangeStream.objects.filter(agent__in={webhook.agent_id for webhook in free})
    ends = {(agent, persona): last for agent, persona, last in streams.values_list("agent", "persona", "last")}
    return [
        webhook.pk
        for webhook in free
        if webhook.waits
        or any(
            ends.get((webhook.agent_id, persona), 0) > getattr(webhook, POSITIONS[persona])
            for persona in streams_told(webhook.persona == Persona.SUBCONSCIOUS)
        )
    ]


def webhook_serve(webhook_id: uuid.UUID) -> int:
    """Send the due messages of a webhook, for a turn; returns how many were delivered."""
    lease = uuid.uuid4()
    if not _free().filter(pk=webhook_id).update(lease=lease, leased_until=clock.now() + DELIVERY.lease):
        return 0
    held = Webhook.objects.filter(pk=webhook_id, lease=lease)
    end, delivered = time.monotonic() + TURN_SECONDS, 0
    try:
        with DELIVERY.renewal(lambda: held.update(leased_until=clock.now() + DELIVERY.lease), name="webhook-lease"):
            while _step(webhook_id, lease):
                delivered += 1
                if time.monotonic() > end:
                    break
    finally:
        # To the end of the queue, unless it has to wait for longer.
        held.update(lease=None, leased_until=None, due_at=Greatest(F("due_at"), clock.now()))
    return delivered


def _free() -> QuerySet[Webhook]:
    """The active webhooks whose pause is over and that no worker holds."""
    now = clock.now()
    free = Q(leased_until__isnull=True) | Q(leased_until__lte=now)
    return Webhook.objects.filter(free, state=State.ACTIVE, due_at__lte=now)


def _step(webhook_id: uuid.UUID, lease: uuid.UUID) -> bool:
    """Send the oldest message that waits; whether it was delivered, so that the next one may follow."""
    _messages_make(webhook_id, lease)
    webhook = Webhook.objects.select_related("agent").filter(pk=webhook_id, lease=lease, state=State.ACTIVE).first()
    if webhook is None:
        return False
    delivery = webhook.messages.filter(status=Status.WAITING).order_by("number").first()
    if delivery is None:
        return False
    try:
        answer: tuple[int, int] | tuple[None, None] = None, None
        body = message_body(webhook, delivery)
        status, _ = answer = message_send(webhook.url, body, headers_of(webhook, delivery, body))
        error = "" if 200 <= status < 300 else f"The address answered {status}."
    except NotSent as refused:
        error = str(refused)
    except (ValueError, RecursionError) as unwritable:
        # A body that cannot be written counts as an attempt: nothing else of this webhook would go out any more.
        error = f"The message could not be written: {unwritable}"
    return _record(webhook, lease, delivery, answer, error)


@transaction.atomic
def _record(
    webhook: Webhook,
    lease: uuid.UUID,
    delivery: WebhookDelivery,
    answer: tuple[int, int] | tuple[None, None],
    error: str,
) -> bool:
    """Write down what came of an attempt, with the status and the milliseconds of its answer, if the lease still holds;
    whether the message was delivered."""
    held = Webhook.objects.select_for_update().filter(pk=webhook.pk, lease=lease).first()
    if held is None:
        return False
    now = clock.now()
    delivery.attempts += 1
    delivery.tried_at, delivery.error = now, error[:300]
    delivery.answer_status, delivery.duration_ms = answer
    if not error:
        delivery.status, delivery.finished_at = Status.DELIVERED, now
        held.failures = 0
    elif delivery.attempts >= DELIVERY.max_attempts:
        delivery.status, delivery.finished_at = Status.DEAD, now
        held.failures += 1
    else:
        held.due_at = now + DELIVERY.backoff(delivery.attempts)
    delivery.save()
    if held.failures >= DISABLED_AFTER and held.state == State.ACTIVE:
        held.state = State.DISABLED
        audit_record(
            by=Principal.of_system("worker"),
            action="webhook.disable",
            target=held,
            agent=webhook.agent,
            after={"state": str(held.state), "failures": held.failures},
            message="Too many messages in a row failed permanently.",
        )
    held.save(update_fields=["failures", "due_at", "state"])
    return not error


@transaction.atomic
def _messages_make(webhook_id: uuid.UUID, lease: uuid.UUID) -> None:
    """Turn new changes of each stream into a message, up to a limit, under the webhook's lock.

    Changes that the receiver may not see, or did not request, are skipped once and not read again.
    """
    webhook = Webhook.objects.select_for_update().filter(pk=webhook_id, lease=lease).first()
    if webhook is None or webhook.messages.filter(status=Status.WAITING).exists():
        return
    kinds = webhook_kinds(webhook)
    limit = CHANGES_WITH_BODIES if webhook.bodies else CHANGES_IN_A_MESSAGE
    ends = dict(ChangeStream.objects.filter(agent=webhook.agent_id).values_list("persona", "last"))
    moved = []
    for persona in streams_told(webhook.persona == Persona.SUBCONSCIOUS):
        position, end = getattr(webhook, POSITIONS[persona]), ends.get(persona, 0)
        if end <= position:
            continue
        new = Change.objects.filter(agent=webhook.agent_id, persona=persona, kind__in=kinds)
        new = new.filter(position__gt=position, position__lte=end).order_by("position")
        rows = list(new.values_list("id", "kind", "position")[:limit])
        setattr(webhook, POSITIONS[persona], rows[-1][2] if len(rows) == limit else end)
        moved.append(POSITIONS[persona])
        if rows:
            WebhookDelivery.objects.create(
                agent_id=webhook.agent_id,
                webhook=webhook,
                number=(webhook.messages.aggregate(last=Max("number"))["last"] or 0) + 1,
                changes=[key for key, _, _ in rows],
                kinds=sorted({kind for _, kind, _ in rows}),
            )
    if moved:
        webhook.save(update_fields=moved)


def message_body(webhook: Webhook, delivery: WebhookDelivery) -> bytes:
    """The body of a message: the changes as they were, and with `bodies` the present state of their objects.

    Without objects that the webhook may not see any more.
    """
    kinds, personas = webhook_kinds(webhook), streams_told(webhook.persona == Persona.SUBCONSCIOUS)
    changes = Change.objects.filter(pk__in=delivery.changes, agent=webhook.agent, kind__in=kinds, persona__in=personas)
    told = {
        "delivery": str(delivery.pk),
        "number": delivery.number,
        "agent": webhook.agent.slug,
        "changes": changes_json(webhook.agent, changes.order_by("position"), personas, with_bodies=webhook.bodies),
    }
    return json.dumps(told, cls=DjangoJSONEncoder).encode()


def headers_of(webhook: Webhook, delivery: WebhookDelivery, body: bytes) -> dict[str, str]:
    """The headers of a message; the moment is signed with it, so that nobody can send it again later."""
    moment = int(clock.now().timestamp())
    signed = ",".join(f"v1={webhook_signature(secret, moment, body)}" for secret in webhook_secrets(webhook))
    return {
        "Content-Type": "application/json",
        "User-Agent": "nous-web",
        "X-Nous-Delivery": str(delivery.pk),
        "X-Nous-Signature": f"t={moment},{signed}",
    }


def webhook_signature(secret: str, moment: int, body: bytes) -> str:
    """HMAC-SHA256 in hexadecimal of the moment (seconds since 1970), a dot and the body."""
    return hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()


def deliveries_purge() -> int:
    """Delete messages that were delivered or given up before NOUS_CHANGES_RETENTION_DAYS, and former secrets that sign
    no more; returns how many messages."""
    now = clock.now()
    Webhook.objects.filter(former_secret_until__lt=now).update(former_secret="", former_secret_until=None)
    horizon = now - timedelta(days=settings.CHANGES_RETENTION_DAYS)
    return WebhookDelivery.objects.filter(~Q(status=Status.WAITING), finished_at__lt=horizon).delete()[0]
