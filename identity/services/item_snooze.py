"""Snooze and skip inbox items."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction

from identity.models import ItemSnooze, Notification
from identity.policy.inbox import MAX_SNOOZE_DAYS
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, item_open_check, item_require, person_of
from identity.services.notifications import people_notify
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid


@agent_transaction(of="item")
def item_snooze(*, item: InboxItem, until: datetime | None, by: Principal) -> ItemSnooze:
    """Hide an item from one's own inbox until a moment; without one, until it changes or is in a prompt again.

    Others still see it. Raises NotAllowed, NotFound, Conflict for a decided item, Invalid for a moment that is past or
    too far.
    """
    item_require(item, by)
    item_open_check(item)
    now = clock.now()
    if until is not None and not now < until <= now + timedelta(days=MAX_SNOOZE_DAYS):
        raise Invalid(f"Snooze until a moment within the next {MAX_SNOOZE_DAYS} days.", field="until")
    held = ItemSnooze.objects.filter(item_id=item.id, person=person_of(by), ended_at=None)
    held.update(ended_at=now)
    made = ItemSnooze.objects.create(**item.key, person=person_of(by), until=until, at=now)
    audit_record(
        by=by,
        action="item.snooze",
        target=item.row,
        agent=item.agent,
        after={"until": until.isoformat() if until else None},
        persona=item.persona,
    )
    return made


@agent_transaction(of="item")
def item_unsnooze(*, item: InboxItem, by: Principal) -> None:
    """Let an item that one has put off be in one's inbox again. Raises NotAllowed, NotFound, Conflict."""
    item_require(item, by)
    if not ItemSnooze.objects.filter(item_id=item.id, person=person_of(by), ended_at=None).update(ended_at=clock.now()):
        raise Conflict("You have not snoozed this item.")
    audit_record(by=by, action="item.unsnooze", target=item.row, agent=item.agent, persona=item.persona)


@agent_transaction(of="item")
def item_skip(*, item: InboxItem, by: Principal) -> None:
    """Pass an item by without deciding: it waits as before, and the trail says that somebody looked and did not."""
    item_require(item, by)
    item_open_check(item)
    audit_record(by=by, action="item.skip", target=item.row, agent=item.agent, persona=item.persona)


@transaction.atomic
def snoozes_end(*, pairs: Iterable[tuple[ItemSnooze, InboxItem]], by: Principal) -> int:
    """End snoozes whose time has come, and tell who snoozed; `pairs` are snoozes and their items. Returns how many."""
    ended = 0
    for snooze, item in pairs:
        # Only who changes the row tells of it, so that two workers tell once.
        if not ItemSnooze.objects.filter(pk=snooze.pk, ended_at=None).update(ended_at=clock.now()):
            continue
        people_notify(people=[snooze.person], kind=Notification.Kind.RETURNED, item=item, source=snooze.pk)
        audit_record(
            by=by,
            action="item.return",
            target=item.row,
            agent=item.agent,
            persona=item.persona,
            message=f"It is in the inbox of {snooze.person.get_username()} again.",
        )
        ended += 1
    return ended
