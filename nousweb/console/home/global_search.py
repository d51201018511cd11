"""Search across all agents: agents, subjects, memories, pending items, objects by id, and texts by their words."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import Q
from django.urls import reverse
from django.utils.timezone import localdate

from identity.models import Agent, ChangeProposal
from identity.principal import Principal
from identity.selectors.filters import PERIODS, DateInput, agent_choices
from memory.models import EVERYTHING, ItemType
from memory.persona import memory_of
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.selectors import subjects_shown
from memory.types import MEMORY_TYPES
from nousweb.console.common import SHORTCUTS, memory_url, object_url, uuid_of
from nousweb.console.context.views.agent_settings import UNSET, AgentSettingsForm
from nousweb.console.home.text_search import TEXT_SOURCES, TextQuery, TextSource, spelling_correct, text_hits
from nousweb.console.identity.forms import AgentForm
from nousweb.console.inbox.proposal_items import ProposalItem, with_texts
from nousweb.console.people.forms import MailForm
from nousweb.console.templatetags.console import clock_or_day
from nousweb.lib.constrained_types import MAX_QUERY_CHARACTERS

EACH_AGENT = 5
"""Memories and subjects that one agent may bring."""
EACH_GROUP = 12
WAITING_SHOWN = 5
"""For the sentence of each, two texts are compared."""
AGENTS_SEARCHED = 50
OBJECTS = (
    ("contextrun", "Prompt sent"),
    ("changeproposal", "Proposal"),
    ("memoryreview", "Memory review"),
    *(
        (memory_type.name, str(memory_type.key.label))
        for memory_type in MEMORY_TYPES.values()
        if memory_type.key_type == "uuid"
    ),
    ("subject", "Subject"),
)
"""Types of objects that an id may belong to, with their names."""


GlobalHit = dict[str, str]
"""One hit: its label, its url, its kind, the name of its agent, and its distinguishing detail."""
RECORDS = "Audit trail"
RECORDS_SHOWN = 3
"""Of a search for everything: they repeat what the hits above them are about."""


@dataclass(slots=True)
class GlobalResult:
    """The hits in groups, and the number of agents whose memory was searched in the time limit.

    `terms` are what was searched for, which hits show; `corrected` are words that stand for misspelt ones, `unread` the
    groups whose texts took too long.
    """

    groups: dict[str, list[GlobalHit]] = field(default_factory=dict)
    searched: int = 0
    agents: int = 0
    terms: tuple[str, ...] = ()
    corrected: tuple[str, ...] = ()
    unread: list[str] = field(default_factory=list)

    @property
    def partial(self) -> bool:
        return self.searched < self.agents


class SearchForm(forms.Form):
    """What the search page asks for: words, and where and when to look for them."""

    q = forms.CharField(
        label="Search for",
        required=False,
        widget=forms.TextInput(attrs={"type": "search", "autocomplete": "off", "data-key": SHORTCUTS["search"].key}),
    )
    kind = forms.ChoiceField(
        choices=[("", "Everything"), *((source.group, source.group) for source in TEXT_SOURCES)],
        required=False,
        label="In",
    )
    agent = forms.ChoiceField(required=False)
    period = forms.ChoiceField(choices=[("", "Any time"), *PERIODS], required=False)
    since = forms.DateField(required=False, label="From", widget=DateInput())
    until = forms.DateField(required=False, label="To", widget=DateInput())

    def __init__(self, *args: Any, by: Principal) -> None:
        super().__init__(*args)
        self.fields["agent"].choices = [("", "Any agent"), *agent_choices(by)]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """A period is the days since it began, unless these are given."""
        given = self.cleaned_data
        if period := given.pop("period", ""):
            given["since"] = given.get("since") or localdate() - timedelta(days=int(period))
        return given


def global_search(
    query: str, *, by: Principal, first: str = "", seconds: float = 1.0, kind: str = "", agent: str = "", **days: Any
) -> GlobalResult:
    """Search what `by` may see of every agent, the one with the slug `first` before the others.

    Memory is of the actors alone, and texts and memory are searched for so many `seconds` each at most: texts table by
    table, memory agent by agent. Names and ids always. A score means the same for every agent, so that memories of
    several stand in one order. `kind` is one group alone, `agent` a slug; `since` and `until` of `days` limit texts.
    """
    query = query.replace("\x00", "").strip()[:MAX_QUERY_CHARACTERS]
    result = GlobalResult()
    if not query:
        return result
    dated = any(days.values())
    by_meaning = kind in ("", "Memories") and not dated
    agents = _agents_searched(by, agent, first) if by_meaning else []
    if not (kind or agent or dated):
        result.groups = {"By id": _by_id(query, by), "Agents": _agents(query, by), "Pending": _waiting(query, by)}
        result.groups["Settings"] = _settings(query, by, agents)
    sources = [source for source in TEXT_SOURCES if kind in ("", source.group) and by.may(source.permission)]

    def look_for(asked: TextQuery) -> None:
        result.terms = asked.words
        if by_meaning:
            _memory_search(result, " ".join(asked.words), by, agents, until=time.monotonic() + seconds)
        _text_search(result, asked, sources, by, until=time.monotonic() + seconds)

    asked = TextQuery.of(query, agent=agent, **days)
    look_for(asked)
    if not any(result.groups.values()):
        corrected = spelling_correct(asked, sources, by, until=time.monotonic() + seconds)
        if corrected.spellings:
            result.corrected = tuple(word for words in corrected.spellings.values() for word in words)
            look_for(corrected)
    result.groups = {name: found for name, found in result.groups.items() if found}
    if not kind and RECORDS in result.groups and len(result.groups) > 1:
        address = f"{reverse('audit')}?{urlencode({'q': query})}"
        result.groups[RECORDS][RECORDS_SHOWN:] = [{"label": "All results in the audit trail", "url": address}]
    hits = [hit for found in result.groups.values() for hit in found]
    if len({hit["agent"] for hit in hits if hit.get("agent")}) > 1:
        for hit in hits:
            hit["detail"] = ", ".join(filter(None, [hit.get("agent"), hit.get("detail")]))
    return result


def _agents_searched(by: Principal, only: str, first: str) -> list[Agent]:
    rows = Agent.objects.visible_to(by).order_by("slug")[:AGENTS_SEARCHED] if by.may("identity.view_agent") else []
    return sorted((row for row in rows if only in ("", row.slug)), key=lambda row: row.slug != first)


def _memory_search(result: GlobalResult, query: str, by: Principal, agents: list[Agent], *, until: float) -> None:
    result.agents = len(agents)
    subjects: list[GlobalHit] = []
    memories: list[tuple[float, GlobalHit]] = []
    for agent in agents:
        if result.searched and time.monotonic() > until:
            break
        subjects += _subjects(agent, query, by)
        memories += _memories(agent, query, by)
        result.searched += 1
    memories.sort(key=lambda scored: -scored[0])
    result.groups["Subjects"] = subjects[:EACH_GROUP]
    result.groups["Memories"] = [found for _, found in memories[:EACH_GROUP]]


def _text_search(
    result: GlobalResult, query: TextQuery, sources: Sequence[TextSource], by: Principal, *, until: float
) -> None:
    shown = {hit["url"] for hits in result.groups.values() for hit in hits}
    for source in sources:
        left = until - time.monotonic()
        hits = text_hits(query, source, by, limit=EACH_GROUP, seconds=left) if left > 0 else None
        if hits is None:
            result.unread.append(source.group)
        else:
            new = [hit for hit in hits if hit["url"] not in shown]
            result.groups[source.group] = [*result.groups.get(source.group, []), *new]


def _by_id(query: str, by: Principal) -> list[GlobalHit]:
    if not (key := uuid_of(query)):
        return []
    found = ((label, object_url(name, str(key), by)) for name, label in OBJECTS if _may_view(name, by))
    return [{"label": str(key), "url": url, "kind": label} for label, url in found if url]


def _may_view(name: str, by: Principal) -> bool:
    apps = {"contextrun": "context", "changeproposal": "identity", "subject": "memory"}
    return by.may(f"{apps.get(name, 'memory')}.view_{'fact' if name == 'subject' else name}")


def _agents(query: str, by: Principal) -> list[GlobalHit]:
    if not by.may("identity.view_agent"):
        return []
    rows = Agent.objects.visible_to(by).filter(Q(name__icontains=query) | Q(slug__icontains=query)).order_by("slug")
    return [
        {"label": row.name, "url": row.get_absolute_url(), "kind": "Agent", "detail": row.slug}
        for row in rows[:EACH_GROUP]
    ]


def _waiting(query: str, by: Principal) -> list[GlobalHit]:
    if not by.may("identity.view_changeproposal"):
        return []
    words = Q(reason__icontains=query) | Q(section__icontains=query) | Q(agent__name__icontains=query)
    rows = with_texts(ChangeProposal.objects.visible_to(by).waiting().filter(words).riskiest_first())
    return [
        {
            "label": ProposalItem(row).sentence,
            "url": row.get_absolute_url(),
            "kind": "Proposal",
            "detail": row.reason[:120],
        }
        for row in rows[:WAITING_SHOWN]
    ]


def _settings(query: str, by: Principal, agents: list[Agent]) -> list[GlobalHit]:
    """Fields of settings by the beginnings of words of their labels and help: of the first agent and of the person."""
    forms_of: list[tuple[str, str, forms.Form]] = []
    if agents and by.may("identity.change_agent"):
        prompts = AgentSettingsForm(None, settings=UNSET, kind=agents[0].get_kind_display())
        of_agent = {"agent_settings": AgentForm(), "agent_context_settings": prompts}
        forms_of = [(agents[0].name, reverse(name, args=[agents[0].slug]), form) for name, form in of_agent.items()]
    if by.is_person:
        forms_of.append(("Your account", reverse("account"), MailForm()))
    words = query.casefold().split()
    return [
        {"label": str(field.label), "url": f"{url}#{field.auto_id}", "kind": of, "detail": str(field.help_text)}
        for of, url, form in forms_of
        for field in form.visible_fields()
        if all(f" {word}" in f" {field.label} {field.help_text}".casefold() for word in words)
    ][:EACH_GROUP]


def _subjects(agent: Agent, query: str, by: Principal) -> list[GlobalHit]:
    if not by.may("memory.view_fact"):
        return []
    rows = subjects_shown(memory_of(agent, by)).filter(aliases__spelling__icontains=query).distinct()
    return [
        {"label": str(row), "url": row.get_absolute_url(), "kind": "Subject", "agent": agent.name}
        for row in rows[:EACH_AGENT]
    ]


def _memories(agent: Agent, query: str, by: Principal) -> list[tuple[float, GlobalHit]]:
    types: Sequence[str] = [key for key, one in MEMORY_TYPES.items() if by.may(one.permission("view"))]
    if not types or not by.may("memory.view_searchitem"):
        return []
    hits = search(memory_of(agent, by), SearchRequest(query, EVERYTHING, types=types, limit=EACH_AGENT)).items
    return [
        (
            hit.score,
            {
                "label": hit.content[:160],
                "url": memory_url(agent.slug, hit.type, hit.id),
                "kind": ItemType(hit.type).label,
                "agent": agent.name,
                "detail": clock_or_day(hit.happened_at) if hit.happened_at else "",
            },
        )
        for hit in hits
    ]
