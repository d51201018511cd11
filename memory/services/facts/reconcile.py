"""Compare a fact with what is known, decide, and apply the decision: confirm, supersede, or ask people. Before the
transaction, models are asked for its embedding and a judge's verdicts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from identity.principal import Principal
from memory.comparison.compare_facts import Comparison, FactMatch, Kind, decide_learning, needs_judge, reasons_of
from memory.embedding import EmbeddingFailed, embedder_named
from memory.judge import FactPair, JudgeFailed, JudgeResult, RelationVerdict, configured_judge, pairs_judge
from memory.models import Fact, MemoryReview
from memory.policy.oversight import AutomaticDecision, Autonomy
from memory.services.facts.changes import alias_assign, fact_invalidate, fact_store, facts_lock
from memory.services.facts.comparable_facts import ComparisonCache, Vector, candidates_compare
from memory.services.facts.repeated_facts import (
    AppliedResolution,
    Resolution,
    cross_subject_review,
    holds_for_both,
    invalidated_match,
    relearned_review_open,
    resolution_apply,
)
from memory.services.reviews.blind_samples import fields_before, sample_is_due, sample_open
from memory.services.reviews.open_review import (
    PairReviewDraft,
    asks_about_attribute,
    attribute_questions_open,
    pair_reviews_open,
)
from memory.services.search_index.row_embedding import active_model
from memory.services.subjects.registry import alias_find, snapshot_of
from memory.services.trust import least_trusted
from nousweb.lib import Conflict, Invalid

log = structlog.get_logger(__name__)

MAX_VERDICTS, MAX_VERDICTS_LATER = 3, 12
"""Maximum number of pairs that are judged for a new fact: during a request, and by the worker if that was too few."""


@dataclass(frozen=True, slots=True)
class Precheck:
    """Results of the work before the transaction.

    `vector`: None if the embedding model could not be reached. `verdicts`: by id of the old fact. `unjudged`: a judge
    may still decide about pairs. `judge_error`: why it did not about each, if it was asked. `tokens` of the judge.
    `comparisons`: made already, for reuse.
    """

    vector: Vector | None = None
    verdicts: Mapping[UUID, JudgeResult[RelationVerdict]] = field(default_factory=dict)
    comparisons: ComparisonCache = field(default_factory=dict)
    unjudged: bool = False
    judge_error: JudgeFailed | None = None
    tokens: int = 0


def fact_precheck(
    fact: Fact,
    *,
    may_replace: Collection[str] = (),
    exclude: Sequence[UUID] = (),
    waiting: bool = True,
    limit: int = MAX_VERDICTS,
) -> Precheck:
    """Embed `fact`, and ask the configured judge about uncertain pairs, at most `limit`, the nearest first.

    It never raises if a model is down: the worker makes up for it later. Do not call it in a transaction.
    """
    vector = vector_of(fact.content)
    judge = configured_judge(waiting=waiting)
    comparisons: ComparisonCache = {}
    if judge is None:
        return Precheck(vector)
    fact.subject_alias = alias_find(agent=fact.agent, persona=fact.persona, spelling=fact.subject)
    matches = candidates_compare(fact, vector=vector, may_replace=may_replace, exclude=exclude, comparisons=comparisons)
    if any(match.exact_match for match in matches):
        return Precheck(vector, comparisons=comparisons)
    doubtful = sorted(filter(needs_judge, matches), key=lambda match: -match.comparison.cosine)
    facts = Fact.objects.filter(
        agent=fact.agent_id, pk__in=[match.fact_id for match in doubtful], recorded_at__lte=fact.recorded_at
    ).in_bulk()
    doubtful = [match for match in doubtful if match.fact_id in facts]
    new = snapshot_of(fact)
    pairs = {}
    for match in doubtful[:limit]:
        old = facts[match.fact_id]
        related = match.comparison.kind is not Kind.UNRELATED
        pairs[old.pk] = FactPair(snapshot_of(old), new, least_trusted((old.trust, fact.trust)), related)
    asked = pairs_judge(judge, agent=fact.agent, persona=fact.persona, pairs=pairs, again=not waiting)
    error = asked.error
    if error is not None:
        log.info("judge_failed", error=str(error))
    # Any other pair opens a review, whose judge is asked again. What a judge will never answer is not asked again.
    left = any(match.comparison.kind is Kind.UNRELATED for match in doubtful if match.fact_id not in asked.verdicts)
    unjudged = left and (error is None or error.retryable)
    return Precheck(vector, asked.verdicts, comparisons, unjudged=unjudged, judge_error=error, tokens=asked.tokens)


def vector_of(text: str) -> Vector | None:
    """Embed `text` by the active model of the index; None if that fails."""
    return vectors_of([text])[0]


def vectors_of(texts: Sequence[str]) -> Sequence[Vector | None]:
    """Embed `texts` by the active model of the index; None for each if that fails."""
    try:
        model = active_model().name
        found = embedder_named(model).embed_documents(texts)
    except EmbeddingFailed as error:
        log.info("embedding_failed", error=str(error))
        return [None] * len(texts)
    return [Vector(tuple(map(float, numbers)), model) for numbers in found]


def in_transaction() -> bool:
    """Whether a transaction is open, in which no model may be called. The transaction of a test case does not count."""
    try:
        with transaction.atomic(durable=True):
            return False
    except RuntimeError:
        return True


@dataclass(frozen=True, slots=True)
class LearnResult:
    """The result of learning one fact. `action` is one of:

    - "stored": `fact` is new. `undecided` are the known facts that it may repeat or contradict, about which nobody is
      asked, as with "queued" and "superseded".
    - "confirmed": `fact` is an old fact with the same statement.
    - "superseded": `fact` is new and replaced the facts in `superseded`.
    - "queued": `fact` is new and has pending `reviews`.
    - "quarantined": `fact` reads like an instruction to the agent. It was compared with nothing.
      `reviews` has its review, unless that is resolved.
    - "pending": the same, where `fact` only waits for consent.

    Two cases store nothing. If the same sentence is stored about another subject, `fact` is that one: "queued" while a
    review asks whether it is true of both, "decided" if people decided that it is not. If people invalidated the same
    statement, `fact` is the invalidated one: "queued" with a pending review, "decided" without a new source.
    """

    action: str
    fact: Fact
    superseded: tuple[Fact, ...] = ()
    reviews: tuple[MemoryReview, ...] = field(default=())
    undecided: tuple[UUID, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether `fact` is stored, and not in use before a person allows it."""
        return self.action in ("quarantined", "pending")

    @property
    def review(self) -> UUID | None:
        """The id of the first pending review, None without one."""
        return self.reviews[0].pk if self.reviews else None


