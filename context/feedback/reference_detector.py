"""Detect the memories of a prompt to which an answer refers, with likelihood and position.

The answer is split into windows of one or two sentences, since a reference is usually within that. Trees give the
likelihood that a window refers to a memory, from shared words (reference_features.py) and, if there are vectors, from
meaning too. A memory gains likelihood from a nearly equal one that is surely referred to.

Source: seed 005.1, D3. The trees are fitted by benchmarks/fit_references.py, and measured by benchmarks/references.py.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from context.feedback.content_words import MONTH_NUMBERS, Word, content_words, windows_of
from context.feedback.reference_features import (
    NAMES,
    Row,
    ShownMemories,
    ShownMemory,
    Token,
    shared_phrases,
    tokens_of,
)
from context.models import ContextRun
from memory.embedding import EmbeddingFailed, embedder_named
from memory.embedding.protocol import DEFAULT_MODEL
from memory.models import SearchItem
from memory.persona import VIEWS, PersonaMemory
from memory.search.index_tables import agent_unindexed, source_of
from memory.search.languages import terms_sql
from nousweb.lib.boosted_trees import BoostedTrees
from nousweb.lib.prepared_statements import array_text, rows_prepared

MAX_RESPONSE_CHARACTERS = 400_000
MAX_COMPARED = 40_000
"""Characters of an answer, its first, that are compared with the memories: ten times as many take half a minute."""
FILE = Path(__file__).with_name("reference_trees.json")
REFERENCED_AT = 0.47
"""Score from which a memory counts as referenced."""
TWIN = 1.0
"""Added to the log-odds of a memory if a nearly equal one is surely referred to."""
UNASKED = 0.8
"""Added to the log-odds if the question is unknown, so that no word counts as a word of the question."""
MEANING_NAMES = ("meaning_near", "added_near", "meaning_lift", "added_lift")
MIN_LIKELIHOOD = 0.03
"""Minimum likelihood by words; less likely memories are not compared by meaning."""
MAX_EMBEDDED = 24
"""Windows of an answer, the likeliest."""
REPEATED_SHARE = 0.8
"""A sentence so much of which is words of the question adds nothing."""
MAX_TEXT = 2_000
"""Characters of a window that are embedded."""
SENTENCE_MARKS = ".!?…\n。！？"
_SENTENCE_MARK = re.compile(f"[{SENTENCE_MARKS}]")
_SENTENCE = re.compile(f"[^{SENTENCE_MARKS}]+[{SENTENCE_MARKS}]*")


@dataclass(frozen=True, slots=True)
class Reference:
    """`score` in [0, 1]; `spans` are the characters of the answer that the memory accounts for, in order."""

    score: float
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def referenced(self) -> bool:
        return self.score >= REFERENCED_AT


@dataclass(frozen=True, slots=True)
class Meaning:
    """`vectors` has a row for each memory, NaN for one without a vector; `embed` gives those of other texts.

    All are of length 1, by the model that the trees were fitted with.
    """

    vectors: NDArray[np.float32]
    embed: Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class ReferenceTrees:
    """Log-odds of a reference: `words` over NAMES, `meaning` over NAMES and MEANING_NAMES."""

    words: BoostedTrees
    meaning: BoostedTrees


@cache
def reference_trees() -> ReferenceTrees:
    """Load the bundled trees (cached)."""
    return trees_of(json.loads(FILE.read_text()))


def trees_of(serialized: Mapping[str, Any]) -> ReferenceTrees:
    """Build the trees of a file's content. Raises ValueError if they were fitted for other features."""
    if tuple(serialized["names"]) != (*NAMES, *MEANING_NAMES):
        raise ValueError(f"{FILE.name} was fitted for other features: run benchmarks/fit_references.py.")
    return ReferenceTrees(BoostedTrees.of(serialized["words"]), BoostedTrees.of(serialized["meaning"]))


def references_of(
    answer: str,
    memories: Sequence[str],
    *,
    question: str = "",
    rarity: Mapping[str, float] | None = None,
    meaning: Meaning | None = None,
    trees: ReferenceTrees | None = None,
) -> list[Reference]:
    """For each memory, as a prompt showed it, how surely `answer` refers to it.

    Words of the `question` are weaker evidence than others, since any answer repeats them. `rarity` in [0, 1] gives for
    content words how few memories of the store contain them. The first MAX_COMPARED characters are compared. Raises
    what `meaning` raises.
    """
    trees = trees or reference_trees()
    answer = answer[:MAX_COMPARED]
    answer_words = content_words(answer)
    shown = ShownMemories(memories, question, rarity or {})
    windows = windows_of(answer, answer_words)
    best = best_rows(shown, answer, windows, trees.words)
    odds = {place: one.odds + (0.0 if question.strip() else UNASKED) for place, one in best.items()}
    if meaning is not None:
        odds |= _by_meaning(meaning_rows(answer, question, windows, best, meaning), trees.meaning)
    scores = _with_twins(shown, odds)
    whole, whole_tokens = f" {' '.join(word.text for word in answer_words)} ", tokens_of(answer, answer_words)
    found: list[tuple[float, list[tuple[Word, ...]]]] = []
    for place, memory in enumerate(shown.memories):
        repeated = bool(memory.stated) and f" {memory.stated} " in whole
        window = windows[best[place].row.window] if place in best else ()
        phrases = _cited_phrases(whole_tokens if repeated else tokens_of(answer, window), memory, repeated=repeated)
        found.append((1.0 if repeated else round(scores.get(place, 0.0), 4), phrases))
    shorter = _parts_of_others(_range(one) for score, each in found if score >= REFERENCED_AT for one in each)
    return [
        Reference(score, tuple(dict.fromkeys((word.start, word.end)
                                             for one in each if _range(one) not in shorter for word in one)))
        for score, each in found
    ]  # fmt: skip


