"""The frame of every page of the console: agents, pages, counts of pending items, and the signed-in person."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from django.contrib.admin import site
from django.contrib.auth.context_processors import PermWrapper
from django.db.models import Case, Count, QuerySet, TextField, Value, When
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.urls import get_script_prefix, reverse

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.expectations.services import broken_results
from context.models import VIEW_RUN, ContextRun
from identity.models import Agent, AuditEvent, ChangeProposal, DemoTour, Notification
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.inbox_items import not_snoozed
from identity.services.personal_settings import tour_actions
from memory.selectors import visible_reviews
from nousweb.access.roles import role_of
from nousweb.console.common import memory_types
from nousweb.console.common.past import past_shown
from nousweb.lib.permission_holder import PermissionHolder
from nousweb.lib.prepared_statements import CachedQuery

REVIEW_PROPOSAL, REVIEW_MEMORY = "identity.review_changeproposal", "memory.review_memory"


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step: its instruction, its permission, and the actions of which any finishes it.

    `place` returns the address where the step can be done now, "" if there is nothing left to do it with; `nothing` is
    the text for that case.
    """

    title: str
    look: str
    right: str
    done_by: tuple[str, ...]
    place: Callable[[Principal, Agent], str]
    action: str
    nothing: str


def _proposal_place(by: Principal, agent: Agent) -> str:
    """The proposed change that has waited longest among those of the least risk."""
    waiting = (
        ChangeProposal.objects.visible_to(by).pending().filter(agent=agent).values_list("risk", "created_at", "pk")
    )
    found = sorted(waiting[:50], key=lambda row: (("low", "medium", "high").index(row[0]), row[1]))
    return reverse("proposal", args=[found[0][2]]) if found else ""


def _run_place(by: Principal, agent: Agent) -> str:
    """The logged prompt for a question that several memories answer."""
    keys = ContextRun.objects.visible_to(by).filter(agent=agent).values_list("pk", flat=True)
    key = keys.filter(input__startswith="Checkout is slow").order_by("created_at").first() or keys.first()
    return f"{reverse('agent_context_run', args=[agent.slug, key])}#candidates" if key else ""


def _question_place(by: Principal, agent: Agent) -> str:
    found = visible_reviews(by).pending().filter(agent=agent, old__isnull=False, new__isnull=False)
    key = found.order_by("created_at").values_list("pk", flat=True).first()
    return reverse("memory_review_detail", args=[key]) if key else ""


def _decision_place(by: Principal, agent: Agent) -> str:
    """The last decision of this person: its page has the button to undo it."""
    pages = {"proposal.approve": "proposal", "memory_review.resolve": "memory_review_detail"}
    decided = AuditEvent.objects.filter(agent=agent, author_kind="person", author_id=by.id, action__in=pages)
    last = decided.order_by("-id").values_list("action", "object_id").first()
    return f"{reverse(pages[last[0]], args=[last[1]])}?status=decided" if last else ""


TOUR_STEPS = (
    TourStep(
        "Approve a proposed change",
        "The agent proposed an identity change. Read what would change and its blast radius, then press Approve.",
        REVIEW_PROPOSAL,
        ("proposal.approve",),
        _proposal_place,
        "Open the change",
        "No change is pending. You can propose one on the agent's identity page.",
    ),
    TourStep(
        "Ask why something was in a prompt",
        "This prompt was sent to the agent. Under “Considered”, type Redis into “With the words”: each memory shows "
        "why it was in the prompt, or why it was left out.",
        VIEW_RUN,
        ("demo_tour.look",),
        _run_place,
        "Open the prompt",
        "No prompt is logged any more.",
    ),
    TourStep(
        "Resolve a contradiction between two facts",
        "Two facts seem to contradict each other. Compare them and their sources, then choose a resolution.",
        REVIEW_MEMORY,
        ("memory_review.resolve",),
        _question_place,
        "Open the review",
        "No review is pending. A resolved review is pending again when its resolution is undone.",
    ),
    TourStep(
        "Undo a decision",
        "Every decision can be undone. Open one of yours and press Undo: the history keeps both.",
        REVIEW_PROPOSAL,
        ("proposal.undo", "proposal.revert", "memory_review.undo"),
        _decision_place,
        "Open your last decision",
        "Decide something first: approve a change, or resolve a review.",
    ),
)


