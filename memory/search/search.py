"""Searching memory: one call for every type of item. docs/search.md explains the scores."""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from memory.embedding import EmbeddingFailed, thresholds_of
from memory.embedding.protocol import Vectors
from memory.embedding.query_prefetch import PrefetchedEmbedding
from memory.embedding.thresholds import DEFAULT_MODEL, Thresholds
from memory.models import ItemType
from memory.persona import PersonaMemory
from memory.policy import MAX_SEARCH_LIMIT
from memory.search.as_of import historical_rows
from memory.search.candidates import TUNING, CandidateSet, candidates_fetch, lexical_fetch
from memory.search.codes import exact_first
from memory.search.fusion import Counts, QueryContext, Ranking, Values, rarest_lexemes
from memory.search.memory_loader import hits_load
from memory.search.query_word_counts import counts_read
from memory.search.ranking import candidates_rank
from memory.search.ranking_features import query_of
from memory.search.request import ITEM_TYPES, SearchRequest
from memory.search.result import SearchHit, SearchResult
from memory.search.symbols import symbols_fetch, symbols_first, symbols_of
from memory.search.typos import apply_corrections, spelling_corrections, suspected_typos
from nousweb.lib.prepared_statements import session_settings_set, statement_settings
from nousweb.lib.tracing import Stopwatch, span

log = structlog.get_logger(__name__)


def search(view: PersonaMemory, request: SearchRequest, embedding: PrefetchedEmbedding | None = None) -> SearchResult:
    """Find the memories of `view` that match the request, best first.

    1. Begin to embed the query, unless the caller has begun.
    2. Count the collection and the query's words in it, and search by words.
    3. With the embedding, search by meaning, and fetch the hits of both searches with their neighbours. If the
       embedding fails, only words are searched.
    4. Score the candidates and drop those below the threshold.
    5. Load the best from their own tables, through the view.

    With `request.as_of`, memories that changed later are searched as they were then (`memory.search.as_of`).
    """
    embedding = embedding or PrefetchedEmbedding(request.query, (view.agent.pk, view.persona))
    if not embedding.text:
        return SearchResult([], request.min_score or 0.0)
    about = {"gen_ai.operation.name": "search_memory", "gen_ai.memory.store.id": view.agent.slug}
    with span("search_memory", about) as within:
        result = _searched(view, request, embedding)
        within.set_attributes({"gen_ai.memory.record.count": len(result.items), "nous.candidates": result.considered})
    return result


def _searched(view: PersonaMemory, request: SearchRequest, embedding: PrefetchedEmbedding) -> SearchResult:
    watch = Stopwatch("search")
    text = embedding.text
    with watch.stage("counts"):
        session_settings_set("search", TUNING)
        counts = counts_read(view, text)
        if words := suspected_typos(text, counts.df):
            counts = _counts_of_corrected(view, request, text, words, counts)
    with watch.stage("words"):
        lexemes = rarest_lexemes(counts.df, counts.statistics)
        symbols = symbols_of(text)
        symbol_shares = symbols_fetch(view, request, symbols) if symbols else {}
        lexical = [*symbol_shares] or lexical_fetch(view, request, counts, lexemes)
    historical = None
    if request.as_of:
        with watch.stage("past"):
            historical = historical_rows(view, request, request.as_of)
            lexical = list({*lexical, *historical.ids})
    with watch.stage("embedding"):
        vector, degraded = (None, "") if symbols else _embedded(counts, embedding)
    with watch.stage("candidates"), statement_settings("search", TUNING):
        candidate_set = candidates_fetch(view, request, counts, lexemes, lexical=lexical, vector=vector)
        if historical is not None:
            candidate_set = historical.apply_to(candidate_set, lexemes, counts.spellings)
    with watch.stage("scoring"):
        thresholds = thresholds_of(counts.model)
        threshold = thresholds.relevance if request.min_score is None else request.min_score
        query = query_of(text, lexemes)
        rows = candidate_set.columns
        alike = replace(
            rows,
            cosine=calibrated(rows.cosine, thresholds),
            passage=calibrated(rows.passage, thresholds),
            second=calibrated(rows.second, thresholds),
        )
        ranking = candidates_rank(
            query, alike, counts.statistics, wanted=candidate_set.wanted, uniform_decay=request.uniform_decay
        )
        if symbols:
            ranking = symbols_first(candidate_set, ranking, symbol_shares)
        else:
            reworded = historical.reworded(candidate_set.ids) if historical else {}
            ranking = exact_first(view, text, candidate_set, ranking, reworded)
        chosen = _chosen(candidate_set, ranking, threshold, request)
    with watch.stage("loading"):
        items = _loaded(view, request, candidate_set, ranking, chosen)
    query_context = QueryContext(request, counts, lexemes, vector)
    return SearchResult(items, threshold, degraded, len(candidate_set.ids), watch.seconds, query_context)


