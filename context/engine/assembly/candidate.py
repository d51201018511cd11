"""A search hit as a candidate for a prompt, for its filters and budgets."""

from dataclasses import dataclass

from context.engine.assembly.prompt_line import ContestAnnotation, list_item
from memory.search.result import SearchHit

THE_INPUT = 0
"""In place of a message's number: the input itself contains the text."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A search hit with all other inputs of the filters.

    `threshold` is the minimum score (relevance) of the hit; `kinds` are the names by which a profile may
    prefer or exclude it. `boost` is the factor of usage feedback, 0.5 to 1.5. `duplicate_of` is the number of the
    conversation's message that contains the same text, counted from 1, or THE_INPUT. Retired hits are never included.
    """

    hit: SearchHit
    section: str
    threshold: float
    label: str = ""
    kinds: frozenset[str] = frozenset()
    boost: float = 1.0
    duplicate_of: int | None = None
    # So many closer hits of its type exist that no filter could let it in.
    outranked: bool = False
    # A person wants it included whenever its section has room: relevance filters do not apply.
    pinned: bool = False
    # Requested by time rather than by meaning: its relevance does not matter.
    by_time: bool = False
    # Below the usual threshold, and considered only because the request wants its budget filled.
    weak: bool = False
    # The text of the invalidated fact that one of its sentences repeats.
    repeats_invalidated: str = ""
    # Its annotation, if a review about it and another fact is pending.
    contest: ContestAnnotation | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Type and id."""
        return self.hit.type, self.hit.id

    def line(self, text: str | None = None) -> str:
        """The candidate as a list item of a prompt; `text` replaces its own if it was shortened."""
        mark = self.contest.mark if self.contest else ""
        return list_item(self.hit.content if text is None else text, self.label, mark)
