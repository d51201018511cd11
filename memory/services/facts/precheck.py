"""Work for a new fact before the transaction that stores it: its embedding, and a judge's verdicts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from django.db import transaction

from memory.comparison.learning_decision import needs_judge
from memory.embedding import EmbeddingFailed, embedder_named
from memory.judge import JudgeFailed, JudgeResult, RelationVerdict, configured_judge
from memory.models import Fact
from memory.services.facts.comparison_candidates import ComparisonCache, Nearness, Vector, candidates_compare
from memory.services.search_index.row_embedding import active_model
from memory.services.subjects.fact_snapshots import snapshot_of
from memory.services.subjects.registry import alias_find

log = structlog.get_logger(__name__)

MAX_VERDICTS = 3
"""Maximum number of pairs that are judged during a request; the worker has the others judged."""


@dataclass(frozen=True, slots=True)
class Precheck:
    """Results of the work before the transaction.

    `vector`: None if the embedding model could not be reached. `verdicts`: by id of the old fact. `comparisons`: made
    already, for reuse. `near`: the comparison candidates, if they are known.
    """

    vector: Vector | None = None
    verdicts: Mapping[UUID, JudgeResult[RelationVerdict]] = field(default_factory=dict)
    comparisons: ComparisonCache = field(default_factory=dict)
    near: Mapping[UUID, Nearness] | None = None


def fact_precheck(
    fact: Fact, *, may_replace: Collection[str] = (), exclude: Sequence[UUID] = (), waiting: bool = True
) -> Precheck:
    """Embed `fact`, which is not stored yet, and ask the configured judge about uncertain pairs.

    It never raises if a model is down: the worker makes up for it later. Do not call it in a transaction.
    """
    vector = vector_of(fact.content)
    judge = configured_judge(waiting=waiting)
    verdicts: dict[UUID, JudgeResult[RelationVerdict]] = {}
    comparisons: ComparisonCache = {}
    if judge is None:
        return Precheck(vector)
    fact.subject_alias = alias_find(agent=fact.agent, persona=fact.persona, spelling=fact.subject)
    matches = candidates_compare(fact, vector=vector, may_replace=may_replace, exclude=exclude, comparisons=comparisons)
    if any(match.exact_match for match in matches):
        return Precheck(vector, comparisons=comparisons)
    doubtful = sorted(filter(needs_judge, matches), key=lambda match: -match.comparison.cosine)[:MAX_VERDICTS]
    facts = Fact.objects.filter(agent=fact.agent_id).in_bulk([match.fact_id for match in doubtful])
    new = snapshot_of(fact)
    for match in doubtful:
        old = facts.get(match.fact_id)
        if old is None:
            continue
        try:
            verdicts[old.pk] = judge.relation(agent=fact.agent, persona=fact.persona, old=snapshot_of(old), new=new)
        except JudgeFailed as error:
            log.info("judge_failed", error=str(error))
            break
    return Precheck(vector, verdicts, comparisons)


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
