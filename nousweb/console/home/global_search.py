"""Search across all agents: agents, subjects, memories, pending items, objects by id; and words, phrases and parts of
words in what was said, shown and decided, in the tables that hold it."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db import OperationalError, transaction
from django.db.models import F, Func, Model, Q, QuerySet, TextField
from django.urls import reverse
from django.utils.timezone import localdate
from rapidfuzz import fuzz

from context.models import VIEW_RUN, ContextRun
from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion, ItemComment, Persona
from identity.policy.changes import audit_phrase
from identity.principal import Principal
from identity.selectors.filters import PERIODS, DateInput, agent_choices
from memory.models import EVERYTHING, ItemType, SearchItem
from memory.persona import memory_of
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.selectors import subjects_shown
from memory.types import MEMORY_TYPES
from nousweb.console.common import SHORTCUTS, author_words, memory_url, object_url, uuid_of
from nousweb.console.context.views.agent_settings import UNSET, AgentSettingsForm
from nousweb.console.identity.forms import AgentForm
from nousweb.console.inbox.proposal_items import ProposalItem, with_texts
from nousweb.console.people.forms import MailForm
from nousweb.console.templatetags.console import age_or_day
from nousweb.lib.bounds import MAX_QUERY_CHARACTERS
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.transactions import sql_change
from nousweb.lib.visible_text import snippet

MAX_TERMS = 8
SOON = 0.1
"""Seconds."""
SAID = 90
"""Characters of a sentence before such a text."""
VOCABULARY_ROWS = 300
"""The latest rows of each source whose words correct a misspelt one: nothing about them is stored."""
SPELLING = 75.0
"""Minimum similarity of a word to the one that it replaces, from 0 to 100."""
SPELLING_MARGIN = 5.0
"""A word that is so much less similar than the best one is offered too."""
MAX_SPELLINGS = 6
_TERM = re.compile(r'"([^"]+)"|(\S+)')
_WORD = re.compile(r"[^\W\d_]{4,}")


@dataclass(frozen=True, slots=True)
class TextSource:
    """A table with texts: the rows that one may see, the columns that are searched, and the name of a row.

    `order` is that in which they are read at first, without one latest first by the `moment`: for a large table one
    that an index has.
    """

    group: str
    permission: str
    rows: Callable[[Principal], QuerySet[Any]]
    columns: tuple[str, ...]
    name: Callable[[Any], str]
    moment: str = "created_at"
    order: tuple[str, ...] = ()
    lookup: str = "ilike"


def _actors(model: type[Model], *read: str) -> Callable[[Principal], QuerySet[Any]]:
    """The rows of actors, with the columns that are read; all without a name."""
    rows = _with_agent(model._default_manager.all(), *read)
    if any(field.name == "persona" for field in model._meta.fields):
        rows = rows.filter(persona=Persona.ACTOR)
    return lambda by: for_visible_agents(rows, by)


def _with_agent(rows: QuerySet[Any], *read: str) -> QuerySet[Any]:
    """`rows` with their agents, with the columns that are read."""
    rows = rows.select_related("agent")
    return rows.only(*read, "agent__slug", "agent__name") if read else rows.defer("agent__config")


def _memory_rows(by: Principal) -> QuerySet[Any]:
    """Those of the types that `by` may see, past and present."""
    types = [key for key, memory_type in MEMORY_TYPES.items() if by.may(memory_type.permission("view"))]
    rows = SearchItem.objects.filter(persona=Persona.ACTOR, item_type__in=types)
    return for_visible_agents(_with_agent(rows, "item_type", "item_id", "active", "text", "recorded_at"), by)


class _Words(Func):
    """The strings in a column of JSON, without the names of its members."""

    template = """jsonb_path_query_array(%(expressions)s, 'strict $.** ? (@.type() == "string")')::text"""
    output_field = TextField()


def _section(row: ChangeProposal | IdentityVersion) -> str:
    """The section of a text, and whether it is in force or what became of it."""
    if isinstance(row, ChangeProposal):
        return f"{row.get_section_display()}, {row.get_status_display().lower()}"
    return f"{row.get_section_display()}, {'current' if row.is_current else f'version {row.version}'}"


def _audit_rows(by: Principal) -> QuerySet[Any]:
    seen = AuditEvent.objects.visible_to(by).exclude(persona__in=[Persona.SUBCONSCIOUS, AuditEvent.BOTH])
    return _with_agent(seen).annotate(before_text=_Words(F("before")), after_text=_Words(F("after")))


def _audit_label(row: AuditEvent, terms: Sequence[str]) -> tuple[str, str]:
    """What was done, and to what; or both and the text with the terms where these do not have them."""
    did = audit_phrase(row.action)
    # Who proposed a change stands beside the row.
    label = row.object_label.partition(", proposed by ")[0]
    said = f"{did} {label}"
    held = _held([said, row.message, *_strings(row.before), *_strings(row.after)], terms)
    if held == said:
        return did, snippet(label, terms)
    return f"{said[:SAID]}{'…' if len(said) > SAID else ''}:", snippet(held, terms)


def _strings(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        yield state
    elif isinstance(state, dict | list):
        for value in state.values() if isinstance(state, dict) else state:
            yield from _strings(value)


def _held(texts: Sequence[str], terms: Sequence[str]) -> str:
    """The first of the texts that has the most of the terms."""
    return max(texts, key=lambda text: sum(term.casefold() in text.casefold() for term in terms))


TEXT_SOURCES = (
    TextSource(
        "Prompts and answers",
        VIEW_RUN,
        _actors(ContextRun, "response", "input", "created_at"),
        ("response", "input"),
        lambda row: "Prompt",
    ),
    TextSource(
        "Identity texts",
        "identity.view_identityversion",
        _actors(IdentityVersion),
        ("content", "reason"),
        _section,
    ),
    TextSource("Proposals", "identity.view_changeproposal", _actors(ChangeProposal), ("content", "reason"), _section),
    TextSource("Comments", "identity.view_changeproposal", _actors(ItemComment), ("text",), author_words, "at"),
    TextSource(
        "Memories",
        "memory.view_searchitem",
        _memory_rows,
        ("text",),
        lambda row: f"{'' if row.active else 'Past '}{ItemType(row.item_type).label}".capitalize(),
        "recorded_at",
        ("-pk",),
    ),
    TextSource(
        "Audit trail",
        "identity.view_auditevent",
        _audit_rows,
        ("message", "object_label", "after_text", "before_text"),
        author_words,
        "at",
    ),
)
"""In the order of the page, the largest last: they have the time that the others leave."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What is searched for: every one of the terms, within a time. `spellings`: the words that stand for a misspelt
    term, of which each will do."""

    terms: tuple[str, ...]
    agent: str = ""
    since: date | None = None
    until: date | None = None
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """What hits may hold: the terms, or the words that stand for them."""
        return tuple(word for term in self.terms for word in self.spellings.get(term, (term,)))

    @classmethod
    def of(cls, text: str, **more: Any) -> "TextQuery":
        """Words, and phrases in quotes."""
        terms = (phrase or word for phrase, word in _TERM.findall(text))
        return cls(tuple(dict.fromkeys(term.strip() for term in terms if term.strip()))[:MAX_TERMS], **more)

    def rows(self, source: TextSource, by: Principal) -> QuerySet[Any]:
        """The rows of a source in the time and of the agent, latest first."""
        limits = {"agent__slug": self.agent, f"{source.moment}__date__gte": self.since}
        limits[f"{source.moment}__date__lte"] = self.until
        rows = source.rows(by).filter(**{name: value for name, value in limits.items() if value})
        return rows.order_by(*source.order or (f"-{source.moment}", "-pk"))

    def matching(self, source: TextSource) -> Q:
        """Each term is in one of the columns."""
        condition = Q()
        for term in self.terms:
            places: list[Any] = [
                (f"{c}__{source.lookup}", word) for c in source.columns for word in self.spellings.get(term, (term,))
            ]
            condition &= Q.create(places, connector=Q.OR)
        return condition


def text_hits(query: TextQuery, source: TextSource, by: Principal, *, limit: int, seconds: float) -> list[Any] | None:
    """The latest hits of a source; None if they were not found in so many seconds.

    Along an index the hits of a frequent word are found soon. For a rare one it is faster to read the whole table, and
    faster without the statistics of ILIKE.
    """
    if source.order and seconds > SOON:
        if (soon := text_hits(query, source, by, limit=limit, seconds=SOON)) is not None:
            return soon
        source, seconds = replace(source, order=(), lookup="icontains"), seconds - SOON
    try:
        with transaction.atomic():
            sql_change(f"SET LOCAL statement_timeout = {max(int(seconds * 1000), 1)}")
            rows = list(query.rows(source, by).filter(query.matching(source))[:limit])
            rows.sort(key=attrgetter(source.moment), reverse=True)
            sql_change("SET LOCAL statement_timeout = DEFAULT")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") != "57014":
            raise
        return None
    # A comment may outlive its item, or be on one that `by` may not see.
    return [hit for row in rows if (hit := _hit(source, row, query.words, by))["url"]]


def _hit(source: TextSource, row: Any, terms: Sequence[str], by: Principal) -> dict[str, str]:
    texts = [str(getattr(row, column) or "") for column in source.columns]
    match row:
        case ItemComment():
            address = object_url(row.item_type, str(row.item_id), by)
        case SearchItem():
            address = memory_url(row.agent.slug, row.item_type, row.item_id)
        case _:
            address = row.get_absolute_url()
    did, label = _audit_label(row, terms) if isinstance(row, AuditEvent) else ("", snippet(_held(texts, terms), terms))
    agent = row.agent.name if row.agent else ""
    when = age_or_day(getattr(row, source.moment))
    return {"label": label, "url": address or "", "did": did, "kind": source.name(row), "agent": agent, "detail": when}


def spelling_correct(query: TextQuery, sources: Iterable[TextSource], by: Principal, *, until: float) -> TextQuery:
    """The query with the words of recent texts that are most similar to each term that no text has.

    A word also counts by its beginning, as long as the term: "vouchre" may be "vouchers" or "voucherless". `until` is a
    moment of `time.monotonic`, at which no further source is read.
    """
    words: set[str] = set()
    for source in sources:
        if time.monotonic() > until:
            break
        rows = query.rows(source, by).values_list(*source.columns)[:VOCABULARY_ROWS]
        for texts in rows:
            words.update(_WORD.findall(" ".join(text or "" for text in texts).casefold()))
    spellings = {}
    for term in query.terms:
        asked = term.casefold()
        if _WORD.fullmatch(term) and not any(asked in word for word in words):
            scored = {word: max(fuzz.ratio(asked, word), fuzz.ratio(asked, word[: len(asked)])) for word in words}
            best = max(scored.values(), default=0)
            if best >= SPELLING:
                near = [word for word in sorted(words) if scored[word] >= best - SPELLING_MARGIN]
                spellings[term] = tuple(sorted(near, key=lambda word: -scored[word])[:MAX_SPELLINGS])
    return replace(query, spellings=spellings)


EACH_AGENT = 5
"""Memories and subjects that one agent may bring."""
EACH_GROUP = 12
WAITING_SHOWN = 5
"""For the sentence of each, two texts are compared."""
AGENTS_SEARCHED = 50
OBJECTS = (
    ("contextrun", "Prompt sent", VIEW_RUN),
    ("changeproposal", "Proposal", "identity.view_changeproposal"),
    ("memoryreview", "Memory review", "memory.view_memoryreview"),
    *(
        (memory_type.name, str(memory_type.key.label), memory_type.permission("view"))
        for memory_type in MEMORY_TYPES.values()
        if memory_type.key_type == "uuid"
    ),
    ("subject", "Subject", "memory.view_fact"),
)
"""Types of objects that an id may belong to, with their names and the rights to see them."""


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
            look_for(corrected)
        if any(result.groups.values()):
            result.corrected = tuple(word for words in corrected.spellings.values() for word in words)
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
    found = ((label, object_url(name, str(key), by)) for name, label, right in OBJECTS if by.may(right))
    return [{"label": str(key), "url": url, "kind": label} for label, url in found if url]


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
                "detail": age_or_day(hit.happened_at) if hit.happened_at else "",
            },
        )
        for hit in hits
    ]
