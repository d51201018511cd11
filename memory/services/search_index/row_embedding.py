"""Embed the rows of the search index, and retry failed ones.

No model is called inside a transaction: rows are leased, embedded, and written back only if their text has not changed.
A lease expires, so the rows of a killed worker are processed again soon.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import structlog
from django.db import transaction

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.embedding import Embedder, EmbeddingFailed, EmbeddingRefused, embedder_named
from memory.embedding.protocol import Vectors
from memory.embedding.registry import configured_name
from memory.jobs import EMBEDDING_LEASE, message_send
from memory.models import EmbeddingModel, IndexStatus, SearchItem
from memory.search.passages import MOST_CHARACTERS, passages_of
from nousweb.lib import clock
from nousweb.lib.prepared_statements import CachedQuery, instance_of
from nousweb.lib.transactions import sql_change, sql_rows, transaction_retried

log = structlog.get_logger(__name__)

BATCH = 64
BATCH_FOR_PASSAGES = 8
"""Of long texts, with about a hundred passages: a new text waits for no more than that."""
RUN_SECONDS = 60.0
"""Duration of one task, well below the worker's time limit; it queues the next task if rows are left."""


@dataclass(frozen=True, slots=True)
class LeasedIndexRow:
    """An index row that this worker has leased and embeds."""

    persona: str
    id: int
    text: str
    attempts: int
    agent_id: int
    has_vector: bool = False
    """Whether the vector of the whole text is there, and its passages wait for theirs."""


def embed_pending_rows(*, seconds: float = RUN_SECONDS) -> int:
    """Embed pending rows that are due, for at most about `seconds`; returns how many rows got vectors.

    Every text gets the vector of the whole before the passages of long ones, which take several times as long, get
    theirs, the newest first: an import is soon found by meaning, and new messages do not wait for it.

    If the model cannot be reached, the batch is postponed and this stops; the next scheduled task tries again. A batch
    contains rows of one persona only, since a vector, or a failure, can depend on the other texts of the batch.
    """
    deadline = time.monotonic() + seconds
    _give_up()
    return sum(_make(persona, deadline) for persona in Persona.values)


def _make(persona: str, deadline: float) -> int:
    made = 0
    while claimed := _claim(persona):
        with EMBEDDING_LEASE.renewal(partial(_renew, claimed), name=f"embedding-{claimed[0].id}"):
            try:
                embedder = embedder_named(active_model().name)
                embedded, refused = rows_embed(claimed, embedder, both=False)
            except EmbeddingFailed as error:
                _postpone(claimed, error)
                break
            # A concurrent change of several of these memories may lock their rows in another order.
            made += transaction_retried(partial(vectors_write, WRITE_BACK, embedded, embedder.name))
            for row, refusal in refused.items():
                rows = SearchItem.objects.filter(agent=row.agent_id, persona=row.persona, id=row.id, text=row.text)
                rows.filter(status=IndexStatus.PENDING).update(status=IndexStatus.FAILED, error=str(refusal)[:500])
        if time.monotonic() > deadline:
            message_send("memory.tasks.embed_pending")
            break
    return made


_ACTIVE = CachedQuery(lambda shape: EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).order_by("pk")[:1])


def active_model() -> EmbeddingModel:
    """The active model of the index; the first call creates it from the settings. Raises EmbeddingFailed."""
    for row in _ACTIVE.rows(None):
        return instance_of(EmbeddingModel, row)
    embedder = embedder_named(configured_name())
    dimension = embedder.dimension
    active, _ = EmbeddingModel.objects.get_or_create(
        state=EmbeddingModel.State.ACTIVE,
        defaults={"name": embedder.name, "dimension": dimension, "since": clock.now()},
    )
    return active


_HAS_VECTOR = "embedding IS NOT NULL AND model = (SELECT name FROM memory_embeddingmodel WHERE state = 'active')"
_DUE = f"""persona = %(persona)s AND status = 'pending' AND (due_at IS NULL OR due_at <= %(now)s)
 AND ({_HAS_VECTOR}) IS {{}}"""
