"""Retired memories as candidates for an explanation: they get verdicts like the others, and are refused."""

from collections.abc import Sequence

import structlog
from django.db import DatabaseError

from context.engine.assembly import Candidate
from context.engine.retrieval.candidates import NEAR_MISS, candidate_of
from memory.persona import PersonaMemory
from memory.search.query_context import QueryContext
from memory.search.retired_matches import retired_search

logger = structlog.get_logger(__name__)

MAX_RETIRED = 10


def with_retired(
    view: PersonaMemory, candidates: Sequence[Candidate], query: QueryContext | None
) -> Sequence[Candidate]:
    """Add the best few replaced or retired memories, in one more statement. Filters refuse them.

    `query` is the search's processed query, None if there was none.
    """
    if query is None:
        return candidates
    try:
        hits = retired_search(view, query)
    except DatabaseError:
        # An explanation less is no reason to answer nothing.
        logger.exception("context.retired_failed")
        return candidates
    known = {one.key for one in candidates}
    gone = [candidate_of(hit) for hit in hits if hit.score >= NEAR_MISS and (hit.type, hit.id) not in known]
    return (*candidates, *gone[:MAX_RETIRED])
