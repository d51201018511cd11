"""What assembly takes and gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

from memory.search.result import SearchHit
from nousweb.lib.fencing import fence_label, fence_line
from nousweb.lib.token_estimate import estimate_tokens

LOGGED_CHARACTERS = 500
"""Of a candidate's text, in the log and in explanations."""


LOGGED_LEFT_OUT = 20
"""Of the pieces that a section left out, in the log and in answers; their number is whole."""
ANY_PRIORITY = 1_000_000
NO_PRIORITY = -ANY_PRIORITY
HEADING_BREAK = "\n"
SECTION_BREAK = "\n\n"


def heading_of(label: str) -> str:
    return f"## {label}"


_MARK_START = "(contested"
"""How the mark of a contested fact begins, with which no text of a memory may."""


def list_item(text: str, label: str = "", mark: str = "") -> str:
    """A memory as one line of a prompt, which it cannot leave; `label` says whom or when it is about.

    `mark` is ours, in front of all, and no text can pass for one.
    """
    line = fence_line(text)
    if line.casefold().startswith(_MARK_START):
        line = f"\\{line}"
    words = [f"({mark})" if mark else "", fence_label(label) if label else "", line]
    return f"- {' '.join(word for word in words if word)}" if mark or label else f"- {line}"


@dataclass(frozen=True, slots=True)
class Contest:
    """What a prompt says of a fact about which a question is open.

    `contested` is its age beside those that contest it, `contested_with` their ids, `mark` the words in its line. It is
    shown only when the fact with the id `beneath` is, if that is not empty. Facts of one `group` are shown together, by
    `rank`. `is_brought`: it is there only for those that it leads.
    """

    contested: Literal["newer", "older"]
    contested_with: tuple[str, ...]
    mark: str
    beneath: str = ""
    group: str = ""
    rank: int = 0
    is_brought: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a section, already safe to stand in a prompt (see nousweb.lib.fencing).

    When a budget is short, items of a lower `priority` are chosen first; they are shown in their own order.
    """

    type: str
    id: str
    text: str
    priority: int = 0
    contest: Contest | None = None

    def as_json(self) -> dict[str, Any]:
        """The item as it is logged; only of a contested fact with what contests it."""
        shown = {"type": self.type, "id": self.id, "text": self.text, "tokens": estimate_tokens(self.text)}
        if self.contest is None:
            return shown
        return {**shown, "contested": self.contest.contested, "contested_with": list(self.contest.contested_with)}


@dataclass(frozen=True, slots=True)
class FixedSection:
    """A section whose items are known without search (tiers 1 and 2), before its budget is applied.

    `divisible` items may be cut at a sentence; the others are shown whole or not at all. `error` says that loading
    it failed: the section is left out and named, and the others are shown. Items of a priority up to `growth` may have
    unused room of the total beyond the budget, those up to `binding` before what else grows.
    """

    key: str
    label: str
    tier: int
    budget: int
    items: Sequence[Item] = ()
    divisible: bool = False
    separator: str = "\n"
    error: str = ""
    growth: int = ANY_PRIORITY
    binding: int = NO_PRIORITY


@dataclass(frozen=True, slots=True)
class SearchedSection:
    """A section filled from candidates (tier 3)."""

    key: str
    label: str
    budget: int
    tier: int = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a search found, with all else that the filters ask about it.

    `threshold` is the least score of the hit, its relevance, that counts; `kinds` are the words by which a profile may
    prefer or exclude it. `boost` is the usage feedback's factor, 0.5 to 1.5. `duplicate_of` is the place of the
    conversation's message that says the same already, counted from 1. What is retired is never included.
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
    # Below the usual threshold, and considered only since the budget is larger than usual.
    weak: bool = False
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


class VerdictCode(StrEnum):
    INCLUDED = "included"
    SUPERSEDED = "superseded"
    RETIRED = "retired"
    NOT_PLANNED = "not_planned"
    EXCLUDED_KIND = "excluded_kind"
    LOW_IMPORTANCE = "low_importance"
    BELOW_THRESHOLD = "below_threshold"
    DUPLICATE_MESSAGE = "duplicate_message"
    DUPLICATE_ITEM = "duplicate_item"
    CONTESTED = "contested"
    OVER_LIMIT = "over_limit"
    OVER_BUDGET = "over_budget"


RETIRED_VERDICTS = frozenset({VerdictCode.SUPERSEDED, VerdictCode.RETIRED})
"""Of memories that are not active, and are looked up only for an explanation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a candidate: why in words, and as `hint` what would let it in.

    `score` is the relevance with all factors; `factors` names each that was not 1. `tokens` is what it costs, or
    would cost, in the prompt. Without a reason it has passed all filters and nothing more is decided yet.
    """

    candidate: Candidate
    score: float
    factors: tuple[tuple[str, float], ...] = ()
    code: VerdictCode = VerdictCode.INCLUDED
    reason: str = ""
    hint: str = ""
    tokens: int = 0
    compressed: bool = False
    place: str = ""

    def refusal(self, code: VerdictCode, reason: str, hint: str, tokens: int = 0) -> Self:
        """The same candidate, left out."""
        return type(self)(self.candidate, self.score, self.factors, code, reason, hint, tokens)

    def as_json(self) -> dict[str, Any]:
        """The verdict as it is logged and explained; the text of the candidate only in part."""
        candidate, hit = self.candidate, self.candidate.hit
        return {
            "type": hit.type,
            "id": hit.id,
            "text": hit.content[:LOGGED_CHARACTERS],
            "label": candidate.label,
            "section": candidate.section,
            "scope": hit.scope,
            "kinds": sorted(candidate.kinds),
            "verdict": str(self.code),
            "reason": self.reason,
            "hint": self.hint,
            "score": round(self.score, 4),
            "relevance": round(hit.score, 4),
            "threshold": candidate.threshold,
            "cosine": None if hit.cosine is None else round(hit.cosine, 4),
            "lexical": round(hit.lexical, 4),
            "importance": hit.importance,
            "tokens": self.tokens,
            "compressed": self.compressed,
            "place": self.place,
            "pinned": candidate.pinned,
            "contested": candidate.contest.contested if candidate.contest else "",
            "contested_with": list(candidate.contest.contested_with) if candidate.contest else [],
            "superseded_by": hit.retirement.successor if hit.retirement else "",
            "factors": [[name, round(factor, 3)] for name, factor in self.factors],
            "happened_at": hit.happened_at.isoformat().replace("+00:00", "Z"),
        }


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A piece of which the prompt holds nothing, or (where fewer tokens are left out than it has) not all."""

    type: str
    id: str
    tokens: int
    tokens_left_out: int

    @classmethod
    def of(cls, item: Item, part: str = "") -> Self:
        """An item of which only `part` was sent."""
        tokens = estimate_tokens(item.text)
        return cls(item.type, item.id, tokens, max(1, tokens - estimate_tokens(part)))

    def as_json(self) -> dict[str, Any]:
        """As it is answered and logged."""
        return {"type": self.type, "id": self.id, "tokens": self.tokens, "tokens_left_out": self.tokens_left_out}


