"""E-mails about the inbox: high risk at once, and a digest each morning, to people who want them. The worker sends
them.

A mail contains counts and one link, never a memory's text. A mail is claimed in a transaction of its own before it is
sent: a worker that dies in between loses a mail, and no mail is sent twice.
"""

from datetime import datetime, time, timedelta
from smtplib import SMTPException
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from identity.models import ChangeProposal, ItemAssignment, MailPreference, Notification, SecondOpinion
from identity.policy.inbox import HIGH_RISK_TOLD_FOR_HOURS, ITEM_PAGES, VIEW_RIGHTS
from identity.principal import Principal
from identity.services.audit import audit_record
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
        return sum(_urgent_send(one, server, by) for one in urgent) + sum(_digest(one, server, by) for one in digests)
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
    waiting = 0
    if reader.may(VIEW_RIGHTS["changeproposal"]):
        waiting += ChangeProposal.objects.visible_to(reader).waiting().count()
    if reader.may(VIEW_RIGHTS["memoryreview"]):
        waiting += visible_reviews(reader).pending().count()
    parts = (
        (waiting, "item is pending in the inbox", "items are pending in the inbox"),
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
