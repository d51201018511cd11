"""Days, weeks, months, quarters and years of the calendar. Weeks begin on Monday."""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, tzinfo

MONTHS = {"month": 1, "quarter": 3, "year": 12}


def later(moment: datetime, span: timedelta) -> datetime:
    """A span of the clock later, also over a change of summer time."""
    return (moment.astimezone(UTC) + span).astimezone(moment.tzinfo)


def midnight(day: date, zone: tzinfo | None) -> datetime:
    """The local midnight with which a day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def period_of(unit: str, day: date) -> tuple[date, date]:
    """The first day of the unit of the calendar that holds `day`, and the first behind it."""
    if months := MONTHS.get(unit):
        first = date(day.year, (day.month - 1) // months * months + 1, 1)
        return first, moved("month", first, months)
    monday = day - timedelta(day.weekday())
    match unit:
        case "week":
            return monday, monday + timedelta(7)
        case "weekend":
            return monday + timedelta(5), monday + timedelta(7)
    return day, day + timedelta(1)


def moved(unit: str, day: date, n: int) -> date:
    """A day `n` units later: at the end of a shorter month, its last day."""
    if unit not in MONTHS:
        return day + timedelta(n * (1 if unit == "day" else 7))
    year, month = divmod(day.year * 12 + day.month - 1 + n * MONTHS[unit], 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def weekday_day(today: date, weekday: int, shift: int | None) -> date:
    """That day of this week, or the nearest before today, or after it."""
    if shift == 0:
        return today + timedelta(weekday - today.weekday())
    if shift == 1:
        return today + timedelta((weekday - today.weekday() - 1) % 7 + 1)
    return today - timedelta((today.weekday() - weekday - 1) % 7 + 1)


def month_begin(today: date, month: int, year: int | None, shift: int | str | None) -> date:
    """The first of a month: of `year`, or of the latest that has begun; before or after this month with a shift."""
    if year is None:
        year = today.year - (month > today.month or (month == today.month and shift == -1))
        year += shift == 1
    return date(year, month, 1)
