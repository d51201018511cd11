"""Load the candidates of the searched sections (tier 3), with one search for all types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings

from context.engine.analysis.frames import ContextBudget
from context.engine.analysis.profiles import TOOL_OUTPUT
from context.engine.analysis.request import TOOL_OUTPUTS, ResolvedRequest
from context.engine.assembly import Candidate, SearchedSection
from context.engine.retrieval.candidate_dates import candidates_date, candidates_repeated
from context.engine.retrieval.fixed_sections import Pins
from context.engine.retrieval.loops import loop_hits
from context.engine.section_budgets import MEMORY_SECTIONS
from identity.models import Agent
from memory.models import EventKind, SearchItem
from memory.persona import PersonaMemory
from memory.policy import MAX_SEARCH_LIMIT, PROFILE_CATEGORIES
from memory.search.as_of import memories_as_of
from memory.search.invalidated_matches import InvalidatedFact, hits_repeating_invalidated, latest_invalidated_facts
from memory.search.memory_loader import fact_subject_names, memories_load
from memory.search.request import SearchRequest
from memory.search.result import HIT_COLUMNS, SearchHit, SearchResult, hit_of_entry
from memory.search.search import search
from memory.types import IndexEntry, entry_of
from nousweb.lib.prepared_statements import rows_prepared

HALF_LIFE_DAYS = 7.0
OLDEST_SECONDS = 10 * 365 * 86_400.0
"""An age beyond which a weight is nothing anyway, and PostgreSQL would refuse so small a number."""
MIN_OBSERVATIONS = 2
NEUTRAL = 1.0

_STATS = """
SELECT item_type, item_id, count(*),
       sum(weight) FILTER (WHERE referenced), sum(weight), max(weight)
