"""The plan for an intent: which memories to retrieve, and the tokens of each section, as readable data.

Sources: seed 005.1, D2 and for_frame; seed 008, B4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from context.engine.analysis.frames import FRAMES
from context.engine.analysis.intent import IntentSignals
from context.engine.section_budgets import DEFAULT_TOTAL, MEMORY_SECTIONS, PLANNED_TYPES

DEFAULT_LIMIT = 5
DOMINANT_LIMIT = 8
OTHER_LIMIT = 3
SECTION_BUDGETS: Mapping[str, int] = MappingProxyType(
    {
        "identity": 300,
        "user_profile": 200,
        "censors": 200,
        "frame": 150,
        "working_memory": 200,
        "conversation": 400,
        **{one.key: one.budget for one in MEMORY_SECTIONS.values()},
    }
)
SEARCHED_SECTIONS = tuple(one.key for one in MEMORY_SECTIONS.values())


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
    # Events within so many days are wanted for their time, whatever their words.
    days_back: float | None = None
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
            reason="A greeting needs no memories.",
        )
    dominant = signals.dominant_type
    queries = tuple(
        RetrievalQuery(
            memory_type,
            limit=DEFAULT_LIMIT if dominant is None else DOMINANT_LIMIT if memory_type == dominant else OTHER_LIMIT,
            recency_weight=signals.recency,
        )
        for memory_type in PLANNED_TYPES
    )
    return RetrievalPlan(
        text=text,
        queries=queries,
        budget_overrides=FRAMES[signals.frame_id].budget_overrides if frame_is_sure else {},
        days_back=signals.days_back if dominant == "episode" else None,
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
