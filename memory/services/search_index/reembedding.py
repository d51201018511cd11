"""Rows of the search index that are read again: for another embedding model, or in the language of their agent."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import structlog
from django.db import IntegrityError, transaction

from identity.models import Agent, Persona
from identity.principal import Principal
from memory.embedding import embedder_named, full_name
from memory.jobs import message_send
from memory.models import EmbeddingModel, IndexStatus, SearchItem, SearchLanguage, SearchPassage
from memory.search.languages import DEFAULT_DICTIONARY, LANGUAGES, PLAIN, language_of
from memory.search.query_word_counts import statistics_recount, statistics_refresh
from memory.services.search_index.row_embedding import (
    BATCH,
    RUN_SECONDS,
    WRITE_NEXT,
    LeasedIndexRow,
    active_model,
    embed_pending_rows,
    requeue_stale_embeddings,
    rows_embed,
    vectors_write,
)
from memory.services.search_index.writer import index_put
from memory.types import MEMORY_TYPES, entry_of
from nousweb.lib import Conflict, Invalid, clock
from nousweb.lib.transactions import advisory_lock, sql_change, sql_row

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReembedProgress:
    """`finished` once the index answers with the new model's vectors."""

    model: str
    done: int
    total: int
    finished: bool


def reembed_start(*, model: str, by: Principal) -> EmbeddingModel:
    """Begin, or go on, moving the index to `model` ("embedder" or "embedder:model"); searches keep the old vectors.

    Raises Invalid for an unknown model, Conflict while the index moves to another one, EmbeddingFailed.
    """
    by.require("memory.change_searchitem")
    try:
        name = full_name(model)
    except ValueError as error:
        raise Invalid(str(error), field="model") from error
    dimension = embedder_named(name).dimension
    active_model()
    try:
        with transaction.atomic():
            building, made = EmbeddingModel.objects.get_or_create(
                state=EmbeddingModel.State.BUILDING,
                defaults={"name": name, "dimension": dimension, "since": clock.now()},
            )
    except IntegrityError:  # Somebody else began at the same moment.
        building, made = EmbeddingModel.objects.get(state=EmbeddingModel.State.BUILDING), False
    if building.name != name:
        raise Conflict(f"The index is moving to {building.name} already: finish or cancel that move.")
    if made:
        message_send("memory.tasks.continue_reembedding")
    return building


def reembed_cancel(*, by: Principal) -> bool:
    """Stop moving; what was embedded for the other model is dropped. Returns whether there was anything to stop."""
    by.require("memory.change_searchitem")
    with transaction.atomic():
        building = EmbeddingModel.objects.filter(state=EmbeddingModel.State.BUILDING).select_for_update().first()
        if building is not None:
            building.delete()
            SearchPassage.objects.filter(model=building.name).delete()
        SearchItem.objects.exclude(next_model="").update(next_model="", next_embedding=None)
    return building is not None


def reembed_continue(
    *, seconds: float = RUN_SECONDS, progress: Callable[[ReembedProgress], None] | None = None
) -> ReembedProgress | None:
    """Embed for the model that the index is moving to, for about `seconds`, and switch over when all is done.

    Everything that is done is in the database after each batch, so a run that is killed costs one batch. One run at
    a time works; another returns at once. None when the index is not moving. Raises EmbeddingFailed.
    """
    with advisory_lock("nous.reembed") as mine:
        return _reembed(seconds, progress or (lambda _: None)) if mine else reembed_progress()


def _reembed(seconds: float, progress: Callable[[ReembedProgress], None]) -> ReembedProgress | None:
    deadline = time.monotonic() + seconds
    while (building := EmbeddingModel.objects.filter(state=EmbeddingModel.State.BUILDING).first()) is not None:
        rows = SearchItem.objects.exclude(next_model=building.name).order_by("persona", "id")
        batch = [
            LeasedIndexRow(*row[:3], 0, row[3]) for row in rows.values_list("persona", "id", "text", "agent_id")[:BATCH]
        ]
        if not batch:
            return _switch(building)
        # A vector can depend on the rest of its batch, so no batch is of both personas.
        batch = [row for row in batch if row.persona == batch[0].persona]
        embedded, refused = rows_embed(batch, embedder_named(building.name))
        vectors_write(WRITE_NEXT, embedded, building.name)
        if refused:
            # It has no vector in the new model; searching by words still finds it, and the switch makes it failed.
            ids = [row.id for row in refused]
            SearchItem.objects.filter(id__in=ids).update(next_model=building.name, next_embedding=None)
        now = reembed_progress()
        if now:
            progress(now)
        if time.monotonic() > deadline:
            message_send("memory.tasks.continue_reembedding")
            return now
    return None