@dataclass(frozen=True, slots=True)
class Truncation:
    """What a section did not send: `tokens` were sent of `tokens_whole`, heading included."""

    key: str
    label: str
    tier: int
    tokens: int
    tokens_whole: int
    left_out: tuple[LeftOut, ...]

    @property
    def tokens_left_out(self) -> int:
        return max(1, self.tokens_whole - self.tokens)

    def as_json(self) -> dict[str, Any]:
        """As it is answered and logged, with the first pieces."""
        return {
            "key": self.key,
            "label": self.label,
            "tier": self.tier,
            "tokens": self.tokens,
            "tokens_whole": self.tokens_whole,
            "tokens_left_out": self.tokens_left_out,
            "items_left_out": len(self.left_out),
            "items": [one.as_json() for one in self.left_out[:LOGGED_LEFT_OUT]],
        }


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a prompt, heading included in `text` and `tokens`; `left_out` in the order of the section."""

    key: str
    label: str
    tier: int
    budget: int
    tokens: int
    items: tuple[Item, ...]
    text: str
    left_out: tuple[LeftOut, ...] = ()

    @property
    def truncated(self) -> bool:
        """Whether something was left out, or shortened."""
        return bool(self.left_out)

    def truncation(self, tokens_whole: int | None = None) -> Truncation:
        """What it did not send; `tokens_whole` is what it would have, where that is known better than by its pieces."""
        if tokens_whole is None:
            tokens_whole = self.tokens + sum(one.tokens_left_out for one in self.left_out)
        return Truncation(self.key, self.label, self.tier, self.tokens, tokens_whole, self.left_out)

    def as_json(self) -> dict[str, Any]:
        """The section as it is answered and logged, its items with the very text that was sent."""
        return {
            "label": self.label,
            "key": self.key,
            "tier": self.tier,
            "tokens": self.tokens,
            "budget": self.budget,
            "truncated": self.truncated,
            "items": [item.as_json() for item in self.items],
        }


@dataclass(frozen=True, slots=True)
class Assembly:
    """A prompt and its parts.

    `compression_ratio` is characters shown by characters of the originals, over the searched items; 1 without any.
    """

    system_prompt: str
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...]
    compression_ratio: float
    truncations: tuple[Truncation, ...] = ()

    @property
    def tokens(self) -> int:
        """Of the whole prompt, headings and breaks included; estimated."""
        return estimate_tokens(self.system_prompt)
