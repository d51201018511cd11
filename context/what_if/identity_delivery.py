"""How much of an agent's identity its prompts hold, as it is or as it would be. Writes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from context.engine.analysis.budget import ContextBudget, budget_for
from context.engine.analysis.frames import FRAMES
from context.engine.analysis.request import ContextRequest
from context.engine.analysis.resolved_request import agent_budgets, request_resolve
from context.engine.assembly import FixedSection, Truncation
from context.engine.assembly.fixed_fill import fixed_fill, truncations_of
from context.engine.overrides import NO_OVERRIDES, Overrides
from context.engine.retrieval.censors import censors_in_force
from context.engine.retrieval.fixed_sections import fixed_sections
from context.engine.retrieval.pins import pins_of
from context.selectors import VIEW_RUN, runs_of
from context.services.context import context_view
from identity.models import Agent
from identity.policy.sections import Section
from identity.principal import Principal

LAST_RUNS = 20
SMALLEST_FRAME = min(FRAMES.values(), key=lambda frame: frame.total).id
IDENTITY = "identity"
Sizes = tuple[int | None, tuple[tuple[str, int], ...]]
"""What a request says of its size: the total, and budgets by section."""


@dataclass(frozen=True, slots=True)
class IdentityShortfall:
    """An identity that does not fit: `tokens_left_out` of `tokens_whole` are not sent in a prompt of `total` tokens.

    `sections` are the labels of what is cut or left out, with its tokens left out and of the whole. `prompts` of the
    last `asked` requests were of that size; 0 when it is the smallest one that a request without a budget gets.
    """

    tokens_left_out: int
    tokens_whole: int
    total: int
    sections: tuple[tuple[str, int, int], ...]
    prompts: int = 0
    asked: int = 0


@dataclass(frozen=True, slots=True)
class IdentityDelivery:
    """What the always-on part of an agent's prompts is made from, read once, and the sizes that its requests have."""

    fixed: Sequence[FixedSection]
    budgets: Mapping[Sizes, ContextBudget]
    asked: Counter[Sizes]

    @classmethod
    def load(cls, agent: Agent, by: Principal) -> Self:
        """Read what an actor's prompt always holds, and how large the last requests wanted theirs."""
        view = context_view(agent, by)
        asked: Counter[Sizes] = Counter()
        if by.may(VIEW_RUN):
            runs = runs_of(agent, by).filter(persona=view.persona, as_of=None)
            asked.update(_sizes(request) for request in runs.values_list("request", flat=True)[:LAST_RUNS])
        plain = ContextRequest("preview", "", frame=SMALLEST_FRAME)
        resolved = request_resolve(view, plain)
        own = agent_budgets(agent)
        budgets = {
            (total, sections): budget_for(SMALLEST_FRAME, operator_overrides={**own, **dict(sections)}, total=total)
            for total, sections in {(None, ()), *asked}
        }
        fixed = fixed_sections(view, resolved, pins_of(agent), censors_in_force(view))
        return cls(fixed, budgets, asked)

    def shortfall(self, overrides: Overrides = NO_OVERRIDES) -> IdentityShortfall | None:
        """The largest part of the identity that a prompt of one of these sizes leaves out; None when all hold it."""
        fixed = overrides.sections(self.fixed)
        found = [
            _shortfall(cut, budget.total, self.asked[size], self.asked.total())
            for size, budget in self.budgets.items()
            if (cut := _identity_cut(fixed, budget))
        ]
        return max(found, key=lambda one: (one.tokens_left_out, one.prompts), default=None)


def _identity_cut(fixed: Sequence[FixedSection], budget: ContextBudget) -> Truncation | None:
    sized = [replace(section, budget=budget.of(section.key)) for section in fixed]
    filled = fixed_fill(sized, budget.total)
    return next((one for one in truncations_of(sized, filled) if one.key == IDENTITY), None)


def _shortfall(cut: Truncation, total: int, prompts: int, asked: int) -> IdentityShortfall:
    sections = tuple((section_label(one.id), one.tokens_left_out, one.tokens) for one in cut.left_out)
    return IdentityShortfall(cut.tokens_left_out, cut.tokens_whole, total, sections, prompts, asked)


def section_label(item_id: str) -> str:
    """The label of the section that a piece of an identity is of: its id is "section:version"."""
    name = item_id.split(":", 1)[0]
    return str(Section(name).label) if name in Section.values else name.title()


def _sizes(request: Mapping[str, Any]) -> Sizes:
    budgets = request.get("budgets") or {}
    return request.get("budget"), tuple(sorted(budgets.items()))
