"""Decide about a new fact, given the comparisons with similar old ones. Pure functions: no reads, calls or writes.

In this order: is it the same as an old fact; what is the judge's verdict; is it certainly a newer value; else it is
stored, with a review for each old fact that it contradicts or resembles. Source: seed 009.1, parts 1 and 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memory.comparison.compare_facts import NEVER_SAME, Comparison, Kind
from memory.models import Relation, RelationOpinion

MAX_REVIEWS = 5
"""Maximum number of old facts that are replaced by or reviewed with one new fact. Source: seed 009.1, "limit=5"."""
MIN_VERDICT_CONFIDENCE = 0.7
"""Minimum confidence at which a judge's verdict is applied; others are only shown to the reviewer."""
MIN_TOPIC_OVERLAP = 0.3
"""Minimum share of common content words, 0 to 1, of a fact that a judge alone sees replaced by another one."""


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
    related = [
        (each, kind)
        for each, verdict in [(each, verdicts.get(each.fact_id)) for each in compared]
        if _is_related(each, kind := auto_resolution(each.comparison, verdict), verdict)
    ]
    related.sort(
        key=lambda pair: (
            not pair[0].exact_match,
            -pair[0].comparison.cosine,
            -pair[0].comparison.overlap,
            str(pair[0].fact_id),
        )
    )
    supersede, ask = [], []
    for each, kind in related:
        if not each.review_only and (each.exact_match or kind is Kind.SAME):
            return LearnDecision(confirm=each)
    for each, kind in related[:MAX_REVIEWS]:
        if each.review_only or not (kind is Kind.CHANGED and each.replaceable):
            ask.append(each)
        else:
            supersede.append(each)
    repeats = next((each for each in compared if each.elsewhere), None)
    return LearnDecision(supersede=tuple(supersede), ask=tuple(ask), repeats=repeats)


def _is_related(each: FactMatch, kind: Kind | None, verdict: RelationOpinion | None) -> bool:
    """Whether something is done about the pair, or asked. Two facts that only a model relates are kept if it doubts."""
    if each.elsewhere or kind is Kind.UNRELATED:
        return each.review_only
    doubted = kind is None and each.comparison.kind is Kind.UNRELATED and not _is_confident(verdict)
    return each.exact_match or each.review_only or not doubted


def _is_confident(verdict: RelationOpinion | None) -> bool:
    return verdict is not None and verdict.confidence >= MIN_VERDICT_CONFIDENCE


def needs_judge(each: FactMatch) -> bool:
    """Whether a judge sees the pair: it is not certain, and its facts are about one subject or may be duplicates.
    Source: seed 009.1, parts 1 and 2."""
    if each.exact_match or each.elsewhere or auto_resolution(each.comparison, None) is not None:
        return False
    return each.comparison.same_subject or each.comparison.kind is not Kind.UNRELATED


def auto_resolution(comparison: Comparison, verdict: RelationOpinion | None) -> Kind | None:
    """The certain relation of the pair: `same`, `changed` or `unrelated` (both are true); None if it is not certain."""
    if comparison.kind is Kind.SAME or (comparison.kind is Kind.CHANGED and comparison.later):
        return comparison.kind
    if verdict is None or verdict.confidence < MIN_VERDICT_CONFIDENCE:
        return None
    if verdict.relation is Relation.DUPLICATE:
        return None if NEVER_SAME & {reason.code for reason in comparison.reasons} else Kind.SAME
    if verdict.relation is Relation.UPDATE:
        # Nothing in the words of two facts about different topics bears the judge out: people decide.
        same_topic = comparison.same_topic and comparison.overlap >= MIN_TOPIC_OVERLAP
        is_borne_out = comparison.kind is not Kind.UNRELATED or same_topic
        return Kind.CHANGED if comparison.later and is_borne_out else None
    return Kind.UNRELATED if verdict.relation in (Relation.REFINEMENT, Relation.UNRELATED) else None


def reasons_of(comparison: Comparison) -> list[dict[str, str]]:
    """The reasons as reviews, histories and answers have them."""
    return [
        {"code": each.code, "words": comparison.words(each), "old": each.old, "new": each.new}
        for each in comparison.reasons
    ]
