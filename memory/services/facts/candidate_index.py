"""In-memory index of the facts of one persona's memory, by meaning, by words and by subject.

Bulk learning uses it to find comparison candidates without a statement for each new fact. It finds the same candidates
as `comparison_candidates`, in the same order, with two exceptions in large memories: vectors are compared exactly, and
all rows that share a word are ranked.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import Max
from numpy.typing import NDArray

from identity.models import Agent
from memory.models import Fact, FactChange
from memory.services.facts.comparison_candidates import SnapshotCache, search_table
from memory.services.facts.fact_texts import FactText
from memory.services.search_index.agent_languages import dictionary_of

MAX_INDEXED_FACTS = 200_000
"""Maximum number of facts in the index; each takes about 2 kB."""
MAX_SNAPSHOTS = 10_000
BLOCK = 8_192
"""Number of vectors that are compared at once, so that the cosines stay in the processor's cache."""
DIGITS = 9
"""Ranks are rounded to this many digits, so that the order of summation makes no difference."""
LATE_CHANGES = 200
"""Numbers of changes are assigned before they are committed, so this many of the last ones are read again."""

Floats = NDArray[np.float32]

_ROWS = """
SELECT item.id, fact.id, fact.subject_alias_id, lower(item.subject), item.project, item.task, fact.recorded_at,
    item.active, item.valid_until, CASE WHEN item.model = %(model)s THEN halfvec_send(item.embedding) END,
    words.lexemes, words.counts
FROM {table} AS item JOIN memory_fact AS fact ON fact.id = item.item_id::uuid AND fact.agent_id = item.agent_id
CROSS JOIN LATERAL (
    SELECT array_agg(lexeme) AS lexemes, array_agg(coalesce(cardinality(positions), 1)) AS counts
    FROM unnest(item.terms)
) AS words
WHERE item.agent_id = %(agent)s AND item.persona = %(persona)s AND item.item_type = 'fact' AND {which} ORDER BY item.id
"""


def repeats_weight(count: int) -> float:
    """Contribution of a word with `count` positions to a rank. Source: ts_rank of PostgreSQL, calc_rank_or."""
    return sum(1 / (place * place) for place in range(1, count + 1))


def length_weight(counts: Iterable[int]) -> float:
    """Divisor of the rank of a text with these counts of words. Source: ts_rank, RANK_NORM_LOGLENGTH."""
    return float(np.log(sum(counts) + 1))


def to_float16(numbers: Sequence[float]) -> Floats:
    """Round a vector to half precision, as the search index stores it; returned as 32-bit floats."""
    return np.array(numbers, np.float16).astype(np.float32)


@dataclass(frozen=True, slots=True)
class IndexedFact:
    """Index entry of a fact: id, subject (alias and lower-case spelling), scope keys and recorded time."""

    id: UUID
    alias_id: UUID | None
    subject: str
    keys: tuple[str, str]
    recorded_at: datetime


