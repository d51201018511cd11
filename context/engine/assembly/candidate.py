"""What a search found, as the filters and budgets of a prompt judge it."""

from dataclasses import dataclass

from context.engine.assembly.item import Contest, list_item
from memory.search.result import SearchHit

THE_INPUT = 0
"""In the place of a message's number: the input says it itself."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a search found, with all else that the filters ask about it.

    `threshold` is the least score of the hit, its relevance, that counts; `kinds` are the words by which a profile may
    prefer or exclude it. `boost` is the usage feedback's factor, 0.5 to 1.5. `duplicate_of` is the place of the
    conversation's message that says the same already, counted from 1, or THE_INPUT. What is retired is never included.
    """

    hit: SearchHit
    section: str
    threshold: float
    label: str = ""
    kinds: frozenset[str] = frozenset()
    boost: float = 1.0
    duplicate_of: int | None = None
    # So many of its type were found to be closer that nothing could let it in.
    outranked: bool = False
    # A person wants it included whenever its section has room: no filter of relevance stops it.
    pinned: bool = False
    # Asked for by time rather than by meaning: its relevance is not what brought it here.
    by_time: bool = False
    # Below the usual threshold, and considered only since the request wants its budget filled.
    weak: bool = False
    # What people found wrong, where a sentence of it says that again.
    repeats_invalidated: str = ""
    # A question is open about it and another fact.
    contest: Contest | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Type and id."""
        return self.hit.type, self.hit.id

    def line(self, text: str | None = None) -> str:
        """The candidate as a list item of a prompt; `text` in place of its own when it was shortened."""
        mark = self.contest.mark if self.contest else ""
        return list_item(self.hit.content if text is None else text, self.label, mark)
