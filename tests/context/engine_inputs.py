"""What the pure parts of the engine take, made by hand."""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from context.engine.analysis.frames import ContextBudget
from context.engine.analysis.profiles import Profile
from context.engine.analysis.request import ContextRequest, ResolvedRequest, query_analyse
from context.engine.assembly import Candidate
from memory.search.result import SearchHit

NOW = datetime(2026, 3, 4, tzinfo=UTC)
WEIGHTS = MappingProxyType({"task": 0.4, "project": 0.4, "global": 0.2})


def resolved_request(
    query: str = "query",
    *,
    total: int = 3_000,
    now: datetime = NOW,
    limits: Mapping[str, int] | None = None,
    weights: Mapping[str, float] = WEIGHTS,
    files: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    recency: float = 0.0,
    head: int = 0,
    tail: int = 0,
    compression: float = 0.0,
    **profile: Any,
) -> ResolvedRequest:
    """A request whose profile, plan and budget are as given: no head, no tail and no compression without a word."""
    request = ContextRequest("s", query, tags=tags)
    analysis = query_analyse(request)
    queries = tuple(replace(one, recency_weight=recency) for one in analysis.plan.queries)
    return ResolvedRequest(
        request,
        replace(analysis, plan=replace(analysis.plan, queries=queries)),
        now,
        Profile("test", preserve_head=head, preserve_tail=tail, compression_aggressiveness=compression, **profile),
        1,
        weights=weights,
        files=files,
        scale=1.0,
        limits=limits or {},
        budget=ContextBudget(total),
    )


def candidate(key: str, text: str, relevance: float = 0.5, *, threshold: float = 0.25, **more: Any) -> Candidate:
    """A fact that a search found; `more` are attributes of the hit or of the candidate."""
    hit = SearchHit(
        type="fact",
        id=key,
        content=text,
        metadata={},
        score=relevance,
        cosine=None,
        lexical=0.0,
        persona="actor",
        kind="",
        category="",
        scope="global",
        subject="",
        loop_id="",
        tags=(),
        importance=0.5,
        happened_at=NOW,
        recorded_at=NOW,
    )
    return candidate_with(Candidate(hit, "facts", threshold), **more)


def candidate_with(given: Candidate, **changes: Any) -> Candidate:
    """The same with other attributes of its hit or of its own."""
    of_hit = {one.name for one in fields(SearchHit)}
    hit = replace(given.hit, **{name: value for name, value in changes.items() if name in of_hit})
    return replace(given, hit=hit, **{name: value for name, value in changes.items() if name not in of_hit})