@dataclass(frozen=True, slots=True)
class StepState:
    """A step for one person: whether it is done, may be done by them, and, for the next one, where."""

    number: int
    step: TourStep
    done: bool
    allowed: bool


@dataclass(frozen=True, slots=True)
class TourPanel:
    """The panel of the guided demo; `next` is None when everything is done that this person may do."""

    steps: tuple[StepState, ...]
    next: StepState | None
    url: str

    @property
    def done(self) -> int:
        return sum(state.done for state in self.steps)

    @property
    def barred(self) -> bool:
        """Whether some steps are for another role."""
        return any(not state.allowed for state in self.steps)


def tour_panel(by: Principal, agents: list[Agent]) -> TourPanel | None:
    """The panel of a guided person; None if they may not see the agent of the demo."""
    tour = DemoTour.objects.filter(person_id=int(by.id)).first()
    agent = next((agent for agent in agents if tour and agent.slug == tour.agent_slug), None)
    if tour is None or agent is None:
        return None
    done = tour_actions(tour, [action for step in TOUR_STEPS for action in step.done_by])
    states = tuple(
        StepState(number, step, not done.isdisjoint(step.done_by), by.may(step.right))
        for number, step in enumerate(TOUR_STEPS, 1)
    )
    following = next((state for state in states if state.allowed and not state.done), None)
    return TourPanel(states, following, following.step.place(by, agent) if following else "")


AGENT_PAGES: tuple[tuple[str, str, str], ...] = (
    ("Identity", "agent_identity", "identity.view_identityversion"),
    ("Connect", "agent_connect", "identity.view_agent"),
    ("Changes", "agent_changes", "identity.view_agent"),
    ("Tokens", "agent_tokens", "identity.view_apitoken"),
    ("Webhooks", "agent_webhooks", "identity.manage_webhook"),
)
"""Label, URL name and right of each page of one agent."""

MEMORY_PAGES: tuple[tuple[str, str, str], ...] = (
    ("Search", "agent_search", "memory.view_searchitem"),
    ("Health", "agent_health", "memory.view_fact"),
    *memory_types.NAVIGATION,
    ("Censors", "agent_censors", "memory.view_censor"),
    ("Working memory", "agent_working", "memory.view_workingmemory"),
    ("Search index", "agent_index", "memory.view_searchitem"),
    ("Import", "agent_imports", "memory.import_memory"),
)
"""The pages of one agent's memory, a group of their own."""

CONTEXT_PAGES: tuple[tuple[str, str, str], ...] = (
    ("Inspector", "agent_context", "context.assemble_context"),
    ("Playground", "agent_playground", "context.talk_to_agent"),
    ("Log", "agent_context_runs", "context.view_contextrun"),
    ("Fingerprints", "agent_context_fingerprints", "context.view_contextrun"),
    ("Expectations", "agent_expectations", "context.view_expectation"),
)
"""The pages about one agent's prompts, a group of their own."""
CONTEXT_TABS = (
    *CONTEXT_PAGES[:3],
    ("Compare", "agent_context_compare", "context.view_contextrun"),
    *CONTEXT_PAGES[3:],
    ("Pins", "agent_context_pins", ""),
)
"""The tabs on each of these pages."""

GENERAL_PAGES: tuple[tuple[str, str, str], ...] = (
    ("Home", "home", ""),
    ("Inbox", "inbox", "identity.view_changeproposal"),
    ("Agents", "agents", "identity.view_agent"),
    ("Profiles", "context_profiles", "context.view_contextprofile"),
    ("Background work", "lifecycle", "memory.view_job"),
    ("Clients", "oauth_clients", "identity.view_apitoken"),
    ("Audit trail", "audit", "identity.view_auditevent"),
    ("Integrity", "integrity", "identity.view_auditevent"),
    ("API", "api-1:openapi-view", ""),
)

