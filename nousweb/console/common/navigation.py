"""The frame of every page of the console: the rail, tabs, counts of pending items, and the signed-in person."""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from django.contrib.admin import site
from django.contrib.auth.context_processors import PermWrapper
from django.db.models import Case, Count, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Cast, Coalesce
from django.http import HttpRequest
from django.urls import get_script_prefix, reverse

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.expectations.services import broken_results
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal, DemoTour, Notification, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.inbox_items import not_snoozed
from memory.selectors import visible_reviews
from nousweb.access.roles import role_of
from nousweb.console.common.areas import (
    ADMINS,
    AREAS,
    DOORS,
    OWNERS,
    PARENT_PAGES,
    PLACES,
    VIEW_PROPOSAL,
    Area,
    AreaPage,
    place_of,
)
from nousweb.console.common.demo_tour import tour_panel
from nousweb.console.common.past import past_shown
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents
from nousweb.lib.prepared_statements import CachedQuery

INBOX, APPLIED, HELD_BACK, NOTIFIED, TOUR_SHOWN, TOUR_LEFT = (
    "the inbox", "changes applied", "reviews held back", "notifications shown", "tour shown", "tour left",
)  # fmt: skip
"""The subjects of counts besides slugs of agents; the last two show whether a person is guided through the demo."""
RECORDS_SEARCHED = 1_000
"""How many of the latest audit records tell which agent wrote last."""


def console(request: HttpRequest) -> dict[str, Any]:
    """Template variables of base.html: `nav`, `theme`, `role` and `tour`. Two queries, whatever the page; up to five
    more for a person in the guided demo."""
    theme = request.COOKIES.get("theme", "")
    shown: dict[str, Any] = {"theme": theme if theme in ("light", "dark") else ""}
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return shown
    by: Principal = request.principal  # type: ignore[attr-defined]
    agents = list(_agents(by, request)[:200]) if user.has_perm("identity.view_agent") else []
    waiting = _waiting(by)
    return {
        **shown,
        "role": role_of(user),
        # In the past nobody can take its steps.
        "tour": tour_panel(by, agents, request) if waiting.get(TOUR_SHOWN) and not by.only_reads else None,
        "tour_left": bool(waiting.get(TOUR_LEFT)),
        "past": past_shown(request),
        "perms": PermWrapper(cast(Any, SimpleNamespace(has_perm=by.may))),
        "nav": {**_frame(request, agents, waiting), "unread": waiting[reverse("notifications")]},
    }


def _agents(by: Principal, request: HttpRequest) -> QuerySet[Agent]:
    """The agents that `by` may see, with the key of the one that called last, or else wrote last, where none was looked
    at yet."""
    agents = Agent.objects.visible_to(by)
    if "agent" in request.COOKIES:
        return agents
    used = for_visible_agents(ApiToken.objects.filter(last_used_at__isnull=False), by).order_by("-last_used_at")
    # No index leads to the records of tokens: where people alone wrote for long, only so many are looked through.
    recent = AuditEvent.objects.filter(pk__gt=Subquery(AuditEvent.objects.values("pk")[:1]) - RECORDS_SEARCHED)
    wrote = for_visible_agents(recent.filter(author_kind=AuditEvent.Kind.TOKEN), by).order_by("-pk")
    return agents.annotate(latest=Coalesce(*(Subquery(rows.values("agent_id")[:1]) for rows in (used, wrote))))


