"""Facts that repeat an invalidated one, or one about another subject, when they are learned: they are not stored, and a
review may be opened.

For an invalidated fact only a new source opens it, with the new words as its proposal. It is not opened while another
one is pending, nor for a source that an earlier resolution knew, and at most MAX_RELEARNED_REVIEWS times in
RELEARNED_WINDOW.
"""

import hashlib
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from identity.principal import Principal
from memory.comparison.compare_facts import Comparison, FactMatch, Kind, compare_facts, reasons_of
from memory.comparison.fact_snapshot import names_subject, subjects_clash
from memory.embedding.protocol import UNKNOWN
from memory.models import SAME_WORDS, Fact, MemoryReview, SubjectAlias, keys_of, scopes_overlap_sql
from memory.policy import MAX_RELEARNED_REVIEWS, RELEARNED_WINDOW
from memory.search.invalidated_matches import sentence_repeats
from memory.services.facts.changes import FACT_FIELDS, TIME_FIELDS
from memory.services.facts.comparable_facts import Vector, search_table
from memory.services.reviews.open_review import review_open
from memory.services.subjects.registry import alias_enter, known_subjects_of, snapshot_of
from memory.subjects.spelling import key_of
from nousweb.lib import clock

LATEST = 20
"""Maximum number of invalidated facts to compare with, the latest first; besides NEAREST by meaning."""
NEAREST = 8
REPEATING_KINDS = (Kind.SAME, Kind.CLOSE)
"""Comparisons by which a new fact repeats an invalidated one: the same words, or others without a named difference. One
sentence of several is enough."""


def invalidated_match(
    fact: Fact, *, vector: Vector | None, by: Principal, sentences: bool = True
) -> tuple[Fact, FactMatch] | None:
    """The invalidated fact of the same memory that `fact` repeats, with the comparison; else None.

    Those of projects and users that `by` does not read do not exist for it: prompts of these leave out what repeats
    them. With `sentences`, one sentence of `fact` that repeats it is enough. `vector` is the embedding of `fact`, None
    if there is none: then only words are compared.
    """
    cosines = _cosines(fact, vector)
    thresholds = vector.thresholds if vector else UNKNOWN
    found = Fact.objects.filter(pk__in=cosines).select_related("agent").order_by("-invalidated_at", "pk")
    rows = [row for row in found if by.reads(row)]
    known = known_subjects_of(fact.agent_id, [fact, *rows]) if rows else {}
    new = snapshot_of(fact, known)
    matches: list[tuple[Fact, FactMatch]] = []
    for row in rows:
        cosine = cosines[row.pk]
        if cosine is None:
            return row, FactMatch(row.pk, Comparison(Kind.SAME, 1.0, 1.0), exact_match=True)
        old = snapshot_of(row, known)
        # Subjects are not compared: the same words count as the same, and other words if they name the old subject.
        comparison = compare_facts(
            old, replace(new, subject=old.subject, known_subject=old.known_subject), cosine, thresholds
        )
        same_subject = names_subject(new.content, old) or not subjects_clash(old, new)
        if (
            comparison.kind is Kind.SAME
            or (comparison.kind in REPEATING_KINDS and same_subject)
            or (sentences and sentence_repeats(fact.content, row.content))
        ):
            matches.append((row, FactMatch(row.pk, comparison)))
    matches.sort(key=lambda pair: (pair[1].comparison.kind is not Kind.SAME, -pair[1].comparison.cosine))
    return matches[0] if matches else None


def relearned_review_open(*, fact: Fact, invalidated: Fact, match: FactMatch, by: Principal) -> MemoryReview | None:
    """The pending review of `invalidated` being learned again as `fact`; opened now if the source is new, else None."""
    earlier = MemoryReview.objects.filter(kind=MemoryReview.Kind.RELEARNED, facts__contains=[invalidated.pk])
    if pending := earlier.pending().first():
        return pending
    source = source_of(fact)
    if source and source == source_of(invalidated):
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
        # The time is part of the key: a fact that was invalidated, restored and invalidated again gets a new review.
        about=f"relearned:{invalidated.pk}:{invalidated.invalidated_at:%Y%m%d%H%M%S%f}:{source_key}",
        by=by,
        subject=(fact.subject or invalidated.subject or invalidated.content)[:200],
        facts=[invalidated.pk],
        score=round(match.comparison.cosine, 4),
        reasons=[*reasons, *reasons_of(match.comparison)],
        proposal=fact.content,
    )


def source_of(fact: Fact) -> str:
    """The source of a fact in a form that can be compared; "" if it names none."""
    if fact.source_event_id:
        return f"event {fact.source_event_id}"
    if fact.source_episode_id:
        return f"episode {fact.source_episode_id}"
    return " ".join(fact.source.split()).casefold()