_STAGES = ((_DUE.format("NOT TRUE"), "id", BATCH), (_DUE.format("TRUE"), "id DESC", BATCH_FOR_PASSAGES))
"""The rows that are due, their order, and how many are leased at once."""
_AGENTS = """
SELECT DISTINCT agent_id FROM (
    SELECT agent_id, id FROM memory_searchitem WHERE {due} ORDER BY {order} LIMIT %(batch)s) AS first
"""
_CLAIM = """
UPDATE memory_searchitem AS item SET due_at = %(until)s, attempts = item.attempts + 1
FROM (SELECT id FROM memory_searchitem WHERE agent_id = %(agent)s AND {due}
      ORDER BY {order} LIMIT %(batch)s FOR UPDATE SKIP LOCKED) AS due
WHERE item.agent_id = %(agent)s AND item.persona = %(persona)s AND item.id = due.id
RETURNING item.persona, item.id, item.text, item.attempts, item.agent_id, %(has_vector)s::boolean
"""


def _claim(persona: str) -> list[LeasedIndexRow]:
    """Lease due rows without a vector, the oldest of all agents first, else the newest whose passages wait, with one
    statement per agent."""
    now = clock.now()
    values: dict[str, Any] = {"persona": persona, "now": now, "until": now + EMBEDDING_LEASE.lease}
    claimed: list[LeasedIndexRow] = []
    for has_vector, (due, order, batch) in zip((False, True), _STAGES, strict=True):
        values["has_vector"] = has_vector
        agents, claim = _AGENTS.format(due=due, order=order), _CLAIM.format(due=due, order=order)
        for (agent_id,) in sorted(sql_rows(agents, {**values, "batch": batch})):
            rows = sql_rows(claim, {**values, "agent": agent_id, "batch": batch - len(claimed)})
            claimed += sorted((LeasedIndexRow(*row) for row in rows), key=lambda row: row.id)
            if len(claimed) == batch:
                break
        if claimed:
            break
    return claimed


def rows_by_agent(claimed: Iterable[LeasedIndexRow]) -> Iterator[tuple[int, list[LeasedIndexRow]]]:
    """Group rows by agent, since every statement is about one agent."""
    agent_of = attrgetter("agent_id")
    for agent_id, rows in groupby(sorted(claimed, key=agent_of), key=agent_of):
        yield agent_id, list(rows)


_RENEW = """
UPDATE memory_searchitem AS item SET due_at = greatest(item.due_at, %s)
FROM unnest(%s::text[], %s::bigint[], %s::smallint[]) AS held (persona, id, attempts)
WHERE item.agent_id = %s AND item.persona = held.persona AND item.id = held.id AND item.attempts = held.attempts
  AND item.status = 'pending'
"""


def _renew(claimed: Sequence[LeasedIndexRow]) -> None:
    until = clock.now() + EMBEDDING_LEASE.lease
    for agent_id, rows in rows_by_agent(claimed):
        personas, ids = [row.persona for row in rows], [row.id for row in rows]
        sql_change(_RENEW, [until, personas, ids, [row.attempts for row in rows], agent_id])


def _give_up() -> None:
    """Mark rows as failed that were leased `max_attempts` times and never written back: they crash the worker."""
    limit = EMBEDDING_LEASE.max_attempts
    lost = SearchItem.objects.filter(status=IndexStatus.PENDING, attempts__gte=limit, due_at__lte=clock.now())
    lost.update(status=IndexStatus.FAILED, error=f"Given up after {limit} attempts.")


