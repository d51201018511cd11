"""The share of the tokens of memories in prompts that responses referred to, by section of the prompt."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from context.feedback.figure_snapshots import snapshot_put
from context.models import FigureSnapshot, MemoryUsage
from identity.models import Agent, Persona
from nousweb.console.home.period import CHOICES, DAY, Period, Trend
from nousweb.lib import clock

NAME = "usage by day"
_SUMS = {"included": Sum("tokens"), "referenced": Sum("tokens", filter=Q(referenced=True))}


def reference_shares(
    personas: tuple[str, ...], agent: Agent | None, period: Period, snapshot: FigureSnapshot | None
) -> dict[str, Trend]:
    """Shares in percent by section; "" is all of them. One query.

    `snapshot` has the sums of whole days that `usage_refresh` stored; only other times are summed here.
    """
    included: Counter[tuple[str, bool]] = Counter()
    referenced: Counter[tuple[str, bool]] = Counter()
    since, since_before = period.start, period.earlier
    if snapshot and period.step == DAY:
        counted = _midnight(date.fromisoformat(snapshot.value["until"]))
        since = max(since, counted)
        since_before = max(since_before, min(counted, _midnight((period.end - period.length).date())))
        for moment, section, included_tokens, referenced_tokens in _days(snapshot):
            if period.start <= moment < since or period.earlier <= moment < since_before:
                included[section, moment < period.start] += included_tokens
                referenced[section, moment < period.start] += referenced_tokens
    live: Any = _of(personas, agent).filter(
        Q(at__gte=since, at__lt=period.end) | Q(at__gte=since_before, at__lt=period.end - period.length)
    )
    is_before = ExpressionWrapper(Q(at__lt=period.start), output_field=BooleanField())
    for row in live.values("section", before=is_before).annotate(**_SUMS):
        included[row["section"], row["before"]] += row["included"]
        referenced[row["section"], row["before"]] += row["referenced"] or 0
    for sums in (included, referenced):
        for before in (False, True):
            sums["", before] = sum(number for (_, which), number in sums.items() if which == before)

    def share(section: str, *, before: bool) -> float | None:
        return percent(referenced[section, before], included[section, before])

    sections = {section for section, _ in included}
    return {one: Trend(share(one, before=False), share(one, before=True), points=True) for one in sections}


def usage_refresh(agent: Agent | None, *, both: bool) -> None:
    """Store the sums of the usage of each whole day that a page may show."""
    personas = tuple(Persona.values) if both else (Persona.ACTOR.value,)
    until = _midnight(clock.now().date())
    rows: Any = _of(personas, agent).filter(at__gte=until - 2 * max(CHOICES) * DAY, at__lt=until)
    by_day = rows.annotate(day=TruncDate("at")).values("day", "section").annotate(**_SUMS)
    days = [[row["day"].isoformat(), row["section"], row["included"], row["referenced"] or 0] for row in by_day]
    snapshot_put(NAME, agent.pk if agent else None, {"until": until.date().isoformat(), "days": days}, both=both)


def percent(part: float | None, whole: float | None) -> float | None:
    """Share of `part` in `whole`, 0 to 100; None if `whole` is 0 or None."""
    return round(100 * (part or 0) / whole, 1) if whole else None


def _of(personas: tuple[str, ...], agent: Agent | None) -> QuerySet[MemoryUsage, Any]:
    found = MemoryUsage.objects.filter(persona__in=personas).order_by()
    return found.filter(agent=agent) if agent else found


def _midnight(day: date) -> datetime:
    """The beginning of a day, as in periods."""
    return datetime.combine(day, time(), tzinfo=UTC)


def _days(snapshot: FigureSnapshot) -> Iterator[tuple[datetime, str, int, int]]:
    for day, section, included, referenced in snapshot.value["days"]:
        yield _midnight(date.fromisoformat(day)), section, included, referenced
