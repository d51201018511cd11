"""From loaded candidates to a prompt within its budget: pure, so that the API, the preview, a replay and an as-of
reconstruction agree."""

from context.engine.assembly.assemble import Assembly, assemble
from context.engine.assembly.contested_pairs import ContestedCandidate
from context.engine.assembly.prompt_section import FixedSection, Item, SearchedSection, Section, Truncation, list_item
from context.engine.assembly.verdicts import RETIRED_VERDICTS, THE_INPUT, Candidate, Verdict, VerdictCode

__all__ = [
    "RETIRED_VERDICTS",
    "THE_INPUT",
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