def _counts_of_corrected(
    view: PersonaMemory, request: SearchRequest, text: str, words: Sequence[str], counts: Counts
) -> Counts:
    """The counts of `text` with its mistyped `words` corrected; `counts` if there is no correction."""
    corrections = spelling_corrections(view, request, words)
    return counts_read(view, apply_corrections(text, corrections)) if corrections else counts


def _embedded(counts: Counts, embedding: PrefetchedEmbedding) -> tuple[Vectors | None, str]:
    if not counts.model:
        # Nothing has been embedded yet, so there is no vector to compare with.
        return None, "no item has been embedded yet" if counts.items else ""
    try:
        return embedding.of_model(counts.model), ""
    except EmbeddingFailed as error:
        log.warning("search_without_vectors", model=counts.model, error=str(error))
        return None, "the query could not be embedded"


def calibrated(cosine: Values, thresholds: Thresholds) -> Values:
    """Map cosines of a model to the scale of the model for which the weights were fitted."""
    fitted = thresholds_of(DEFAULT_MODEL)
    if (thresholds.unrelated, thresholds.related) == (fitted.unrelated, fitted.related):
        return cosine
    stretch = (fitted.related - fitted.unrelated) / (thresholds.related - thresholds.unrelated)
    return fitted.unrelated + (cosine - thresholds.unrelated) * stretch


def _chosen(candidate_set: CandidateSet, ranking: Ranking, threshold: float, request: SearchRequest) -> list[int]:
    """Indexes of candidates that pass the filters and the threshold, best first, then those over the type limits."""
    chosen: list[int] = []
    overflow: list[int] = []
    room = {kind: request.max_per_type.get(kind, MAX_SEARCH_LIMIT) for kind in ITEM_TYPES}
    wanted = ranking.order[candidate_set.wanted[ranking.order]]
    for place, relevance in zip(wanted.tolist(), ranking.relevance[wanted].tolist(), strict=True):
        if relevance < threshold and len(chosen) >= request.min_results:
            break
        kind = candidate_set.types[place]
        if room[kind] > 0:
            room[kind] -= 1
            chosen.append(place)
        elif request.include_overflow:
            overflow.append(place)
    return chosen + overflow


def _loaded(
    view: PersonaMemory, request: SearchRequest, candidate_set: CandidateSet, ranking: Ranking, chosen: Sequence[int]
) -> list[SearchHit]:
    """The first `limit` of the chosen candidates that exist and are visible, as hits."""
    hits: list[SearchHit] = []
    cosines, relevance, lexical = (
        column.tolist() for column in (candidate_set.columns.cosine, ranking.relevance, ranking.lexical)
    )
    for begin in range(0, len(chosen), request.limit):
        part = chosen[begin : begin + request.limit]
        ids = [candidate_set.ids[place] for place in part]
        shown = zip(part, candidate_set.excerpts[part].tolist(), strict=True)
        excerpts = {
            # NaN, no passage, is not equal to itself.
            candidate_set.ids[place]: (int(begin), int(end))
            for place, (begin, end) in shown
            if begin == begin
        }
        found = hits_load(view, ids, request.as_of, now=request.now, metadata=request.metadata, excerpts=excerpts)
        for place in part:
            memory = found.get(candidate_set.ids[place])
            if memory is None or len(hits) == request.limit:
                continue
            # By the keys that it has, or had at the moment of the request.
            project, task = memory["project"], memory["task"]
            forced = memory["id"] in request.force_include and memory["type"] == ItemType.FACT
            if not view.shows_project(project) or not (forced or request.scope.shows(project, task)):
                continue
            cosine = cosines[place]
            hits.append(
                SearchHit(
                    **memory,
                    score=round(relevance[place], 6),
                    # NaN, no vector, is not equal to itself.
                    cosine=round(cosine, 6) if cosine == cosine else 0.0,
                    lexical=round(lexical[place], 6),
                )
            )
        if len(hits) == request.limit:
            break
    return hits