def requeue_stale_embeddings() -> int:
    """Mark rows as pending that have a vector of another model than the active one, and long texts without passages;
    returns how many."""
    active = EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).values_list("name", flat=True).first()
    if not active:
        return 0
    other_model = SearchItem.objects.filter(status=IndexStatus.READY).exclude(model=active)
    requeued = other_model.update(status=IndexStatus.PENDING, attempts=0, due_at=None)
    return requeued + sql_change(
        "UPDATE memory_searchitem SET status = 'pending', attempts = 0, due_at = NULL"
        " WHERE passages IS NULL AND status = 'ready' AND length(text) > %s",
        [MOST_CHARACTERS],
    )


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The vector of a whole text (None if it is there already) and, if it is long, its passages as (begin, end,
    vector): None if they follow."""

    whole: Vectors | None
    passages: Sequence[tuple[int, int, Vectors]] | None


def rows_embed(
    rows: Sequence[LeasedIndexRow], embedder: Embedder, *, both: bool = True
) -> tuple[dict[LeasedIndexRow, EmbeddedText], dict[LeasedIndexRow, EmbeddingRefused]]:
    """Embed the text of each row with its passages, or only what is next of the two unless `both`: together, or one by
    one if the model refuses them together. Returns them, and the rows that the model refuses. Raises EmbeddingFailed
    if it cannot be reached."""
    try:
        return _embedded(rows, embedder, both), {}
    except EmbeddingRefused as error:
        if len(rows) == 1:
            log.warning("embedding_refused", row=rows[0].id, error=str(error))
            return {}, {rows[0]: error}
    embedded: dict[LeasedIndexRow, EmbeddedText] = {}
    refused: dict[LeasedIndexRow, EmbeddingRefused] = {}
    for row in rows:
        alone, gone = rows_embed([row], embedder, both=both)
        embedded, refused = embedded | alone, refused | gone
    return embedded, refused


def _embedded(rows: Sequence[LeasedIndexRow], embedder: Embedder, both: bool) -> dict[LeasedIndexRow, EmbeddedText]:
    wholes = [row for row in rows if both or not row.has_vector]
    spans = {row: passages_of(row.text) for row in rows}
    cut = [row for row in rows if both or row.has_vector or not spans[row]]
    parts = [row.text[begin:end] for row in cut for begin, end in spans[row]]
    vectors = iter(embedder.embed_documents([*(row.text for row in wholes), *parts]))
    whole = {row: next(vectors) for row in wholes}
    passages = {row: [(begin, end, next(vectors)) for begin, end in spans[row]] for row in cut}
    return {row: EmbeddedText(whole.get(row), passages.get(row)) for row in rows}


_WRITE = """
UPDATE memory_searchitem AS item SET {values}, passages = new.passages
FROM unnest(%(personas)s::text[], %(ids)s::bigint[], %(texts)s::text[], %(vectors)s::text[], %(passages)s::smallint[])
    AS new (persona, id, text, vector, passages)
WHERE item.agent_id = %(agent)s AND item.persona = new.persona AND item.id = new.id AND item.text = new.text
  AND {condition}
RETURNING item.persona, item.id
"""
WRITE_BACK = _WRITE.format(
    values="embedding = coalesce(new.vector::halfvec, item.embedding), model = %(model)s, error = '', due_at = NULL,"
    " status = CASE WHEN new.passages IS NULL THEN 'pending' ELSE 'ready' END,"
    " attempts = CASE WHEN new.passages IS NULL THEN 0 ELSE item.attempts END",
    condition="item.status = 'pending'"
    " AND EXISTS (SELECT 1 FROM memory_embeddingmodel WHERE state = 'active' AND name = %(model)s)",
)
"""Vectors of the active model, for rows that wait for them."""
WRITE_NEXT = _WRITE.format(values="next_embedding = new.vector::halfvec, next_model = %(model)s", condition="true")
"""Vectors of the model that the index is moving to."""


@transaction.atomic
def vectors_write(statement: str, texts: Mapping[LeasedIndexRow, EmbeddedText], model: str) -> int:
    """Write the vectors of `model` and the passages of rows whose text has not changed; returns how many these are."""
    count = 0
    for agent_id, rows in rows_by_agent(texts):
        values: dict[str, Any] = {
            "agent": agent_id,
            "model": model,
            "personas": [row.persona for row in rows],
            "ids": [row.id for row in rows],
            "texts": [row.text for row in rows],
            "vectors": [None if (whole := texts[row].whole) is None else vector_literal(whole) for row in rows],
            "passages": [None if (parts := texts[row].passages) is None else len(parts) for row in rows],
        }
        written = set(sql_rows(statement, values))
        held = [(row, texts[row].passages or ()) for row in rows if (row.persona, row.id) in written]
        _passages_write(held, model)
        count += len(written)
    return count


_PASSAGES = """
INSERT INTO memory_searchpassage (agent_id, persona, row_id, model, place, begins, ends, embedding)
SELECT item.agent_id, item.persona, item.id, %s, new.place, new.begins, new.ends, new.vector::halfvec
FROM unnest(%s::text[], %s::bigint[], %s::smallint[], %s::integer[], %s::integer[], %s::text[])
    AS new (persona, id, place, begins, ends, vector)
