"""Frames: the ways in which an agent can see its input, declared as data.

A frame has its budgets and its conversation window. Sources: seed 005.1 (D7, for_frame) and seed 008 (B4).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

CONFIDENCE_PER_HIT = 0.3


@dataclass(frozen=True, slots=True)
class Frame:
    """`patterns` are whole-word expressions; each that occurs counts once. `total` is in tokens, `window` in turns."""

    id: str
    label: str
    focus: str
    patterns: tuple[str, ...]
    total: int
    window: int
    budget_overrides: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


FRAMES: dict[str, Frame] = {
    frame.id: frame
    for frame in (
        Frame(
            "decision",
            "Decision",
            "Weighing options and committing to one.",
            (
                r"should (?:i|we|they|it|you)",
                r"decid(?:e|es|ed|ing)",
                r"decisions?",
                r"choos(?:e|es|ing)|chose(?:n)?",
                r"choices?",
                r"options?|alternatives?",
                r"trade-?offs?",
                r"recommend(?:s|ed|ation|ations)?",
                r"pros and cons",
                r"versus|vs",
                r"which (?:one|is better|should)",
            ),
            total=12_000,
            window=8,
            budget_overrides=MappingProxyType({"decisions": 3500, "procedures": 2000}),
        ),
        Frame(
            "debug",
            "Debugging",
            "Finding out why something fails.",
            (
                r"bugs?",
                r"errors?|exceptions?",
                r"debug(?:ging|ged|s)?",
                r"crash(?:es|ed|ing)?",
                r"broken|breaks",
                r"fail(?:s|ed|ing|ure|ures)?",
                r"traceback|stack ?trace",
                r"not working|does(?:n't| not) work",
                r"regress(?:ion|ions|ed)",
                r"timeouts?|timed out",
                r"root cause",
            ),
            total=10_000,
            window=6,
        ),
        Frame(
            "task",
            "Task Execution",
            "Focused on completing a specific task.",
            (
                r"build(?:s|ing)?",
                r"fix(?:es|ed|ing)?",
                r"implement(?:s|ed|ing)?",
                r"creat(?:e|es|ed|ing)",
                r"writ(?:e|es|ing)",
                r"add(?:s|ed|ing)?",
                r"deploy(?:s|ed|ing)?",
                r"refactor(?:s|ed|ing)?",
                r"updat(?:e|es|ed|ing)",
                r"set up|setup|install(?:s|ed|ing)?",
                r"migrat(?:e|es|ed|ing)",
                r"run(?:s|ning)? the",
            ),
            total=8_000,
            window=5,
        ),
        Frame(
            "question",
            "Question Answering",
            "Answering from what is known.",
            (
                r"what(?:'s| is| are| was| were| did| does| do| happened)",
                r"who(?:'s| is| are| was)",
                r"when (?:is|are|was|were|did|does|do|will)",
                r"where(?:'s| is| are| was| did| do| does)",
                r"why",
                r"how (?:do|does|did|to|can|many|much|often|long)",
                r"explain(?:s|ed)?",
                r"tell me (?:about|more)",
                r"describe",
            ),
            total=6_000,
            window=5,
        ),
        Frame(
            "creative",
            "Creative",
            "Looking for something new.",
            (
                r"brainstorm(?:s|ing)?",
                r"imagin(?:e|es|ed|ing)",
                r"ideas?",
                r"invent(?:s|ed|ing)?",
                r"what if",
                r"design(?:s|ed|ing)?",
                r"stor(?:y|ies)|poems?",
                r"creative(?:ly)?",
            ),
            total=6_000,
            window=4,
        ),
        Frame(
            "conversation",
            "Conversation",
            "Talking, with no task at hand.",
            (
                r"hello|hi|hey|good (?:morning|evening|afternoon)",
                r"how are you|how's it going",
                r"thanks?|thank you",
                r"bye|goodbye|see you",
                r"nice to|glad to",
                r"what's up|sup",
            ),
            total=3_000,
            window=3,
            budget_overrides=MappingProxyType({"decisions": 500, "facts": 500, "procedures": 0, "episodes": 0}),
        ),
    )
}
"""By id, in the order that breaks ties: decision, debug, task, question, creative, conversation."""

DEFAULT_FRAME = "conversation"

_COMPILED = {
    frame.id: [re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE) for pattern in frame.patterns]
    for frame in FRAMES.values()
}


@dataclass(frozen=True, slots=True)
class FrameSelection:
    """The frame chosen; `confidence` in [0, 1]; `hits` the words that spoke for it; `source` who chose it."""

    frame: Frame
    confidence: float
    hits: tuple[str, ...]
    source: Literal["request", "session", "input", "default"] = "input"

    @property
    def forced(self) -> bool:
        """Whether the request names it."""
        return self.source == "request"


def frame_select(text: str, forced: str | None = None, session: str = "") -> FrameSelection:
    """The frame that the request forces, else that of the session's working memory, where it is one; else the one with
    the most patterns in `text`; ties fall to the frame declared first.

    Confidence is 0.3 a pattern, at most 1. Without any hit it is the default frame, with confidence 0.
    Raises KeyError for an unknown forced frame.
    """
    if forced is not None:
        return FrameSelection(FRAMES[forced], 1.0, (), "request")
    if session in FRAMES:
        return FrameSelection(FRAMES[session], 1.0, (), "session")
    hits = {
        frame_id: tuple(match.group(0).lower() for pattern in patterns if (match := pattern.search(text)))
        for frame_id, patterns in _COMPILED.items()
    }
    best = max(FRAMES, key=lambda frame_id: len(hits[frame_id]))
    if not hits[best]:
        return FrameSelection(FRAMES[DEFAULT_FRAME], 0.0, (), "default")
    return FrameSelection(FRAMES[best], min(1.0, CONFIDENCE_PER_HIT * len(hits[best])), hits[best])
