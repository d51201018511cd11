"""Contested facts: which facts of an agent contest each other in a pending review.

Two facts are contested while a review of them has no resolution, also when it expired, since nobody has decided then
either, and while both are held to be true and valid. If nobody was asked, they are undecided instead of contested.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL

from identity.models import AuditEvent
from memory.models import (
    COLUMNS,
    Fact,
    FactQuerySet,
    ItemType,
    MemoryReview,
    ProjectScope,
    Relation,
    Subject,
    SubjectAlias,
    Trust,
    Validity,
    tier_of,
    valid_at_sql,
)
from memory.persona import PersonaMemory
from memory.search.as_of import METADATA_FIELDS, SPAN_FIELDS, facts_as_of
from memory.search.index_tables import STATEMENTS_KEPT
from memory.search.result import SearchHit, hit_of_entry
from memory.types import entry_of
from nousweb.lib.prepared_statements import array_text, rows_prepared

Kind = MemoryReview.Kind

REFINING_CODE = "detail"
"""One of the two says more: they may both be true."""
OPPOSING_CODES = frozenset({"negation", "antonym", "quantity"})
"""Unless it says the opposite by that."""
OPPOSING_RELATIONS = (Relation.CONTRADICTION, Relation.UPDATE)
MAX_FACTS = 500
"""Contested facts that are looked at for one prompt, nearest first."""
MAX_STEPS = 5
"""Of the past, so far a chain of contested facts is followed."""


@dataclass(frozen=True, slots=True)
class ContestedFact:
    """A fact, as a search would find it, with the ids of the facts that contest it.

    `opposed` are the partners with which it can hardly be true, `undecided` those about which nobody was asked.
    `endorsed`: whether people verified it.
    """

    hit: SearchHit
    endorsed: bool
    partners: frozenset[str] = frozenset()
    opposed: frozenset[str] = frozenset()
    undecided: frozenset[str] = frozenset()

    @property
    def since(self) -> datetime:
        """When it became true; where that is not known, when it was recorded."""
        return self.hit.happened_at


def is_opposed(kind: str, codes: Collection[str], relation: str = "") -> bool:
    """Whether two facts of an open review can hardly both be true; `relation` is what a judge said of them, if asked.

    Only then may a policy leave one of them out.
    """
    if relation in OPPOSING_RELATIONS:
        return True
    return kind == Kind.CONTRADICTION and (REFINING_CODE not in codes or not OPPOSING_CODES.isdisjoint(codes))


_STATUSES = ", ".join(f"'{status}'" for status in (*MemoryReview.UNANSWERED, MemoryReview.Status.UNDECIDED))
_UNDECIDED = f"review.kind IN ('{Kind.CONTRADICTION}', '{Kind.DUPLICATE}') AND review.status IN ({_STATUSES})"
"""The condition of the indexes memory_review_old and memory_review_new."""
_SIDES = ("old_id", "new_id")


def pending_review_sql(key: str, agent: int | str) -> str:
    """SQL condition: a contradiction or duplicate review of the fact `key` is pending, expired or undecided. Without
    one, the fact is neither contested nor undecided."""
    # OFFSET 0 keeps a prepared plan from reading the reviews of all facts.
    return " OR ".join(
        f"EXISTS (SELECT 1 FROM {MemoryReview._meta.db_table} AS review"  # noqa: S608
        f" WHERE review.{side} = {key} AND review.agent_id = {agent} AND {_UNDECIDED} OFFSET 0)"
        for side in _SIDES
    )


def with_pending_review(facts: FactQuerySet, agent: int) -> FactQuerySet:
    """Annotate facts of an agent with `has_pending_review` (`pending_review_sql`)."""
    sql = pending_review_sql(f"{Fact._meta.db_table}.id", "%s")
    return facts.annotate(has_pending_review=RawSQL(sql, [agent] * len(_SIDES), output_field=BooleanField()))  # noqa: S611


def _pairs_of(key: str, columns: str, personas: str) -> str:
    """SQL of the pending and expired reviews of the fact `key`; `{other}` in `columns` is the id of the other fact."""
    return " UNION ALL ".join(
        f"SELECT {columns.format(other=f'review.{other}')} FROM {MemoryReview._meta.db_table} AS review"  # noqa: S608
        f" WHERE review.{own} = {key} AND review.agent_id = %(agent)s::bigint AND {_UNDECIDED}"
        f" AND review.persona IN ({personas})"
        for own, other in (_SIDES, _SIDES[::-1])
    )


_ABOUT = (
    "json_build_array({other}, review.kind, review.reasons, review.verdict ->> 'relation',"
    " review.details ? 'undecided') AS pair"
)
_FACT = (
    "endorsed, id, content, persona, kind, category, scope, project, task, user, subject, tags, importance,"
    " recorded_at, source_changed_at, valid_from, origin, source"
)
_TYPE = ItemType.FACT.value
_NAME = (
    f"(SELECT thing.name FROM {SubjectAlias._meta.db_table} AS spelling JOIN {Subject._meta.db_table} AS thing"  # noqa: S608
    " ON thing.id = spelling.subject_id AND thing.agent_id = spelling.agent_id"
    " WHERE spelling.agent_id = %(agent)s::bigint AND spelling.id = fact.subject_alias_id)"
)
_OWN = _FACT.replace(" user,", f" {COLUMNS['user']},")
_READ = _OWN.replace(" id,", " fact.id::text,", 1) + f", {_NAME}"
_HIT = (*_FACT.split(", ")[1:], "subject_name")
"""The columns that become fields of the hit; `endorsed` comes before them."""


@lru_cache(maxsize=STATEMENTS_KEPT)
def _statement(personas: tuple[str, ...], shown: str) -> str:
    """The statement for the contested facts of these personas among those that fulfil the condition `shown`.

    A generic plan expects thousands of reached rows and would read all facts; OFFSET 0 makes it look up the few. A plan
    for known values would seem cheaper and be made again each time; the SELECT around the ids and the literal personas
    prevent that.
    """
    written = ", ".join(f"'{persona}'" for persona in personas)
    others = _pairs_of("reached.id", "{other} AS id", written)
    return (
        "WITH RECURSIVE reached (id) AS (SELECT unnest((SELECT %(ids)s::uuid[])) UNION"  # noqa: S608
        f" SELECT partner.id FROM reached CROSS JOIN LATERAL ({others}) AS partner)"
        f" SELECT contest.pairs::text, {_READ} FROM reached CROSS JOIN LATERAL"
        f" (SELECT json_agg(pair) AS pairs FROM ({_pairs_of('reached.id', _ABOUT, written)}) AS each) AS contest"
        f" CROSS JOIN LATERAL (SELECT {_OWN}, subject_alias_id FROM {Fact._meta.db_table} AS own"
        " WHERE own.id = reached.id AND own.agent_id = %(agent)s::bigint AND own.active"
        f" AND own.persona IN ({written}) AND {valid_at_sql(Fact, '%(now)s::timestamptz', 'own')}"
        f" AND ({shown}) OFFSET 0)"
        " AS fact"
        f" WHERE contest.pairs IS NOT NULL LIMIT {MAX_FACTS}"
    )


Pair = tuple[str, str, Collection[str], str, bool]
"""Id of the other fact, kind of the review, codes of the differences, relation by the judge ("" for none), whether
nobody was asked."""


def contested_facts(
    view: PersonaMemory, scope: ProjectScope, facts: Iterable[str], as_of: datetime | None = None, *, now: datetime
) -> tuple[ContestedFact, ...]:
    """The contested facts among `facts` (ids), and all facts of `scope` that contest them, directly or through others.

    A fact outside of `scope`, or that is not valid at `as_of`, else `now`, contests nothing. Runs one statement, none
    without ids, a few with `as_of`.
    """
    keys = sorted(set(facts))
    if not keys:
        return ()
    if as_of is not None:
        return _contested_as_of(view, scope, keys, as_of)
    shown, values = scope.condition("own")
    values |= {"ids": array_text(keys), "agent": view.agent.pk, "now": now}
    found: dict[str, ContestedFact] = {}
    pairs: dict[str, list[Pair]] = {}
    rows = rows_prepared(_statement(tuple(view.personas), shown), values, binary=True)
    # Parsed in one piece: for short texts, the call takes most of the time.
    contests = json.loads(f"[{','.join(about for about, *_ in rows)}]")
    for (_, endorsed, *columns), own in zip(rows, contests, strict=True):
        # The same values as in the index row (memory/types/stores.py).
        row: dict[str, Any] = dict(zip(_HIT, columns, strict=True))
        row["happened_at"] = row.pop("valid_from") or row["recorded_at"]
        row["scope"] = tier_of(row["scope"], row["project"], row["task"])
        row["subject_name"] = row["subject_name"] or row["subject"]
        origin, about = row.pop("origin"), {"source": row.pop("source")}
        row["trust"] = Trust.PERSON.value if endorsed else origin
        hit = SearchHit(type=_TYPE, metadata=about, score=0.0, cosine=None, lexical=0.0, loop_id="", **row)
        found[hit.id] = ContestedFact(hit, endorsed)
        pairs[hit.id] = [
            (other, kind, _codes(reasons), relation or "", undecided)
            for other, kind, reasons, relation, undecided in own
        ]
    return _made(found, pairs)


def _of_fact(fact: Fact) -> ContestedFact:
    return ContestedFact(
        hit_of_entry(
            entry_of(fact),
            fact.content,
            {"source_changed_at": fact.source_changed_at, "source": fact.source},
            fact.trust,
            getattr(fact, "subject_name", ""),
        ),
        fact.endorsed,
    )


def _codes(reasons: Any) -> frozenset[str]:
    return frozenset([str(reason.get("code", "")) for reason in reasons if isinstance(reason, dict)])


def _made(found: Mapping[str, ContestedFact], pairs: Mapping[str, Sequence[Pair]]) -> tuple[ContestedFact, ...]:
    made = []
    for key, fact in found.items():
        contests = [pair for pair in pairs[key] if pair[0] in found and (pair[1] == Kind.CONTRADICTION or pair[4])]
        if contests:
            partners = frozenset([pair[0] for pair in contests])
            opposed = frozenset([pair[0] for pair in contests if is_opposed(*pair[1:4])])
            undecided = frozenset([pair[0] for pair in contests if pair[4]])
            made.append(ContestedFact(fact.hit, fact.endorsed, partners, opposed, undecided))
    return tuple(made)


def _contested_as_of(
    view: PersonaMemory, scope: ProjectScope, keys: Sequence[str], moment: datetime
) -> tuple[ContestedFact, ...]:
    """`contested_facts` by the reviews that were open at `moment`, of facts that were recorded as true then."""
    open_reviews = view.reviews.filter(
        Q(status__in=(*MemoryReview.UNANSWERED, MemoryReview.Status.UNDECIDED)) | Q(resolved_at__gt=moment),
        kind__in=(Kind.CONTRADICTION, Kind.DUPLICATE),
        created_at__lte=moment,
    )
    reached: set[str] = set(keys)
    reviews: dict[UUID, MemoryReview] = {}
    step = reached
    for _ in range(MAX_STEPS):
        found = open_reviews.filter(Q(old__in=step) | Q(new__in=step)).exclude(pk__in=reviews)[:MAX_FACTS]
        new = {review.pk: review for review in found}
        reviews |= new
        step = {str(key) for review in new.values() for key in (review.old_id, review.new_id)} - reached
        reached |= step
        if not step or len(reached) > MAX_FACTS:
            break
    resolved = _resolved_as_of(reviews, moment)
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for review in reviews.values():
        if review.pk in resolved:
            continue
        about = (
            review.kind,
            _codes(review.reasons),
            str(review.verdict.get("relation", "")),
            review.was_undecided(moment),
        )
        pairs[str(review.old_id)].append((str(review.new_id), *about))
        pairs[str(review.new_id)].append((str(review.old_id), *about))
    rows = view.facts.recorded_as_of(moment).filter(pk__in=pairs, invalidated_at__isnull=True).with_subject_name()
    facts = facts_as_of(view, list(rows), moment, (*METADATA_FIELDS, *SPAN_FIELDS))
    # By the valid times as of then: a later resolution may have ended one of the facts, even before that moment.
    shown = [fact for fact in facts if scope.shows(fact) and fact.validity_at(moment) == Validity.CURRENT]
    return _made({str(fact.pk): _of_fact(fact) for fact in shown}, pairs)


def _resolved_as_of(reviews: Iterable[UUID], moment: datetime) -> set[UUID]:
    """The reviews that were resolved at `moment`: their last record until then is a resolution, not an undo."""
    trail = AuditEvent.objects.filter(
        object_type="memoryreview",
        object_id__in=[str(key) for key in reviews],
        action__in=("memory_review.resolve", "memory_review.undo"),
        at__lte=moment,
    )
    last = dict(trail.order_by("id").values_list("object_id", "action"))
    return {UUID(key) for key, action in last.items() if action == "memory_review.resolve"}
