"""The home page: what needs a person, what changed since they were here, and whether all is well.

Reads only; each part requires the permission of its own page.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, F, Max, Min, Model, OuterRef, Q, QuerySet, Subquery, Sum, When, Window
from django.db.models.functions import Left, TruncDate
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import capfirst

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.expectations.services import personas_of
from context.feedback.health_findings import FINDINGS
from context.feedback.health_score import HEALTH_BY_DAY, health_read
from context.models import NOT_SUPPORTED, ContextRun, ExpectationResult, FigureSnapshot
from identity.models import Agent, Persona
from identity.policy.inbox import VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.webhooks import MANAGE
from identity.principal import Principal
from identity.services.versions import REVIEW
from memory.policy.oversight import wilson_interval
from nousweb.console.common import TYPE_PAGES
from nousweb.console.home.attention import (
    BROKEN,
    DEAD_JOBS,
    FAILING_WEBHOOKS,
    NEWS,
    Failure,
    NewsGroup,
    broken_expectations,
    changes_since,
    expectation_failures,
    job_failures,
    waiting_items,
    webhook_failures,
)
from nousweb.console.home.board_rows import Sight, board_query, board_rows, json_read, moment_read
from nousweb.console.home.period import DEFAULT_DAYS, ENOUGH, Figure, Period, Trend
from nousweb.console.home.system_health import (
    JUDGE_CALLS,
    LAST_VERIFICATION,
    MODELS,
    UNREADY,
    HealthCheck,
    embedder_check,
    index_check,
    judge_check,
    log_check,
    worker_check,
)
from nousweb.console.inbox.filter import InboxRow
from nousweb.console.templatetags.console import age_or_day
from nousweb.lib import clock
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import CachedQuery, Rows

PASSED = ExpectationResult.State.PASSED


def assembly_check(failed: Rows) -> HealthCheck:
    """The health of the assembly of prompts, from the rows of FAILED."""
    name, number = "Assembly of prompts", int(failed[0][-1]) if failed else 0
    if not number:
        return HealthCheck(name, "ok", "whole", "No prompt of the last 24 hours lacks a section.")
    what = f"{number:,} prompt{' of the last 24 hours lacks' if number == 1 else 's of the last 24 hours lack'}"
    return HealthCheck(
        name, "warn", "incomplete", f"{what} a section that failed to load, so the agent did not know it.",
        "Open such a prompt: it names the section and the error.",
    )  # fmt: skip


def _by_day(
    sight: Sight,
    now: datetime,
    fortnight: datetime,
    first: datetime,
    first_before: datetime,
) -> QuerySet[Any, Any]:
    runs = ContextRun.objects.filter(created_at__gte=first_before, created_at__lte=now, persona__in=sight.personas)
    drawn = Q(created_at__gte=first) | Q(created_at__lt=fortnight)
    return (
        for_visible_agents(runs, sight)
        .order_by()
        .annotate(of=TruncDate("created_at"))
        .values_list("of")
        .annotate(
            of_day=Count("created_at", filter=drawn),
            tokens_of_day=Sum("tokens", filter=drawn, default=0),
            ended=Count("created_at", filter=drawn & ~Q(outcome="")),
            succeeded=Count("created_at", filter=drawn & Q(outcome=ContextRun.Outcome.SUCCESS)),
        )
    )  # fmt: skip


BY_DAY = board_query(_by_day, "now", "fortnight", "first", "first_before")
"""Days with the figures that are drawn, of the period and of the one before up to this time of its last day, all from
an index of these figures."""


def daily_figures(rows: Rows) -> list[Figure]:
    """Prompts with their reported success, and their mean tokens, in 14 days, from the rows of BY_DAY; none without
    prompts."""
    period = Period(DEFAULT_DAYS, clock.now())
    found = {str(row[0]): [int(value) for value in row[1:5]] for row in rows}

    def days(moments: list[datetime]) -> list[list[int]]:
        return [found.get(moment.date().isoformat(), [0, 0, 0, 0]) for moment in moments]

    now, before = days(period.moments), days([moment - period.length for moment in period.moments])
    (prompts, tokens, ended, succeeded), (prompts_before, tokens_before, *before_ended) = (
        [sum(column) for column in zip(*one, strict=True)] for one in (now, before)
    )
    if not prompts:
        return []
    names = [period.short(moment) for moment in period.moments]
    compares = min(prompts, prompts_before) >= ENOUGH
    return [
        Figure(
            "Prompts",
            f"{prompts:,}",
            f"{succeeded:,} of {ended:,}{' reported' * (ended < prompts)} succeeded" if ended else "",
            [(name, day[0]) for name, day in zip(names, now, strict=True)],
            trend=Trend(prompts, prompts_before) if compares else None,
            failed=[day[2] - day[3] for day in now] if succeeded < ended else (),
            key="success",
            alarm=_failures_rose(ended, succeeded, *before_ended),
        ),
        Figure(
            "Mean prompt",
            f"≈ {tokens / prompts:,.0f}",
            "tokens",
            [(name, day[1] / day[0] if day[0] else None) for name, day in zip(names, now, strict=True)],
            "tokens",
            Trend(tokens / prompts, tokens_before / prompts_before) if compares else None,
            key="tokens",
        ),
    ]


def _failures_rose(ended: int, succeeded: int, ended_before: int, succeeded_before: int) -> str:
    """That more prompts failed than before, as a sentence with the figures marked; "" where it may be chance."""
    failed, failed_before = ended - succeeded, ended_before - succeeded_before
    if wilson_interval(failed, ended)[0] <= wilson_interval(failed_before, ended_before)[1]:
        return ""
    return format_html(
        "Failures rose: <strong>{}</strong> reported prompts failed, in the {} days before {}.",
        f"{failed:,} of {ended:,}", DEFAULT_DAYS, f"{failed_before:,} of {ended_before:,}",
    )  # fmt: skip


def _standing(sight: Sight, first: datetime) -> QuerySet[Any, Any]:
    earlier = ExpectationResult.objects.filter(
        agent=OuterRef("agent"), expectation=OuterRef("expectation"), since__lt=OuterRef("since")
    )
    drawn, former = Q(since__gte=first), Subquery(earlier.order_by("-since").values("state")[:1])
    results = ExpectationResult.objects.filter(Q(is_current=True) | drawn, expectation__active=True)
    return (
        for_visible_agents(results, sight)
        .filter(persona__in=sight.personas)
        .order_by()
        .annotate(day=Case(When(drawn, then=TruncDate("since"))), former=Case(When(drawn, then=former)))
        .values_list("day", "state", "former", "is_current")
        .annotate(number=Count("id"), last=Max("checked_at"), slug=Min("agent__slug"), slug_last=Max("agent__slug"))
    )


STANDING = board_query(_standing, "first")
"""Results of expectations that are current, or began in the period: of each day in it (None before it), how many came
from which state (None: never checked before) to which."""
SCORES = board_query(
    lambda sight: (
        for_visible_agents(FigureSnapshot.objects.filter(name=HEALTH_BY_DAY, persona=Persona.ACTOR), sight)
        .order_by("agent")
        .values_list("agent__slug", "value", "at")[:2]
    )
)


def _held(hold: int, of: int, standing: Rows, period: Period) -> list[tuple[int, int]]:
    """At the end of each day of the period, how many expectations held, of how many that had been checked: told
    backwards from now by the rows of STANDING."""
    held = []
    for moment in reversed(period.moments):
        held.append((hold, of))
        for day, state, former, _, number, *_ in standing:
            if str(day) == moment.date().isoformat():
                hold -= number * ((state == PASSED) - (former == PASSED))
                of -= number * (former is None)
    return held[::-1]


def standing_figures(standing: Rows, scores: Rows) -> list[Figure]:
    """How many expectations hold, and the last kept score of the memory of a single agent, from the rows of STANDING
    and SCORES; none of what was never checked."""
    figures = []
    period = Period(DEFAULT_DAYS, clock.now())
    current = [row for row in standing if row[3]]
    if of := sum(row[4] for row in current):
        hold = sum(row[4] for row in current if row[1] == PASSED)
        slugs = {slug for row in current for slug in row[6:]}
        url = reverse("agent_expectations", args=[*slugs]) if len(slugs) == 1 else reverse("agents")
        held = _held(hold, of, standing, period)
        failed = [each - good for good, each in held]
        days = [(period.short(moment), each or None) for moment, (_, each) in zip(period.moments, held, strict=True)]
        note = "Checked" if any(failed) else f"No failure in {DEFAULT_DAYS} days, checked"
        figures.append(
            Figure(
                "Expectations",
                f"{hold:,}",
                f"of {of:,} hold",
                days,
                "checked",
                failed=failed,
                ticks=True,
                url=url,
                note=f"{note} {age_or_day(max(moment_read(row[5]) for row in current))}",
            )
        )
    if len(scores) == 1:
        slug, kept, at = scores[0]
        health = [*health_read(json_read(kept)).items()][-DEFAULT_DAYS:]
        scored = {day: one.score for day, one in health}
        today = clock.now().date()
        (first, before), *_ = drawn = [*scored.items()]
        last, now = drawn[-1]
        when = age_or_day(moment_read(at)) if last == today else f"{last.day}\N{NO-BREAK SPACE}{last:%b}"
        note = f"Counted {when}"
        if first != last:
            arrow = "↑" if now > before else "↓" if now < before else "±"
            were, are = health[0][1].found, health[-1][1].found
            began = [
                one.label.lower()
                for key, one in FINDINGS.items()
                if were is not None and key in (are or ()) and key not in were
            ]
            why = f": {', '.join(began)}" if began and now < before and last == today else f", counted {when}"
            note = f"{arrow} {round(abs(now - before), 1):g} since {first.day}\N{NO-BREAK SPACE}{first:%b}{why}"
        floor = min(80, int(min(score for _, score in drawn)) // 10 * 10)
        points = (
            [("Today" if day == today else f"{day.day} {day:%b}", score) for day, score in drawn]
            if len(drawn) > 1
            else ()
        )
        figures.append(
            Figure(
                "Memory health",
                f"{now:g}",
                "of 100",
                points,
                floor=floor,
                url=reverse("agent_health", args=[slug]),
                note=note,
            )
        )
    return figures


FAILED_SHOWN = 5
INPUT_READ = 200


def _failed(sight: Sight, now: datetime, day: datetime, fortnight: datetime) -> QuerySet[Any, Any]:
    incomplete = ~Q(failed_sections=[])
    failed = Q(outcome=ContextRun.Outcome.FAILURE) | ContextRun.DOUBT | incomplete
    runs = ContextRun.objects.filter(failed, created_at__gte=fortnight, created_at__lte=now, persona__in=sight.personas)
    found = (
        for_visible_agents(runs, sight)
        .order_by(Case(When(ContextRun.DOUBT & ~incomplete, then=1), default=0), "-created_at", "-id")
        .annotate(slug=F("agent__slug"), question=Left("input", INPUT_READ), answer=Left("response", INPUT_READ))
        .annotate(incomplete=Window(Count("id", filter=incomplete & Q(created_at__gte=day))))
        .values_list("id", "slug", "question", "answer", "outcome", "finding", "created_at", "incomplete")
    )
    return found[:FAILED_SHOWN]


FAILED = board_query(_failed, "now", "day", "fortnight")
"""The latest of 14 days, those that are only in doubt last, each with the number of all that lacked a section in the
last day."""


def failed_prompts(rows: Rows) -> list[dict[str, Any]]:
    """Those of the rows of FAILED: prompts whose task failed, as was reported, whose answer is in doubt (`finding`:
    what a memory says), or that lacked a section (`why`: which of both)."""
    return [
        {
            "question": question,
            "answer": answer,
            "why": "" if outcome == ContextRun.Outcome.FAILURE else NOT_SUPPORTED if finding else "Section missing",
            "finding": f"One in its prompt {ContextRun.Finding(finding).label}." if finding else "",
            "at": moment_read(at),
            "slug": slug,
            "key": str(key),
        }
        for key, slug, question, answer, outcome, finding, at, _ in rows
    ]


VIEW_AGENT, VIEW_AUDIT, VIEW_RUN = "identity.view_agent", "identity.view_auditevent", "context.view_contextrun"
VIEW_INDEX, VIEW_JOB = "memory.view_searchitem", "memory.view_job"
SEEN = (VIEW_AGENT, VIEW_AUDIT, VIEW_RUN, VIEW_INDEX, VIEW_JOB, VIEW_EXPECTATION, MANAGE, *VIEW_RIGHTS.values())
"""What somebody sees who can say that all is well."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The contents of the home page; empty for parts that the principal may not see."""

    since: datetime
    decides: bool
    has_role: bool
    sees_all: bool
    items: list[InboxRow] = field(default_factory=list)
    waiting: int = 0
    failures: list[Failure] = field(default_factory=list)
    checks: list[HealthCheck] = field(default_factory=list)
    news: list[NewsGroup] | None = None
    failed_prompts: list[dict[str, Any]] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    is_new: bool = False
    """Whether there are neither memories nor prompts yet; then `first` is the agent to go on with, if there is one."""
    first: Agent | None = None

    @property
    def items_left(self) -> int:
        """How many items wait that are not listed."""
        return self.waiting - sum(item.entry.members for item in self.items)

    @property
    def checks_sorted(self) -> list[HealthCheck]:
        """The checks, those that are not fine first."""
        return sorted(self.checks, key=lambda check: ("block", "warn", "neutral", "ok").index(check.kind))

    @property
    def troubles(self) -> list[HealthCheck]:
        return [check for check in self.checks if check.kind in ("warn", "block")]

    @property
    def is_well(self) -> bool:
        """Whether nothing waits, every check is fine, and the person sees all of them."""
        return self.sees_all and not self.waiting and not self.failures and all(check.is_fine for check in self.checks)

    @property
    def alerts(self) -> list[dict[str, str]]:
        """What failed, and each check that found trouble, in a few words, with the pages (url) that tell of them."""
        found = [(failure.brief, "block", failure.url) for failure in self.failures]
        found += [(one.brief, one.kind, one.url or "#checks") for one in self.checks_sorted if one in self.troubles]
        return [{"words": capfirst(words), "kind": kind, "url": url} for words, kind, url in found]

    @property
    def state(self) -> str:
        """The heading: what waits, or that nothing does, or that all is well."""
        if not self.has_role or (self.is_new and not self.first):
            return "Home"
        if self.waiting:
            waits = f"item{' waits' if self.waiting == 1 else 's wait'}"
            return f"{self.waiting:,} {waits} for {'your review' if self.decides else 'a reviewer'}"
        return "All is well" if self.is_well else "Nothing waits for review"


