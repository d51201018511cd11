"""Decide about a new fact, given the comparisons with similar old ones. Pure functions: no reads, calls or writes.

In this order: is it the same as an old fact; what is the judge's verdict; is it certainly a newer value; else it is
stored, with a review for each old fact that it contradicts or resembles. Source: seed 009.1, parts 1 and 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memory.comparison.compare_facts import REASONS, Comparison, Kind
from memory.models.fact_relation import Relation, RelationOpinion

MAX_REVIEWS, MAX_FAINT_REVIEWS = 5, 2
"""Maximum number of old facts that are reviewed with one new fact, and of those related by the change score only.
Source: seed 009.1, "limit=5"."""
MIN_VERDICT_CONFIDENCE = 0.7
"""Minimum confidence at which a judge's verdict is applied; others are only shown to the reviewer."""
NEVER_SAME = frozenset({"number", "negation", "antonym", "quantity", "roles", "subject"})
"""Differences with which two facts are never the same, whatever the judge's verdict: a person decides."""


@dataclass(frozen=True, slots=True)
class FactMatch:
    """The comparison of the new fact with an old one.

    `exact_match`: the same words. `replaceable`: the learner may replace the old fact. `review_only`: the pair
    is always reviewed, whatever the comparison. `elsewhere`: the same words about another subject.
    """

    fact_id: UUID
    comparison: Comparison
    exact_match: bool = False
    replaceable: bool = True
    review_only: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class LearnDecision:
    """What to do with a new fact.

    `confirm`: the old fact with the same statement; nothing is stored. Otherwise the new fact is stored and replaces
    those in `supersede`; those in `ask` need a judge or a review. `repeats`: the old fact with the same words about
    another subject; nothing is stored until people decide whether it is true of both.
    """

    confirm: FactMatch | None = None
    supersede: tuple[FactMatch, ...] = ()
    ask: tuple[FactMatch, ...] = ()
    repeats: FactMatch | None = None

    @property
    def action(self) -> str:
        stored = "queued" if self.ask else "superseded" if self.supersede else "stored"
        return "confirmed" if self.confirm else stored


def decide_learning(compared: Sequence[FactMatch], verdicts: Mapping[UUID, RelationOpinion]) -> LearnDecision:
    """Decide about a new fact; `verdicts` are the judge's, by id of the old fact."""
    related = [each for each in compared if is_related(each)]
    related.sort(
        key=lambda each: (not each.exact_match, -each.comparison.cosine, -each.comparison.overlap, str(each.fact_id))
    )
    faint = [each for each in related if each.comparison.faint and not each.review_only]
    related = [each for each in related if each not in faint[MAX_FAINT_REVIEWS:]]
    resolutions = [auto_resolution(each.comparison, verdicts.get(each.fact_id)) for each in related]
    supersede, ask = [], []
    for each, kind in zip(related, resolutions, strict=True):
        if not each.review_only and (each.exact_match or kind is Kind.SAME):
            return LearnDecision(confirm=each)
    for each, kind in zip(related[:MAX_REVIEWS], resolutions, strict=False):
        if each.review_only or (kind is not Kind.UNRELATED and not (kind is Kind.CHANGED and each.replaceable)):
            ask.append(each)
        elif kind is Kind.CHANGED:
            supersede.append(each)
    repeats = next((each for each in compared if each.elsewhere), None)
    return LearnDecision(supersede=tuple(supersede), ask=tuple(ask), repeats=repeats)


def is_related(each: FactMatch) -> bool:
    """Whether the two facts are related. Source: seed 009.1, part 2, tests."""
    if each.elsewhere:
        return False
    clash = any(reason.code == "subject" for reason in each.comparison.reasons)
    return each.exact_match or each.review_only or (each.comparison.kind is not Kind.UNRELATED and not clash)


def needs_judge(each: FactMatch) -> bool:
    """Whether the pair needs a judge: it is related, and not certain without one."""
    return is_related(each) and not each.exact_match and auto_resolution(each.comparison, None) is None


def auto_resolution(comparison: Comparison, verdict: RelationOpinion | None) -> Kind | None:
    """The certain relation of the pair: `same`, `changed` or `unrelated` (both are true); None if it needs a review."""
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
