"""What the prompts of the last week cost in tokens, by agent, and those that lack a section."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from context.models import ContextRun
from identity.principal import Principal
from nousweb.console.home.period import DAY, ENOUGH, Trend
from nousweb.console.home.system_health import HealthCheck
from nousweb.lib import clock
from nousweb.lib.permission_holder import for_visible_agents

DAYS = 7
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
    def check(self) -> HealthCheck:
        """The health of the assembly of prompts."""
        name, number = "Assembly of prompts", self.incomplete
        if not number:
            return HealthCheck(name, "ok", "whole", "No prompt of the last 24 hours lacks a section.")
        what = f"{number:,} prompt{' of the last 24 hours lacks' if number == 1 else 's of the last 24 hours lack'}"
        return HealthCheck(
            name, "warn", "incomplete", f"{what} a section that failed to load, so the agent did not know it.",
            "Open such a run: it names the section and the error.",
        )  # fmt: skip


def prompt_cost(by: Principal, personas: tuple[str, ...]) -> PromptCost:
    """The cost of the prompts that `by` may see, of seven days to the minute. One query."""
    now = clock.now()
    week, before = now - DAYS * DAY, now - 2 * DAYS * DAY
    runs: QuerySet[ContextRun] = ContextRun.objects.filter(
        created_at__gte=before, created_at__lte=now, persona__in=personas
    )
    this, last = Q(created_at__gte=week), Q(created_at__lt=week)
    fresh = Q(created_at__gte=now - timedelta(days=1)) & ~Q(failed_sections=[])
    rows: list[tuple[Any, ...]] = list(
        for_visible_agents(runs, by)
        .order_by()
        .values_list("agent__name")
        .annotate(
            n=Count("created_at", filter=this),
            n_before=Count("created_at", filter=last),
            sum=Sum("tokens", filter=this, default=0),
            sum_before=Sum("tokens", filter=last, default=0),
            failed=Count("created_at", filter=fresh),
        )
    )
    prompts, prompts_before, tokens, tokens_before, incomplete = (
        sum(row[place] for row in rows) for place in range(1, 6)
    )
    ranked = sorted(((row[0], row[3]) for row in rows if row[3]), key=lambda row: -row[1])
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