JOIN memory_searchitem AS item ON item.persona = new.persona AND item.id = new.id AND item.agent_id = %s
"""


def _passages_write(rows: Sequence[tuple[LeasedIndexRow, Sequence[tuple[int, int, Vectors]]]], model: str) -> None:
    """Replace the passages of rows of one agent by this model."""
    if not rows:
        return
    agent_id = rows[0][0].agent_id
    sql_change(
        "DELETE FROM memory_searchpassage AS passage USING unnest(%s::text[], %s::bigint[]) AS held (persona, id)"
        " WHERE passage.agent_id = %s AND passage.persona = held.persona AND passage.row_id = held.id"
        " AND passage.model = %s",
        [[row.persona for row, _ in rows], [row.id for row, _ in rows], agent_id, model],
    )
    parts = [
        (row.persona, row.id, place, begin, end, vector_literal(vector))
        for row, passages in rows
        for place, (begin, end, vector) in enumerate(passages)
    ]
    if parts:
        sql_change(_PASSAGES, [model, *map(list, zip(*parts, strict=True)), agent_id])


def vector_literal(vector: Vectors) -> str:
    """A vector as a literal of pgvector."""
    return "[" + ",".join(f"{number:.6g}" for number in vector) + "]"


def _postpone(claimed: Sequence[LeasedIndexRow], error: EmbeddingFailed) -> None:
    """Set the time of the rows' next attempt; after the last attempt, mark them as failed."""
    log.warning("embedding_failed", rows=len(claimed), error=str(error))
    now = clock.now()
    for agent_id, rows in rows_by_agent(claimed):
        sql_change(
            "UPDATE memory_searchitem AS item SET error = %s, due_at = new.due_at,"
            " status = CASE WHEN item.attempts >= %s THEN 'failed' ELSE item.status END"
            " FROM unnest(%s::text[], %s::bigint[], %s::timestamptz[]) AS new (persona, id, due_at)"
            " WHERE item.agent_id = %s AND item.persona = new.persona AND item.id = new.id"
            " AND item.status = 'pending'",
            [
                str(error)[:500],
                EMBEDDING_LEASE.max_attempts,
                [row.persona for row in rows],
                [row.id for row in rows],
                [now + EMBEDDING_LEASE.backoff(row.attempts) for row in rows],
                agent_id,
            ],
        )


def index_retry(*, agent: Agent | None, by: Principal) -> int:
    """Mark failed rows of one agent, or of all, as pending again; returns how many. Raises NotAllowed."""
    by.require("memory.change_searchitem", agent)
    failed = SearchItem.objects.filter(status=IndexStatus.FAILED)
    if agent is not None:
        failed = failed.filter(agent=agent)
    with transaction.atomic():
        count = failed.update(status=IndexStatus.PENDING, attempts=0, due_at=None, error="")
        if count:
            if agent is not None and by.is_person:
                audit_record(by=by, action="index.retry", target=agent, agent=agent, after={"rows": count})
            message_send("memory.tasks.embed_pending")
    return count
