"""The last loops as candidates, by the fuzzy score of short-term memory. Source: seed "Agentic Memory System"."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from context.engine.analysis.request import ResolvedRequest
from context.engine.retrieval.restatement import text_vectors
from context.engine.section_budgets import MEMORY_SECTIONS
from memory.embedding import EmbeddingFailed, thresholds_of
from memory.layers.short_term_search import StmHit, stm_search
from memory.models import EventKind, Scope, keys_of, tier_of
from memory.persona import PersonaMemory
from memory.policy import UNTRUSTED
from memory.search.fusion import QueryContext
from memory.search.languages import terms_sql
from memory.search.result import SearchHit
from memory.search.search import calibrated
from memory.services.trust import least_trusted
from nousweb.lib.prepared_statements import rows_prepared

LOOPS_SEEN = 10
SAME_TOPIC = 0.55
"""Cosine from which a loop is about the input, whatever its words: that of a question and what answers it."""
NEAR_TOPIC = 0.2
"""The same for a loop that shares a content word: any two sentences may share "think" or "tell"."""


def loop_hits(view: PersonaMemory, resolved: ResolvedRequest, query: QueryContext | None) -> list[SearchHit]:
    """The last loops that are most like the input; with `as_of`, those that had ended by then.

    Stop words make any two sentences alike. So the score of a loop that neither means about the same as the input nor
    shares a content word with it is only its cosine.
    """
    request = resolved.request
    if not resolved.limits.get("loop"):
        return []
    found = stm_search(view, request.scope, request.input, now=resolved.now, as_of=request.as_of)[:LOOPS_SEEN]
    # The loop that is going on is the conversation itself.
    hits = [_hit(one) for one in found if one.loop.loop_id != request.session_id]
    alike = [hit for hit in hits if hit.score >= MEMORY_SECTIONS["loop"].threshold]
    if not alike:
        return hits
    trust = _trust_of(view, alike)
    hits = [replace(hit, trust=trust.get(hit.id, hit.trust)) for hit in hits]
    if query is None:
        return hits
    shared = _shared_words(view, query, alike)
    cosines = _cosines(query, alike)
    weak: dict[str, float] = {}
    for hit, words, cosine in zip(alike, shared, cosines, strict=True):
        if not words if cosine is None else cosine < (NEAR_TOPIC if words else SAME_TOPIC):
            weak[hit.id] = max(cosine or 0.0, 0.0)
    return [replace(hit, score=weak[hit.id]) if hit.id in weak else hit for hit in hits]


def _trust_of(view: PersonaMemory, hits: Sequence[SearchHit]) -> dict[str, str]:
    """The least trusted class of the words in each summary, by loop, where that is less than the agent's own."""
    entries = view.long_term.filter(loop_id__in=[hit.id for hit in hits], origin__in=UNTRUSTED)
    # Of what a tool answered, a summary has no more than the tool's name.
    rows = entries.exclude(event__kind=EventKind.TOOL_RESULT).values_list("loop_id", "origin").distinct()
    found: dict[str, list[str]] = {}
    for loop_id, origin in rows:
        found.setdefault(loop_id, []).append(origin)
    return {loop_id: least_trusted(origins) for loop_id, origins in found.items()}


def _shared_words(view: PersonaMemory, query: QueryContext, hits: Sequence[SearchHit]) -> list[bool]:
    """Whether each summary shares a word with the query that is no stop word of the agent's language."""
    lexemes = [*query.counts.df]
    if not lexemes:
        return [False] * len(hits)
    terms = terms_sql(view.agent.pk, "told.text")
    statement = (
        f"SELECT tsvector_to_array({terms}) && %(lexemes)s::text[]"  # noqa: S608
        " FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS told (text, place) ORDER BY place"
    )
    return [row[0] for row in rows_prepared(statement, {"lexemes": lexemes, "texts": list(map(loop_hit_text, hits))})]


def _cosines(query: QueryContext, hits: Sequence[SearchHit]) -> list[float | None]:
    """The cosine of the query and each summary, on the scale of the default model; None without vectors."""
    model = query.counts.model
    if query.vector is None:
        return [None] * len(hits)
    try:
        cosines = text_vectors(model, list(map(loop_hit_text, hits))) @ np.asarray(query.vector)
    except EmbeddingFailed:
        return [None] * len(hits)
    return [*map(float, calibrated(np.asarray(cosines, float), thresholds_of(model)))]


def loop_hit_text(hit: SearchHit) -> str:
    """The text of a loop's summary, without the labels of its lines."""
    return "\n".join(line.partition(": ")[2] for line in hit.content.split("\n"))


def _hit(found: StmHit) -> SearchHit:
    loop = found.loop
    return SearchHit(
        type="loop",
        id=loop.loop_id,
        content=loop.summary,
        metadata={},
        # How alike the words are; its age has a say in the score by the plan's recency.
        score=found.score.similarity,
        cosine=None,
        lexical=found.score.similarity,
        persona=loop.persona,
        kind=loop.kind,
        category="",
        scope=tier_of(Scope.GLOBAL, loop.project, loop.task),
        **keys_of(loop),
        subject="",
        loop_id=loop.loop_id,
        tags=(),
        importance=0.5,
        happened_at=loop.last_event_at,
        recorded_at=loop.last_event_at,
    )