QUERIES: dict[str, tuple[str, CachedQuery]] = {
    "index": (VIEW_INDEX, UNREADY),
    "models": (VIEW_INDEX, MODELS),
    "judge": (VIEW_INDEX, JUDGE_CALLS),
    "days": (VIEW_RUN, BY_DAY),
    "failed": (VIEW_RUN, FAILED),
    "log": (VIEW_AUDIT, LAST_VERIFICATION),
    "news": (VIEW_AUDIT, NEWS),
    "broken": (VIEW_EXPECTATION, BROKEN),
    "standing": (VIEW_EXPECTATION, STANDING),
    "scores": ("memory.view_fact", SCORES),
    "jobs": (VIEW_JOB, DEAD_JOBS),
    "webhooks": (MANAGE, FAILING_WEBHOOKS),
}
"""By name: the right to see the rows, and their query."""


def dashboard(by: Principal, since: datetime) -> Dashboard:
    """The home page of `by`, who was here before until `since`. The number of queries does not depend on the amount
    of data."""
    both = by.may(VIEW_SUBCONSCIOUS)
    items, waiting = waiting_items(by) if any(map(by.may, VIEW_RIGHTS.values())) else ([], 0)
    rows = board_rows({name: query for name, (right, query) in QUERIES.items() if by.may(right)}, since, by)
    failures: list[Failure] = []
    checks: list[HealthCheck] = []

    def failing(name: str, found: list[Failure], fine: str) -> None:
        failures.extend(found)
        if not found:
            checks.append(HealthCheck(name, "ok", "fine", fine))

    if by.may(VIEW_AGENT):
        checks.append(worker_check(sees_queue=both and by.agents is None))
    if "index" in rows:
        checks.append(index_check(rows["index"], both=both))
        checks.append(embedder_check(rows["models"]))
        checks.append(judge_check(rows["judge"], by))
    if "failed" in rows:
        checks.append(assembly_check(rows["failed"]))
    if "log" in rows:
        checks.append(log_check(rows["log"], by))
    broken = broken_expectations(rows.get("broken", []))
    if "broken" in rows:
        failing("Expectations", expectation_failures(broken), "Every checked expectation is met.")
    if "jobs" in rows:
        failing("Jobs", job_failures(rows["jobs"]), "No job failed permanently.")
    if "webhooks" in rows:
        failing("Webhooks", webhook_failures(rows["webhooks"]), "No webhook fails.")
    figures = daily_figures(rows.get("days", []))
    if figures:
        figures += standing_figures(*(rows.get(name, []) for name in ("standing", "scores")))
    is_new = rows.get("days") == [] and _is_empty(by)
    return Dashboard(
        since=since,
        decides=by.may(REVIEW),
        has_role=any(map(by.may, SEEN)),
        sees_all=all(map(by.may, SEEN)),
        items=items,
        waiting=waiting,
        failures=failures,
        checks=checks,
        news=changes_since(since, rows["news"], broken) if "news" in rows else None,
        failed_prompts=failed_prompts(rows.get("failed", [])),
        figures=figures,
        is_new=is_new,
        first=Agent.objects.visible_to(by).first() if is_new else None,
    )


def _is_empty(by: Principal) -> bool:
    """Whether `by` could see neither memories nor prompts, however old."""
    models: tuple[type[Model], ...] = (ContextRun, *(pages.model for pages in TYPE_PAGES.values()))
    found = (for_visible_agents(model._default_manager.filter(persona__in=personas_of(by)), by) for model in models)
    return by.may(VIEW_AGENT) and not any(rows.order_by().exists() for rows in found)
