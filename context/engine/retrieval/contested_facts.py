"""Loads the facts about which a question is open, for assembly."""

from collections.abc import Sequence

from context.engine.analysis.resolved_request import ResolvedRequest
from context.engine.assembly import Candidate, ContestedCandidate, FixedSection
from context.engine.retrieval.candidates import candidate_of
from context.engine.retrieval.fixed_sections import profile_rank
from memory.persona import PersonaMemory
from memory.search.contested_facts import ContestedFact, contested_facts


def contested_load(
    view: PersonaMemory,
    resolved: ResolvedRequest,
    fixed: Sequence[FixedSection],
    candidates: Sequence[Candidate],
    others: Sequence[str] = (),
) -> tuple[ContestedCandidate, ...]:
    """The contested facts among those that a prompt may show, with all facts that contest them.

    `others` are ids of further facts, which hypothetical changes would show. Facts are not looked up if it is known
    from loading them that no review of them is pending.
    """
    request, rows = resolved.request, resolved.rows
    core = {item.id for section in fixed for item in section.items if item.type == "fact"}
    found = [one.hit for one in candidates if one.hit.type == "fact" and one.hit.retirement is None]
    if request.as_of is None:
        core -= rows.uncontested_core_ids if rows else set()
        found = [hit for hit in found if hit.has_pending_review is not False]
    keys = [*core, *(hit.id for hit in found), *others]
    return tuple(_candidate(one) for one in contested_facts(view, request.scope, keys, request.as_of, now=resolved.now))


def _candidate(one: ContestedFact) -> ContestedCandidate:
    return ContestedCandidate(
        candidate_of(one.hit),
        partners=one.partners,
        since=one.since,
        endorsed=one.endorsed,
        opposed=one.opposed,
        undecided=one.undecided,
        core_priority=profile_rank(one.endorsed, one.hit.category),
    )
