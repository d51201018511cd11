"""The memories that requirements name, as they are now: what they say, and whether any prompt could hold them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from context.expectations.policy import MAX_UNINDEXED
from context.models import Expectation
from memory.models import IndexStatus, SearchItem
from memory.persona import PersonaMemory
from memory.policy import PROFILE_CATEGORIES
from memory.subjects.spelling import meaning_of
from memory.types import MEMORY_TYPES

Key = tuple[str, str]
"""Type and id."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """A memory that is there, active or not. `successor` is the id of what replaced it."""

    content: str
    active: bool = True
    successor: str = ""
    invalid: bool = False


def targets_load(view: PersonaMemory, expectations: Iterable[Expectation]) -> dict[Key, TargetMemory]:
    """What the expectations are about, read through the view; what is erased, or was never there, is missing."""
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
    )


@dataclass(frozen=True, slots=True)
class FactSubject:
    """What a fact is about: the thing of the registry, by whatever spelling; `meaning` that of its name.

    Each persona has a registry of its own, so things of two personas are compared by what they are called.
    """

    persona: str
    subject: str
    meaning: str

    def is_same(self, other: "FactSubject") -> bool:
        """Whether both are about one thing; what is about nothing in particular is about nothing together."""
        if self.persona == other.persona and self.subject and other.subject:
            return self.subject == other.subject
        return bool(self.meaning) and self.meaning == other.meaning


def subjects_load(view: PersonaMemory, fact_ids: Iterable[str]) -> Mapping[str, FactSubject]:
    """What facts are about, by their ids."""
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
    """What waits for its vector, or failed to get one, where one of the expectations demands that something is not in
    the prompt. Core memory is included without any search."""
    if all(one.requirement == Expectation.Requirement.PRESENT for one in expectations):
        return NOTHING_UNINDEXED
    rows = SearchItem.objects.filter(agent=view.agent, persona__in=view.personas, active=True)
    waiting = rows.exclude(status=IndexStatus.READY).exclude(category__in=PROFILE_CATEGORIES)
    found = list(waiting.values_list("item_type", "item_id", "text")[: MAX_UNINDEXED + 1])
    return Unindexed({(kind, key): text for kind, key, text in found}, len(found) > MAX_UNINDEXED)
