"""Notifications of the worker in people's inboxes: items back from a snooze, and items of high risk."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from context.models import ContextRun, MemoryUsage
from identity.models import ChangeProposal, IdentityVersion, ItemSnooze, Notification
from identity.policy.inbox import DECIDE_RIGHTS, HIGH_RISK_TOLD_FOR_HOURS
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.services.inbox_items import InboxItem, people_notify, snoozes_end
from memory.models import FactChange, MemoryReview
from memory.policy.categories import PROFILE_CATEGORIES
from nousweb.lib import clock

AT_ONCE = 500
"""Snoozes looked at, and items of high risk told of, in one go."""


def snoozes_return(*, by: Principal) -> int:
    """Bring back items whose snooze ended, and items snoozed until seen again that have been; returns how many.

    A proposal is seen again when its section has another version or another proposal since. A review is when its
    subject changed, when a judge answered, or when its facts or its censor were in a prompt or met since.
    """
    held = ItemSnooze.objects.filter(ended_at=None).select_related("person", "agent").order_by("at")
    due = list(held.filter(until__lte=clock.now())[:AT_ONCE])
    again = list(held.filter(until=None)[:AT_ONCE])
    rows = _rows([*due, *again])
    pairs = [(one, rows[one.item_id]) for one in due if one.item_id in rows]
    pairs += [(one, rows[one.item_id]) for one in again if one.item_id in rows and _seen_again(one, rows[one.item_id])]
    gone = [one.pk for one in (*due, *again) if one.item_id not in rows or rows[one.item_id].status not in _OPEN]
    # Nobody is notified about items that were decided meanwhile.
    ItemSnooze.objects.filter(pk__in=gone, ended_at=None).update(ended_at=clock.now())
    pairs = [(one, row) for one, row in pairs if one.pk not in gone]
    return snoozes_end(pairs=[(one, InboxItem.of(row)) for one, row in pairs], by=by)


_OPEN = (*ChangeProposal.WAITING, MemoryReview.Status.PENDING)


def _rows(snoozes: Iterable[ItemSnooze]) -> dict[UUID, Any]:
    """The items of these snoozes by their keys; those that are gone are left out."""
    keys = {one.item_id for one in snoozes}
    found: dict[UUID, Any] = {}
    found |= ChangeProposal.objects.select_related("agent").in_bulk(keys)
    found |= MemoryReview.objects.select_related("agent", "old", "new", "censor").in_bulk(keys)
    return found


def _seen_again(snooze: ItemSnooze, row: Any) -> bool:
    if isinstance(row, ChangeProposal):
        same = {"agent": row.agent_id, "section": row.section, "created_at__gt": snooze.at}
        others = ChangeProposal.objects.filter(**same, persona=row.persona).exclude(pk=row.pk)
        return IdentityVersion.objects.filter(**same).exists() or others.exists()
    facts = [key for key in (row.old_id, row.new_id, *row.facts) if key]
    if FactChange.objects.filter(fact__in=facts, at__gt=snooze.at).exists():
        return True
    if row.judge_call is not None and row.judge_call.created_at > snooze.at:
        return True
    last = row.censor.last_activated_at if row.censor else None
    if last is not None and last > snooze.at:
        return True
    core = any(fact and fact.category in PROFILE_CATEGORIES for fact in (row.old, row.new))
    if core and ContextRun.objects.filter(agent=row.agent_id, persona=row.persona, created_at__gt=snooze.at).exists():
        return True
    used = MemoryUsage.objects.filter(agent=row.agent_id, item_type="fact", item_id__in=[str(key) for key in facts])
    return used.filter(persona=row.persona, at__gt=snooze.at).exists()


def high_risk_notify(*, by: Principal) -> int:
    """Tell everybody who may decide it of each new item of high risk, once; returns how many were notified."""
    since = clock.now() - timedelta(hours=HIGH_RISK_TOLD_FOR_HOURS)
    high = Q(kind=MemoryReview.Kind.ESCALATION) | Q(kind=MemoryReview.Kind.CONTRADICTION, old__endorsed=True)
    proposals = ChangeProposal.objects.pending().filter(risk=Risk.HIGH, created_at__gt=since)
    reviews = MemoryReview.objects.pending().filter(high, created_at__gt=since)
    waiting: list[Any] = [
        *proposals.select_related("agent")[:AT_ONCE],
        *reviews.select_related("agent")[:AT_ONCE],
    ]
    keys = [row.pk for row in waiting]
    kind = Notification.Kind.HIGH_RISK
    told = set(Notification.objects.filter(kind=kind, item_id__in=keys).values_list("item_id", flat=True))
    number = 0
    for row in waiting:
        if row.pk in told:
            continue
        item = InboxItem.of(row)
        with transaction.atomic():
            # The author is not notified.
            own = str(row.author_id) if getattr(row, "author_kind", "") == "person" else ""
            people = [person for person in item.people(DECIDE_RIGHTS) if str(person.pk) != own]
            number += people_notify(people=people, kind=kind, item=item, source="risk")
    return number
