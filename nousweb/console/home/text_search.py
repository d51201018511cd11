"""Search for words, phrases and parts of words in what was said, shown and decided, in the tables that hold it."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from operator import attrgetter
from typing import Any

from django.db import OperationalError, transaction
from django.db.models import F, Func, Model, Q, QuerySet, TextField
from rapidfuzz import fuzz

from context.models import VIEW_RUN, ContextRun
from identity.models import AuditEvent, ChangeProposal, IdentityVersion, ItemComment, Persona
from identity.policy.changes import audit_phrase
from identity.principal import Principal
from memory.models import ItemType, SearchItem
from memory.types import MEMORY_TYPES
from nousweb.console.common import author_words, memory_url, object_url
from nousweb.console.templatetags.console import clock_or_day
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


def _memories(by: Principal) -> QuerySet[Any]:
    """Those of the types that `by` may see, past and present."""
    types = [key for key, memory_type in MEMORY_TYPES.items() if by.may(memory_type.permission("view"))]
    rows = SearchItem.objects.filter(persona=Persona.ACTOR, item_type__in=types)
    return for_visible_agents(_with_agent(rows, "item_type", "item_id", "active", "text", "recorded_at"), by)


def _memory_name(row: SearchItem) -> str:
    return f"{'' if row.active else 'Past '}{ItemType(row.item_type).label}".capitalize()


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
    said = f"{did} {row.object_label}"
    held = _held([said, row.message, *_strings(row.before), *_strings(row.after)], terms)
    if held == said:
        return did, snippet(row.object_label, terms)
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
    TextSource("Memories", "memory.view_searchitem", _memories, ("text",), _memory_name, "recorded_at", ("-pk",)),
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
    hits = (_hit(source, row, query.words, by) for row in rows)
    # A comment may outlive its item, or be on one that `by` may not see.
    return [hit for hit in hits if hit["url"]]


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
    when = clock_or_day(getattr(row, source.moment))
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
