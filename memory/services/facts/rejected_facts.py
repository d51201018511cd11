"""What people found wrong, when it is learned again: not believed at once, and people are asked when that is news.

The review is of the fact that was found wrong, with the new words as its proposal. It is not opened again while one
waits, nor for a source that a decision knew, nor without end.
"""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from identity.principal import Principal
from memory.comparison.compare import Comparison, Kind, compare_facts
from memory.comparison.resolution import FactMatch, reasons_of
from memory.embedding.thresholds import UNKNOWN
from memory.models import Fact, MemoryReview
from memory.models.facts import SAME_WORDS
from memory.models.project_scope import meets_sql
from memory.search.found_wrong import sentence_repeats
from memory.services.facts.comparison_candidates import Vector, search_table
from memory.services.reviews.opening import review_open
from memory.services.subjects.fact_snapshots import known_subjects_of, snapshot_of
from memory.subjects.mentions import names_subject, subjects_clash
from nousweb.lib import clock

LATEST = 20
NEAREST = 8
ALIKE = (Kind.SAME, Kind.CLOSE)
"""How a new fact says what was found wrong: in the same words, or in others with no difference that has a name. One
sentence of several is enough."""

MAX_RELEARNED_REVIEWS = 3
RELEARNED_WINDOW = timedelta(days=30)
"""So often people are asked about one fact that they found wrong, whatever sources are named for it."""


def rejected_like(fact: Fact, *, vector: Vector | None, sentences: bool = True) -> tuple[Fact, FactMatch] | None:
    """The fact of the same memory that was found wrong and says what `fact`, or one of its `sentences`, says, with the
    comparison; else None."""
    cosines = _cosines(fact, vector)
    thresholds = vector.thresholds if vector else UNKNOWN
    rows = list(Fact.objects.filter(pk__in=cosines).select_related("agent").order_by("-invalidated_at", "pk"))
    known = known_subjects_of(fact.agent_id, [fact, *rows]) if rows else {}
    new = snapshot_of(fact, known)
    alike: list[tuple[Fact, FactMatch]] = []
    for row in rows:
        cosine = cosines[row.pk]
        if cosine is None:
            return row, FactMatch(row.pk, Comparison(Kind.SAME, 1.0, 1.0), exact_match=True)
        old = snapshot_of(row, known)
        # Its subject does not decide: the same words are the same, others where they name whom it is about.
        comparison = compare_facts(
            old, replace(new, subject=old.subject, known_subject=old.known_subject), cosine, thresholds
        )
        about_the_same = names_subject(new.content, old) or not subjects_clash(old, new)
        if (
            comparison.kind is Kind.SAME
            or (comparison.kind in ALIKE and about_the_same)
            or (sentences and sentence_repeats(fact.content, row.content))
        ):
            alike.append((row, FactMatch(row.pk, comparison)))
    alike.sort(key=lambda pair: (pair[1].comparison.kind is not Kind.SAME, -pair[1].comparison.cosine))
    return alike[0] if alike else None


def relearned_review_open(*, fact: Fact, rejected: Fact, match: FactMatch, by: Principal) -> MemoryReview | None:
    """The review that waits about `rejected` being learned again as `fact`, opened now if it is news; else None."""
    earlier = MemoryReview.objects.filter(kind=MemoryReview.Kind.RELEARNED, facts__contains=[rejected.pk])
    if waiting := earlier.pending().first():
        return waiting
    source = source_of(fact)
    if source and source == source_of(rejected):
        return None
    if earlier.filter(created_at__gt=clock.now() - RELEARNED_WINDOW).count() >= MAX_RELEARNED_REVIEWS:
        return None
    source_key = hashlib.sha256(source.encode()).hexdigest()[:24]
    reasons = [{"code": "relearned", "words": "It was marked as wrong, and is learned again.", "old": "", "new": ""}]
    if source:
        reasons.append({"code": "source", "words": f"Its source this time: {source[:200]}", "old": "", "new": ""})
    return review_open(
        agent=fact.agent,
        persona=fact.persona,
        kind=MemoryReview.Kind.RELEARNED,
        # A decision made before, and taken back since, is another one.
        about=f"relearned:{rejected.pk}:{rejected.invalidated_at:%Y%m%d%H%M%S%f}:{source_key}",
        by=by,
        subject=(fact.subject or rejected.subject or rejected.content)[:200],
        facts=[rejected.pk],
        score=round(match.comparison.cosine, 4),
        reasons=[*reasons, *reasons_of(match.comparison)],
        proposal=fact.content,
    )


def source_of(fact: Fact) -> str:
    """Where a fact is from, alike for whatever comes from there; "" when nobody said."""
    if fact.source_event_id:
        return f"event {fact.source_event_id}"
    if fact.source_episode_id:
        return f"episode {fact.source_episode_id}"
    return " ".join(fact.source.split()).casefold()


def _cosines(fact: Fact, vector: Vector | None) -> dict[UUID, float | None]:
    """Ids of what was found wrong and may say the same, with the cosine: 0 where it is not known, None for the very
    same words."""
    rejected = "invalidated_at IS NOT NULL AND NOT active AND agent_id = %(agent)s AND persona = %(persona)s"
    rejected += f" AND {meets_sql()}"
    values: dict[str, Any] = {"agent": fact.agent_id, "persona": fact.persona, "text": fact.content}
    values |= {"project": fact.project, "task": fact.task}
    statements = [
        f"(SELECT id, 0::double precision FROM memory_fact WHERE {rejected}"  # noqa: S608
        f" ORDER BY invalidated_at DESC LIMIT {LATEST})"
    ]
    if vector is not None:
        table = search_table(fact.agent, fact.persona)
        size = f"halfvec({len(vector.numbers)})"
        distance = f"item.embedding::{size} <#> %(vector)s::{size}"
        values |= {"vector": vector.literal, "model": vector.model}
        statements.append(
            f"(SELECT fact.id, -({distance}) FROM memory_fact AS fact JOIN {table} AS item"  # noqa: S608
            " ON item.item_type = 'fact' AND item.item_id = fact.id::text AND item.agent_id = fact.agent_id"
            " WHERE fact.invalidated_at IS NOT NULL AND NOT fact.active AND fact.agent_id = %(agent)s"
            f" AND {meets_sql('fact')} AND fact.persona = %(persona)s AND item.model = %(model)s"
            f" ORDER BY {distance} LIMIT {NEAREST})"
        )
    statements.append(
        f"(SELECT id, NULL FROM memory_fact WHERE {rejected}"  # noqa: S608
        f" AND {SAME_WORDS.format('content')} = {SAME_WORDS.format('%(text)s::text')}"
        " ORDER BY invalidated_at DESC LIMIT 5)"
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(statements), values)
        cosines: dict[UUID, float | None] = {}
        for key, cosine in cursor.fetchall():
            known = cosines.get(key, 0.0)
            cosines[key] = None if cosine is None or known is None else max(known, cosine)
        return cosines
