"""Searching memory: one call for every type of item. docs/search.md explains the scores."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import structlog
from rapidfuzz.distance import DamerauLevenshtein

from identity.models import Agent
from memory.embedding import EmbeddingFailed, thresholds_of
from memory.embedding.local import known_words
from memory.embedding.protocol import DEFAULT_MODEL, Thresholds, Vectors
from memory.embedding.query_prefetch import PrefetchedEmbedding
from memory.models import KEYS, ItemType, Keys, serves_users
from memory.persona import VIEWS, PersonaMemory
from memory.policy import MAX_SEARCH_LIMIT
from memory.search.as_of import historical_rows
from memory.search.codes import exact_first, symbols_fetch, symbols_first, symbols_of
from memory.search.fusion import Counts, QueryContext, Ranking, Values, rarest_lexemes
from memory.search.index_tables import agent_unindexed, source_of
from memory.search.input_kinds import Told, input_kind
from memory.search.languages import dictionary_sql
from memory.search.memory_loader import hits_load
from memory.search.query_word_counts import counts_read
from memory.search.ranking import candidates_rank
from memory.search.ranking_features import query_of
from memory.search.request import ITEM_TYPES, Period, SearchRequest, visible_of, wanted_of
from memory.search.result import SearchHit, SearchResult
from memory.search.row_retrieval import TUNING, CandidateSet, candidates_fetch, distance_of, lexical_fetch, query_vector
from nousweb.lib.prepared_statements import rows_prepared, session_settings_set, statement_settings
from nousweb.lib.tracing import Stopwatch, span

# A message is what a person says, not asks. A memory that matters to one may share hardly a word with it. Among short
# remarks the cosine to a message says little: a few remarks are near to everything ("hubs"; Radovanović, Nanopoulos and
# Ivanović, "Hubs in Space", 2010). What an item has in common with the usual item of its collection is therefore taken
# off: the query's vector is moved away from the mean vector of the collection, which is the same as subtracting from
# each cosine the item's own mean cosine, and lets the vector index be used as it is.
MOVED = 1.2
"""How far the query is moved, in mean vectors; 1.0 to 1.6 differ by less than .03 of recall@10."""
USUAL_ITEMS = 200
"""The latest so many items are the usual ones; 50 and 1,000 give the same."""
KEPT = 1_024
"""Mean vectors that a process keeps."""


def moved_query(
    view: PersonaMemory, counts: Counts, vector: Vectors, users: tuple[str, ...] | None = None
) -> Vectors | None:
    """The query's vector, moved away from the mean vector of the collection, or of its items of these `users`; None for
    an empty collection."""
    mean_read = _mean_kept if counts.items >= USUAL_ITEMS else _mean_kept.__wrapped__
    mean = mean_read(view.persona, int(view.agent.pk), counts.model, counts.items // USUAL_ITEMS, users)
    return None if mean is None else np.asarray(vector - MOVED * mean, np.float32)


@lru_cache(maxsize=KEPT)
def _mean_kept(
    persona: str, agent: int, model: str, grown: int, users: tuple[str, ...] | None = None
) -> Vectors | None:
    """The mean vector of the latest items; read again when the collection has `grown` by as many. That of fewer items
    is not kept, since it would tell much of one that is erased."""
    own = "" if users is None else " AND user_key = ANY(%(users)s::text[])"
    usual = source_of(VIEWS[persona](Agent(pk=agent)), "id, embedding", f"model = %(model)s AND active{own}")
    statement = (
        "SELECT avg(embedding)::real[] FROM"  # noqa: S608
        f" (SELECT embedding FROM {usual} AS usual ORDER BY id DESC LIMIT {USUAL_ITEMS}) AS latest"
    )
    [(mean,)] = rows_prepared(statement, {"model": model} | ({} if users is None else {"users": list(users)}))
    return None if mean is None else np.asarray(mean, np.float32)


ROWS_OF_TYPE = 30
"""Maximum number of memories of a period that are read of each type."""
WITHIN = 1.5
"""Relevance of a memory of the period is multiplied by this, if the question has a topic beside the time."""
STEP = 0.002
"""By so much less relevant is each memory of a period than the one before it, if time alone ranks them."""
TIME = "(CASE item_type WHEN 'fact' THEN recorded_at ELSE happened_at END)"
"""The time of a row of the index: when it happened; of a fact, when it was learnt."""


def period_fetch(view: PersonaMemory, request: SearchRequest, model: str, vector: Vectors | None) -> list[int]:
    """Ids of the memories of the request's period in the index. With a topic the nearest of each type; else, or without
    vectors, those of the types that are asked for first, the latest first."""
    period = request.period
    if period is None:
        return []
    known, values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    values |= wanted_values | {"p_types": list(period.types), "p_rows": ROWS_OF_TYPE}
    ends = {"p_start": (">=", period.start), "p_end": ("<", period.end)}
    given = {name: end for name, end in ends.items() if end[1] is not None}
    values |= {name: moment for name, (_, moment) in given.items()}
    within = [
        " AND ".join(f"{time} {sign} %({name})s::timestamptz" for name, (sign, _) in given.items())
        for time in (TIME, "valid_from")
    ]
    nearest = "0"
    if not period.alone and vector is not None:
        values |= {"vector": query_vector(vector), "p_model": model}
        nearest = f"CASE WHEN model = %(p_model)s THEN {distance_of(len(vector))} END"
    rows = source_of(
        view,
        f"id, item_type, {TIME} AS time, {nearest} AS distance",
        f"({' OR '.join(f'({one})' for one in within)}) AND {known} AND {wanted}",
    )
    statement = (
        "SELECT id FROM (SELECT *, row_number() OVER (PARTITION BY item_type ORDER BY distance, time DESC, id DESC)"  # noqa: S608
        f" AS place FROM {rows} AS row) AS ranked WHERE place <= %(p_rows)s"
        " ORDER BY item_type <> ALL(%(p_types)s::text[]), distance, time DESC, id DESC"
    )
    return [row[0] for row in rows_prepared(statement, values)]


def period_first(candidates: CandidateSet, ranking: Ranking, ids: list[int], period: Period) -> Ranking:
    """The ranking with the memories of the period, `ids`, first: in their order if time alone ranks them, else by their
    topic. Of other memories that are as near to the topic, those of the types that are asked for stay behind."""
    places = {key: place for place, key in enumerate(ids)}
    number = np.array([places.get(key, -1) for key in candidates.ids])
    within = number >= 0
    if period.alone:
        relevance = np.where(within, 1 - STEP * number, ranking.relevance)
    else:
        relevance = np.where(within, np.minimum(WITHIN * ranking.relevance, 1.0), ranking.relevance)
        for kind in period.types:
            is_kind = np.array([one == kind for one in candidates.types], bool)
            if (is_kind & within).any():
                relevance = np.where(is_kind, (within + ranking.relevance) / 2, relevance)
    before = np.argsort(ranking.order)
    return replace(ranking, order=np.lexsort((before, -relevance)), relevance=relevance)


MIN_LETTERS = 5
MAX_LETTERS = 24
TWO_EDITS_FROM = 8
"""From this length on, some corrections change two letters."""
END_MISSING_FROM = 7
"""From this length on, the end of a word may be missing or too long; "Java" is not corrected to "JavaScript"."""
MAX_WORDS = 2
"""Maximum number of words of a query that are corrected."""
MAX_UNKNOWN = 6
"""With more unknown words, a query is a pasted log, and none is corrected."""
ROWS = 200
"""Maximum number of items with one of the words that are read."""

_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéèêáàâíîóôúñçåøæ"
_VOWELS = "aeiouy"
_ALIKE = (("ph", "f"), ("ck", "k"), ("ie", "y"), ("sch", "sh"), ("ks", "x"), ("cks", "x"), ("ai", "e"), ("qu", "k"))


def suspected_typos(query: str, df: Mapping[str, int]) -> list[str]:
    """The words of `query` that look mistyped, in lower case. `df`: number of items that contain each lexeme."""
    unknown = [lexeme for lexeme, items in df.items() if not items and lexeme.isalpha()]
    if not unknown or len(unknown) > MAX_UNKNOWN:
        return []
    words = [
        word
        for word in dict.fromkeys(_WORD.findall(query.lower()))
        # A stem differs from its word only at the end.
        if MIN_LETTERS <= len(word) <= MAX_LETTERS and any(word.startswith(stem[:-1]) for stem in unknown)
    ]
    return [word for word in words if word not in known_words()][:MAX_WORDS]


def spelling_corrections(view: PersonaMemory, request: SearchRequest, words: Sequence[str]) -> dict[str, str]:
    """The correction of each mistyped word, for those that have one in the collection that `request` searches: the word
    with the fewest edits, of several the one in the most items. Runs one statement."""
    agent = int(view.agent.pk)
    possible = {word: {form for form in edit_candidates(word) if not _only_begins_alike(word, form)} for word in words}
    known, values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    keys = f"nous_agent_lexemes(agent_id, terms) && (SELECT array_agg('{agent}:' || lexeme) FROM form)"  # noqa: S608
    holders = source_of(view, "id, terms", f"{keys} AND {known} AND {wanted}", agent=agent_unindexed())
    statement = f"""