@transaction.atomic
def _switch(building: EmbeddingModel) -> ReembedProgress:
    """Let the new vectors be the index's, in one transaction: a search sees all of the old or all of the new."""
    EmbeddingModel.objects.select_for_update().get(pk=building.pk)
    moved = sql_change(
        "UPDATE memory_searchitem SET embedding = next_embedding, model = next_model,"
        " status = CASE WHEN next_embedding IS NULL THEN 'failed' ELSE 'ready' END,"
        " error = CASE WHEN next_embedding IS NULL THEN 'The model refused this text.' ELSE '' END,"
        " attempts = 0, due_at = NULL, next_embedding = NULL, next_model = '' WHERE next_model = %s",
        [building.name],
    )
    # Written since the last batch: they wait for a vector of the new model like any new row.
    SearchItem.objects.exclude(model=building.name).update(
        status=IndexStatus.PENDING,
        attempts=0,
        due_at=None,
        embedding=None,
        model="",
        next_embedding=None,
        next_model="",
    )
    SearchPassage.objects.exclude(model=building.name).delete()
    EmbeddingModel.objects.filter(state=EmbeddingModel.State.ACTIVE).delete()
    building.state = EmbeddingModel.State.ACTIVE
    building.since = clock.now()
    building.save()
    message_send("memory.tasks.embed_pending")
    message_send("memory.tasks.refresh_search_statistics")
    return ReembedProgress(building.name, moved, moved, finished=True)


def reembed_progress() -> ReembedProgress | None:
    """How far the index has moved; None when it is not moving."""
    building = EmbeddingModel.objects.filter(state=EmbeddingModel.State.BUILDING).first()
    if building is None:
        return None
    total = SearchItem.objects.count()
    done = SearchItem.objects.filter(next_model=building.name).count()
    return ReembedProgress(building.name, done, total, finished=False)


REBUILD_BATCH = 500


def index_rebuild(*, agent: Agent | None = None, progress: Callable[[int, int], None] | None = None) -> dict[str, int]:
    """Rebuild every row of the index from the primary rows, and delete rows that have none.

    Into place, in batches of their own transactions: searches go on answering from what is there, and vectors of
    unchanged texts are kept; long texts without passages get theirs from the worker. `progress` is called with
    (done, all). Returns "written" and "deleted".
    """
    total = sum(rows.count() for rows in _primary(agent))
    done = deleted = 0
    for one in [agent] if agent else Agent.objects.order_by("pk"):
        for rows in _primary(one):
            for batch in _batches(rows.values_list("pk", flat=True).order_by("pk")):
                with transaction.atomic():
                    # Locked, so that no writer's newer row is overwritten by what was read before it.
                    held = rows.filter(pk__in=batch).order_by("pk").select_for_update(of=("self",))
                    index_put([entry_of(row) for row in held])
                done += len(batch)
                if progress:
                    progress(done, total)
        deleted += sql_change(_ORPHANS, {"agent": one.pk})
    if requeue_stale_embeddings():
        message_send("memory.tasks.embed_pending")
    return {"written": done, "deleted": deleted}


def _primary(agent: Agent | None) -> list[Any]:
    every = [memory_type.indexed_rows() for memory_type in MEMORY_TYPES.values()]
    return [rows.filter(agent=agent) if agent else rows for rows in every]


def _batches(keys: Any) -> Iterator[list[Any]]:
    found = keys.iterator(chunk_size=10_000)
    while batch := list(islice(found, REBUILD_BATCH)):
        yield batch


_KEYS = " UNION ALL ".join(
    f"SELECT '{key}' AS type, {one.indexed_key}::text AS id FROM {rows.model._meta.db_table}"  # noqa: S608
    " WHERE agent_id = %(agent)s"
    for key, one in MEMORY_TYPES.items()
    for rows in (one.indexed_rows(),)
)
_ORPHANS = f"""
DELETE FROM memory_searchitem AS item WHERE agent_id = %(agent)s
AND NOT EXISTS (SELECT 1 FROM ({_KEYS}) AS held WHERE held.type = item.item_type AND held.id = item.item_id)
"""  # noqa: S608


MANY_EMBEDDED = 1_000
"""After this many new rows a collection may be large, and is counted at once; otherwise each search counts it."""


def new_rows_embed() -> int:
    """Embed pending rows, and detect the languages of agents; returns how many rows were embedded."""
    made = embed_pending_rows()
    if made:
        languages_detect()
    if made >= MANY_EMBEDDED:
        statistics_refresh()
    return made


def collections_refresh() -> int:
    """Refresh the counts and the vector indexes of large collections; returns how many changed."""
    requeue_stale_embeddings()
    return statistics_refresh()


CONFIGURED = "language"
"""The entry of an agent's configuration by which people set it; without one it is detected."""
WORDS_BATCH = 500
LOOKED_AT = 200
"""Texts by which a language is detected, the latest."""
TEXT_CHARACTERS = 500
SETTLED = 1_000
"""With so many memories the language of an agent is known; before, it is looked at when there are twice as many."""


def language_check(code: str) -> str:
    """The code of a language that people may set; "" lets it be detected. Raises Invalid."""
    if code and code not in LANGUAGES:
        raise Invalid(f"There is no language {code[:20]!r}; they are {', '.join(LANGUAGES)}.", field="language")
    return code


