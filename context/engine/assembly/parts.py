"""What assembly takes and gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from nousweb.lib.fencing import fence_label, fence_line


def list_item(text: str, label: str = "") -> str:
    """A memory as one line of a prompt, which it cannot leave; `label` says whom or when it is about."""
    return f"- {fence_label(label)} {fence_line(text)}" if label else f"- {fence_line(text)}"


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a section, already safe to stand in a prompt (see nousweb.lib.fencing).

    When a budget is short, items of a lower `priority` are chosen first; they are shown in their own order.
    """

    type: str
    id: str
    text: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class FixedSection:
    """A section whose items are known without search (tiers 1 and 2), before its budget is applied.

    `divisible` items may be cut at a sentence; the others are shown whole or not at all. `error` says that loading
    it failed: the section is left out and named, and the others are shown.
    """

    key: str
    label: str
    tier: int
    budget: int
    items: Sequence[Item] = ()
    divisible: bool = False
    separator: str = "\n"
    error: str = ""


@dataclass(frozen=True, slots=True)
class SearchedSection:
    """A section filled from candidates (tier 3)."""

    key: str
    label: str
    budget: int
    tier: int = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that a search found, with all that the gates ask about it.

    `relevance`, `cosine` and `lexical` lie in [0, 1] and mean something by themselves; `threshold` is the least
    relevance that counts. `boost` is the usage feedback's factor, 0.5 to 1.5. `duplicate_of` is the place of the
    conversation's message that says the same already, counted from 1.

    What is not active is never shown. `superseded_by` is the id of what replaced it, `successor_text` what that says,
    and `included_until` the moment before which a context of the past still tells it, if there is one.
    """

    section: str
    type: str
    id: str
    text: str
    relevance: float
    happened_at: datetime
    threshold: float
    label: str = ""
    cosine: float | None = None
    lexical: float = 0.0
    kinds: frozenset[str] = frozenset()
    scope: str = "global"
    tags: frozenset[str] = frozenset()
    source: str = ""
    importance: float = 0.5
    boost: float = 1.0
    active: bool = True
    superseded_by: str = ""
    successor_text: str = ""
    retired_at: datetime | None = None
    found_wrong: bool = False
    included_until: datetime | None = None
    duplicate_of: int | None = None
    # So many of its type were found to be closer that nothing could let it in.
    outranked: bool = False
    # A person wants it told whenever its section has room: no gate of relevance stops it.
    pinned: bool = False
    # Asked for by time rather than by meaning: its relevance is not what brought it here.
    by_time: bool = False
    # Below the usual threshold, and considered only since the budget is larger than usual.
    weak: bool = False

    def line(self, text: str | None = None) -> str:
        """The candidate as a list item of a prompt; `text` in place of its own when it was shortened."""
        return list_item(self.text if text is None else text, self.label)


@dataclass(frozen=True, slots=True)
class Rules:
    """How candidates are judged and chosen: the plan, the profile and the task, reduced to numbers.

    `limits` are items by type, `weights` shares of the searched budget by scope, `compression` the share of an item
    that may be left out, `recency_weight` in [0, 1] from pure relevance to pure recency.
    """

    query: str
    now: datetime
    limits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    weights: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType({"task": 0.4, "project": 0.4, "global": 0.2})
    )
    preferred_kinds: frozenset[str] = frozenset()
    excluded_kinds: frozenset[str] = frozenset()
    min_importance: float = 0.0
    compression: float = 0.0
    head: int = 0
    tail: int = 0
    recency_weight: float = 0.0
    files: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()


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
    OVER_LIMIT = "over_limit"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a candidate: why in words, and what would have let it in.

    `score` is the relevance with all factors; `factors` names each that was not 1. `tokens` is what it cost, or
    would have cost, in the prompt.
    """

    candidate: Candidate
    code: VerdictCode
    score: float
    reason: str
    remedy: str = ""
    tokens: int = 0
    compressed: bool = False
    place: str = ""
    factors: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    label: str
    tier: int
    budget: int
    tokens: int
    truncated: bool
    items: tuple[Item, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """The prompt and its parts. `tokens` counts the whole prompt, headings and breaks included.

    `compression_ratio` is characters shown by characters of the originals, over the searched items; 1 without any.
    """

    system_prompt: str
    tokens: int
    sections: tuple[Section, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    compression_ratio: float = 1.0
