"""The budget of a prompt; the section, budget and threshold of each type of memory, and the words that request it.

Intent, plan, budgets and candidates derive from `MEMORY_SECTIONS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

DEFAULT_TOTAL = 3_000
"""Tokens of a prompt, where neither the request nor the settings of the agent say otherwise."""
MAX_TOTAL = 200_000

DEFAULT_THRESHOLD = 0.3


@dataclass(frozen=True, slots=True)
class MemorySection:
    """The section of one type of memory, or of "loop", the summaries of short-term memory.

    `budget` is in tokens, `threshold` the least relevance. `hints` are whole-word expressions that ask for the type.
    Items are labelled by their `item_label`. `kind_aliases` are further words by which profiles prefer or exclude it.
    A raw `layer` is searched for profiles that name it, at most `layer_limit` items; every plan asks for the others.
    """

    type: str
    key: str
    label: str
    budget: int
    hints: tuple[str, ...] = ()
    threshold: float = DEFAULT_THRESHOLD
    item_label: Literal["date", "subject", ""] = ""
    kind_aliases: frozenset[str] = frozenset()
    layer: str = ""
    layer_limit: int = 0


MEMORY_SECTIONS: Mapping[str, MemorySection] = MappingProxyType(
    {
        one.type: one
        for one in (
            MemorySection(
                "decision",
                "decisions",
                "Related Decisions",
                400,
                hints=(
                    r"decid(?:e|es|ed|ing)|decisions?",
                    r"chose(?:n)?|choos(?:e|es|ing)|choices?",
                    r"should (?:i|we)",
                    r"recommend(?:s|ed|ation|ations)?",
                ),
                item_label="date",
            ),
            MemorySection(
                "fact",
                "facts",
                "Relevant Facts",
                300,
                hints=(r"what(?:'s| is| are)", r"tell me about", r"facts?", r"know about", r"definitions?|define"),
                threshold=0.25,
                item_label="subject",
            ),
            MemorySection(
                "procedure",
                "procedures",
                "Known Procedures",
                200,
                hints=(r"how (?:do|does|to|can|should)", r"steps?", r"process(?:es)?", r"workflows?", r"guides?"),
                kind_aliases=frozenset({"plan"}),
            ),
            MemorySection(
                "episode",
                "episodes",
                "Past Episodes",
                200,
                hints=(r"last time", r"when did", r"history", r"stor(?:y|ies)", r"what happened"),
                item_label="date",
                kind_aliases=frozenset({"summary"}),
            ),
            MemorySection(
                "document",
                "documents",
                "Documents",
                300,
                hints=(r"documents?", r"notes?", r"wrote down|written down", r"saved"),
                item_label="subject",
            ),
            MemorySection(
                "event",
                "long_term",
                "Long-term Memory",
                400,
                item_label="date",
                layer="long_term",
                layer_limit=12,
            ),
            MemorySection(
                "loop",
                "short_term",
                "Recent Loops",
                200,
                # Fuzzy similarity is no relevance: any two English sentences share a third of their words.
                threshold=0.6,
                item_label="date",
                kind_aliases=frozenset({"summary"}),
                layer="short_term",
                layer_limit=3,
            ),
        )
    }
)
"""By type, in the order of the prompt, which also breaks ties between hints. Thresholds: seed 008, B3."""

PLANNED_TYPES = tuple(key for key, one in MEMORY_SECTIONS.items() if not one.layer)
"""The types that every plan retrieves."""
