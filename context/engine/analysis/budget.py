"""How many tokens each section of a prompt may use, declared as data. Sources: seed 008 B4, seed 005.1 for_frame."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from context.engine.analysis.frames import FRAMES
from context.engine.memory_sections import MEMORY_SECTIONS

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
MAX_TOTAL = 200_000
DEFAULT_TOTAL = 3_000


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Tokens by section and in total; the total is enforced whatever the sections add up to."""

    total: int = DEFAULT_TOTAL
    sections: Mapping[str, int] = field(default_factory=lambda: SECTION_BUDGETS)
    window: int = 5

    def of(self, section: str) -> int:
        """Tokens of one section."""
        return min(self.sections.get(section, 0), self.total)


def budget_for(
    frame_id: str,
    *,
    plan_overrides: Mapping[str, int] | None = None,
    operator_overrides: Mapping[str, int] | None = None,
    total: int | None = None,
) -> ContextBudget:
    """The total and window of a frame, with sections as changed by the plan and then by the operator, who has
    the last word.

    With an explicit `total` the searched sections may share whatever the always-on ones leave: a section that the
    plan or the operator closed (0) stays closed.
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
