"""Finding the facts that a new one has to be compared with: by the same words, by meaning, by words, by subject.

These are probes: they count as nobody's recall.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import connection

from identity.models import Agent
from memory.comparison.compare import OPPOSING, Comparison, Kind, compare_facts, names_subject, subjects_clash
from memory.comparison.resolution import FactMatch, spans_meet
from memory.comparison.snapshot import FactSnapshot
from memory.embedding.thresholds import UNKNOWN, Thresholds
from memory.models import Fact
from memory.persona import VIEWS
from memory.policy import CATEGORY_PERMISSIONS

NEAREST = 8
BY_WORDS = 12
BY_SUBJECT = 12
WORD_ROWS = 3_000
"""Rows that share a word are ranked up to so many."""

REVERSING = frozenset({"negation", "antonym", "quantity"})
"""Differences that turn people's word round even where nothing names what it is about."""

SAID = "md5(rtrim(regexp_replace(btrim({}), '\\s+', ' ', 'g'), ' .!'))"


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding with the name of its model."""

    numbers: tuple[float, ...]
    model: str

    @property
    def literal(self) -> str:
        return "[" + ",".join(f"{number:.6g}" for number in self.numbers) + "]"


def candidates_compare(
    fact: Fact,
    *,
    vector: Vector | None,
    thresholds: Thresholds = UNKNOWN,
    may_replace: Collection[str] = (),
    exclude: Sequence[UUID] = (),
    across_subjects: bool = False,
) -> list[FactMatch]:
    """The active facts of the same memory that `fact`, stored or not, resembles, each compared with it.

    `may_replace` are the categories with a right of their own that the learner holds. A fact of such a category is
    compared only with others of it, except where the words are the very same. `across_subjects` adds people's word that
    is filed under another subject and contradicted all the same; about that, people are asked and nothing else is done.
    """
    left_out = {fact.pk, *exclude}
    said = [old for old in _comparable(fact, _said(fact) - left_out, same_words=True) if not _clash(old, fact)]
    if said:
        # The very same words decide by themselves, so nothing else has to be looked for.
        return [FactMatch(old.pk, Comparison(Kind.SAME, 1.0, 1.0), said=True) for old in said]
    cosines, new = _near(fact, vector), FactSnapshot.of(fact)
    found = _comparable(fact, set(cosines) - left_out, same_words=False)
    asked = _contradicted(fact, found, cosines, thresholds) if across_subjects else []
    return asked + [
        FactMatch(
            old.pk,
            compare_facts(FactSnapshot.of(old), new, cosines.get(old.pk, 0.0), thresholds),
            replaceable=old.category not in CATEGORY_PERMISSIONS or old.category in may_replace,
        )
        for old in found
        if not _clash(old, fact)
    ]


def _contradicted(
    fact: Fact, olds: Sequence[Fact], cosines: Mapping[UUID, float], thresholds: Thresholds
) -> list[FactMatch]:
    """People's word, filed under a subject that clashes with that of `fact`, which `fact` would contradict there."""
    found = []
    for old in olds:
        if not old.endorsed or not _clash(old, fact):
            continue
        cosine = cosines.get(old.pk, 0.0)
        comparison = compare_facts(FactSnapshot.of(old), refiled(fact, old), cosine, thresholds)
        codes = {reason.code for reason in comparison.reasons}
        if comparison.kind not in (Kind.CHANGED, Kind.DIFFERS) or "name" in codes:
            continue
        if names_subject_of(old, fact):
            contradicts = comparison.kind is Kind.CHANGED or bool(codes & OPPOSING)
        else:
            contradicts = bool(codes & REVERSING)
        if contradicts:
            filed = compare_facts(FactSnapshot.of(old), FactSnapshot.of(fact), cosine, thresholds).reasons
            subjects = [reason for reason in filed if reason.code == "subject"]
            told = replace(comparison, reasons=(*comparison.reasons, *subjects))
            found.append(FactMatch(old.pk, told, only_asked=True))
    return found