def _cited_phrases(tokens: Sequence[Token], memory: ShownMemory, *, repeated: bool) -> list[tuple[Word, ...]]:
    """The words of each phrase that the memory has too; of a memory `repeated` in one word, that word."""
    if not tokens:
        return []
    phrases = shared_phrases(tokens, memory.tokens)
    if repeated and not phrases:
        return [(word,) for token in tokens for word in token.words if word.text in memory.stated.split()]
    return [tuple(word for place in phrase for word in tokens[place].words) for phrase in phrases]


def _range(phrase: Sequence[Word]) -> tuple[int, int]:
    return phrase[0].start, phrase[-1].end


def _parts_of_others(ranges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The ranges that lie within a longer one: the longer phrase tells where the words come from."""
    parts: set[tuple[int, int]] = set()
    furthest = -1
    for begin, end in sorted(set(ranges), key=lambda one: (one[0], -one[1])):
        if end <= furthest:
            parts.add((begin, end))
        furthest = max(furthest, end)
    return parts


@dataclass(frozen=True, slots=True)
class BestRow:
    """The window that refers to a memory most likely, and the log-odds that it does."""

    row: Row
    odds: float


def best_rows(
    shown: ShownMemories, answer: str, windows: Sequence[Sequence[Word]], trees: BoostedTrees
) -> dict[int, BestRow]:
    """By the place of each memory that has enough in common with a window."""
    rows = shown.rows(answer, windows)
    if not rows:
        return {}
    matrix = np.array([[row.values[name] for name in NAMES] for row in rows])
    best: dict[int, BestRow] = {}
    for row, odds in zip(rows, trees.sums(matrix).tolist(), strict=True):
        if row.memory not in best or odds > best[row.memory].odds:
            best[row.memory] = BestRow(row, odds)
    return best


def meaning_rows(
    answer: str, question: str, windows: Sequence[Sequence[Word]], best: Mapping[int, BestRow], meaning: Meaning
) -> dict[int, list[float]]:
    """NAMES and MEANING_NAMES of the memories that may be referred to and have a vector, by their places."""
    known = np.asarray(np.isfinite(meaning.vectors).all(axis=1))
    likely = sorted(
        (place for place, one in best.items() if known[place] and _likelihood(one.odds) >= MIN_LIKELIHOOD),
        key=lambda place: (-best[place].odds, place),
    )
    chosen = list(dict.fromkeys(best[place].row.window for place in likely))[:MAX_EMBEDDED]
    if not chosen or not question.strip():
        return {}
    question_words = frozenset(word.text for word in content_words(question))
    texts = {number: _texts_of(answer, windows[number], question_words) for number in chosen}
    different = list(dict.fromkeys([question, *chain.from_iterable(texts.values())]))
    cosines = dict(zip(different, meaning.embed(different) @ meaning.vectors.T, strict=True))
    found = {}
    for place in likely:
        number = best[place].row.window
        if number in texts:
            values = best[place].row.values
            whole, added = (cosines[text] for text in texts[number])
            found[place] = [
                *(values[name] for name in NAMES),
                float(whole[place] - np.nanmax(whole)),
                float(added[place] - np.nanmax(added)),
                float(whole[place] - cosines[question][place]),
                float(added[place] - cosines[question][place]),
            ]
    return found


def _texts_of(answer: str, window: Sequence[Word], question_words: frozenset[str]) -> tuple[str, str]:
    """The window's sentences, and those that add something to the question; all if none does."""
    begins = max(answer.rfind(mark, 0, window[0].start) for mark in SENTENCE_MARKS) + 1
    end = _SENTENCE_MARK.search(answer, window[-1].end)
    whole = answer[begins : end.end() if end else len(answer)].strip()[:MAX_TEXT]
    added = []
    for sentence in _SENTENCE.findall(whole):
        words = [word.text for word in content_words(sentence)]
        if sum(word in question_words for word in words) < REPEATED_SHARE * len(words):
            added.append(sentence.strip())
    return whole, " ".join(added) or whole


def _by_meaning(rows: Mapping[int, Sequence[float]], trees: BoostedTrees) -> dict[int, float]:
    return dict(zip(rows, trees.sums(np.array(list(rows.values()))).tolist(), strict=True)) if rows else {}


def _with_twins(shown: ShownMemories, odds: Mapping[int, float]) -> dict[int, float]:
    """The likelihood by place, raised if a nearly equal memory has a higher one."""
    alone = {place: _likelihood(one) for place, one in odds.items()}
    support = {
        place: max(
            (shown.alike(place, other) * higher for other, higher in alone.items() if higher > score), default=0.0
        )
        for place, score in alone.items()
    }
    return {place: _likelihood(odds[place] + TWIN * each) for place, each in support.items()}


def _likelihood(odds: float) -> float:
    return 1 / (1 + math.exp(-max(odds, -50.0)))


COUNTED = 500
"""Maximum count of items with a word, unless it is counted in the background (index_statistics)."""
LEAST_ITEMS = 1_000
"""Minimum size of the store that is assumed: in five memories no word is rare."""


def word_rarity(view: PersonaMemory, words: Sequence[str]) -> list[float | None]:
    """The rarity of each of `words`: near 1 if few items contain it, near 0 if all do.

    None for one that is not indexed, such as a stop word. One statement.
    """
    if not words:
        return []
    agent = int(view.agent.pk)
    # The keys name the agent, so that the planner does not read the index of all the agent's items beside theirs.
    held = source_of(
        view,
        "1 AS one",
        f"nous_agent_lexemes(agent_id, terms) && ARRAY['{agent}:' || word.lexeme]",
        agent=agent_unindexed(),
    )
    statement = f"""
WITH word AS MATERIALIZED (
    SELECT place, (tsvector_to_array({terms_sql(agent, "text")}))[1] AS lexeme
    FROM unnest(%(words)s::text[]) WITH ORDINALITY AS given (text, place)
), kept AS MATERIALIZED (
    SELECT items, common FROM memory_searchstatistics
    WHERE agent_id = {agent} AND persona = ANY(%(personas)s::text[])
)
SELECT place, CASE
        WHEN lexeme IS NULL THEN NULL
        WHEN EXISTS (SELECT 1 FROM kept WHERE jsonb_exists(common, lexeme))
        THEN (SELECT sum((common ->> lexeme)::integer) FROM kept)
        ELSE (SELECT count(*) FROM (SELECT one FROM {held} AS matching LIMIT {COUNTED}) AS few) END,
    coalesce((SELECT sum(items) FROM kept), 0)
FROM word ORDER BY place
"""  # noqa: S608
    rows = rows_prepared(statement, {"words": list(words), "personas": array_text(view.personas)})
    size = max(int(rows[0][2]), LEAST_ITEMS, *(int(holders or 0) for _, holders, _ in rows))
    most = math.log((size + 1) / 0.5)
    return [None if holders is None else math.log((size + 1) / (int(holders) + 0.5)) / most for _, holders, _ in rows]


MAX_COUNTED = 256
"""Words of an answer whose rarity is asked for: first those that a memory has too."""


def answer_references(run: ContextRun, answer: str, items: Sequence[Mapping[str, Any]]) -> list[Reference]:
    """For each of `items`, the memories shown in the run, how surely the answer refers to it.

    Meaning counts where the memories have vectors of the model that the trees know, and where it can be reached. Two
    statements; not to be called in a transaction, since it may wait for the model.
    """
    if not items or not answer.strip():
        return [Reference(0.0) for _ in items]
    view = VIEWS[run.persona](run.agent)
    texts = [item["text"] for item in items]
    rarity = rarity_of(view, answer, texts)
    meaning = meaning_of(view, items)
    try:
        return references_of(answer, texts, question=run.input, rarity=rarity, meaning=meaning)
    except EmbeddingFailed:
        return references_of(answer, texts, question=run.input, rarity=rarity)


def rarity_of(view: PersonaMemory, answer: str, texts: Sequence[str]) -> dict[str, float]:
    """By word of content of the answer, how few memories of the store hold it. One statement."""
    said: dict[str, str] = {}
    for word in content_words(answer):
        if word.text not in MONTH_NUMBERS and not word.text.isdigit():
            said.setdefault(word.text, answer[word.start : word.end])
    held = {word.text for text in texts for word in content_words(text)}
    counted = sorted(said, key=lambda word: word not in held)[:MAX_COUNTED]
    found = word_rarity(view, [said[word] for word in counted])
    return {word: rarity for word, rarity in zip(counted, found, strict=True) if rarity is not None}


def meaning_of(view: PersonaMemory, items: Sequence[Mapping[str, Any]]) -> Meaning | None:
    """The vectors of the memories, by the model that the trees know; None where no memory has one. One statement."""
    rows = view.rows(SearchItem).filter(
        item_type__in={item["type"] for item in items}, item_id__in={item["id"] for item in items}, model=DEFAULT_MODEL
    )
    known = {
        (item_type, item_id): vector
        for item_type, item_id, vector in rows.values_list("item_type", "item_id", "embedding")
        if vector is not None
    }
    if not known:
        return None
    missing = [np.nan] * len(next(iter(known.values())))
    vectors = np.array([known.get((item["type"], item["id"]), missing) for item in items], np.float32)
    return Meaning(vectors, embedder_named(DEFAULT_MODEL).embed_documents)
