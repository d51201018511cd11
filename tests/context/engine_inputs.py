"""What the pure parts of the engine take, made by hand."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from context.engine.assembly import Candidate
from context.engine.budget import ContextBudget
from context.engine.request import ContextRequest
from context.engine.resolved_request import ResolvedRequest, query_analyse
from context.profiles import Profile

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
    return ResolvedRequest(
        request,
        replace(analysis, intent=replace(analysis.intent, recency=recency)),
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
    """A fact that a search found."""
    values = {"section": "facts", "type": "fact", "happened_at": NOW, **more}
    return Candidate(id=key, text=text, relevance=relevance, threshold=threshold, **values)


def candidate_with(given: Candidate, **changes: Any) -> Candidate:
    """The same with other values."""
    return replace(given, **changes)
