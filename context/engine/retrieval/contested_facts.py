"""Loads the facts about which a question is open, for assembly."""

from collections.abc import Sequence

from context.engine.analysis.request import ContextRequest
from context.engine.assembly import Candidate, ContestedCandidate, FixedSection
from context.engine.retrieval.candidates import candidate_of
from context.engine.retrieval.fixed_sections import profile_rank
from memory.persona import PersonaMemory
from memory.search.contested_facts import ContestedFact, contested_facts


def contested_load(
    view: PersonaMemory,
    request: ContextRequest,
    fixed: Sequence[FixedSection],
    candidates: Sequence[Candidate],
    others: Sequence[str] = (),
) -> tuple[ContestedCandidate, ...]:
    """The contested ones among the facts that a prompt may show, with all that contest them.

    `others` are ids of facts that it would show if something were otherwise.
    """
    keys = [item.id for section in fixed for item in section.items if item.type == "fact"]
    keys += [one.hit.id for one in candidates if one.hit.type == "fact" and one.hit.retirement is None]
    return tuple(_candidate(one) for one in contested_facts(view, request.scope, [*keys, *others], request.as_of))


def _candidate(one: ContestedFact) -> ContestedCandidate:
    return ContestedCandidate(
        candidate_of(one.hit),
        partners=one.partners,
        since=one.since,
        until=one.valid_until,
        endorsed=one.endorsed,
        opposed=one.opposed,
        core_priority=profile_rank(one.endorsed, one.hit.category),
    )
