"""What becomes of a new fact, given the old ones that resemble it. Pure: nothing is read, asked or written here.

The order of the questions: is it the same as an old one; what did a judge say; is it certainly a newer value; else it
is stored, with a question about each old fact that it competes with. Source: seed 009.1, parts 1 and 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memory.comparison.compare import REASONS, Comparison, Kind
from memory.models.relation import Relation, RelationOpinion

MAX_QUESTIONS, MAX_FAINT_QUESTIONS = 5, 2
"""Old facts that one new fact is questioned against, and of these the ones that only their score relates to it.
Source: seed 009.1, "limit=5"."""
MIN_VERDICT_CONFIDENCE = 0.7
"""A judge less sure than this decides nothing; its verdict is shown to the person who does."""
NEVER_SAME = frozenset({"number", "negation", "antonym", "quantity", "roles", "subject"})
"""Differences with which two facts are not confirmed as one, whatever a judge says: a person decides."""


@dataclass(frozen=True, slots=True)
class FactMatch:
    """An old fact beside the new one. `exact_match`: in the very same words. `replaceable`: the learner may replace it.
    `only_asked`: whatever the comparison says, people are asked. `elsewhere`: in the very same words, and of another
    subject."""

    fact_id: UUID
    comparison: Comparison
    exact_match: bool = False
    replaceable: bool = True
    only_asked: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Resolution:
    """`confirm`: the old fact that says it already, then nothing is stored. Else the new fact is stored, takes the
    place of those in `supersede`, and `ask` are those about which somebody has to be asked. Where `repeats` says it of
    another subject, nothing is stored until people have said whether it holds of both."""

    confirm: FactMatch | None = None
    supersede: tuple[FactMatch, ...] = ()
    ask: tuple[FactMatch, ...] = ()
    repeats: FactMatch | None = None

    @property
    def action(self) -> str:
        stored = "queued" if self.ask else "superseded" if self.supersede else "stored"
        return "confirmed" if self.confirm else stored


def resolve(compared: Sequence[FactMatch], verdicts: Mapping[UUID, RelationOpinion]) -> Resolution:
    """Decide about a new fact; `verdicts` are of a judge, by the old fact that it was asked about."""
    related = [each for each in compared if is_related(each)]
    related.sort(
        key=lambda each: (not each.exact_match, -each.comparison.cosine, -each.comparison.overlap, str(each.fact_id))
    )
    faint = [each for each in related if each.comparison.faint and not each.only_asked]
    related = [each for each in related if each not in faint[MAX_FAINT_QUESTIONS:]]
    resolutions = [auto_resolution(each.comparison, verdicts.get(each.fact_id)) for each in related]
    supersede, ask = [], []
    for each, kind in zip(related, resolutions, strict=True):
        if not each.only_asked and (each.exact_match or kind is Kind.SAME):
            return Resolution(confirm=each)
    for each, kind in zip(related[:MAX_QUESTIONS], resolutions, strict=False):
        if each.only_asked or (kind is not Kind.UNRELATED and not (kind is Kind.CHANGED and each.replaceable)):
            ask.append(each)
        elif kind is Kind.CHANGED:
            supersede.append(each)
    repeats = next((each for each in compared if each.elsewhere), None)
    return Resolution(supersede=tuple(supersede), ask=tuple(ask), repeats=repeats)


def is_related(each: FactMatch) -> bool:
    """Whether the two facts have anything to do with each other. Source: seed 009.1, part 2, tests."""
    if each.elsewhere:
        return False
    clash = any(reason.code == "subject" for reason in each.comparison.reasons)
    return each.exact_match or each.only_asked or (each.comparison.kind is not Kind.UNRELATED and not clash)


def needs_judge(each: FactMatch) -> bool:
    """Whether a judge is asked about the pair: what is certain without one is not."""
    return is_related(each) and not each.exact_match and auto_resolution(each.comparison, None) is None


def auto_resolution(comparison: Comparison, verdict: RelationOpinion | None) -> Kind | None:
    """What the pair certainly is: `same`, `changed`, `unrelated` (both are true), or None when a person is asked."""
    if comparison.kind is Kind.SAME or (comparison.kind is Kind.CHANGED and comparison.later):
        return comparison.kind
    if verdict is None or verdict.confidence < MIN_VERDICT_CONFIDENCE:
        return None
    if verdict.relation is Relation.DUPLICATE:
        return None if NEVER_SAME & {reason.code for reason in comparison.reasons} else Kind.SAME
    if verdict.relation is Relation.UPDATE:
        return Kind.CHANGED if comparison.later else None
    return Kind.UNRELATED if verdict.relation in (Relation.REFINEMENT, Relation.UNRELATED) else None


def reasons_of(comparison: Comparison) -> list[dict[str, str]]:
    return [
        {"code": each.code, "words": REASONS[each.code], "old": each.old, "new": each.new}
        for each in comparison.reasons
    ]