@dataclass
class CandidateIndex:
    """The active facts of one persona's memory. Call `refresh` under the learning lock, before any write."""

    agent: Agent
    persona: str
    model: str
    rows: list[IndexedFact] = field(default_factory=list)
    snapshots: SnapshotCache = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._state: tuple[str, int] | None = None

    def refresh(self, erasures: int) -> None:
        """Read the facts that are new or changed since the last call; the first time and after an erasure, all."""
        state = (dictionary_of(self.agent.pk), erasures)
        if state != self._state:
            self._clear()
            self._state = state
            self._last_change = FactChange.objects.aggregate(last=Max("id"))["last"] or 0
            self._read("item.active AND item.id > %(last)s", last=0)
            return
        if len(self.snapshots) > MAX_SNAPSHOTS:
            self.snapshots.clear()
        later = FactChange.objects.filter(id__gt=self._last_change - LATE_CHANGES)
        changes = list(later.values_list("id", "fact_id", "action"))
        self._last_change = max([self._last_change, *(number for number, _, _ in changes)])
        changed = {key for _, key, action in changes if action != FactChange.Action.STORED} | self._pending
        self._read("item.active AND item.id > %(last)s", last=self._last_row)
        if changed:
            self._read("item.item_id = ANY(%(changed)s)", changed=[str(key) for key in changed])

    def _clear(self) -> None:
        self.rows = []
        self.snapshots.clear()
        self._places: dict[UUID, int] = {}
        self._pending: set[UUID] = set()
        self._last_row = 0
        self._vectors: Floats = np.zeros((0, 0), np.float32)
        self._active = np.zeros(0, bool)
        self._known = np.zeros(0, bool)
        self._lengths = np.zeros(0)
        self._recorded = np.zeros(0)
        self._ends = np.zeros(0)
        self._projects: NDArray[np.int32] = np.zeros(0, np.int32)
        self._tasks: NDArray[np.int32] = np.zeros(0, np.int32)
        self._codes: dict[str, int] = {"": 0}
        self._words: dict[str, tuple[array[int], array[float]]] = {}
        self._by_alias: dict[UUID, array[int]] = {}
        self._by_subject: dict[str, array[int]] = {}

    def _read(self, which: str, **values: Any) -> None:
        statement = _ROWS.format(table=search_table(self.agent, self.persona), which=which)
        with connection.cursor() as cursor:
            cursor.execute(statement, {"agent": self.agent.pk, "persona": self.persona, "model": self.model, **values})
            while found := cursor.fetchmany(1_000):
                for row in found:
                    self._add_row(*row)

    def _add_row(
        self, number: int, key: UUID, alias_id: UUID | None, subject: str, project: str, task: str,
        recorded_at: datetime, active: bool, valid_until: datetime | None, vector: bytes | None,
        lexemes: list[str] | None, counts: list[int] | None,
    ) -> None:  # fmt: skip
        self._last_row = max(self._last_row, number)
        entry = IndexedFact(key, alias_id, subject, (project, task), recorded_at)
        place, end = self._places.get(key), np.inf if valid_until is None else valid_until.timestamp()
        if place is not None and (not active or self.rows[place] == entry):
            self._active[place] = active
            self._ends[place] = end
            self._set_vector(place, vector)
            return
        if not active:
            return
        if place is not None:
            # Its subject or scope keys have changed: the old entry is replaced by a new one.
            self._active[place] = False
        place = len(self.rows)
        self.rows.append(entry)
        self._places[key] = place
        self._grow(place)
        self._active[place] = True
        self._projects[place], self._tasks[place] = (
            self._codes.setdefault(name, len(self._codes)) for name in (project, task)
        )
        self._set_vector(place, vector)
        self._recorded[place] = recorded_at.timestamp()
        self._ends[place] = end
        self._lengths[place] = length_weight(counts or [1])
        for lexeme, count in zip(lexemes or [], counts or [], strict=True):
            places, weights = self._words.setdefault(lexeme, (array("i"), array("d")))
            places.append(place)
            weights.append(repeats_weight(count))
        if alias_id is not None:
            self._by_alias.setdefault(alias_id, array("i")).append(place)
        elif subject:
            self._by_subject.setdefault(subject, array("i")).append(place)

    def _set_vector(self, place: int, vector: bytes | None) -> None:
        key = self.rows[place].id
        self._known[place] = vector is not None
        if vector is None:
            self._pending.add(key)
            return
        self._pending.discard(key)
        numbers = np.frombuffer(vector, ">f2", offset=4).astype(np.float32)
        if self._vectors.shape[1] != len(numbers):
            self._vectors = np.zeros((len(self._active), len(numbers)), np.float32)
        self._vectors[place] = numbers

    def _grow(self, place: int) -> None:
        size = len(self._active)
        if place < size:
            return
        more = max(1_024, size)
        for name in ("_active", "_known", "_lengths", "_recorded", "_ends", "_projects", "_tasks", "_vectors"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)]))

    def scope_masks(
        self, keys: tuple[str, str], excluded: Iterable[UUID], *, ended: bool, now: datetime
    ) -> "ScopeMasks":
        """Masks of the rows whose scope contains `keys` (project, task) or is contained in it, without `excluded`.

        They are the rows whose valid time has `ended` at `now`, or those for which it has not.
        """
        count = len(self.rows)
        active = self._active[:count] & ((self._ends[:count] <= now.timestamp()) == ended)
        for key in excluded:
            if key in self._places:
                active[self._places[key]] = False
        if len(self._codes) == 1 and keys == ("", ""):
            return ScopeMasks(active, None)
        codes = [self._codes.get(name, -1) for name in keys]
        columns = (self._projects[:count], self._tasks[:count])
        contains, contained = active.copy(), active
        for name, code, column in zip(keys, codes, columns, strict=True):
            contains &= (column == 0) | (column == code)
            if name:
                contained = contained & (column == code)
        return ScopeMasks(contains, contained & ~contains)

    def nearest(self, vectors: Floats, mask: NDArray[np.bool_], limit: int) -> list[list[tuple[float, int]]]:
        """For each vector the nearest rows within `mask`, as pairs of cosine and row number, the nearest first."""
        count = len(mask)
        usable = mask & self._known[:count]
        found: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]] = []
        least: Floats = np.full((len(vectors), 1), -2, np.float32)
        for begin in range(0, count if self._vectors.shape[1] else 0, BLOCK):
            end = min(begin + BLOCK, count)
            cosines = np.asarray(vectors @ self._vectors[begin:end].T)
            cosines[:, ~usable[begin:end]] = -3
            if begin == 0 and end > limit:
                # The first block gives a lower bound for the cosines of the nearest rows.
                least = np.maximum(np.partition(cosines, end - limit, axis=1)[:, [end - limit]], least)
            which, places = np.nonzero(cosines >= least)
            found.append((which, places + begin, cosines[which, places]))
        if not found:
            return [[] for _ in vectors]
        which, places, scores = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.argsort(which, kind="stable")
        borders = np.searchsorted(which[order], np.arange(len(vectors) + 1))
        ranked = []
        for begin, end in pairwise(borders):
            mine = order[begin:end]
            ranked.append(top_scored(places[mine], scores[mine].astype(float), limit))
        return ranked

    def sharing_words(self, text: FactText) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Numbers of the rows that share a word with a text, and their ranks."""
        postings = [rows for word in text.query if (rows := self._words.get(word)) is not None]
        if not postings:
            return np.zeros(0, np.intp), np.zeros(0)
        places = np.concatenate([np.frombuffer(each, np.int32) for each, _ in postings])
        weights = np.concatenate([np.frombuffer(each, float) for _, each in postings])
        total = np.bincount(places, weights, minlength=len(self.rows))
        sharing = np.flatnonzero(total)
        return sharing, np.round(total[sharing] / self._lengths[sharing], DIGITS)

    def by_subject(
        self, alias_ids: Iterable[UUID] | None, subject: str, mask: NDArray[np.bool_], limit: int
    ) -> list[int]:
        """Numbers of the rows of a subject within `mask`, the latest first: by the ids of its aliases, or by `subject`
        in lower case if it has none (`alias_ids` is None)."""
        postings = [self._by_subject.get(subject)] if alias_ids is None else map(self._by_alias.get, alias_ids)
        parts = [np.frombuffer(each, np.int32) for each in postings if each]
        if not parts:
            return []
        places = np.concatenate(parts).astype(np.intp)
        places = places[mask[places]]
        return [place for _, place in top_scored(places, self._recorded[places], limit)]

    def vector_of(self, place: int) -> Floats | None:
        return self._vectors[place] if self._known[place] else None


@dataclass(frozen=True, slots=True)
class ScopeMasks:
    """Row masks for one new fact: rows in the same or a wider scope (`contains`), and in a narrower one (`narrower`;
    None for no rows)."""

    contains: NDArray[np.bool_]
    narrower: NDArray[np.bool_] | None

    @property
    def overlaps(self) -> NDArray[np.bool_]:
        return self.contains if self.narrower is None else self.contains | self.narrower


def top_scored(places: NDArray[np.intp], scores: NDArray[np.float64], limit: int) -> list[tuple[float, int]]:
    """The `limit` highest scores with their places, best first; of equal scores the first places."""
    if len(places) > limit:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        is_top = scores >= least
        places, scores = places[is_top], scores[is_top]
    order = np.lexsort((places, -scores))[:limit]
    return [(float(scores[each]), int(places[each])) for each in order]


def indexed_fact(fact: Fact) -> IndexedFact:
    """Build the index entry of a fact that was just stored."""
    return IndexedFact(
        fact.pk, fact.subject_alias_id, fact.subject.lower(), (fact.project, fact.task), fact.recorded_at
    )
