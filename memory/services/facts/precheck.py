"""Work for a new fact before the transaction that stores it: its embedding, and a judge's verdicts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from django.db import transaction

from memory.comparison.compare_facts import Kind, needs_judge
from memory.embedding import EmbeddingFailed, embedder_named
from memory.judge import FactPair, JudgeFailed, JudgeResult, RelationVerdict, configured_judge, pairs_judge
from memory.models import Fact
from memory.services.facts.comparable_facts import ComparisonCache, Vector, candidates_compare
from memory.services.search_index.row_embedding import active_model
from memory.services.subjects.registry import alias_find, snapshot_of
from memory.services.trust import least_trusted

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
    try:
        model = active_model()
        numbers = embedder_named(model.name).embed_documents([text])[0]
    except EmbeddingFailed as error:
        log.info("embedding_failed", error=str(error))
        return None
    return Vector(tuple(float(number) for number in numbers), model.name)


def in_transaction() -> bool:
    """Whether a transaction is open, in which no model may be called. The transaction of a test case does not count."""
    try:
        with transaction.atomic(durable=True):
            return False
    except RuntimeError:
        return True
