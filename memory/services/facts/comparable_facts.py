"""Find the facts to compare a new fact with: by equal text, by meaning, by words, by subject.

These are probes: they count as nobody's recall.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Model, Q

from memory.comparison.attribute_names import same_attribute, stated_name
from memory.comparison.compare_facts import Comparison, FactMatch, Kind, Reason, compare_facts
from memory.comparison.fact_snapshot import FactSnapshot, KnownSubject, names_subject, subjects_clash
from memory.embedding.protocol import UNKNOWN, Thresholds, thresholds_of
from memory.models import (
    SAME_WORDS,
    Fact,
    SearchItem,
    SubjectAlias,
    Validity,
    keys_of,
    not_ended_sql,
    same_keys,
    scope_contains,
    scope_contains_sql,
    scopes_overlap,
    scopes_overlap_sql,
)
from memory.persona import VIEWS
from memory.policy import CATEGORY_PERMISSIONS, TRUST_ORDER
from memory.policy.attributes import Cardinality, attribute_spellings
from memory.search.index_tables import agent_unindexed
from memory.search.languages import terms_sql
from memory.services.reviews.open_review import attribute_rules
from memory.services.subjects.registry import known_subjects_of, snapshot_of
from nousweb.lib import clock
from nousweb.lib.prepared_statements import columns_of, instance_of, rows_prepared
from nousweb.lib.transactions import sql_rows

NEAREST = 8
BY_WORDS = 12
BY_SUBJECT = 12
STATING_READ = 200
"""Facts of a subject whose attributes are compared by their spelling."""
WORD_ROWS = 3_000
"""Maximum number of rows with a shared word that are ranked."""
REVERSING = frozenset({"reversed", "ended"})
"""Changes that reverse a fact verified by people even if the new sentence does not name its subject."""


@dataclass(frozen=True, slots=True)
class Vector:
    """An embedding with the name of its model."""

    numbers: tuple[float, ...]
    model: str

    @property
    def literal(self) -> str:
        return "[" + ",".join(f"{number:.6g}" for number in self.numbers) + "]"

    @property
    def thresholds(self) -> Thresholds:
        return thresholds_of(self.model)


ComparisonCache = dict[tuple[FactSnapshot, float], Comparison]
"""Comparisons of one new fact, by snapshot of the old fact and cosine."""


def candidates_compare(
    fact: Fact,
    *,
    vector: Vector | None,
    may_replace: Collection[str] = (),
    exclude: Sequence[UUID] = (),
    comparisons: ComparisonCache | None = None,
) -> list[FactMatch]:
    """Find the active facts of the same memory that resemble `fact`, stored or not, and compare each with it.

    Only facts with overlapping scopes and valid times are compared, and none that has ended with one that has not.
    A fact in the same or a wider scope can make `fact` a repetition;
    `fact` can only replace a fact with the same scope keys; any other pair opens a review.

    `may_replace`: the categories with a permission of their own that the learner has. A fact of such a category is only
    compared with facts of that category, unless the words are the same. A contradicted fact about another subject is
    in the result too; it only opens a review.
    `comparisons`: earlier comparisons of `fact`, which are reused; new ones are added.
    """
    excluded = {fact.pk, *exclude}
    repeated = comparable_facts(fact, active_facts(fact, _same_words(fact) - excluded), same_words=True)
    repeated = [old for old in repeated if scope_contains(old, fact)]
    known = known_subjects_of(fact.agent_id, [fact, *repeated]) if repeated else {}
    new = snapshot_of(fact, known)
    repeated = [old for old in repeated if snapshot_of(old, known).indented == new.indented]
    same = Comparison(Kind.SAME, 1.0, 1.0)
    exact = [old for old in repeated if not subjects_clash(snapshot_of(old, known), new)]
    if found := [(old, comparison) for old in exact if (comparison := _with_valid_times(old, fact, same))]:
        # The same words about the same subject need no other candidates.
        return [
            FactMatch(old.pk, each, exact_match=each is same, replaceable=is_replaceable(old, fact, may_replace))
            for old, each in found
        ]
    elsewhere = [FactMatch(old.pk, same, elsewhere=True) for old in repeated if old not in exact]
    near = dict.fromkeys(_facts_stating(fact), 0.0) | _near(fact, vector)
    others = comparable_facts(
        fact, active_facts(fact, set(near) - excluded - {old.pk for old in repeated}), same_words=False
    )
    known = known_subjects_of(fact.agent_id, [fact, *others])
    compared = _compare_with_facts(
        fact, others, near=near, vector=vector, known=known, may_replace=may_replace, comparisons=comparisons
    )
    review_only = [match for match in compared if match.review_only]
    return [*review_only, *elsewhere, *(match for match in compared if not match.review_only)]


def _compare_with_facts(
    fact: Fact,
    others: Sequence[Fact],
    *,
    near: Mapping[UUID, float],
    vector: Vector | None,
    known: Mapping[UUID, KnownSubject],
    may_replace: Collection[str],
    comparisons: ComparisonCache | None,
) -> list[FactMatch]:
    """Compare `fact` with `others`. Facts of another subject are left out unless they contradict it.

    `near` has the cosine of each of `others`, `known` the subjects of all facts by alias.
    """
    comparisons = {} if comparisons is None else comparisons
    thresholds = vector.thresholds if vector else UNKNOWN
    new = snapshot_of(fact, known)
    read: list[tuple[Fact, FactSnapshot, float, bool]] = []
    for row in others:
        old = snapshot_of(row, known)
        read.append((row, old, near[row.pk], subjects_clash(old, new)))
    missing = [(old, cosine) for _, old, cosine, clash in read if not clash and (old, cosine) not in comparisons]
    made = [compare_facts(old, new, cosine, thresholds) for old, cosine in missing]
    if any(each.kind is Kind.DIFFERS for each in made):
        made = _as_decided(made, attribute_rules(fact.agent_id, fact.persona))
    comparisons.update(zip(missing, made, strict=True))
    matches = []
    for row, old, cosine, clash in read:
        if clash:
            peoples = row.endorsed or fact.endorsed
            found = _contradiction(old, new, cosine, thresholds, peoples=peoples)
            if found and found.kind is Kind.DIFFERS:
                (found,) = _as_decided([found], attribute_rules(fact.agent_id, fact.persona))
            if found and found.kind is not Kind.UNRELATED:
                matches.append(FactMatch(row.pk, found, review_only=True))
            continue
        comparison: Comparison | None = comparisons[old, cosine]
        if comparison is not None and comparison.kind is Kind.SAME:
            # The same statement in a narrower scope does not make the new one a repetition.
            comparison = _with_valid_times(row, fact, comparison) if scope_contains(row, fact) else None
        if comparison is not None:
            matches.append(FactMatch(row.pk, comparison, replaceable=is_replaceable(row, fact, may_replace)))
    return matches


def _as_decided(comparisons: Sequence[Comparison], rules: Mapping[str, Cardinality]) -> list[Comparison]:
    """The comparisons with what people decided about attributes: another value is a change, or both values hold."""
    kinds = {Cardinality.ONE: Kind.CHANGED, Cardinality.MANY: Kind.UNRELATED}
    return [
        replace(each, kind=kinds[decided])
        if each.kind is Kind.DIFFERS and (decided := _decided(rules, stated_name(each.attribute)))
        else each
        for each in comparisons
    ]


def _decided(rules: Mapping[str, Cardinality], name: str) -> Cardinality | None:
    return rules.get(name) or next((rules[known] for known in rules if same_attribute(known, name)), None)


def is_replaceable(old: Fact, new: Fact, may_replace: Collection[str]) -> bool:
    """Whether `new` may replace `old` without people: by rights, by its keys, and by the trust in both."""
    rights = old.category not in CATEGORY_PERMISSIONS or old.category in may_replace
    return rights and same_keys(old, new) and TRUST_ORDER.index(new.trust) <= TRUST_ORDER.index(old.trust)


def _facts_stating(fact: Fact) -> list[UUID]:
    """The latest active facts whose writers state the same attribute of the same subject as that of `fact`."""
    if not (fact.attribute and fact.value):
        return []
    name = stated_name(fact.attribute)
    of_memory = Fact.objects.active().filter(agent=fact.agent_id, persona=fact.persona).exclude(attribute="")
    spelled_so = Q(attribute__in=attribute_spellings(name))
    # Near spellings begin alike.
    stating = of_memory.filter(spelled_so | Q(attribute__startswith=fact.attribute[:1]))
    if fact.subject_alias is not None:
        spelled = SubjectAlias.objects.filter(agent=fact.agent_id, subject=fact.subject_alias.subject_id)
        stating = stating.filter(subject_alias__in=spelled.values("pk"))
    else:
        stating = stating.filter(subject__iexact=fact.subject)
    exact_first = ExpressionWrapper(spelled_so, BooleanField()).desc()
    found = stating.order_by(exact_first, "-recorded_at", "-pk").values_list("pk", "attribute")[:STATING_READ]
    return [pk for pk, attribute in found if same_attribute(stated_name(attribute), name)][:BY_SUBJECT]


def _with_valid_times(old: Fact, new: Fact, same: Comparison) -> Comparison | None:
    """The comparison of two facts that state the `same`: a change if `new` names another end of its valid time.

    None if `new` is no repetition: `old` begins later, both have ended at different times, or the end is another in a
    narrower scope only.
    """
    now = clock.now()
    if old.valid_from is not None and old.valid_from > max(now, new.valid_from or now):
        return None
    if new.valid_until is None or new.valid_until == old.valid_until:
        return same
    if new.validity_at(now) == Validity.EXPIRED or not same_keys(old, new):
        return None
    return replace(same, kind=Kind.CHANGED, reasons=(Reason("valid_time"),), later=True)


def _contradiction(
    old: FactSnapshot, new: FactSnapshot, cosine: float, thresholds: Thresholds, *, peoples: bool
) -> Comparison | None:
    """Compare two facts as if they had the same subject: the comparison if `new` contradicts `old`, else None.

    Both sentences must name the subject of one of them. If people have verified one of the facts (`peoples`), it is
    enough that the new sentence names the old subject or reverses the old sentence.
    """
    shared = _named_by_both(old, new)
    named = shared is not None or names_subject(new.content, old)
    if shared is None and not peoples:
        return None
    about = shared or old
    one, other = (replace(fact, subject=about.subject, known_subject=about.known_subject) for fact in (old, new))
    comparison = compare_facts(one, other, cosine, thresholds)
    reverses = any(reason.code in REVERSING for reason in comparison.reasons)
    if comparison.kind not in (Kind.CHANGED, Kind.DIFFERS) or not (named or reverses):
        return None
    clash = [reason for reason in compare_facts(old, new, cosine, thresholds).reasons if reason.code == "subject"]
    return replace(comparison, reasons=(*comparison.reasons, *clash))


def _named_by_both(old: FactSnapshot, new: FactSnapshot) -> FactSnapshot | None:
    """The fact whose subject both sentences name, else None."""
    both = (one for one in (old, new) if names_subject(old.content, one) and names_subject(new.content, one))
    return next(both, None)


_FACTS = f"""
SELECT {columns_of(Fact, "fact")} FROM {Fact._meta.db_table} AS fact
WHERE fact.active AND fact.agent_id = %(agent)s AND fact.persona = %(persona)s AND fact.id = ANY (%(keys)s::uuid[])
ORDER BY fact.recorded_at, fact.id
"""  # noqa: S608


def active_facts(fact: Fact, keys: Collection[UUID]) -> list[Fact]:
    """The active facts with these ids in the same memory as `fact`, the oldest first."""
    if not keys:
        return []
    values = {"agent": fact.agent_id, "persona": fact.persona, "keys": [*keys]}
    return [instance_of(Fact, row) for row in rows_prepared(_FACTS, values)]


def comparable_facts(fact: Fact, olds: Sequence[Fact], *, same_words: bool) -> list[Fact]:
    """The facts among `olds` that can be compared with `fact`: by scope, valid time and permissions of categories."""
    now = clock.now()
    return [
        old
        for old in olds
        if scopes_overlap(old, fact)
        and has_ended(old, now) == has_ended(fact, now)
        and _spans_meet(old.valid_from, old.valid_until, fact.valid_from, fact.valid_until)
        and _rights_allow(old.category, fact.category, same_words)
    ]


def has_ended(fact: Fact, now: datetime) -> bool:
    """Whether the valid time of a fact is over. Then no prompt includes it, and it says nothing about the present: it
    is only compared with facts that have ended too."""
    return fact.validity_at(now) == Validity.EXPIRED


def _ended_sql(fact: Fact, model: type[Model] = Fact, alias: str = "") -> str:
    """SQL condition: rows of `alias`, of the model, have ended at %(now)s if `fact` has, else have not."""
    going_on = not_ended_sql(model, "%(now)s", alias)
    return f"NOT ({going_on})" if has_ended(fact, clock.now()) else going_on


def _spans_meet(
    old_from: datetime | None, old_until: datetime | None, new_from: datetime | None, new_until: datetime | None
) -> bool:
    """Whether the valid times of two facts overlap. Facts of different times do not contradict each other."""
    apart = old_until is not None and new_from is not None and old_until <= new_from
    return not apart and not (new_until is not None and old_from is not None and new_until <= old_from)


def _rights_allow(old: str, new: str, same_words: bool) -> bool:
    """Whether facts of these categories may be compared. Those with a permission of their own are
    only compared with the same category, except that the same words always count as a repetition."""
    if old == new or (same_words and old in CATEGORY_PERMISSIONS):
        return True
    return old not in CATEGORY_PERMISSIONS and new not in CATEGORY_PERMISSIONS


def _same_words(fact: Fact) -> set[UUID]:
    return {
        row[0]
        for row in sql_rows(
            "SELECT id FROM memory_fact WHERE active AND agent_id = %(agent)s AND persona = %(persona)s"  # noqa: S608
            f" AND {scope_contains_sql()} AND {SAME_WORDS.format('content')} = {SAME_WORDS.format('%(text)s::text')}"
            f" AND {_ended_sql(fact)} ORDER BY recorded_at LIMIT 5",
            {"agent": fact.agent_id, "persona": fact.persona, "text": fact.content, **_keys(fact)},
        )
    }


def _keys(fact: Fact) -> dict[str, Any]:
    return {**keys_of(fact), "now": clock.now()}


def _near(fact: Fact, vector: Vector | None) -> dict[UUID, float]:
    """Candidates by meaning, words and subject: their cosines by id, 0 if unknown.

    Facts in a narrower scope are found by words and subject only, and have limits of their own, so that facts of many
    projects do not displace candidates in the scope of `fact`.
    """
    table, comparable = search_table(fact.persona), _ended_sql(fact, SearchItem)
    cosine, nearest = "NULL::double precision", ""
    values: dict[str, Any] = {
        "agent": fact.agent_id, "text": fact.content, "subject": fact.subject, "persona": fact.persona,
        **_keys(fact),
    }  # fmt: skip
    subject = "%(subject)s <> '' AND lower(subject) = lower(%(subject)s)"
    if fact.subject_alias is not None:
        values["subject_id"] = fact.subject_alias.subject_id
        # Arrays are built once. With joins and outdated statistics, a table would be read for each row of another.
        subject = f"""item_id = ANY (ARRAY(
        SELECT spelled.id::text FROM memory_fact AS spelled
        WHERE spelled.agent_id = %(agent)s AND spelled.active AND {scopes_overlap_sql("spelled")}
        AND {_ended_sql(fact, alias="spelled")}
        AND spelled.subject_alias_id = ANY (ARRAY(
            SELECT id FROM memory_subjectalias WHERE agent_id = %(agent)s AND subject_id = %(subject_id)s))
        ORDER BY spelled.recorded_at DESC, spelled.id LIMIT {BY_SUBJECT}))"""  # noqa: S608
    if vector is not None:
        size = f"halfvec({len(vector.numbers)})"
        distance = f"embedding::{size} <#> %(vector)s::{size}"
        values |= {"vector": vector.literal, "model": vector.model}
        cosine = f"CASE WHEN model = %(model)s THEN -({distance}) END"
        nearest = (
            f"(SELECT id FROM {table} WHERE agent_id = %(agent)s AND persona = %(persona)s AND item_type = 'fact'"  # noqa: S608
            f" AND active AND {comparable} AND model = %(model)s AND {scope_contains_sql()}"
            f" ORDER BY {distance} LIMIT {NEAREST}) UNION "
        )
    agent = agent_unindexed()
    statement = f"""
