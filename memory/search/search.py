"""Searching memory: one call for every type of item. docs/search.md explains the scores."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import structlog

from memory.embedding import EmbeddingFailed, embedder_named, thresholds_of
from memory.embedding.protocol import Vectors
from memory.embedding.thresholds import DEFAULT_MODEL, Thresholds
from memory.persona import PersonaMemory
from memory.search.candidates import Asked, Counts, candidates_fetch, counts_read, details_fetch
from memory.search.load import memories_load, texts_load
from memory.search.request import MAX_QUERY_CHARACTERS, SearchHit, SearchRequest, SearchResult
from memory.search.scoring import Candidate, Query, Scored, Statistics, score

log = structlog.get_logger(__name__)

ASKS_TIME = re.compile(r"\bwhen\b|\bhow (?:long|recently)\b|\b(?:what|which) (?:date|day|month|year|time)\b", re.I)


def search(view: PersonaMemory, request: SearchRequest) -> SearchResult:
    """The memories of `view` that answer the request, best first.

    1. Count the collection and the query's words in it.
    2. Embed the query, with the model that the index was made with. Where that fails, words alone decide.
    3. Fetch the hits of both searches and their neighbours.
    4. Score them and drop what lies under the threshold.
    5. Load the best from their own tables, through the view.
    """
    watch = _Watch()
    text = request.query[:MAX_QUERY_CHARACTERS].strip()
    if not text:
        return SearchResult([], request.min_score or 0.0)
    counts = counts_read(view, text)
    watch.lap("plan")
    vector, degraded = _embedded(counts, text)
    watch.lap("embed")
    asks_time = bool(ASKS_TIME.search(text))
    rows = candidates_fetch(view, request, counts, vector)
    watch.lap("fetch")
    thresholds = thresholds_of(counts.model)
    threshold = thresholds.relevance if request.min_score is None else request.min_score
    scored = _scored(rows, counts, thresholds, asks_time=asks_time)
    by_id = {row["id"]: row for row in rows}
    wanted = ((by_id[one.id], one) for one in scored if by_id[one.id]["wanted"])
    found = [pair for place, pair in enumerate(wanted) if pair[1].score >= threshold or place < request.least]
    watch.lap("score")
    items = _loaded(view, request, found)
    watch.lap("load")
    return SearchResult(items, threshold, degraded, len(rows), watch.laps, Asked(request, counts, vector))


def _embedded(counts: Counts, text: str) -> tuple[Vectors | None, str]:
    if not counts.model:
        # Nothing has been embedded yet, so there is no vector to compare with.
        return None, "no item has been embedded yet" if counts.items else ""
    try:
        return embedder_named(counts.model).embed_query(text), ""
    except EmbeddingFailed as error:
        log.warning("search_without_vectors", model=counts.model, error=str(error))
        return None, "the query could not be embedded"


def _scored(
    rows: Sequence[Mapping[str, Any]], counts: Counts, thresholds: Thresholds, *, asks_time: bool
) -> list[Scored]:
    lexemes = list(counts.df)
    positions = _positions(rows)
    candidates = [
        Candidate(
            id=row["id"],
            cosine=None if row["cosine"] is None else calibrated(row["cosine"], thresholds),
            # How often an item holds a word changes nothing measurable, so it is not asked.
            tf={word: 1 for word, is_held in zip(lexemes, row["held"], strict=True) if is_held},
            length=row["words"],
            loop=(row["persona"], row["loop_id"]) if row["loop_id"] else None,
            position=positions.get(row["id"]),
            names=frozenset(row["names"]),
            says_time=row["says_time"],
        )
        for row in rows
    ]
    return score(Query(lexemes, asks_time), candidates, Statistics(counts.items, counts.mean_words, counts.df))


def calibrated(cosine: float, thresholds: Thresholds) -> float:
    """`cosine` on the scale of the model that the recipe was fitted with."""
    fitted = thresholds_of(DEFAULT_MODEL)
    stretch = (fitted.related - fitted.unrelated) / (thresholds.related - thresholds.unrelated)
    return fitted.unrelated + (cosine - thresholds.unrelated) * stretch


def _positions(rows: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """A place for each row in its loop, such that those of neighbours differ by 1 and of no others.

    Only hits know their neighbours. From each hit's `before` and `after` follows who comes after whom, and
    stretches without a gap are numbered one after another, with a wide gap between them.
    """
    following: dict[int, int] = {}
    for row in rows:
        if row["before"] is not None:
            chain = [*reversed(row["before"]), row["id"], *row["after"]]
            following.update(pairwise(chain))
    starts = sorted(following.keys() - set(following.values()))
    places: dict[int, int] = {}
    place = 0
    for start in starts:
        current: int | None = start
        while current is not None:
            places[current] = place
            place += 1
            current = following.get(current)
        place += 10
    return places


def _loaded(
    view: PersonaMemory, request: SearchRequest, found: Sequence[tuple[dict[str, Any], Scored]]
) -> list[SearchHit]:
    """The first `limit` of `found` that may be shown."""
    hits: list[SearchHit] = []
    for begin in range(0, len(found), request.limit):
        part = found[begin : begin + request.limit]
        details = details_fetch(view, [row["id"] for row, _ in part])
        keys = [(row["item_type"], row["item_id"]) for row, _ in part]
        if request.metadata or request.as_of:
            memories = memories_load(view, keys, request.as_of)
        else:
            memories = texts_load(view, keys)
        for row, one in part:
            memory = memories.get((row["item_type"], row["item_id"]))
            if memory is not None and row["id"] in details and len(hits) < request.limit:
                hits.append(_hit(row | details[row["id"]], one, *memory))
        if len(hits) == request.limit:
            break
    return hits


def _hit(row: Mapping[str, Any], one: Scored, content: str, metadata: Mapping[str, Any]) -> SearchHit:
    return SearchHit(
        type=row["item_type"],
        id=row["item_id"],
        content=content,
        metadata=metadata,
        score=round(one.score, 6),
        cosine=round(row["cosine"] or 0.0, 6),
        lexical=round(one.lexical, 6),
        persona=row["persona"],
        kind=row["kind"],
        category=row["category"],
        scope=row["scope"],
        subject=row["subject"],
        loop_id=row["loop_id"],
        tags=row["tags"],
        importance=row["importance"],
        happened_at=row["happened_at"],
        recorded_at=row["recorded_at"],
    )


class _Watch:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self._since
        self._since = now