OWNERS_PAGES: tuple[tuple[str, str, str], ...] = (("People", "people", ""),)
"""Pages for owners alone, whatever permissions others have."""

PARENT_PAGES = {
    "agent_new": "agents",
    "agent_settings": "agent_identity",
    "agent_initiate": "agent_identity",
    "section_history": "agent_identity",
    "section_compare": "agent_identity",
    "section_propose": "agent_identity",
    "section_rollback": "agent_identity",
    "agent_token_revoke": "agent_tokens",
    "agent_token_rotate": "agent_tokens",
    "agent_webhook": "agent_webhooks",
    "agent_webhook_edit": "agent_webhooks",
    "agent_webhook_delete": "agent_webhooks",
    "proposal": "inbox",
    "audit_event": "audit",
    "person": "people",
    "oauth_client_delete": "oauth_clients",
    "memory_review_detail": "inbox",
    "automatic_decisions": "inbox",
    "agent_erase": "agent_identity",
    **memory_types.PARENT_PAGES,
    "agent_subject": "agent_subjects",
    "agent_subject_thing": "agent_subjects",
    "agent_import": "agent_imports",
    "agent_export": "agent_imports",
    "agent_censor": "agent_censors",
    "agent_censor_add": "agent_censors",
    "agent_censor_edit": "agent_censors",
    "agent_censor_bench": "agent_censors",
    "agent_context_run": "agent_context_runs",
    "agent_expectation": "agent_expectations",
    "agent_context_compare": "agent_context_runs",
    "agent_context_bisect": "agent_context_runs",
    "agent_context_session": "agent_context_runs",
    "agent_context_blast": "agent_context",
    "agent_health_list": "agent_health",
    "agent_health_ledger": "agent_health",
    "agent_context_item": "agent_context",
    "agent_context_pins": "agent_context",
    "agent_context_settings": "agent_identity",
    "context_profile": "context_profiles",
    "context_profile_edit": "context_profiles",
    "context_profile_copy": "context_profiles",
    "context_profile_history": "context_profiles",
}
"""The page of the navigation that a page belongs to, where it is none itself."""

INBOX, NOTIFIED, TOUR_SHOWN, TOUR_LEFT = "the inbox", "notifications shown", "tour shown", "tour left"
"""The subjects of counts besides slugs of agents; the last two show whether a person is guided through the demo."""


def console(request: HttpRequest) -> dict[str, Any]:
    """Template variables of base.html: `nav`, `theme`, `role` and `tour`. Two queries, whatever the page; up to five
    more for a person in the guided demo."""
    theme = request.COOKIES.get("theme", "")
    shown: dict[str, Any] = {"theme": theme if theme in ("light", "dark") else ""}
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return shown
    by: Principal = request.principal  # type: ignore[attr-defined]
    match = request.resolver_match
    agents = list(Agent.objects.visible_to(by)[:200]) if user.has_perm("identity.view_agent") else []
    slug = match.kwargs.get("slug", "") if match else ""
    current = next((agent for agent in agents if agent.slug == slug), None)
    url_name = (match.url_name or "") if match else ""
    here = (url_name, PARENT_PAGES.get(url_name))

    prefix = get_script_prefix()

    def items(pages: tuple[tuple[str, str, str], ...], *args: str) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "label": label,
                "url": _address(prefix, name, *args),
                "active": name in here,
                "count": None,
            }
            for label, name, right in pages
            if not right or user.has_perm(right)
        ]

    general = (*GENERAL_PAGES, *OWNERS_PAGES) if user.is_superuser else GENERAL_PAGES
    if site.has_permission(request):
        general = (*general, ("Database", "admin:index", ""))
    groups: list[dict[str, Any]] = [{"label": "", "items": items(general)}]
    if current:
        for label, pages in ((current.name, AGENT_PAGES), ("Context", CONTEXT_PAGES), ("Memory", MEMORY_PAGES)):
            if found := items(pages, current.slug):
                groups.append({"label": label, "items": found})
    waiting = _waiting(by)
    parent = None
    for group in groups:
        for item in group["items"]:
            item["count"] = waiting.get(item["url"])
            # The name of the agent links to its identity already.
            if item["name"] == here[1] != "agent_identity":
                parent = item
    return {
        **shown,
        "role": role_of(user),
        # In the past nobody can take its steps.
        "tour": tour_panel(by, agents) if waiting.get(TOUR_SHOWN) and not by.only_reads else None,
        "tour_left": bool(waiting.get(TOUR_LEFT)),
        "past": past_shown(request),
        "perms": PermWrapper(cast(Any, SimpleNamespace(has_perm=by.may))),
        "nav": {
            "agents": [
                {
                    "slug": agent.slug,
                    "name": agent.name,
                    "url": _address(prefix, "agent_identity", agent.slug),
                    "current": agent.slug == slug,
                }
                for agent in agents
            ],
            "agent": {"slug": current.slug, "name": current.name} if current else None,
            "groups": groups,
            "parent": parent,
            "unread": waiting[reverse("notifications")],
            # Counts of agents in the first group are included already.
            "waiting": sum(item["count"] or 0 for item in groups[0]["items"]),
        },
    }