WITH words AS MATERIALIZED (
    SELECT array_agg(%(agent)s::text || ':' || lexeme) AS keys,
           string_agg('''' || replace(replace(lexeme, '\\', '\\\\'), '''', '''''') || '''', ' | ')::tsquery AS query
    FROM unnest(tsvector_to_array({terms_sql(fact.agent_id, "%(text)s")})) AS lexeme
)
SELECT item_id, {cosine} FROM {table} WHERE {agent} = %(agent)s AND id IN ({nearest}
    (SELECT id FROM (
        SELECT id,
            row_number() OVER (PARTITION BY is_wider ORDER BY ts_rank(terms, words.query, 1) DESC, id) AS place
        FROM (
            SELECT id, terms, {scope_contains_sql()} AS is_wider FROM {table}, words
            WHERE {agent} = %(agent)s
            AND nous_agent_lexemes(agent_id, terms) && words.keys AND item_type = 'fact' AND active
            AND {comparable} AND {scopes_overlap_sql()}
            LIMIT {WORD_ROWS}
        ) AS sharing, words) AS ranked WHERE place <= {BY_WORDS})
    UNION
    (SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY {scope_contains_sql()} ORDER BY recorded_at DESC, id) AS place
        FROM {table} WHERE agent_id = %(agent)s AND item_type = 'fact' AND active AND {comparable}
        AND {scopes_overlap_sql()} AND {subject}) AS latest WHERE place <= {BY_SUBJECT})
)"""  # noqa: S608
    return {UUID(item_id): float(similarity or 0.0) for item_id, similarity in sql_rows(statement, values)}


def search_table(persona: str) -> str:
    """The search index table of a persona."""
    return next(table for table in VIEWS[persona].search_tables if table.endswith(f"_{persona}"))
