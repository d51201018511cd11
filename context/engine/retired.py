"""What is no longer told, as candidates for an explanation: judged like the others, and refused."""

from dataclasses import replace

import structlog
from django.db import DatabaseError

from context.engine.assembly import Candidate
from context.engine.candidates import NEAR_MISS, Found, candidate_of
from memory.persona import PersonaMemory
from memory.search.retired_matches import RetiredHit, retired_search

logger = structlog.get_logger(__name__)

MOST = 10


def with_retired(view: PersonaMemory, found: Found) -> Found:
    """`found` with the best few memories that were replaced or retired, in one more statement. Gates refuse them."""
    if found.asked is None:
        return found
    try:
        hits = retired_search(view, found.asked)
    except DatabaseError:
        # An explanation less is no reason to answer nothing.
        logger.exception("context.retired_failed")
        return found
    known = {(one.type, one.id) for one in found.candidates}
    gone = [_candidate(hit) for hit in hits if hit.score >= NEAR_MISS and (hit.type, hit.id) not in known]
    return replace(found, candidates=(*found.candidates, *gone[:MOST]))


def _candidate(hit: RetiredHit) -> Candidate:
    return candidate_of(
        hit,
        active=False,
        superseded_by=hit.successor,
        successor_text=hit.successor_text,
        retired_at=hit.retired_at,
        found_wrong=hit.found_wrong,
        included_until=hit.included_until,
    )