@functools.lru_cache(maxsize=4096)
def _address(prefix: str, name: str, *args: str) -> str:
    """The address `name` below `prefix`. Every page shows thirty of them, and to make them takes a thirtieth of it."""
    return reverse(name, args=args)


@dataclass(frozen=True)
class _Rights:
    """The permissions of a person who sees all agents that determine which rows they may count."""

    held: frozenset[str]
    agents: None = None

    def may(self, permission: str) -> bool:
        return permission in self.held


def _waiting(by: Principal) -> dict[str, int]:
    """The numbers of pending items that this person may see, by page, in one query. Broken expectations count for the
    page of their agent, and all of them for Home, which lists them."""
    found = Counter({INBOX: 0, NOTIFIED: 0})
    rows: Iterable[tuple[str, int]]
    if by.agents is None:
        # Each page asks for it, and writing the query takes ten times as long as its answer.
        rights = _Rights(frozenset(filter(by.may, (VIEW_SUBCONSCIOUS, VIEW_EXPECTATION))))
        rows = _WAITING.rows(rights, person=int(by.id))
    else:
        rows = _waiting_rows(by, int(by.id))
    for page, number in rows:
        found[page] += number
    inbox, notified = found.pop(INBOX), found.pop(NOTIFIED)
    tour = {page: found.pop(page) for page in (TOUR_SHOWN, TOUR_LEFT) if page in found}
    of_agents = {reverse("agent_expectations", args=[slug]): number for slug, number in found.items()}
    pages = {reverse("inbox"): inbox, reverse("notifications"): notified, reverse("home"): sum(found.values())}
    return {**tour, **of_agents, **pages}


def _waiting_rows(by: PermissionHolder, person: int) -> QuerySet[Any, Any]:
    waiting: tuple[QuerySet[Any], ...] = (
        ChangeProposal.objects.visible_to(by).waiting().filter(not_snoozed(person)),
        visible_reviews(by).pending().filter(not_snoozed(person)),
    )
    pages: list[tuple[QuerySet[Any], Any]] = [(rows, Value(INBOX, output_field=TextField())) for rows in waiting]
    if by.may(VIEW_EXPECTATION):
        pages.append((broken_results(by), Cast("agent__slug", TextField())))
    mine = Notification.objects.filter(person_id=person).visible_to(by)
    pages.append((mine.unread(), Value(NOTIFIED, output_field=TextField())))
    guided = Case(When(left_at=None, then=Value(TOUR_SHOWN)), default=Value(TOUR_LEFT), output_field=TextField())
    pages.append((DemoTour.objects.filter(person_id=person), guided))
    parts = [
        rows.order_by().annotate(page=page).values("page").annotate(rows=Count("pk")).values_list("page", "rows")
        for rows, page in pages
    ]
    return parts[0].union(*parts[1:], all=True)


_WAITING = CachedQuery(_waiting_rows, person=-1)