def fact_reconcile(
    *,
    fact: Fact,
    by: Principal,
    precheck: Precheck,
    may_replace: Collection[str] = (),
    exclude: Sequence[UUID] = (),
    repeats: bool = False,
) -> LearnResult:
    """Compare `fact` with the other facts and apply the result. Call it under the learning lock.

    A new fact is stored, unless it repeats an active or an invalidated fact. A stored fact, whose embedding was not
    available when it was learned, is compared with older facts and retired in these two cases; but a fact that a person
    wrote is not merged automatically: it gets a review.
    """
    stored = not fact._state.adding
    matches = candidates_compare(
        fact,
        vector=precheck.vector,
        may_replace=may_replace,
        exclude=exclude,
        comparisons=precheck.comparisons,
    )
    if stored:
        # Newer facts are compared with this one when they are learned.
        matches = _recorded_before(fact, matches)
    decision = decide_learning(matches, {key: judge_result.value for key, judge_result in precheck.verdicts.items()})
    known, ask = decision.confirm, list(decision.ask)
    autonomy = Autonomy() if by.is_person else Autonomy.of_config(fact.agent.config)
    asks_same = known is not None and not known.exact_match and autonomy.asks(AutomaticDecision.CONFIRMED)
    if known is not None and (asks_same or (stored and fact.endorsed)):
        ask.insert(0, known)
        known = None
    matched = [match.fact_id for match in [*([known] if known else []), *decision.supersede, *ask]]
    olds = facts_lock(fact.agent_id, [*matched, fact.pk] if stored else matched)
    if known is not None and not by.writes(olds[known.fact_id]):
        # The old fact is global, and this token may not confirm it.
        return LearnResult("confirmed", olds[known.fact_id])
    if known is not None:
        old = olds[known.fact_id]
        if not (stored or known.exact_match or precheck.vector is None) and sample_is_due(fact, by):
            # Reviewers see the new words too, so they are stored, and merged into the known fact.
            alias_assign(fact, by)
            fact_store(fact, precheck.vector, by=by)
        before = {"old": fields_before(old), "new": fields_before(fact)}
        confirmed = _resolve_pair(Resolution.SAME, known, old, fact, by, precheck)
        if not fact._state.adding and not stored:
            _sample(AutomaticDecision.CONFIRMED, known, confirmed, before, by, precheck)
        return LearnResult("confirmed", confirmed.old)
    repeated_invalid = None if fact.endorsed else invalidated_match(fact, vector=precheck.vector, by=by)
    if repeated_invalid is not None:
        invalidated, match = repeated_invalid
        review = relearned_review_open(fact=fact, invalidated=invalidated, match=match, by=by)
        if stored:
            fact_invalidate(fact=fact, by=by, reason="People marked this statement as wrong.")
        if review is None:
            return LearnResult("decided", invalidated)
        return LearnResult("queued", invalidated, reviews=(review,))
    if decision.repeats is not None and not stored and not repeats:
        repeated = Fact.objects.select_related("agent", "subject_alias").get(
            agent=fact.agent_id, pk=decision.repeats.fact_id
        )
        review = cross_subject_review(fact=fact, stored=repeated, by=by)
        if review is not None:
            return LearnResult("queued", repeated, reviews=(review,))
        if not holds_for_both(fact=fact, stored=repeated):
            return LearnResult("decided", repeated)
    if not stored:
        alias_assign(fact, by)
        fact_store(fact, precheck.vector, by=by, unjudged=precheck.unjudged)
    superseded, refused = [], []
    asks_newer = autonomy.asks(AutomaticDecision.SUPERSEDED)
    for match in decision.supersede:
        older = olds.get(match.fact_id)
        before = {"old": fields_before(older), "new": fields_before(fact)} if older else {}
        replaced = None if asks_newer else _replace(match, older, fact, by, precheck)
        if replaced is None:
            refused.append(match)
            continue
        superseded.append(replaced.old)
        fact = replaced.new
        if len(superseded) == 1 and sample_is_due(fact, by):
            _sample(AutomaticDecision.SUPERSEDED, match, replaced, before, by, precheck)
    drafts, of_attributes = (
        [
            PairReviewDraft(olds[match.fact_id], fact, match.comparison, precheck.verdicts.get(match.fact_id))
            for match in [*refused, *ask]
            if match.fact_id in olds and asks_about_attribute(match) is about_attribute
        ]
        for about_attribute in (False, True)
    )
    opened = (*pair_reviews_open(drafts, by=by), *attribute_questions_open(of_attributes, by=by))
    action = "queued" if opened else "superseded" if superseded else "stored"
    beside = MemoryReview.objects.filter(agent=fact.agent_id, new=fact, status=MemoryReview.Status.UNDECIDED)
    undecided = beside.order_by("created_at", "id").values_list("old", flat=True) if drafts or of_attributes else ()
    # A caller may be compared with what it may not know of.
    told = tuple(key for key in undecided if by.reads(olds[key]))
    return LearnResult(action, fact, tuple(superseded), opened, told)


