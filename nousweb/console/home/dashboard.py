"""The home page: what needs a person, what changed since they were here, and whether all is well.

Reads only; each part requires the permission of its own page.
"""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Model
from django.utils.text import capfirst

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.expectations.services import personas_of
from context.models import ContextRun
from identity.models import Agent
from identity.policy.inbox import VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.webhooks import MANAGE
from identity.principal import Principal
from identity.services.versions import REVIEW
from nousweb.console.common import TYPE_PAGES
from nousweb.console.home.attention import (
    BROKEN,
    DEAD_JOBS,
    FAILING_WEBHOOKS,
    Failure,
    WaitingItem,
    broken_expectations,
    expectation_failures,
    job_failures,
    waiting_items,
    webhook_failures,
)
from nousweb.console.home.board_rows import board_rows
from nousweb.console.home.changes_since import NEWS, NewsGroup, changes_since
from nousweb.console.home.period import Figure
from nousweb.console.home.recent_prompts import (
    BY_DAY,
    FAILED,
    SCORES,
    STANDING,
    FailedPrompt,
    RecentPrompts,
    daily_figures,
    failed_prompts,
    recent_prompts,
    standing_figures,
)
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
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import CachedQuery

VIEW_AGENT, VIEW_AUDIT, VIEW_RUN = "identity.view_agent", "identity.view_auditevent", "context.view_contextrun"
VIEW_FACT = "memory.view_fact"
VIEW_INDEX, VIEW_JOB = "memory.view_searchitem", "memory.view_job"
SEEN = (VIEW_AGENT, VIEW_AUDIT, VIEW_RUN, VIEW_INDEX, VIEW_JOB, VIEW_EXPECTATION, MANAGE, *VIEW_RIGHTS.values())
"""What somebody sees who can say that all is well."""


@dataclass(frozen=True, slots=True)
class Alert:
    """What is not as it should be, in a few words; `kind` is of its badge; `url` is where it is told in full."""

    words: str
    kind: str
    url: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The contents of the home page; empty for parts that the principal may not see."""

    since: datetime
    decides: bool
    has_role: bool
    sees_all: bool
    items: list[WaitingItem] = field(default_factory=list)
    waiting: int = 0
    failures: list[Failure] = field(default_factory=list)
    checks: list[HealthCheck] = field(default_factory=list)
    news: list[NewsGroup] | None = None
    prompts: RecentPrompts | None = None
    failed_prompts: list[FailedPrompt] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    is_new: bool = False
    """Whether there are neither memories nor prompts yet; then `first` is the agent to go on with, if there is one."""
    first: Agent | None = None

    @property
    def fine(self) -> list[HealthCheck]:
        return [check for check in self.checks if check.is_fine]

    @property
    def items_left(self) -> int:
        """How many items wait that are not listed."""
        return self.waiting - sum(item.members for item in self.items)

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
    def alerts(self) -> list[Alert]:
        """What failed, and each check that found trouble, with the pages that tell of them."""
        failed = [Alert(capfirst(failure.brief), "block", failure.url) for failure in self.failures]
        return failed + [
            Alert(capfirst(check.brief), check.kind, check.url or "#checks")
            for check in self.checks_sorted
            if check.kind in ("warn", "block")
        ]

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
    "scores": (VIEW_FACT, SCORES),
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
    prompts = recent_prompts(rows["days"], rows["failed"]) if "days" in rows else None
    if prompts:
        checks.append(prompts.check)
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
    is_new = bool(prompts and not prompts.now and not prompts.before and _is_empty(by))
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
        prompts=prompts,
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
