"""From loaded candidates to a prompt within its budget: pure, so that the API, the preview, a replay and an as-of
reconstruction agree."""

from context.engine.assembly.assemble import assemble
from context.engine.assembly.contested import ContestedCandidate
from context.engine.assembly.parts import (
    RETIRED_VERDICTS,
    Assembly,
    Candidate,
    FixedSection,
    Item,
    SearchedSection,
    Section,
    Truncation,
    Verdict,
    VerdictCode,
    list_item,
)

__all__ = [
    "RETIRED_VERDICTS",
    "Assembly",
    "Candidate",
    "ContestedCandidate",
    "FixedSection",
    "Item",
    "SearchedSection",
    "Section",
    "Truncation",
    "Verdict",
    "VerdictCode",
    "assemble",
    "list_item",
]
