"""What the prompts of the last week cost in tokens, by agent, those that lack a section, and those of each day."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from context.models import ContextRun
from nousweb.console.home.board_rows import Sight, board_query
from nousweb.console.home.period import ENOUGH, Trend
from nousweb.console.home.system_health import HealthCheck
from nousweb.lib import clock
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import Rows

DAYS = 7
DAYS_DRAWN = 14
NAMED = 3


@dataclass(frozen=True, slots=True)
class PromptCost:
    """Tokens of prompts a day over the last seven days, of all agents and of those that used most.

    `trend` is None where either week has too few prompts; `incomplete` is the number of prompts of the last day with a
    section that failed to load.
    """

    prompts: int
    prompts_before: int
    tokens: int
    agents: list[tuple[str, int]]
    others: int
    trend: Trend | None
    incomplete: int

    @property
    def count(self) -> Trend | None:
        """The trend of the number of prompts."""
        return Trend(self.prompts, self.prompts_before) if self.trend else None

    @property
    def check(self) -> HealthCheck:
        """The health of the assembly of prompts."""
        name, number = "Assembly of prompts", self.incomplete
        if not number:
            detail = "No prompt of the last 24 hours lacks a section."
            return HealthCheck(name, "ok", "whole", detail, trend=self.count, unit="prompts")
        what = f"{number:,} prompt{' of the last 24 hours lacks' if number == 1 else 's of the last 24 hours lack'}"
        return HealthCheck(
            name, "warn", "incomplete", f"{what} a section that failed to load, so the agent did not know it.",
            "Open such a run: it names the section and the error.", trend=self.count, unit="prompts",
        )  # fmt: skip


def _by_agent(sight: Sight, now: datetime, day: datetime, week: datetime, fortnight: datetime) -> QuerySet[Any, Any]:
    runs = ContextRun.objects.filter(created_at__gte=fortnight, created_at__lte=now, persona__in=sight.personas)
    this, last = Q(created_at__gte=week), Q(created_at__lt=week)
    return (
        for_visible_agents(runs, sight)
        .order_by()
        .values_list("agent__name")
        .annotate(
            n=Count("created_at", filter=this),
            n_before=Count("created_at", filter=last),
            sum=Sum("tokens", filter=this, default=0),
            sum_before=Sum("tokens", filter=last, default=0),
            failed=Count("created_at", filter=Q(created_at__gte=day) & ~Q(failed_sections=[])),
        )
    )


COSTS = board_query(_by_agent, "now", "day", "week", "fortnight")


def prompt_cost(rows: Rows) -> PromptCost:
    """The cost of the prompts of seven days to the minute, from the rows of COSTS."""
    prompts, prompts_before, tokens, tokens_before, incomplete = (
        int(sum(row[place] for row in rows)) for place in range(1, 6)
    )
    ranked = sorted(((row[0], int(row[3])) for row in rows if row[3]), key=lambda row: -row[1])
    named = ranked[:NAMED]
    return PromptCost(
        prompts=prompts,
        prompts_before=prompts_before,
        tokens=round(tokens / DAYS),
        agents=[(name, round(number / DAYS)) for name, number in named],
        others=round((tokens - sum(number for _, number in named)) / DAYS),
        trend=Trend(tokens / DAYS, tokens_before / DAYS) if min(prompts, prompts_before) >= ENOUGH else None,
        incomplete=incomplete,
    )


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
