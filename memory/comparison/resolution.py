"""What becomes of a new fact, given the old ones that resemble it. Pure: nothing is read, asked or written here.

The order of the questions: is it the same as an old one; what did a judge say; is it certainly a newer value; else it
is stored, with a question about each old fact that it competes with. Source: seed 009.1, parts 1 and 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from memory.comparison.compare import Comparison, Kind
from memory.judge.protocol import Relation, RelationVerdict

MAX_QUESTIONS = 5
"""Old facts that one new fact is questioned against. Source: seed 009.1, "limit=5"."""

MIN_VERDICT_CONFIDENCE = 0.7
"""A judge less sure than this decides nothing; its verdict is shown to the person who does."""

NEVER_SAME = frozenset({"number", "negation", "antonym", "quantity", "roles", "subject"})
"""Differences with which two facts are not confirmed as one, whatever a judge says: a person decides."""


@dataclass(frozen=True, slots=True)
class FactMatch:
    """An old fact beside the new one. `said` : in the very same words. `replaceable`: the learner may replace it.

    `only_asked`: whatever the comparison says, people are asked.
    """

    fact_id: UUID
    comparison: Comparison
    said: bool = False
    replaceable: bool = True
    only_asked: bool = False


@dataclass(frozen=True, slots=True)
class Resolution:
    """`confirm`: the old fact that says it already, then nothing is stored. Else the new fact is stored, takes the
    place of those in `supersede`, and `ask` are those about which somebody has to be asked."""

    confirm: FactMatch | None = None
    supersede: tuple[FactMatch, ...] = ()
    ask: tuple[FactMatch, ...] = ()
    verdicts: Mapping[UUID, RelationVerdict] = field(default_factory=dict)

    @property
    def action(self) -> str:
        if self.confirm:
            return "confirmed"
        if self.ask:
            return "queued"
        return "superseded" if self.supersede else "stored"


def resolve(compared: Sequence[FactMatch], verdicts: Mapping[UUID, RelationVerdict]) -> Resolution:
    """Decide about a new fact; `verdicts` are of a judge, by the old fact that it was asked about."""
    related = sorted((each for each in compared if is_related(each)), key=_closest_first)
    same = [each for each in related if _is_same(each, verdicts.get(each.fact_id))]
    if same:
        return Resolution(confirm=same[0], verdicts=verdicts)
    supersede, ask = [], []
    for each in related[:MAX_QUESTIONS]:
        comes_to = auto_resolution(each.comparison, verdicts.get(each.fact_id))
        if each.only_asked:
            ask.append(each)
        elif comes_to is Kind.CHANGED and each.replaceable:
            supersede.append(each)
        elif comes_to is not Kind.UNRELATED:
            ask.append(each)
    return Resolution(supersede=tuple(supersede), ask=tuple(ask), verdicts=verdicts)


def is_related(each: FactMatch) -> bool:
    """Whether the two facts have anything to do with each other. Source: seed 009.1, part 2, tests."""
    if each.said or each.only_asked:
        return True
    different_subject = any(reason.code == "subject" for reason in each.comparison.reasons)
    return each.comparison.kind is not Kind.UNRELATED and not different_subject


def needs_judge(each: FactMatch) -> bool:
    """Whether a judge is asked about the pair: what is certain without one is not."""
    certain = each.said or each.comparison.kind is Kind.SAME or auto_resolution(each.comparison, None) is Kind.CHANGED
    return is_related(each) and not certain


def auto_resolution(comparison: Comparison, verdict: RelationVerdict | None) -> Kind | None:
    """What the pair certainly is: `same`, `changed`, `unrelated` (both are true), or None when a person is asked."""
    if comparison.kind is Kind.SAME:
        return Kind.SAME
    if comparison.kind is Kind.CHANGED and comparison.later:
        return Kind.CHANGED
    if verdict is None or verdict.confidence < MIN_VERDICT_CONFIDENCE:
        return None
    if verdict.relation is Relation.DUPLICATE:
        return None if NEVER_SAME & {reason.code for reason in comparison.reasons} else Kind.SAME
    if verdict.relation is Relation.UPDATE:
        return Kind.CHANGED if comparison.later else None
    if verdict.relation in (Relation.REFINEMENT, Relation.UNRELATED):
        return Kind.UNRELATED
    return None


def evidence_of(
    comparison: Comparison, verdict: RelationVerdict | None = None, call_id: int | None = None, model: str = ""
) -> dict[str, Any]:
    """What a change rests on, ready for JSON."""
    found: dict[str, Any] = {"kind": str(comparison.kind), "reasons": reasons_of(comparison)}
    if comparison.attribute:
        found["changed"] = {
            "attribute": comparison.attribute, "old": comparison.old_value, "new": comparison.new_value,
        }  # fmt: skip
    if verdict is not None:
        found["judge"] = verdict.model_dump(mode="json") | {"call": call_id, "model": model}
    return found


def reasons_of(comparison: Comparison) -> list[dict[str, str]]:
    return [{"code": each.code, "words": each.words, "old": each.old, "new": each.new} for each in comparison.reasons]


def spans_meet(
    old_from: datetime | None, old_until: datetime | None, new_from: datetime | None, new_until: datetime | None
) -> bool:
    """Whether there can be a moment in the world at which both facts hold; facts of different times do not compete."""
    if old_until is not None and new_from is not None and old_until <= new_from:
        return False
    return not (new_until is not None and old_from is not None and new_until <= old_from)


def _is_same(each: FactMatch, verdict: RelationVerdict | None) -> bool:
    return not each.only_asked and (each.said or auto_resolution(each.comparison, verdict) is Kind.SAME)


def _closest_first(each: FactMatch) -> tuple[bool, float, float, str]:
    return (not each.said, -each.comparison.cosine, -each.comparison.overlap, str(each.fact_id))
