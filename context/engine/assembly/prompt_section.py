"""The sections of a prompt, before and after their budgets, and their omitted items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from context.engine.assembly.prompt_line import Item
from nousweb.lib.token_estimate import estimate_tokens

LOGGED_LEFT_OUT = 20
"""Maximum number of omitted items that the log and responses list for a section; their count is complete."""
ANY_PRIORITY = 1_000_000
NO_PRIORITY = -ANY_PRIORITY
HEADING_BREAK = "\n"
SECTION_BREAK = "\n\n"


def heading_of(label: str) -> str:
    return f"## {label}"


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
        """The truncation of this section. `tokens_whole` defaults to the sum over its items."""
        if tokens_whole is None:
            tokens_whole = self.tokens + sum(one.tokens_left_out for one in self.left_out)
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
