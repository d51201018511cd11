"""Frames: the ways in which an agent can see its input, declared as data; and the plan of a retrieval with its budget.

A frame has its budgets and its conversation window. Sources: seed 005.1 (D7, for_frame) and seed 008 (B4).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from context.engine.analysis.intent import IntentSignals
from context.engine.section_budgets import DEFAULT_TOTAL, MEMORY_SECTIONS, PLANNED_TYPES
from memory.search.request import Period

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


DEFAULT_LIMIT = 5
DOMINANT_LIMIT = 8
PERIOD_LIMIT = 12
PERIOD_TOKENS = 400
"""Items and tokens of a type that is asked for by its time alone."""
OTHER_LIMIT = 3
SECTION_BUDGETS: Mapping[str, int] = MappingProxyType(
    {
        "identity": 300,
        "user_profile": 200,
        "reported": 150,
        "censors": 200,
        "frame": 150,
        "working_memory": 200,
        "recent": 80,
        "conversation": 400,
        **{section.key: section.budget for section in MEMORY_SECTIONS.values()},
    }
)
SEARCHED_SECTIONS = tuple(section.key for section in MEMORY_SECTIONS.values())


@dataclass(frozen=True, slots=True)
class RetrievalQuery:
    """At most `limit` items of one type; `recency_weight` in [0, 1] from pure relevance to pure recency."""

    memory_type: str
    limit: int = DEFAULT_LIMIT
    recency_weight: float = 0.0


@dataclass(frozen=True, slots=True)
class RetrievalPlan:
    # The query, for all types at once.
    text: str = ""
    queries: tuple[RetrievalQuery, ...] = ()
    skip_types: frozenset[str] = frozenset()
    budget_overrides: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    # Memories of this time are wanted, whatever their words.
    period: Period | None = None
    reason: str = ""

    def limit_of(self, memory_type: str) -> int:
        """Most items of a type; 0 for one that is not retrieved."""
        if memory_type in self.skip_types:
            return 0
        return next((query.limit for query in self.queries if query.memory_type == memory_type), 0)

    def recency_of(self, memory_type: str) -> float:
        """The weight of recency for items of a type; raw layers, for which there is no query, have that of the
        others."""
        most = 0.0
        for query in self.queries:
            if query.memory_type == memory_type:
                return query.recency_weight
            most = query.recency_weight if query.recency_weight > most else most
        return most


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Tokens by section and in total; the total is enforced whatever the sum of the sections."""

    total: int = DEFAULT_TOTAL
    sections: Mapping[str, int] = field(default_factory=lambda: SECTION_BUDGETS)
    window: int = 5

    def of(self, section: str) -> int:
        """Tokens of one section."""
        return min(self.sections.get(section, 0), self.total)


def plan_retrieval(signals: IntentSignals, text: str, *, frame_is_sure: bool = True) -> RetrievalPlan:
    """Map signals to a plan. The whole sentence is the query: keywords alone would lose its meaning.

    A frame without any signal in the text closes no section: its budget overrides are left out.
    """
    if signals.is_greeting:
        return RetrievalPlan(
            skip_types=frozenset(PLANNED_TYPES),
            budget_overrides={MEMORY_SECTIONS[memory_type].key: 0 for memory_type in PLANNED_TYPES},
            reason="A greeting or thanks needs no memories.",
        )
    dominant, period = signals.dominant_type, signals.time.period
    most = PERIOD_LIMIT if period and period.alone else DOMINANT_LIMIT
    overrides = FRAMES[signals.frame_id].budget_overrides if frame_is_sure else {}
    if period and period.alone:
        # A section that the frame closes is open to what happened then.
        asked = {MEMORY_SECTIONS[kind].key: PERIOD_TOKENS for kind in period.types}
        overrides = {key: tokens for key, tokens in overrides.items() if tokens} | asked
    queries = tuple(
        RetrievalQuery(
            memory_type,
            limit=DEFAULT_LIMIT if dominant is None else most if memory_type == dominant else OTHER_LIMIT,
            recency_weight=0.0 if period else signals.time.recency,
        )
        for memory_type in PLANNED_TYPES
    )
    return RetrievalPlan(
        text=text,
        queries=queries,
        budget_overrides=overrides,
        period=period,
        reason=f"Asks mainly for {dominant}s." if dominant else "Asks for no particular type of memory.",
    )


def budget_for(
    frame_id: str,
    *,
    plan_overrides: Mapping[str, int] | None = None,
    operator_overrides: Mapping[str, int] | None = None,
    total: int | None = None,
) -> ContextBudget:
    """The total and window of a frame, with sections as changed by the plan and then by the operator, whose settings
    win.

    With an explicit `total` the searched sections may share the rest of the always-on ones. A section that the plan or
    the operator closed (0) stays closed.
    """
    frame = FRAMES[frame_id]
    operator = dict(operator_overrides or {})
    sections = {**SECTION_BUDGETS, **(plan_overrides or {})}
    if total is not None:
        sections.update({name: total for name in SEARCHED_SECTIONS if sections[name]})
    sections.update(operator)
    return ContextBudget(
        total=operator.get("total", frame.total) if total is None else total,
        sections=MappingProxyType({name: max(0, tokens) for name, tokens in sections.items() if name != "total"}),
        window=frame.window,
    )
