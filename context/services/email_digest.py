"""Notices of snoozed items that return and of high risk, and e-mails about the inbox: high risk at once, and a digest
each morning, to people who want them. The worker sends them.

A mail contains counts and one link, never a memory's text. A mail is claimed in a transaction of its own before it is
sent: a worker that dies in between loses a mail, and no mail is sent twice.
"""

from collections.abc import Iterable
from datetime import datetime, time, timedelta
from smtplib import SMTPException
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from context.models import ContextRun, MemoryUsage
from identity.models import (
    ChangeProposal,
    IdentityVersion,
    ItemAssignment,
    ItemSnooze,
    MailPreference,
    Notification,
    SecondOpinion,
)
from identity.policy.inbox import DECIDE_RIGHTS, HIGH_RISK_TOLD_FOR_HOURS, ITEM_PAGES, VIEW_RIGHTS
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, people_notify, snoozes_end
from memory.models import FactChange, MemoryReview
from memory.policy import PROFILE_CATEGORIES
from memory.selectors import visible_reviews
from nousweb.lib import clock
from nousweb.lib.permission_holder import for_visible_agents

logger = structlog.get_logger(__name__)

DIGEST_AT = time(7)
"""In the time zone of the console."""
MAILS_AT_ONCE = 100
FOOT = "You can change your e-mail preferences on your account page in the console."


def mails_send(*, by: Principal) -> int:
    """Send the due mails; returns how many were handed over. Does nothing without NOUS_EMAIL_URL.

    Does not raise if the server is unreachable: unclaimed mails wait for the next run.
    """
    if not settings.EMAIL_URL:
        return 0
    urgent, digests = list(_urgent()[:MAILS_AT_ONCE]), list(_digest_people()[:MAILS_AT_ONCE])
    if not urgent and not digests:
        return 0
    server = get_connection()
    try:
        server.open()
    except (OSError, SMTPException) as error:
        logger.warning("mail_server_unreachable", error=type(error).__name__)
        return 0
    try:
        return sum(_urgent_send(one, server, by) for one in urgent) + sum(
            _digest(digest, server, by) for digest in digests
        )
    finally:
        server.close()


def _people() -> QuerySet[User]:
    return User.objects.filter(is_active=True).exclude(email="")


def _urgent() -> QuerySet[Notification]:
    since = clock.now() - timedelta(hours=HIGH_RISK_TOLD_FOR_HOURS)
    found = Notification.objects.filter(kind=Notification.Kind.HIGH_RISK, mailed_at=None, read_at=None, at__gt=since)
    wanted = found.filter(person__in=_people()).exclude(person__mail_preference__at_once=False)
    return wanted.select_related("person", "agent").order_by("at", "id")


def _urgent_send(notification: Notification, server: BaseEmailBackend, by: Principal) -> bool:
    if not Notification.objects.filter(pk=notification.pk, mailed_at=None).update(mailed_at=clock.now()):
        return False
    # A person who was limited to other agents since the notification gets no mail about this one.
    if not Notification.objects.filter(pk=notification.pk).visible_to(Principal.of_user(notification.person)).exists():
        return False
    name = notification.agent.name
    link = settings.PUBLIC_URL + reverse(ITEM_PAGES[notification.item_type], args=[notification.item_id])
    text = f"An item of high risk about the agent {name} needs a decision:\n\n{link}\n\n{FOOT}\n"
    return _send(notification.person, f"High risk: {name}", text, server, by)


def _digest_people() -> QuerySet[User]:
    """People whose digest is due: once a day, from DIGEST_AT on."""
    now = timezone.localtime(clock.now())
    if now.time() < DIGEST_AT:
        return User.objects.none()
    since = timezone.make_aware(datetime.combine(now.date(), DIGEST_AT))
    due = Q(mail_preference=None) | Q(mail_preference__digest=True) & (
        Q(mail_preference__digest_at=None) | Q(mail_preference__digest_at__lt=since)
    )
    return _people().filter(due).order_by("pk")


def _digest(person: User, server: BaseEmailBackend, by: Principal) -> bool:
    now = clock.now()
    since = timezone.make_aware(datetime.combine(timezone.localtime(now).date(), DIGEST_AT))
    MailPreference.objects.get_or_create(person=person)
    mine = MailPreference.objects.filter(Q(digest_at=None) | Q(digest_at__lt=since), person=person, digest=True)
    if not mine.update(digest_at=now):
        return False
    lines = _digest_lines(person)
    if not lines:
        return False
    text = "\n".join(lines) + f"\n\n{settings.PUBLIC_URL}{reverse('inbox')}\n\n{FOOT}\n"
    return _send(person, lines[0], text, server, by)


def _digest_lines(person: User) -> list[str]:
    """The pending items of a person, one line per kind; [] if there are none."""
    reader = Principal.of_user(person)
    waiting = applied = 0
    if reader.may(VIEW_RIGHTS["changeproposal"]):
        proposals = ChangeProposal.objects.visible_to(reader)
        waiting += proposals.pending().count()
        applied = proposals.filter(status=ChangeProposal.Status.APPLIED).count()
    if reader.may(VIEW_RIGHTS["memoryreview"]):
        waiting += visible_reviews(reader).pending().count()
    parts = (
        (waiting, "item is pending in the inbox", "items are pending in the inbox"),
        (applied, "change was applied without review", "changes were applied without review"),
        (_rows(ItemAssignment.objects.all(), reader), "item is assigned to you", "items are assigned to you"),
        (
            _rows(SecondOpinion.objects.filter(answered_at=None), reader),
            "opinion is requested from you",
            "opinions are requested from you",
        ),
        (_rows(Notification.objects.unread(), reader), "notification is unread", "notifications are unread"),
    )
    return [f"{number} {one if number == 1 else many}" for number, one, many in parts if number]


def _rows(rows: QuerySet[Any], reader: Principal) -> int:
    return for_visible_agents(rows.filter(person_id=int(reader.id)), reader).count()


def _send(person: User, subject: str, text: str, server: BaseEmailBackend, by: Principal) -> bool:
    message = EmailMessage(f"Nous: {subject}", text, settings.DEFAULT_FROM_EMAIL, [person.email], connection=server)
    try:
        message.send()
    except (OSError, SMTPException) as error:
        logger.warning("mail_not_sent", person=person.pk, error=type(error).__name__)
        return False
    audit_record(by=by, action="notification.mail", target=person, agent=None, message=subject)
    return True


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
    rows = _snoozed_rows([*due, *again])
    pairs = [(snooze, rows[snooze.item_id]) for snooze in due if snooze.item_id in rows]
    pairs += [
        (snooze, rows[snooze.item_id])
        for snooze in again
        if snooze.item_id in rows and _seen_again(snooze, rows[snooze.item_id])
    ]
    gone = [one.pk for one in (*due, *again) if one.item_id not in rows or rows[one.item_id].status not in _OPEN]
    # Nobody is notified about items that were decided meanwhile.
    ItemSnooze.objects.filter(pk__in=gone, ended_at=None).update(ended_at=clock.now())
    pairs = [(one, row) for one, row in pairs if one.pk not in gone]
    return snoozes_end(pairs=[(one, InboxItem.of(row)) for one, row in pairs], by=by)


_OPEN = (*ChangeProposal.WAITING, MemoryReview.Status.PENDING)


def _snoozed_rows(snoozes: Iterable[ItemSnooze]) -> dict[UUID, Any]:
    """The items of these snoozes by their keys; those that are gone are left out."""
    keys = {snooze.item_id for snooze in snoozes}
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
            number += people_notify(people=people, kind=kind, item=item, source="risk", at=row.created_at)
    return number