FROM (
    SELECT item_type, item_id, referenced,
           exp(-ln(2.0::float8) / 86400 / %(half_life)s::float8
               * least(greatest(extract(epoch FROM %(now)s::timestamptz - at)::float8, 0), %(oldest)s::float8)
           ) AS weight
    FROM context_memoryusage
    WHERE agent_id = %(agent)s AND persona = %(persona)s AND counted AND at <= %(now)s::timestamptz
      AND (item_type, item_id) IN (SELECT * FROM unnest(%(types)s::text[], %(ids)s::text[]))
) AS observed
GROUP BY item_type, item_id
"""


@dataclass(frozen=True, slots=True)
class UsageStats:
    """Observations of one memory, the sums of their decayed weights (1 when fresh, 0.5 after 7 days), and the weight of
    the latest."""

    observations: int
    referenced: float
    total: float
    latest: float

    @property
    def score(self) -> float:
        """Decayed number of references."""
        return self.referenced

    @property
    def boost(self) -> float:
        """With NOUS_USAGE_BOOST at 100: 0.5 for never referenced, 1.0 for half the time, 1.5 for always.

        Less in proportion with a lower one; 1.0 before the second observation. All weights decay alike, so their share
        does not: the weight of the latest observation makes the factor fade toward 1.0.
        """
        if self.observations < MIN_OBSERVATIONS or self.total <= 0:
            return NEUTRAL
        return NEUTRAL + settings.USAGE_BOOST_PERCENT / 100 * self.latest * (self.referenced / self.total - 0.5)


def usage_stats(
    agent: Agent, persona: str, memories: Sequence[tuple[str, str]], *, now: datetime
) -> dict[tuple[str, str], UsageStats]:
    """Stats of the memories (type, id) that have any, in one query.

    Only prompts and answers of `persona` itself count, whoever owns the memory: otherwise the ranking of the actor's
    memories would reveal how the subconscious uses them.
    """
    if not memories:
        return {}
    rows = rows_prepared(
        _STATS,
        {
            "now": now,
            "half_life": HALF_LIFE_DAYS,
            "oldest": OLDEST_SECONDS,
            "agent": agent.pk,
            "persona": persona,
            "types": [memory_type for memory_type, _ in memories],
            "ids": [memory_id for _, memory_id in memories],
        },
    )
    return {
        (memory_type, memory_id): UsageStats(count, referenced or 0.0, total or 0.0, latest or 0.0)
        for memory_type, memory_id, count, referenced, total, latest in rows
    }


THRESHOLDS: Mapping[str, float] = {key: section.threshold for key, section in MEMORY_SECTIONS.items()}
"""Minimum relevance by type."""
NEAR_MISS = 0.12
"""About half a threshold. Less relevant hits are considered, and get a verdict, only among the best few."""
MIN_CONSIDERED = 30
CONSIDERED = 3
"""Candidates of a type for each that the plan would show: profiles exclude some, and messages repeat some."""

SECTION_OF: Mapping[str, str] = {key: section.key for key, section in MEMORY_SECTIONS.items()}
TOOL_OUTPUT_AGE = timedelta(days=1)
LONG_TERM = "long_term"
EARLIEST = datetime.min.replace(tzinfo=UTC)
KIND_ALIASES: Mapping[str, frozenset[str]] = {
    "user_input": frozenset({"conversation"}),
    "actor_output": frozenset({"conversation"}),
    "tool_call": frozenset({"tool_output"}),
    "tool_result": frozenset({"tool_output"}),
    "error": frozenset({"failure"}),
    **{key: section.kind_aliases for key, section in MEMORY_SECTIONS.items()},
}
"""Names that profiles use for the kinds of memories."""


NOTHING_SEARCHED = SearchResult([], 0.0)
"""The result if no search was needed, or it failed."""


def searched_sections(budget: ContextBudget) -> list[SearchedSection]:
    return [SearchedSection(section.key, section.label, budget.of(section.key)) for section in MEMORY_SECTIONS.values()]


def candidates_find(
    view: PersonaMemory,
    resolved: ResolvedRequest,
    pins: Pins = frozenset(),
    force_include: Sequence[str] = (),
) -> tuple[tuple[Candidate, ...], SearchResult]:
    """Search once for all types, then mark repetitions of the conversation and apply usage feedback.

    Returns the candidates and the result of the search. Pinned memories are included whether the search finds them or
    not. With `explain`, hits behind the best of their type are included too, though no filter lets them through. Facts
    whose ids are in `force_include` are searched even if they are core memory.
    """
    request, plan, limits = resolved.request, resolved.analysis.plan, resolved.limits
    # Loops have a search of their own, and events need their layer.
    unsearched = {"loop"} if LONG_TERM in resolved.profile.layers else {"loop", "event"}
    types = [memory_type for memory_type in limits if memory_type not in unsearched]
    if not types or not request.input.strip():
        return _pinned(view, resolved, pins, (), force_include), NOTHING_SEARCHED
    max_per_type = {memory_type: CONSIDERED * limit for memory_type, limit in limits.items()}
    result = search(
        view,
        SearchRequest(
            query=plan.text,
            scope=request.scope,
            types=types,
            limit=MAX_SEARCH_LIMIT,
            min_score=min(NEAR_MISS, THRESHOLDS["fact"] / resolved.thresholds_divisor),
            min_results=MIN_CONSIDERED,
            max_per_type=max_per_type,
            # An as-of search also finds rows that were not there then; loading them shows which.
            include_overflow=request.explain or request.as_of is not None,
            metadata=False,
            uniform_decay=True,
            as_of=request.as_of,
            exclude_categories=PROFILE_CATEGORIES,
            force_include=force_include,
            period=plan.period,
            now=resolved.now,
        ),
        resolved.embedding,
    )
    hits = result.items if _has_topic(result, request.input) else [replace(hit, score=0.0) for hit in result.items]
    candidates = _widened(_candidates_of(hits, max_per_type, pins), resolved.thresholds_divisor)
    candidates += [candidate_of(hit) for hit in loop_hits(view, resolved, result.query)]
    if TOOL_OUTPUT in resolved.profile.layers:
        candidates = _with_tool_output(view, candidates, resolved)
    candidates_date(candidates, pins, resolved.clock)
    observed = [candidate.key for candidate in candidates] if settings.USAGE_BOOST_PERCENT else []
    stats = usage_stats(view.agent, view.persona, observed, now=resolved.now)
    said = candidates_repeated(candidates, resolved)
    if pins or stats or said:
        candidates = [_annotated(candidate, pins, stats, said.get(place)) for place, candidate in enumerate(candidates)]
    rows, as_of = resolved.rows, request.as_of
    wrong = rows.invalidated if rows is not None else list(latest_invalidated_facts(view, as_of))
    annotated = annotate_invalidated(view, candidates, [InvalidatedFact(*row) for row in wrong])
    return (*annotated, *_pinned(view, resolved, pins, annotated, force_include)), result


def annotate_invalidated(
    view: PersonaMemory, candidates: Sequence[Candidate], wrong: Sequence[InvalidatedFact]
) -> tuple[Candidate, ...]:
    """Mark each candidate that repeats an invalidated fact with the text of that fact."""
    likely = [candidate.hit for candidate in candidates if candidate.is_relevant] if wrong else []
    again = hits_repeating_invalidated(view, likely, wrong)
    return tuple(
        replace(candidate, repeats_invalidated=again[candidate.key]) if candidate.key in again else candidate
        for candidate in candidates
    )


def _has_topic(result: SearchResult, text: str) -> bool:
    """Whether the input has more than stop words of the agent's language; sentences of these mean alike whatever they
    are about."""
    return result.query is None or bool(result.query.counts.df) or not any(map(str.isalpha, text))


def _candidates_of(hits: Sequence[SearchHit], max_per_type: Mapping[str, int], pins: Pins) -> list[Candidate]:
    of_type = dict.fromkeys(max_per_type, 0)
    candidates = []
    for hit in hits:
        of_type[hit.type] += 1
        outranked = of_type[hit.type] > max_per_type[hit.type]
        # Outranked pinned hits are loaded by `_pinned`, as without `include_overflow`.
        if not outranked or (hit.type, hit.id) not in pins:
            candidates.append(candidate_of(hit, outranked=outranked))
    return candidates


def _annotated(
    candidate: Candidate, pins: Pins, stats: Mapping[tuple[str, str], UsageStats], duplicate_of: int | None
) -> Candidate:
    """`one` with its pin, usage boost and repetition; most candidates have none of them."""
    key = candidate.key
    if key not in pins and key not in stats and duplicate_of is None:
        return candidate
    boost = stats[key].boost if key in stats else 1.0
    return replace(candidate, pinned=key in pins, boost=boost, duplicate_of=duplicate_of)


def _widened(candidates: list[Candidate], divisor: float) -> list[Candidate]:
    """Divide the thresholds by `divisor`, for requests that want their budget filled.

    This admits less relevant candidates, but only if at least one passes its full threshold. Otherwise memory has
    nothing about the input, and weaker hits would not help.
    """
    if divisor <= 1.0 or not any(candidate.hit.score >= candidate.threshold for candidate in candidates):
        return candidates
    return [
        replace(candidate, threshold=candidate.threshold / divisor, weak=candidate.hit.score < candidate.threshold)
        for candidate in candidates
    ]


def _pinned(
    view: PersonaMemory,
    resolved: ResolvedRequest,
    pins: Pins,
    candidates: Sequence[Candidate],
    force_include: Sequence[str],
) -> tuple[Candidate, ...]:
    """The pinned memories that the search did not find, read through the view like all others.

    A pin does not bring a memory to another project, task or user.
    """
    request = resolved.request
    missing = sorted(pins.difference(candidate.key for candidate in candidates)) if pins else []
    if not missing:
        return ()
    rows = SearchItem.objects.filter(
        agent=view.agent, persona__in=view.personas, item_id__in=[item_id for _, item_id in missing]
    )
    entries: dict[tuple[str, str], SearchItem | IndexEntry] = {
        (row.item_type, row.item_id): row for row in rows.only("item_type", "item_id", *HIT_COLUMNS)
    }
    keys = [key for key in missing if key in entries]
    if request.as_of:
        snapshots = memories_as_of(view, keys, request.as_of)
        entries |= {key: snapshot.entry for key, snapshot in snapshots.items() if snapshot.entry is not None}
        loaded = {key: (then.content, then.metadata, then.trust) for key, then in snapshots.items()}
    else:
        loaded = memories_load(view, keys)
    names = fact_subject_names(view, [item_id for item_type, item_id in keys if item_type == "fact"])
    found = [
        candidate_of(hit_of_entry(entries[key], *loaded[key], names.get(key[1], "")), pinned=True)
        for key in keys
        # Core memory has its own section.
        if key in loaded
        and request.scope.shows(entries[key])
        and (entries[key].category not in PROFILE_CATEGORIES or key[1] in force_include)
    ]
    candidates_date(found, pins, resolved.clock)
    return tuple(found)


def _label(item_type: str, subject: str, happened_at: datetime) -> str:
    match MEMORY_SECTIONS[item_type].item_label:
        case "subject":
            return subject
        case "date":
            return happened_at.isoformat()[:10]
    return ""


def candidate_of(hit: SearchHit, **more: Any) -> Candidate:
    """A search hit as a candidate; `more` are the optional fields of a candidate."""
    return Candidate(
        hit,
        section=SECTION_OF[hit.type],
        threshold=THRESHOLDS[hit.type],
        label=_label(hit.type, hit.subject_name or hit.subject, hit.happened_at),
        kinds=kinds_of(hit.type, hit.kind, hit.category),
        **more,
    )


def _with_tool_output(view: PersonaMemory, candidates: list[Candidate], resolved: ResolvedRequest) -> list[Candidate]:
    """Add the latest tool results to `found`, whatever their words: those of this session, else of the last day."""
    now, as_of = resolved.now, resolved.request.as_of
    shown = resolved.request.scope.q_through("event__")
    entries = view.long_term.filter(shown, event__kind=EventKind.TOOL_RESULT, event__ts__lte=now)
    entries = entries.select_related("event")
    if as_of is not None:
        entries = entries.filter(event__recorded_at__lte=as_of)
    entries = entries.order_by("-event__ts", "-event_id")
    latest = list(entries.filter(loop_id=resolved.request.session_id)[:TOOL_OUTPUTS]) or list(
        entries.filter(event__ts__gt=max(now, EARLIEST + TOOL_OUTPUT_AGE) - TOOL_OUTPUT_AGE)[:TOOL_OUTPUTS]
    )
    by_key = {("event", str(entry.pk)): entry for entry in latest}
    known = {candidate.key for candidate in candidates}
    marked = [
        replace(candidate, by_time=True, outranked=False) if candidate.key in by_key else candidate
        for candidate in candidates
    ]
    return marked + [
        candidate_of(hit_of_entry(entry_of(entry), entry.text, entry.event.metadata, entry.trust), by_time=True)
        for key, entry in by_key.items()
        if key not in known
    ]


@lru_cache(maxsize=1_024)
def kinds_of(item_type: str, kind: str, category: str) -> frozenset[str]:
    """All kind names by which a profile may prefer or exclude a memory."""
    own: Sequence[str] = [word for word in (item_type, kind, category) if word]
    return frozenset(own).union(*(KIND_ALIASES.get(word, ()) for word in own))