WITH form AS MATERIALIZED (
    SELECT form, (tsvector_to_array(to_tsvector({dictionary_sql(agent)}::regconfig, form)))[1] AS lexeme
    FROM unnest(%(forms)s::text[]) AS form
), held AS MATERIALIZED (
    SELECT lexeme, count(*) AS items FROM (
        SELECT unnest(tsvector_to_array(terms)) AS lexeme
        FROM (SELECT * FROM {holders} AS held ORDER BY id DESC LIMIT {ROWS}) AS few
    ) AS every GROUP BY lexeme
)
SELECT form, lexeme, items FROM form JOIN held USING (lexeme)
"""  # noqa: S608
    values |= wanted_values | {"forms": sorted(set().union(*possible.values()))}
    best: dict[str, tuple[int, int, str]] = {}
    for form, lexeme, items in rows_prepared(statement, values):
        for word in words:
            if form in possible[word] and not _only_begins_alike(word, lexeme):
                rank = (DamerauLevenshtein.distance(word, form), -int(items), form)
                best[word] = min(best.get(word, rank), rank)
    return {word: form for word, (_, _, form) in best.items()}


def apply_corrections(query: str, corrections: Mapping[str, str]) -> str:
    """`query` with its mistyped words (the keys, in lower case) replaced by their corrections (the values)."""
    return _WORD.sub(lambda match: corrections.get(match[0].lower(), match[0]), query)


def edit_candidates(word: str) -> Iterator[str]:
    """All possible corrections of a mistyped word; they may repeat and need not exist."""
    yield from _one_edit(word)
    for one, other in (*_ALIKE, *((b, a) for a, b in _ALIKE)):
        yield from (word[: at.start()] + other + word[at.end() :] for at in re.finditer(one, word) if at.start())
    if len(word) < TWO_EDITS_FROM:
        return
    for place in range(1, len(word)):
        rest = word[:place] + word[place + 1 :]
        # A letter that moved, and two letters too many.
        yield from (rest[:to] + word[place] + rest[to:] for to in range(1, len(rest) + 1))
        yield from (rest[:other] + rest[other + 1 :] for other in range(place, len(rest)))
    # Letters that ought to be double, or single.
    doubled = [word[: place + 1] + word[place:] for place in range(1, len(word))]
    for one in doubled:
        yield from (one[: place + 1] + one[place:] for place in range(1, len(one)))
        yield from (one[:place] + one[place + 1 :] for place in range(1, len(one)))
    vowels = [place for place in range(1, len(word)) if word[place] in _VOWELS]
    for pair in combinations(vowels, 2):
        for letters_of_pair in product(_VOWELS, repeat=2):
            changed = list(word)
            for place, letter in zip(pair, letters_of_pair, strict=True):
                changed[place] = letter
            yield "".join(changed)


def _only_begins_alike(one: str, other: str) -> bool:
    """Whether one word is the beginning of the other and shorter than END_MISSING_FROM: then it is no typo of it."""
    return min(len(one), len(other)) < END_MISSING_FROM and (one.startswith(other) or other.startswith(one))


def _one_edit(word: str) -> Iterator[str]:
    """Words with one letter added, removed or replaced, or two letters swapped, behind the first letter."""
    for place in range(1, len(word) + 1):
        head, tail = word[:place], word[place:]
        yield from (head + letter + tail for letter in _LETTERS)
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in _LETTERS)
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]


log = structlog.get_logger(__name__)


def search(view: PersonaMemory, request: SearchRequest, embedding: PrefetchedEmbedding | None = None) -> SearchResult:
    """Find the memories of `view` that match the request, best first.

    1. Begin to embed the query, unless the caller has begun.
    2. Count the collection and the query's words in it, and search by words.
    3. With the embedding, search by meaning, and fetch the hits of both searches with their neighbours. If the
       embedding fails, only words are searched.
    4. Score the candidates and drop those below the threshold.
    5. Load the best from their own tables, through the view.

    Small talk finds nothing. With `request.as_of`, memories that changed later are searched as they were then
    (`memory.search.as_of`).
    """
    embedding = embedding or PrefetchedEmbedding(request.query, (view.agent.pk, view.persona))
    small_talk = input_kind(embedding.text).told == Told.NOTHING and request.min_score != 0 and not request.min_results
    if not embedding.text or small_talk:
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
        counts = counts_read(view, text, users_counted(view, request))
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
    of_period = period_fetch(view, request, counts.model, vector)
    lexical = [*dict.fromkeys([*of_period, *lexical])]
    with watch.stage("candidates"), statement_settings("search", TUNING):
        kind = input_kind(text)
        moved = (
            moved_query(view, counts, vector, users_counted(view, request))
            if vector is not None and kind.shares[0].moved
            else None
        )
        candidate_set = candidates_fetch(view, request, counts, lexemes, lexical=lexical, vector=vector, moved=moved)
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
            query,
            alike,
            counts.statistics,
            wanted=candidate_set.wanted,
            uniform_decay=request.uniform_decay,
            kind=kind,
        )
        if symbols:
            ranking = symbols_first(candidate_set, ranking, symbol_shares)
        else:
            reworded = historical.reworded(candidate_set.ids) if historical else {}
            words_alone = text.replace(request.period.text, " ") if request.period else text
            ranking = exact_first(view, words_alone, candidate_set, ranking, reworded)
        if request.period:
            ranking = period_first(candidate_set, ranking, of_period, request.period)
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
    if not corrections:
        return counts
    return counts_read(view, apply_corrections(text, corrections), users_counted(view, request))


def users_counted(view: PersonaMemory, request: SearchRequest) -> tuple[str, ...] | None:
    """The users whose items are counted: of an agent that serves many those of the request, else all (None)."""
    return request.scope.users if serves_users(view.agent) and not request.scope.all_users else None


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
            keys = Keys(*(memory[name] for name in KEYS))
            forced = memory["id"] in request.force_include and memory["type"] == ItemType.FACT
            if not view.shows(keys) or not (forced or request.scope.shows(keys)):
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