def _frame(request: HttpRequest, agents: Sequence[Agent], waiting: dict[str, int]) -> dict[str, Any]:
    """The rail, the agents to switch to, the tabs of the page's area, and all places for the command palette.

    Areas of one agent are those of the page's agent, else of the agent whose pages were looked at last, else of the one
    that called or wrote last, else of the first one.
    """
    user, match, prefix = request.user, request.resolver_match, get_script_prefix()
    url_name = match.view_name if match else ""
    slug = match.kwargs.get("slug", "") if match else ""
    current = next((agent for agent in agents if agent.slug == slug), None)
    last = request.COOKIES.get("agent", "")
    usual = (agent for agent in agents if agent.slug == last or agent.pk == getattr(agent, "latest", None))
    chosen = current or next(usual, next(iter(agents), None))
    here = place_of(url_name)
    persona = request.GET.get("persona", "")
    suffix = f"?persona={persona}" if current and persona in Persona.values else ""

    @functools.cache
    def may(right: str) -> bool:
        if right in (OWNERS, ADMINS):
            return user.is_superuser if right == OWNERS else site.has_permission(request)
        return not right or user.has_perm(right)

    def address(area: Area, page: AreaPage, of: Agent | None) -> str:
        return _address(prefix, page.name, *((of.slug,) if of and area.of_agent and page is not area.page else ()))

    rail, tabs, places, parts = [], [], [], []
    for area in AREAS:
        doors = [[door for door in DOORS[page.name] if may(door.right)] for page in area.pages]
        pages = [first for first, *_ in filter(None, doors)] if chosen or not area.of_agent else []
        first = next(iter(pages), area.page if area.page and may(area.page.right) else None)
        if first is None:
            continue
        is_here = here is not None and here[0] is area and (here[1] is not area.page or not chosen)
        found: list[dict[str, Any]] = [
            {
                "label": page.label,
                "url": address(area, page, chosen),
                "active": is_here and PLACES[page.name] == here,
                "count": waiting.get(address(area, page, chosen)),
                "words": " ".join([page.words, *(label for label, _, right in page.views if may(right))]),
                "is_apart": page.is_apart,
            }
            for page in pages
        ]
        url = address(area, first, chosen)
        numbers = [waiting.get(url) or 0, *(tab["count"] or 0 for tab in found if tab["url"] != url)]
        label = first.label if first is area.page else area.label
        rail.append({"label": label, "url": url, "active": is_here, "count": sum(numbers), "of_agent": area.of_agent})
        of = chosen.name if chosen and area.of_agent else ""
        places += [[tab["label"], of or area.label, tab["url"], f"{area.label} {tab['words']}"] for tab in found]
        for page in pages:
            whole = address(area, page, chosen)
            parts += [[label, page.label, f"{whole}?{part}", ""] for label, part, right in page.parts if may(right)]
        # A page of one thing has its parent in the breadcrumb instead.
        if is_here and url_name in PLACES and (current or not area.of_agent) and len(area.pages) > 1:
            tabs = [
                {**tab, "url": f"{tab['url']}{suffix if area.label == 'Memory' else ''}"}
                for tab in found
                if not tab["is_apart"]
            ]

    views = here[1].views if here and url_name in (name for _, name, _ in here[1].views) else ()
    parent = here[1] if here and here[1].name == PARENT_PAGES.get(url_name) else None
    at = next((one for one in rail if one["active"]), None)
    return {
        "agent": {"slug": current.slug, "name": current.name} if current else None,
        "chosen": chosen.name if chosen else "",
        "agents": [
            {
                "slug": agent.slug,
                "name": agent.name,
                "url": _same_page(prefix, agent, url_name, match.kwargs if match else {}, here),
                "current": agent == current,
            }
            for agent in agents
        ],
        "all_agents": {"url": _address(prefix, "agents"), "active": url_name == "agents"},
        "rail": rail,
        "tabs": tabs,
        "views": [
            {"label": label, "url": f"{_address(prefix, name, slug)}{suffix}", "active": name == url_name}
            for label, name, right in views
            if may(right)
        ],
        "places": places + parts,
        "parent": {"label": parent.label, "url": address(here[0], parent, current)}
        if here and parent and (current or not here[0].of_agent)
        else None,
        # Where the name of the page does not say it.
        "area": at if at and here and not here[1].label.startswith(str(at["label"])) else None,
        # The phone's menu hides the rail.
        "waiting": waiting[reverse("inbox")],
        "held": waiting.get(HELD_BACK),
        "applied": waiting.get(APPLIED),
    }


def _same_page(
    prefix: str, agent: Agent, url_name: str, kwargs: dict[str, Any], here: tuple[Area, AreaPage] | None
) -> str:
    """The page of another agent that shows the same as this one: itself, the page above it for a page of one thing, or
    the identity."""
    if here is None or not here[0].of_agent or here[1] is here[0].page:
        return _address(prefix, "agent_identity", agent.slug)
    # What a page below another one shows can stand in its query, as that of an impact does.
    is_whole = set(kwargs) == {"slug"} and url_name not in PARENT_PAGES
    return _address(prefix, url_name if is_whole else here[1].name, agent.slug)


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
    """The numbers of pending items that this person may see, by page, of those APPLIED and of the reviews HELD_BACK, in
    one query. Broken expectations count for the page of their agent, and all of them for Home, which lists them."""
    found = Counter({INBOX: 0, NOTIFIED: 0})
    rights = _Rights(frozenset(filter(by.may, (VIEW_SUBCONSCIOUS, VIEW_EXPECTATION, VIEW_PROPOSAL))))
    person = int(by.id)
    # Each page asks for it, and writing the query takes ten times as long as its answer.
    rows: Iterable[Any] = _waiting_rows(by, person) if by.agents is not None else _WAITING.rows(rights, person=person)
    for page, number in rows:
        found[page] += number
    inbox, notified = found.pop(INBOX), found.pop(NOTIFIED)
    others = {page: found.pop(page) for page in (APPLIED, HELD_BACK, TOUR_SHOWN, TOUR_LEFT) if page in found}
    of_agents = {reverse("agent_expectations", args=[slug]): number for slug, number in found.items()}
    pages = {reverse("inbox"): inbox, reverse("notifications"): notified, reverse("home"): sum(found.values())}
    return {**others, **of_agents, **pages}


def _waiting_rows(by: PermissionHolder, person: int) -> QuerySet[Any, Any]:
    inbox, held_back, notified = (Value(name, output_field=TextField()) for name in (INBOX, HELD_BACK, NOTIFIED))
    applied = When(status=ChangeProposal.Status.APPLIED, then=Value(APPLIED))
    proposed = Case(applied, default=inbox, output_field=TextField())
    proposals = ChangeProposal.objects.visible_to(by).waiting().filter(not_snoozed(person))
    guided = Case(When(left_at=None, then=Value(TOUR_SHOWN)), default=Value(TOUR_LEFT), output_field=TextField())
    pages: list[tuple[QuerySet[Any], Any]] = [
        (visible_reviews(by).pending().filter(not_snoozed(person)), inbox),
        (visible_reviews(by).held_back(), held_back),
        *([(proposals, proposed)] if by.may(VIEW_PROPOSAL) else []),
        *([(broken_results(by), Cast("agent__slug", TextField()))] if by.may(VIEW_EXPECTATION) else []),
        (Notification.objects.filter(person_id=person).visible_to(by).unread(), notified),
        (DemoTour.objects.filter(person_id=person), guided),
    ]
    parts = [
        rows.order_by().annotate(page=page).values("page").annotate(rows=Count("pk")).values_list("page", "rows")
        for rows, page in pages
    ]
    return parts[0].union(*parts[1:], all=True)


_WAITING = CachedQuery(_waiting_rows, person=-1)
