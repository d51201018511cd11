"""What share of the tokens of memories in prompts answers referred to, by section of the prompt."""

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
_SUMS = {"told": Sum("tokens"), "used": Sum("tokens", filter=Q(referenced=True))}


def reference_shares(
    personas: tuple[str, ...], agent: Agent | None, period: Period, kept: FigureSnapshot | None
) -> dict[str, Trend]:
    """In percent by section; "" is all of them. One query.

    `kept` are the sums of whole days that `usage_keep` left: then the days since and a part of a day are summed here.
    """
    told: Counter[tuple[str, bool]] = Counter()
    used: Counter[tuple[str, bool]] = Counter()
    since, since_before = period.start, period.earlier
    if kept and period.step == DAY:
        counted = _midnight(date.fromisoformat(kept.value["until"]))
        since = max(since, counted)
        since_before = max(since_before, min(counted, _midnight((period.end - period.length).date())))
        for moment, section, tokens, referenced in _days(kept):
            if period.start <= moment < since or period.earlier <= moment < since_before:
                told[section, moment < period.start] += tokens
                used[section, moment < period.start] += referenced
    live: Any = _of(personas, agent).filter(
        Q(at__gte=since, at__lt=period.end) | Q(at__gte=since_before, at__lt=period.end - period.length)
    )
    is_before = ExpressionWrapper(Q(at__lt=period.start), output_field=BooleanField())
    for row in live.values("section", before=is_before).annotate(**_SUMS):
        told[row["section"], row["before"]] += row["told"]
        used[row["section"], row["before"]] += row["used"] or 0
    for sums in (told, used):
        for before in (False, True):
            sums["", before] = sum(number for (_, which), number in sums.items() if which == before)

    def share(section: str, *, before: bool) -> float | None:
        return percent(used[section, before], told[section, before])

    sections = {section for section, _ in told}
    return {one: Trend(share(one, before=False), share(one, before=True), points=True) for one in sections}


def usage_keep(agent: Agent | None, *, both: bool) -> None:
    """Sum the usage of each whole day that a page may show, for the pages to come."""
    personas = tuple(Persona.values) if both else (Persona.ACTOR.value,)
    until = _midnight(clock.now().date())
    rows: Any = _of(personas, agent).filter(at__gte=until - 2 * max(CHOICES) * DAY, at__lt=until)
    by_day = rows.annotate(day=TruncDate("at")).values("day", "section").annotate(**_SUMS)
    days = [[row["day"].isoformat(), row["section"], row["told"], row["used"] or 0] for row in by_day]
    snapshot_put(NAME, agent.pk if agent else None, {"until": until.date().isoformat(), "days": days}, both=both)


def percent(part: float | None, whole: float | None) -> float | None:
    """Share of `part` in `whole`, 0 to 100; None where there is no whole."""
    return round(100 * (part or 0) / whole, 1) if whole else None


def _of(personas: tuple[str, ...], agent: Agent | None) -> QuerySet[MemoryUsage, Any]:
    found = MemoryUsage.objects.filter(persona__in=personas).order_by()
    return found.filter(agent=agent) if agent else found


def _midnight(day: date) -> datetime:
    """Where a day begins, as the periods have it."""
    return datetime.combine(day, time(), tzinfo=UTC)


def _days(kept: FigureSnapshot) -> Iterator[tuple[datetime, str, int, int]]:
    for day, section, told, referenced in kept.value["days"]:
        yield _midnight(date.fromisoformat(day)), section, told, referenced
