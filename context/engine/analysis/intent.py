"""The intent of an input: which memories it needs, by patterns, without a language model.

Source: seed 005.1, D1 and intent.py.
"""

import re
from dataclasses import dataclass

from context.engine.analysis.mentions import mentioned_entities, mentioned_files
from context.engine.section_budgets import MEMORY_SECTIONS, PLANNED_TYPES

_RECENCY: tuple[tuple[re.Pattern[str], float, float], ...] = tuple(
    (re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), weight, days)
    for pattern, weight, days in (
        (r"today|just now|right now|currently|at the moment", 1.0, 1.0),
        (r"yesterday", 0.8, 2.0),
        (r"recently|lately|this week", 0.8, 7.0),
        (r"last week|(?:a )?few days ago", 0.5, 14.0),
        (r"last month|a while ago", 0.3, 60.0),
    )
)
"""Words of time, their weight for recency, and the number of days back that they cover."""

_HINTS: dict[str, tuple[re.Pattern[str], ...]] = {
    memory_type: tuple(
        re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE) for pattern in MEMORY_SECTIONS[memory_type].hints
    )
    for memory_type in PLANNED_TYPES
}
HINT_WEIGHT = 0.5

_GREETING = re.compile(
    r"^\W*(?:hey|hi|hello|sup|yo|good (?:morning|evening|afternoon)|what'?s up|how are you|how's it going)\b"
    r"(?:[\s,]+(?:there|all|everyone|again|you|today|doing))*",
    re.IGNORECASE,
)
_QUESTION = "what|where|when|why|how|who|whom|whose|which|can|could|should|would|will|is|are|was|were|do|does|did"
_QUESTION_WORDS = frozenset(_QUESTION.split("|"))
_QUESTION_START = re.compile(rf"^\W*(?:{_QUESTION})\b", re.IGNORECASE)
_KEYWORD = re.compile(r"\b[A-Z][a-z]+\b|\b\w{6,}\b")
MAX_KEYWORDS = 10


@dataclass(frozen=True, slots=True)
class IntentSignals:
    """`recency` in [0, 1]; `days_back` how far the words of time reach, None without any; `hints` a weight for each
    memory type that is asked for; keywords and paths of files in reading order."""

    frame_id: str
    recency: float = 0.0
    days_back: float | None = None
    hints: tuple[tuple[str, float], ...] = ()
    is_question: bool = False
    is_greeting: bool = False
    entities: tuple[str, ...] = ()
    topic_keywords: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def dominant_type(self) -> str | None:
        """The memory type most asked for; the first declared among equals; None without a hint."""
        return max(self.hints, key=lambda hint: hint[1])[0] if self.hints else None


def intent_read(text: str, frame_id: str) -> IntentSignals:
    """Read the signals in `text`. A greeting is only what holds nothing beyond the greeting."""
    stripped = text.strip()
    hints = tuple(
        (memory_type, HINT_WEIGHT * count)
        for memory_type in PLANNED_TYPES
        if (count := sum(bool(pattern.search(stripped)) for pattern in _HINTS[memory_type]))
    )
    keywords = dict.fromkeys(word.lower() for word in _KEYWORD.findall(stripped))
    topics = [word for word in keywords if word not in _QUESTION_WORDS]
    times = [(weight, days) for pattern, weight, days in _RECENCY if pattern.search(stripped)]
    return IntentSignals(
        frame_id=frame_id,
        recency=max((weight for weight, _ in times), default=0.0),
        days_back=max((days for _, days in times), default=None),
        hints=hints,
        is_question=is_question(stripped),
        is_greeting=_is_greeting(stripped),
        entities=mentioned_entities(stripped),
        topic_keywords=tuple(topics[:MAX_KEYWORDS]),
        files=mentioned_files(text),
    )


def is_question(text: str) -> bool:
    """Whether `text` asks, by its end or its first word."""
    return text.rstrip().endswith("?") or bool(_QUESTION_START.match(text))


def _is_greeting(text: str) -> bool:
    rest, seen = text, False
    while match := _GREETING.match(rest):
        rest, seen = rest[match.end() :], True
    # A name after a greeting is still part of it; anything longer is what the person really wants.
    return seen and len(re.findall(r"\w+", rest)) <= 1
