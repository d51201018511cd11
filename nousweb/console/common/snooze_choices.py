"""Until when an item of the inbox can be snoozed."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from identity.models import ItemSnooze
from nousweb.lib import clock
from nousweb.lib.errors import Invalid

MORNING = time(8)
"""The time of day when items come back that were snoozed until a day, in the time zone of the console."""


@dataclass(frozen=True, slots=True)
class SnoozeChoice:
    value: str
    label: str


SNOOZE_CHOICES = (
    SnoozeChoice("tomorrow", "Until tomorrow"),
    SnoozeChoice("monday", "Until Monday"),
    SnoozeChoice("again", "Until something new happens"),
)


def not_snoozed(person: int) -> Q:
    """Condition on pending proposals or reviews: this person has not snoozed the item."""
    # Uncorrelated: a cluster does not join its local tables with others.
    snoozes = ItemSnooze.objects.filter(person=person, ended_at=None)
    return ~Q(pk__in=snoozes.filter(Q(until=None) | Q(until__gt=Now())).order_by().values("item_id"))


def snooze_until(choice: str, day: str = "") -> datetime | None:
    """The moment that a choice or a day as "2026-03-04" means; None for until it is seen again. Raises Invalid."""
    today = timezone.localtime(clock.now()).date()
    if choice == "again":
        return None
    if choice == "tomorrow":
        wanted = today + timedelta(days=1)
    elif choice == "monday":
        wanted = today + timedelta(days=7 - today.weekday())
    else:
        try:
            wanted = date.fromisoformat(day)
        except ValueError as error:
            raise Invalid(
                "Snooze until tomorrow, Monday, a date, or until something new happens.", field="until"
            ) from error
    return timezone.make_aware(datetime.combine(wanted, MORNING))