def _recorded_before(fact: Fact, matches: Sequence[FactMatch]) -> list[FactMatch]:
    keys = [match.fact_id for match in matches]
    earlier = set(
        Fact.objects.filter(agent=fact.agent_id, pk__in=keys, recorded_at__lte=fact.recorded_at).values_list(
            "pk", flat=True
        )
    )
    return [match for match in matches if match.fact_id in earlier]


def _replace(
    match: FactMatch, old: Fact | None, new: Fact, by: Principal, precheck: Precheck
) -> AppliedResolution | None:
    """Supersede `old` by `new`; None if the valid times, or verification by people, do not allow it."""
    if old is None or (old.valid_from is not None and old.valid_from > new.recorded_at):
        # A fact that becomes valid later is not superseded automatically: a review decides.
        return None
    try:
        with transaction.atomic():
            return _resolve_pair(Resolution.REPLACE, match, old, new, by, precheck)
    except (Invalid, Conflict):
        return None


def _sample(
    decision: AutomaticDecision,
    match: FactMatch,
    applied: AppliedResolution,
    before: dict[str, Any],
    by: Principal,
    precheck: Precheck,
) -> None:
    """Let reviewers see the pair of an automatic decision as if it was undecided."""
    sample_open(
        old=applied.old,
        new=applied.new,
        decision=decision,
        comparison=match.comparison,
        writer="judge" if match.fact_id in precheck.verdicts else by.name,
        undo=applied.undo,
        before=before,
        by=by,
    )


def _resolve_pair(
    resolution: MemoryReview.Resolution, match: FactMatch, old: Fact, new: Fact, by: Principal, precheck: Precheck
) -> AppliedResolution:
    judge_result = precheck.verdicts.get(match.fact_id)
    if resolution is Resolution.SAME:
        reason = "Known already."
    else:
        reason = judge_result.value.reason if judge_result else match.comparison.words(match.comparison.reasons[0])
    return resolution_apply(
        resolution=resolution,
        old=old,
        new=new,
        by=by,
        reason=reason,
        score=None if match.exact_match else round(match.comparison.cosine, 4),
        evidence=_evidence_of(match.comparison, judge_result),
    )


def _evidence_of(comparison: Comparison, judge_result: JudgeResult[RelationVerdict] | None) -> dict[str, Any]:
    """The evidence of a change as JSON values."""
    evidence: dict[str, Any] = {"kind": str(comparison.kind), "reasons": reasons_of(comparison)}
    if comparison.attribute:
        values = {"old": comparison.old_value, "new": comparison.new_value}
        evidence["changed"] = {"attribute": comparison.attribute} | values
    if judge_result is not None:
        evidence["judge"] = judge_result.value.model_dump(mode="json") | {
            "call": judge_result.call_id,
            "model": judge_result.model,
        }
    return evidence
