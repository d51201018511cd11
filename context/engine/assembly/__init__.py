"""From loaded candidates to a prompt within its budget: pure, so that the API, the preview, a replay and an as-of
reconstruction agree."""

from context.engine.assembly.assemble import Assembly, assemble
from context.engine.assembly.candidate import THE_INPUT, Candidate
from context.engine.assembly.contested import ContestedCandidate
from context.engine.assembly.item import Item, list_item
from context.engine.assembly.section import FixedSection, SearchedSection, Section, Truncation
from context.engine.assembly.verdict import RETIRED_VERDICTS, Verdict, VerdictCode

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
