"""The sections of a prompt and their lines, before and after their budgets, and their omitted items."""

import re
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Self

from memory.models import Trust, carried_keys
from memory.policy import BINDING_CATEGORIES, UNTRUSTED
from nousweb.lib.dated_lines import Told, line_dated
from nousweb.lib.lookalikes import lookalike_fold
from nousweb.lib.prompt_escaping import data_marks, data_source, fence_item, fence_label, joined_item
from nousweb.lib.token_estimate import estimate_tokens

_MARK_START = re.compile(
    r"[^\w\\]+(?:contested|people's word|an agent's word|older\W+undecided|as\W+of|source\W+changed)\b", re.IGNORECASE
)
"""The beginning of the mark of a line. No memory's text may begin like this."""
_LONGEST_START = 60


@dataclass(frozen=True, slots=True)
class ContestAnnotation:
    """The annotation of a contested fact in a prompt.

    `contested` is its age compared to the facts that contest it, `contested_with` their ids, both empty if nobody was
    asked about any of them; `mark` are the words in its line. If `preferred_id` is not empty, the fact with that id is
    shown above it, if it has room. Facts of one `group` are shown together, by `rank`.
    """

    contested: Literal["newer", "older", ""]
    contested_with: tuple[str, ...]
    mark: str
    preferred_id: str = ""
    group: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a section, already fenced for a prompt (see nousweb.lib.prompt_escaping).

    If a budget is short, items of a lower `priority` are chosen first, then those of a lower `choice_key`; they are
    shown in their own order. An item with a trust class in `screened_as` is screened once more before it is sent. One
    with a `source` (see `source_of`) stands in a block of data that names it.
    """

    type: str
    id: str
    text: str
    priority: int = 0
    contest: ContestAnnotation | None = None
    project: str = ""
    task: str = ""
    user: str = ""
    screened_as: str = ""
    choice_key: tuple[float, ...] = ()
    source: str = ""

    def as_json(self) -> dict[str, Any]:
        """The item as it is logged, with its project keys and, for a contested fact, the facts that contest it."""
        shown: dict[str, Any] = {"type": self.type, "id": self.id, "text": self.text}
        shown |= {"tokens": estimate_tokens(self.text), **carried_keys(self)}
        if self.source:
            shown["source"] = self.source
        if self.contest is None or not self.contest.contested:
            return shown
        return {**shown, "contested": self.contest.contested, "contested_with": list(self.contest.contested_with)}


def _reads_like_mark(line: str) -> bool:
    """Whether a line begins like a mark, including lookalike letters and brackets."""
    start = lookalike_fold(unicodedata.normalize("NFKC", line[:_LONGEST_START])).replace("’", "'")
    return _MARK_START.match(start) is not None


MEMORY = "memory"
"""What a block of data names whose lines people or the agent itself have written."""
_SOURCES = {Trust.TOOL: "a tool", Trust.IMPORTED: "an import", Trust.WEB: "the web"}


@lru_cache(maxsize=2_000)
def source_of(trust: str, source: str = "", category: str = "") -> str:
    """What a block of data names for a memory of this trust class: MEMORY or, for what is trusted less than the agent's
    own words, the class with the memory's own `source`. "" for people's rules, which stand in no block."""
    if trust in UNTRUSTED:
        return data_source(", ".join(filter(None, [_SOURCES[Trust(trust)], source])))
    return "" if trust == Trust.PERSON and category in BINDING_CATEGORIES else MEMORY


def list_item(text: str, label: str = "", mark: str = "", told: Told | None = None) -> str:
    """A memory as a list item of a prompt, which its lines cannot leave. `label` is its subject or date. Source: seed
    008, "Expected Context Assembly".

    `mark` comes first; a text that looks like a mark is escaped. Words that depend on a day are dated by when they were
    `told`, and a mark has a date already. Last comes that its source has changed.
    """
    item = fence_item(text)
    if not item[:1].isalnum() and _reads_like_mark(item.partition("\n")[0]):
        item = f"\\{item}"
    if told is not None:
        item, day = line_dated(item, told)
        mark = "; ".join(filter(None, [mark or day, told.source_mark]))
    words = ["-"]
    if mark:
        words.append(f"({mark})")
    if label:
        words.append(fence_label(label))
    return joined_item(" ".join(words), item) if item or len(words) == 1 else " ".join(words)


_LINE = re.compile(
    r"(?:- )?(?:\((?P<mark>[^()\n]{1,160})\) )?"
    r"(?:\[(?:(?P<day>\d{4}-\d\d-\d\d)|(?P<about>[^][\n]{1,160}))\] )?\s*(?P<text>.*)",
    re.DOTALL,
)


def line_parts(line: str) -> dict[str, str]:
    """What `list_item` put into a line: the `text` of a memory, its `day` or its subject (`about`), and its `mark`."""
    parts = _LINE.fullmatch(line)
    return {name: value or "" for name, value in parts.groupdict().items()} if parts else {"text": line}


LOGGED_LEFT_OUT = 20
"""Maximum number of omitted items that the log and responses list for a section; their count is complete."""
ANY_PRIORITY = 1_000_000
NO_PRIORITY = -ANY_PRIORITY
HEADING_BREAK = "\n"
SECTION_BREAK = "\n\n"
SEPARATORS = {"identity": "\n\n"}
"""What stands between the items of a section, if it is more than a line break."""


def heading_of(label: str) -> str:
    return f"## {label}"


def marks_around(sources: Sequence[str], separator: str) -> list[tuple[str, str]]:
    """What stands before and after each item of a section, by the sources of its items: the separator, and the
    beginning and the end of a block of data around those of one source that follow each other."""
    marks = []
    for place, source in enumerate(sources):
        opens, closes = data_marks(source) if source else ("", "")
        before = opens if not place or sources[place - 1] != source else ""
        after = closes if place == len(sources) - 1 or sources[place + 1] != source else ""
        marks.append(((separator if place else "") + before, after))
    return marks


def section_text(label: str, items: Iterable[tuple[str, str]], separator: str = "\n") -> str:
    """A section as a prompt shows it: its heading and its items, each a text and its source."""
    texts, sources = zip(*items, strict=True)
    marks = marks_around(sources, separator)
    lines = (before + text + after for text, (before, after) in zip(texts, marks, strict=True))
    return heading_of(label) + HEADING_BREAK + "".join(lines)


class BlockLengths:
    """The characters of the blocks of data around the items of a section, as items are chosen in any order.

    Items of one source that follow each other are a run, which is one block at most. An item of a contested group may
    move, so that it needs a block of its own and may part another.
    """

    def __init__(self, items: Iterable[tuple[Hashable, str, bool]]) -> None:
        """`items` are those that may be chosen, in their order: key, source, and whether it may move."""
        self._runs: dict[Hashable, tuple[int, int]] = {}
        self._opened: set[int] = set()
        run, last = 0, ""
        listed = list(items)
        sources = {source for _, source, _ in listed}
        lengths = {source: sum(map(len, data_marks(source))) if source else 0 for source in sources}
        longest = max(lengths.values(), default=0)
        for key, source, moves in listed:
            run += moves or source != last
            self._runs[key] = run, lengths[source] + (longest if moves else 0)
            last = "" if moves else source
            run += moves

    def added(self, key: Hashable) -> int:
        """Characters of the block that this item would begin; 0 in one that has begun."""
        run, length = self._runs[key]
        return 0 if run in self._opened else length

    def take(self, key: Hashable) -> None:
        """Choose this item."""
        self._opened.add(self._runs[key][0])


@dataclass(frozen=True, slots=True)
class FixedSection:
    """A section whose items need no search (tiers 1 and 2), before its budget is applied.

    `divisible` items may be cut at a sentence; the others are shown whole or not at all. With an `error`, loading
    failed: the section is left out and named, and the others are shown. Items of a priority up to `growth` may use
    unused room of the total beyond the budget; items up to `binding` get it first.
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
class LeftOut:
    """An item that the prompt omits, or shortens if `tokens_left_out` is less than `tokens`."""

    type: str
    id: str
    tokens: int
    tokens_left_out: int

    @classmethod
    def of(cls, item: Item, part: str = "") -> Self:
        """The record of an item of which only `part` was sent."""
        tokens = estimate_tokens(item.text)
        return cls(item.type, item.id, tokens, max(1, tokens - estimate_tokens(part)))

    def as_json(self) -> dict[str, Any]:
        """As it is returned and logged."""
        return {"type": self.type, "id": self.id, "tokens": self.tokens, "tokens_left_out": self.tokens_left_out}


@dataclass(frozen=True, slots=True)
class Truncation:
    """A section that was not sent whole: `tokens` were sent of `tokens_whole`, heading included."""

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
        """As it is returned and logged, with the first omitted items."""
        return {
            "key": self.key,
            "label": self.label,
            "tier": self.tier,
            "tokens": self.tokens,
            "tokens_whole": self.tokens_whole,
            "tokens_left_out": self.tokens_left_out,
            "items_left_out": len(self.left_out),
            "items": [omitted.as_json() for omitted in self.left_out[:LOGGED_LEFT_OUT]],
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
        """The truncation of this section. `tokens_whole` defaults to the sum over its items."""
        if tokens_whole is None:
            tokens_whole = self.tokens + sum(omitted.tokens_left_out for omitted in self.left_out)
        return Truncation(self.key, self.label, self.tier, self.tokens, tokens_whole, self.left_out)

    def as_json(self) -> dict[str, Any]:
        """The section as it is returned and logged, with the exact text of each item that was sent."""
        return {
            "label": self.label,
            "key": self.key,
            "tier": self.tier,
            "tokens": self.tokens,
            "budget": self.budget,
            "truncated": self.truncated,
            "items": [item.as_json() for item in self.items],
        }