def _cosines(fact: Fact, vector: Vector | None) -> dict[UUID, float | None]:
    """The cosine of each invalidated fact that `fact` may repeat, by id: 0 if unknown, None for the same words."""
    invalidated = "invalidated_at IS NOT NULL AND NOT active AND agent_id = %(agent)s AND persona = %(persona)s"
    invalidated += f" AND {scopes_overlap_sql()}"
    values: dict[str, Any] = {"agent": fact.agent_id, "persona": fact.persona, "text": fact.content}
    values |= keys_of(fact)
    statements = [
        f"(SELECT id, 0::double precision FROM memory_fact WHERE {invalidated}"  # noqa: S608
        f" ORDER BY invalidated_at DESC LIMIT {LATEST})"
    ]
    if vector is not None:
        table = search_table(fact.persona)
        size = f"halfvec({len(vector.numbers)})"
        distance = f"item.embedding::{size} <#> %(vector)s::{size}"
        values |= {"vector": vector.literal, "model": vector.model}
        statements.append(
            f"(SELECT fact.id, -({distance}) FROM memory_fact AS fact JOIN {table} AS item"  # noqa: S608
            " ON item.item_type = 'fact' AND item.item_id = fact.id::text AND item.agent_id = fact.agent_id"
            " WHERE fact.invalidated_at IS NOT NULL AND NOT fact.active AND fact.agent_id = %(agent)s"
            f" AND {scopes_overlap_sql('fact')} AND fact.persona = %(persona)s AND item.model = %(model)s"
            f" ORDER BY {distance} LIMIT {NEAREST})"
        )
    statements.append(
        f"(SELECT id, NULL FROM memory_fact WHERE {invalidated}"  # noqa: S608
        f" AND {SAME_WORDS.format('content')} = {SAME_WORDS.format('%(text)s::text')}"
        " ORDER BY invalidated_at DESC LIMIT 5)"
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(statements), values)
        cosines: dict[UUID, float | None] = {}
        for key, cosine in cursor.fetchall():
            before = cosines.get(key, 0.0)
            cosines[key] = None if cosine is None or before is None else max(before, cosine)
        return cosines


Resolution = MemoryReview.Resolution
MAX_REPEATED_REVIEWS = 5
"""Maximum number of reviews of one sentence and one other subject."""


def cross_subject_review(*, fact: Fact, stored: Fact, by: Principal) -> MemoryReview | None:
    """The review of whether the sentence of `stored` is also true of the subject of `fact`, which is not stored: the
    pending one, or a new one. None if it was resolved: see `holds_for_both`."""
    earlier = _reviews(fact, stored)
    if pending := earlier.pending().first():
        return pending
    opened = list(earlier.order_by("-created_at")[:MAX_REPEATED_REVIEWS])
    if opened and (
        opened[0].resolution in (Resolution.BOTH, Resolution.NEW_WRONG) or len(opened) == MAX_REPEATED_REVIEWS
    ):
        return None
    alias = alias_enter(agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category)
    of = f"about “{stored.subject}”" if stored.subject else "without a subject"
    return review_open(
        agent=fact.agent,
        persona=fact.persona,
        kind=MemoryReview.Kind.REPEATED,
        about=f"{_key_prefix(fact, stored)}:{len(opened)}",
        by=by,
        subject=fact.subject,
        facts=[stored.pk],
        subjects=_subjects(stored, alias),
        score=1.0,
        reasons=[
            {
                "code": "repeated",
                "words": f"The same sentence is known {of}.",
                "old": stored.subject,
                "new": fact.subject,
            }
        ],
        proposal=fact.content,
        details=_details(fact),
    )


def holds_for_both(*, fact: Fact, stored: Fact) -> bool:
    """Whether people have decided that this sentence is true of both subjects."""
    last = _reviews(fact, stored).order_by("-created_at").first()
    return last is not None and last.resolution == Resolution.BOTH


def unstored_fact_fields(review: MemoryReview) -> dict[str, Any]:
    """The fields of the fact that was not stored, from its review, as arguments of `fact_learn`."""
    fields = {name: review.details[name] for name in FACT_FIELDS if name in review.details}
    moments = {
        name: datetime.fromisoformat(review.details[name]) if review.details.get(name) else None for name in TIME_FIELDS
    }
    return {"content": review.proposal, **fields, **moments}


def _reviews(fact: Fact, stored: Fact) -> Any:
    about = _key_prefix(fact, stored)
    keys = [f"{about}:{number}" for number in range(MAX_REPEATED_REVIEWS)]
    return MemoryReview.objects.filter(agent=fact.agent_id, persona=fact.persona, about__in=keys)


def _key_prefix(fact: Fact, stored: Fact) -> str:
    named = hashlib.sha256(key_of(fact.subject).encode()).hexdigest()[:24]
    return f"repeated:{stored.pk}:{named}"


def _subjects(stored: Fact, alias: SubjectAlias | None) -> list[UUID]:
    keys = [each.subject_id for each in (stored.subject_alias, alias) if each is not None]
    return list(dict.fromkeys(keys))


def _details(fact: Fact) -> dict[str, Any]:
    moments = {name: getattr(fact, name) for name in TIME_FIELDS}
    return {name: getattr(fact, name) for name in FACT_FIELDS} | {
        name: moment.isoformat() if moment else None for name, moment in moments.items()
    }
