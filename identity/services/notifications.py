"""Notifications of people about the inbox, and marking them as read."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from identity.models import Notification
from identity.policy.inbox import READ_KEPT_DAYS
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.inbox_items import InboxItem, person_of
from nousweb.lib import clock


def people_notify(*, people: Iterable[User], kind: str, item: InboxItem, source: object, by_name: str = "") -> int:
    """Notify these people about an item, each once per `source`; returns how many were notified.

    Part of the transaction of the cause, whose audit record covers it.
    """
    drafts = [
        Notification(**item.key, person=person, kind=kind, source=str(source), by_name=by_name) for person in people
    ]
    Notification.objects.bulk_create(drafts, ignore_conflicts=True)
    return Notification.objects.filter(pk__in=[draft.pk for draft in drafts]).count()


@transaction.atomic
def notifications_read(*, by: Principal, keys: Iterable[UUID] | None = None, item: UUID | None = None) -> int:
    """Mark one's own unread notifications as read: all, those with these keys, or those about one item.

    Returns how many. Raises NotAllowed for callers that are no person.
    """
    person = person_of(by)
    unread = Notification.objects.filter(person=person).unread()
    if keys is not None:
        unread = unread.filter(pk__in=list(keys))
    if item is not None:
        unread = unread.filter(item_id=item)
    number = unread.update(read_at=clock.now())
    if number:
        said = "1 notification was" if number == 1 else f"{number} notifications were"
        audit_record(by=by, action="notification.read", target=person, agent=None, message=f"{said} marked as read.")
    return number


def notifications_purge() -> int:
    """Delete notifications that were read long ago; returns how many. Their items show their own outcome."""
    long_ago = clock.now() - timedelta(days=READ_KEPT_DAYS)
    return Notification.objects.filter(read_at__lt=long_ago).delete()[0]
