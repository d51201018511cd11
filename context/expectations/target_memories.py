"""The memories that requirements name, in their present state, and whether any prompt could include them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from context.expectations.policy import MAX_UNINDEXED
from context.models import Expectation, ExpectationResult
from memory.models import IndexStatus, SearchItem
from memory.models.valid_time import Validity, valid_at_q
from memory.persona import PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from memory.subjects.spelling import meaning_of
from memory.types import MEMORY_TYPES
from nousweb.lib import clock

Key = tuple[str, str]
"""Type and id."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """An existing memory, active or not. `validity`: whether it is valid now. `successor`: id of the memory that
    replaced it."""

    content: str
    active: bool = True
    successor: str = ""
    invalid: bool = False
    validity: Validity = Validity.CURRENT


def targets_load(view: PersonaMemory, expectations: Iterable[Expectation]) -> dict[Key, TargetMemory]:
    """Load the target memories through the view. Erased and unknown ones are missing."""
    wanted: dict[str, set[str]] = {}
    for one in expectations:
        if one.target == Expectation.Target.MEMORY:
            wanted.setdefault(one.item_type, set()).add(one.item_id)
    found: dict[Key, TargetMemory] = {}
    for item_type, ids in wanted.items():
        own = MEMORY_TYPES.get(item_type)
        if own is not None:
            rows = view.rows(own.model).filter(pk__in=ids)
            found |= {(item_type, str(row.pk)): _target(row, own.text(row)) for row in rows}
    return found


def _target(row: Any, content: str) -> TargetMemory:
    successor = getattr(row, "superseded_by_id", None)
    return TargetMemory(
        content,
        getattr(row, "active", True),
        str(successor or ""),
        getattr(row, "invalidated_at", None) is not None,
        getattr(row, "validity", Validity.CURRENT),
    )


@dataclass(frozen=True, slots=True)
class FactSubject:
    """The subject of a fact: the subject in the registry, whatever the spelling; `meaning` is the key of its name.

    Each persona has a registry of its own, so subjects of two personas are compared by their names.
    """

    persona: str
    subject: str
    meaning: str

    def is_same(self, other: "FactSubject") -> bool:
        """Whether both are about one subject; facts without a subject never are."""
        if self.persona == other.persona and self.subject and other.subject:
            return self.subject == other.subject
        return bool(self.meaning) and self.meaning == other.meaning


def subjects_load(view: PersonaMemory, fact_ids: Iterable[str]) -> Mapping[str, FactSubject]:
    """The subjects of facts, by the ids of the facts."""
    columns = ("pk", "persona", "subject", "subject_alias__subject", "subject_alias__subject__name")
    rows = view.facts.filter(pk__in=list(fact_ids)).values_list(*columns)
    return {
        str(key): FactSubject(persona, str(thing or ""), meaning_of(name or written))
        for key, persona, written, thing, name in rows
    }


@dataclass(frozen=True, slots=True)
class Unindexed:
    """Memories that a search cannot weigh by meaning yet, since they have no vector: their texts, by type and id.

    `too_many`: there are more than are looked at.
    """

    texts: Mapping[Key, str] = field(default_factory=dict)
    too_many: bool = False


NOTHING_UNINDEXED = Unindexed()


def unindexed_load(view: PersonaMemory, expectations: Iterable[Expectation]) -> Unindexed:
    """Memories that wait for their vector, or failed to get one, if an expectation demands that something is absent.
    Core memory needs no search and is not included."""
    if all(one.requirement == Expectation.Requirement.PRESENT for one in expectations):
        return NOTHING_UNINDEXED
    rows = SearchItem.objects.filter(valid_at_q(clock.now()), agent=view.agent, persona__in=view.personas, active=True)
    waiting = rows.exclude(status=IndexStatus.READY).exclude(category__in=PROFILE_CATEGORIES)
    found = list(waiting.values_list("item_type", "item_id", "text")[: MAX_UNINDEXED + 1])
    return Unindexed({(kind, key): text for kind, key, text in found}, len(found) > MAX_UNINDEXED)


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
