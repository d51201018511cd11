"""The outcome of a check of an expectation, and what a check needs besides the prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from context.expectations.target_memories import NOTHING_UNINDEXED, FactSubject, Key, TargetMemory, Unindexed
from context.models import ExpectationResult

State = ExpectationResult.State


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a check. `code` is one of our fixed words; `detail` is a sentence without any text of a memory.

    `about` are the memories that it names, as type and id.
    """

    state: str
    code: str
    detail: str = ""
    about: tuple[Key, ...] = ()

    @property
    def passed(self) -> bool:
        return self.state == State.PASSED


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """Inputs for evaluating expectations besides the prompt: target memories, subjects of facts, and unindexed items.

    `replaced` are ids of facts that a hypothetical change would remove.
    """

    targets: Mapping[Key, TargetMemory] = field(default_factory=dict)
    subjects: Mapping[str, FactSubject] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    unindexed: Unindexed = NOTHING_UNINDEXED


def error_outcome(detail: str) -> Outcome:
    """The outcome of a check that could not run: neither passed nor failed."""
    return Outcome(State.ERROR, "error", detail)
