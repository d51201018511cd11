"""How many prompts the last week had, those that lack a section, and the figures of each of the last 14 days."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum, Value
from django.db.models.functions import TruncDate

from context.models import ContextRun
from nousweb.console.home.board_rows import Sight, board_query
from nousweb.console.home.period import ENOUGH, Trend
from nousweb.console.home.system_health import HealthCheck
from nousweb.lib import clock
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import Rows

DAYS_DRAWN = 14


@dataclass(frozen=True, slots=True)
class RecentPrompts:
    """Numbers of prompts of the last seven days and of the seven before, and of those of the last day with a section
    that failed to load."""

    now: int
    before: int
    incomplete: int

    @property
    def check(self) -> HealthCheck:
        """The health of the assembly of prompts."""
        name, number = "Assembly of prompts", self.incomplete
        trend = Trend(self.now, self.before) if min(self.now, self.before) >= ENOUGH else None
        if not number:
            detail = "No prompt of the last 24 hours lacks a section."
            return HealthCheck(name, "ok", "whole", detail, trend=trend, unit="prompts")
        what = f"{number:,} prompt{' of the last 24 hours lacks' if number == 1 else 's of the last 24 hours lack'}"
        return HealthCheck(
            name, "warn", "incomplete", f"{what} a section that failed to load, so the agent did not know it.",
            "Open such a run: it names the section and the error.", trend=trend, unit="prompts",
        )  # fmt: skip


def _numbers(sight: Sight, now: datetime, day: datetime, week: datetime, fortnight: datetime) -> QuerySet[Any, Any]:
    runs = ContextRun.objects.filter(created_at__gte=fortnight, created_at__lte=now, persona__in=sight.personas)
    return (
        for_visible_agents(runs, sight)
        .order_by()
        .values_list(Value("prompts"))
        .annotate(
            n=Count("created_at", filter=Q(created_at__gte=week)),
            n_before=Count("created_at", filter=Q(created_at__lt=week)),
            failed=Count("created_at", filter=Q(created_at__gte=day) & ~Q(failed_sections=[])),
        )
        .values_list("n", "n_before", "failed")
    )


RECENT = board_query(_numbers, "now", "day", "week", "fortnight")


def recent_prompts(rows: Rows) -> RecentPrompts:
    """The numbers to the minute, from the row of RECENT."""
    return RecentPrompts(*(int(value or 0) for value in (rows[0] if rows else (0, 0, 0))))


def _by_day(sight: Sight, now: datetime, fortnight: datetime) -> QuerySet[Any, Any]:
    runs = ContextRun.objects.filter(created_at__gte=fortnight, created_at__lte=now, persona__in=sight.personas)
    return (
        for_visible_agents(runs, sight)
        .order_by()
        .annotate(day=TruncDate("created_at"))
        .values_list("day")
        .annotate(
            of_day=Count("created_at"),
            tokens_of_day=Sum("tokens", default=0),
            ended=Count("created_at", filter=~Q(outcome="")),
            succeeded=Count("created_at", filter=Q(outcome=ContextRun.Outcome.SUCCESS)),
        )
    )


BY_DAY = board_query(_by_day, "now", "fortnight")


@dataclass(frozen=True, slots=True)
class DailyFigure:
    """A figure of the last 14 days with its value of each day, today's last; None where nothing was reported."""

    label: str
    value: str
    points: list[tuple[str, float | None]]
    unit: str = ""


def daily_figures(rows: Rows) -> list[DailyFigure]:
    """Prompts, their tokens and their reported success, from the rows of BY_DAY; none without prompts."""
    found = {str(row[0]): [int(value) for value in row[1:]] for row in rows}
    today = clock.now().date()
    dates = [today - timedelta(days=back) for back in reversed(range(DAYS_DRAWN))]
    days = [found.get(date.isoformat(), [0, 0, 0, 0]) for date in dates]
    names = [*(f"{date.day} {date:%b}" for date in dates[:-1]), "today"]
    prompts, tokens, ended, succeeded = (sum(column) for column in zip(*days, strict=True))
    if not prompts:
        return []
    shares = [100 * day[3] / day[2] if day[2] else None for day in days]
    return [
        DailyFigure("Prompts, 14 days", f"{prompts:,}", [*zip(names, (float(day[0]) for day in days), strict=True)]),
        DailyFigure(
            "Tokens a day", f"≈ {tokens / DAYS_DRAWN:,.0f}", [*zip(names, (float(day[1]) for day in days), strict=True)]
        ),
        DailyFigure(
            "Reported success", f"{100 * succeeded / ended:.0f} %" if ended else "None reported",
            [*zip(names, shares, strict=True)] if ended else [], "%",
        ),
    ]  # fmt: skip