def _comparable(fact: Fact, keys: set[UUID], *, same_words: bool) -> list[Fact]:
    """Those of these facts that can say something about `fact`: of the same memory, times and rights."""
    if not keys:
        return []
    found = Fact.objects.active().filter(agent=fact.agent_id, persona=fact.persona, pk__in=keys)
    return [
        old
        for old in found.order_by("recorded_at", "pk")
        if spans_meet(old.valid_from, old.valid_until, fact.valid_from, fact.valid_until)
        and _rights_allow(old.category, fact.category, same_words)
    ]


def _clash(old: Fact, fact: Fact) -> bool:
    return subjects_clash(FactSnapshot.of(old), FactSnapshot.of(fact))


def _rights_allow(old: str, new: str, same_words: bool) -> bool:
    """A rule that is repeated as something else is confirmed; else what needs a right is compared with its like."""
    if old == new or (same_words and old in CATEGORY_PERMISSIONS):
        return True
    return old not in CATEGORY_PERMISSIONS and new not in CATEGORY_PERMISSIONS


def refiled(fact: Fact, old: Fact) -> FactSnapshot:
    """What is compared of `fact` as if it were filed under the subject of `old`."""
    return replace(FactSnapshot.of(fact), subject=old.subject)


def names_subject_of(old: Fact, fact: Fact) -> bool:
    """Whether the words of `fact` name what `old` is filed under."""
    return names_subject(fact.content, old.subject)


def _said(fact: Fact) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM memory_fact WHERE active AND agent_id = %s AND persona = %s"  # noqa: S608
            f" AND {SAID.format('content')} = {SAID.format('%s::text')} ORDER BY recorded_at LIMIT 5",
            [fact.agent_id, fact.persona, fact.content],
        )
        return {row[0] for row in cursor.fetchall()}


def _near(fact: Fact, vector: Vector | None) -> dict[UUID, float]:
    """Ids of candidates with their cosine, 0 where it is not known."""
    table = collection_of(fact.agent, fact.persona)
    cosine, nearest = "NULL::double precision", ""
    values: dict[str, Any] = {
        "agent": fact.agent_id, "text": fact.content, "subject": fact.subject, "persona": fact.persona,
    }  # fmt: skip
    if vector is not None:
        size = f"halfvec({len(vector.numbers)})"
        distance = f"embedding::{size} <#> %(vector)s::{size}"
        values |= {"vector": vector.literal, "model": vector.model}
        cosine = f"CASE WHEN model = %(model)s THEN -({distance}) END"
        nearest = (
            f"(SELECT id FROM {table} WHERE agent_id = %(agent)s AND persona = %(persona)s AND item_type = 'fact'"  # noqa: S608
            f" AND active AND model = %(model)s ORDER BY {distance} LIMIT {NEAREST}) UNION "
        )
    statement = f"""
WITH asked AS MATERIALIZED (
    SELECT array_agg(%(agent)s::text || ':' || lexeme) AS keys,
           string_agg('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''', ' | ')::tsquery AS query
    FROM unnest(tsvector_to_array(to_tsvector('english', %(text)s))) AS lexeme
)
SELECT item_id, {cosine} FROM {table} WHERE id IN ({nearest}
    (SELECT id FROM (
        SELECT id, terms FROM {table}, asked
        WHERE nous_agent_lexemes(agent_id, terms) && asked.keys AND item_type = 'fact' AND active LIMIT {WORD_ROWS}
     ) AS sharing, asked ORDER BY ts_rank(terms, asked.query, 1) DESC, id LIMIT {BY_WORDS})
    UNION
    (SELECT id FROM {table} WHERE agent_id = %(agent)s AND item_type = 'fact' AND active
     AND %(subject)s <> '' AND lower(subject) = lower(%(subject)s) ORDER BY recorded_at DESC, id LIMIT {BY_SUBJECT})
)"""  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {UUID(item_id): float(found or 0.0) for item_id, found in cursor.fetchall()}


def collection_of(agent: Agent, persona: str) -> str:
    """The physical table of one persona's rows of the index."""
    tables = VIEWS[persona].search_tables
    return next(table for table in tables if table.endswith(f"_{persona}"))