def language_used(agent: Agent) -> str:
    """The code of the language by which the words of an agent are read."""
    configured = _configured(agent)
    if configured:
        return configured
    found = SearchLanguage.objects.filter(agent=agent).values_list("detected", flat=True).first()
    return found or "en"


def dictionary_of(agent_id: int) -> str:
    """The dictionary by which the words of an agent are read. One statement."""
    found = SearchLanguage.objects.filter(agent=agent_id).values_list("dictionary", flat=True).first()
    return found or DEFAULT_DICTIONARY


def language_apply(agent: Agent) -> None:
    """Let the words of an agent be read by the language that its configuration has, or by that which was detected.

    Inside the transaction of whoever changes it; what is in the index is read again in the background.
    """
    detected = SearchLanguage.objects.filter(agent=agent).values_list("detected", flat=True).first() or ""
    _use(agent, _configured(agent) or detected)


def languages_detect() -> int:
    """Detect the languages of agents whose memory has grown, where people have set none; returns how many changed.

    By the memories of the actor alone: what the subconscious writes must not show in what the actor finds.
    """
    changed = 0
    known = SearchLanguage.objects.in_bulk()
    for agent in Agent.objects.order_by("pk").iterator():
        row = known.get(agent.pk)
        if _configured(agent) or (row and row.looked_at >= SETTLED):
            continue
        items = SearchItem.objects.filter(agent=agent, persona=Persona.ACTOR, active=True)
        size = items.values("pk")[:SETTLED].count()
        if not size or (row and size < 2 * row.looked_at):
            continue
        latest = items.order_by("-id").values_list("text", flat=True)[:LOOKED_AT]
        detected = language_of([text[:TEXT_CHARACTERS] for text in latest])
        with transaction.atomic():
            row, _ = SearchLanguage.objects.get_or_create(agent=agent)
            SearchLanguage.objects.filter(agent=row.agent_id).update(looked_at=size, detected=detected or row.detected)
            if detected:
                changed += _use(agent, detected)
    return changed


def words_reread(*, seconds: float = RUN_SECONDS) -> int:
    """Read rows of the index and spellings again that were read by another dictionary than their agent's.

    For about `seconds`; what is left follows in another run. One run at a time does it. Returns how many were read.
    """
    with advisory_lock("nous.search.words") as mine:
        return _reread(time.monotonic() + seconds) if mine else 0


def _configured(agent: Agent) -> str:
    code = agent.config.get(CONFIGURED)
    return code if isinstance(code, str) and code in LANGUAGES else ""


def _use(agent: Agent, code: str) -> bool:
    """Let `code` be the language of an agent; "" is the default. Returns whether its dictionary is another now."""
    dictionary = _dictionary(code)
    row, _ = SearchLanguage.objects.get_or_create(agent=agent)
    if row.dictionary == dictionary:
        return False
    SearchLanguage.objects.filter(agent=agent).update(dictionary=dictionary, since=clock.now())
    log.info("search_language", agent=agent.slug, language=code, dictionary=dictionary)
    message_send("memory.tasks.reread_words")
    return True


def _dictionary(code: str) -> str:
    """PostgreSQL's dictionary for a language, or words as they are where this server has none."""
    if not code:
        return DEFAULT_DICTIONARY
    wanted = LANGUAGES[code].dictionary
    return wanted if sql_row("SELECT EXISTS (SELECT 1 FROM pg_ts_config WHERE cfgname = %s)", [wanted])[0] else PLAIN


_ITEMS = """
WITH batch AS (
    SELECT item.persona, item.id FROM memory_searchitem AS item
    WHERE item.agent_id = %(agent)s AND item.persona = %(persona)s AND item.id > %(after)s
      AND item.dictionary <> %(dictionary)s
    ORDER BY item.id LIMIT %(batch)s FOR UPDATE
), read AS (
    UPDATE memory_searchitem AS item SET dictionary = %(dictionary)s FROM batch
    WHERE item.agent_id = %(agent)s AND item.persona = batch.persona AND item.id = batch.id RETURNING item.id
)
SELECT count(*), max(id) FROM read
"""
_SPELLINGS = """
UPDATE memory_subjectalias SET dictionary = %(dictionary)s WHERE agent_id = %(agent)s AND dictionary <> %(dictionary)s
"""


def _reread(deadline: float) -> int:
    done = 0
    for row in SearchLanguage.objects.select_related("agent").order_by("agent"):
        changed = 0
        values: dict[str, Any] = {"agent": row.agent_id, "dictionary": row.dictionary, "batch": WORDS_BATCH}
        sql_change(_SPELLINGS, values)
        for persona in Persona.values:
            after = 0
            while True:
                count, last = sql_row(_ITEMS, {**values, "persona": persona, "after": after})
                if not count:
                    break
                changed, after = changed + count, last
                if time.monotonic() > deadline:
                    message_send("memory.tasks.reread_words")
                    return done + changed
        if changed:
            statistics_recount(row.agent_id)
        done += changed
    return done
