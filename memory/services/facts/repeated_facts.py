"""Decisions about two facts: merge, supersede, or what a resolution says; and facts that repeat an invalidated one, or
one about another subject, when they are learned: they are not stored, and a review may be opened.

For an invalidated fact only a new source opens it, with the new words as its proposal. It is not opened while another
one is pending, nor for a source that an earlier resolution knew, and at most MAX_RELEARNED_REVIEWS times in
RELEARNED_WINDOW.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from memory.comparison.compare_facts import Comparison, FactMatch, Kind, compare_facts, reasons_of
from memory.comparison.fact_snapshot import names_subject, subjects_clash
from memory.embedding.protocol import UNKNOWN
from memory.models import (
    SAME_WORDS,
    Fact,
    MemoryReview,
    carried_keys,
    keys_of,
    plain,
    scope_contains,
    scope_label,
    scopes_overlap_sql,
)
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, MAX_RELEARNED_REVIEWS, RELEARNED_WINDOW
from memory.search.invalidated_matches import sentence_repeats
from memory.services.facts.changes import (
    FACT_FIELDS,
    TIME_FIELDS,
    Action,
    endorsement_change,
    fact_change_record,
    fact_confirm,
    fact_invalidate,
    fact_write,
    facts_lock,
    pair_lock,
    retirement_check,
    retirement_time,
)
from memory.services.facts.comparable_facts import Vector, search_table
from memory.services.memory_write import source_values
from memory.services.reviews.open_review import review_open
from memory.services.reviews.states import Resolution
from memory.services.search_index.writer import index_put
from memory.services.subjects.registry import alias_enter, known_subjects_of, snapshot_of
from memory.services.trust import least_trusted
from memory.subjects.name_similarity import key_of
from memory.types import entry_of
from nousweb.lib import Conflict, Invalid, clock, past_check

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
        subjects=list(dict.fromkeys(each.subject_id for each in (stored.subject_alias, alias) if each is not None)),
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
        details={name: plain(getattr(fact, name)) for name in (*FACT_FIELDS, *TIME_FIELDS)},
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


def _retiring_check(old: Fact, new: Fact, by: Principal) -> None:
    """Raise unless `by` may change both facts, and retire one of the category of `old`."""
    change_check(old, by, "memory.add_fact")
    change_check(new, by, "memory.add_fact")
    if old.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[old.category], old.agent)


@agent_transaction(of="duplicate")
def fact_merge(
    *,
    duplicate: Fact,
    into: Fact,
    by: Principal,
    reason: str = "",
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> tuple[Fact, Fact]:
    """Retire `duplicate`, which states the same as `into`; returns both with their new values.

    Unlike a superseded fact, the duplicate keeps its valid time. Raises Conflict if either is retired, or if
    the duplicate is verified by people and `by` is not a person; Invalid for the same fact, a fact of another memory,
    or a narrower scope of `into`.
    """
    _retiring_check(duplicate, into, by)
    if duplicate.pk == into.pk or (duplicate.agent_id, duplicate.persona) != (into.agent_id, into.persona):
        raise Invalid("A fact can be merged only into another fact of the same memory.", field="fact_id")
    if not scope_contains(into, duplicate):
        raise Invalid("A fact of a project or task cannot absorb a fact with a wider scope.", field="fact_id")
    duplicate, into = pair_lock(duplicate, into)
    if not duplicate.active or not into.active:
        raise Conflict("Only active facts can be merged.")
    if duplicate.endorsed:
        retirement_check(duplicate, by)
    now = retirement_time(duplicate, clock.now())
    fact_write(
        duplicate, Action.MERGED, by, "fact.merge", {"active": False, "retired_at": now, "superseded_by": into},
        before=("active", "valid_until"), after=("active",),
        reason=reason, other=into, score=score, at=now, evidence=evidence,
    )  # fmt: skip
    return duplicate, into


def successor_scope_check(old: Fact, new: Fact) -> None:
    """Raise Invalid unless the scope of `new` contains that of `old`: else readers of `old` would lose the fact."""
    if not scope_contains(new, old):
        where = f"belongs to {scope_label(old)}" if carried_keys(old) else "is valid everywhere"
        raise Invalid(
            f"The new fact belongs to {scope_label(new)}, and the old one {where}: it cannot replace it there. "
            "Keep both, or mark the old one as wrong.",
            field="fact_id",
        )


@agent_transaction(of="old")
def fact_supersede(
    *,
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str = "",
    at: datetime | None = None,
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
    resolves: UUID | None = None,
) -> tuple[Fact, Fact]:
    """Supersede `old`, which was true until `at`, by `new`; returns both with their new values.

    `at` is a valid time; without it, the `valid_from` of `new`, else the time when `new` was recorded. The old fact
    gets `at` as `valid_until`, unless it ended before, and is retired now. A fact that is not valid yet keeps its
    valid time, which then no longer applies.

    If `by` is a person, the new fact counts as verified by people. `resolves`: the review that a judge resolves by it.
    Raises Conflict if either is retired, or if `by` is not a person and the old fact is verified by people or has a
    pending review; Invalid for the same fact, a narrower scope of `new` or an invalid period; NotAllowed if the
    category of the old fact needs a permission of its own.
    """
    _retiring_check(old, new, by)
    if old.pk == new.pk:
        raise Invalid("A fact cannot supersede itself.", field="fact_id")
    if (old.agent_id, old.persona) != (new.agent_id, new.persona):
        raise Invalid("Both facts must belong to the same memory.", field="fact_id")
    successor_scope_check(old, new)
    at = past_check("at", at)
    old, new = pair_lock(old, new)
    if not old.active:
        raise Conflict(
            "This fact is already superseded." if old.superseded_by_id else "This fact is already retired.",
            superseded_by=str(old.superseded_by_id or ""),
        )
    if not new.active:
        raise Conflict("The new fact is retired itself.")
    retirement_check(old, by, resolves=resolves)
    now = clock.now()
    begun = at or new.valid_from or min(max(old.recorded_at, new.recorded_at), now)
    never_began = old.valid_from is not None and now < old.valid_from and begun <= old.valid_from
    if begun > now and not never_began:
        raise Invalid("The new fact is not valid yet. Supersede the old fact when it is.", field="at")
    ended: datetime | None = begun
    if never_began or (old.valid_until is not None and old.valid_until < begun):
        ended = old.valid_until
    if old.valid_from is not None and not never_began and begun <= old.valid_from:
        raise Invalid(
            f"The old fact is valid only since {old.valid_from.isoformat()}. If it was never true, mark it as wrong.",
            field="at",
        )
    now = retirement_time(old, now)
    fact_write(
        old, Action.SUPERSEDED, by, "fact.supersede",
        {"active": False, "retired_at": now, "valid_until": ended, "superseded_by": new},
        before=("valid_until", "active"), reason=reason, other=new, score=score, at=now, evidence=evidence,
    )  # fmt: skip
    # What replaces a memory is trusted no more than that, unless a person says so.
    if not by.is_person and (origin := least_trusted((old.trust, new.origin))) != new.origin:
        new.put(origin=origin)
    # What people wrote or kept only people change: their fact begins when they say so.
    bound = new.endorsed and not by.is_person
    if not bound and new.valid_from is None and (new.valid_until is None or new.valid_until > begun):
        new.put(valid_from=begun)
        fact_change_record(new, Action.EDITED, by, other=old, before={"valid_from": None}, at=now)
        index_put([entry_of(new)])
    if endorsement_change(fact=new, by=by, reason=reason, evidence=evidence):
        new.endorsed = True
    return old, new


@dataclass(frozen=True, slots=True)
class AppliedResolution:
    """Both facts with their new values. `undo`: the data for undoing it, as JSON values."""

    old: Fact
    new: Fact
    undo: dict[str, Any]


def resolution_apply(
    *,
    resolution: MemoryReview.Resolution,
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str = "",
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
    review: MemoryReview | None = None,
) -> AppliedResolution:
    """Apply a resolution to two facts. Call it in a transaction with the agent's lock.

    - same: `old` is confirmed, and `new`, if it is stored, is merged into it; the other way round if `old` has a
      narrower scope. If both expire, and people have not verified it, the later end holds. Its source is the new one.
    - replace: `new` supersedes `old`.
    - old_wrong, new_wrong: the fact is invalidated.
    - merge: `old` is merged into `new`, which contains its statement.
    - Any other resolution changes neither.

    `score`: similarity in [0, 1], None for the same words. `evidence`: JSON values. `review`: the review that is
    resolved, if any; the facts that stay active after a person's resolution count as verified by people. Raises
    Conflict, Invalid, NotAllowed or NotFound, as the services of facts do.
    """
    undo: dict[str, Any] = {}
    if review is not None:
        locked = facts_lock(old.agent_id, [old.pk, new.pk])
        old, new = locked.get(old.pk, old), locked.get(new.pk, new)
        if by.is_person:
            undo["endorsed"] = {str(key): fact.endorsed for key, fact in locked.items()}
    standing: tuple[Fact, ...] = ()
    match resolution:
        case Resolution.SAME:
            if review is not None and not scope_contains(old, new):
                # A fact with a narrower scope cannot replace one with a wider scope.
                new, old, done = _same(new, old, by, reason, score, evidence, review)
            else:
                old, new, done = _same(old, new, by, reason, score, evidence, review)
            undo |= done
        case Resolution.REPLACE:
            old, new = fact_supersede(
                old=old,
                new=new,
                by=by,
                reason=reason,
                score=score,
                evidence=evidence,
                resolves=review.pk if review else None,
            )
            undo["superseded"] = str(old.pk)
        case Resolution.OLD_WRONG:
            old = fact_invalidate(fact=old, by=by, reason=reason)
            undo["invalidated"], standing = str(old.pk), (new,)
        case Resolution.NEW_WRONG:
            new = fact_invalidate(fact=new, by=by, reason=reason)
            undo["invalidated"], standing = str(new.pk), (old,)
        case Resolution.MERGE:
            old, new = fact_merge(duplicate=old, into=new, by=by, reason=reason, evidence=evidence)
            undo["merged"] = [str(old.pk)]
        case _:
            standing = (old, new)
    if review is not None and by.is_person:
        for fact in standing:
            endorsement_change(fact=fact, by=by, reason=reason, evidence={"review": str(review.pk)})
    return AppliedResolution(old, new, undo)


def _same(
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str,
    score: float | None,
    evidence: Mapping[str, Any] | None,
    review: MemoryReview | None,
) -> tuple[Fact, Fact, dict[str, Any]]:
    new_is_stored = not new._state.adding
    # What is said about the pair is kept with a new fact that is stored, not with the old one: it is erased with it.
    on_old = ({"review": str(review.pk)} if review else {}) if new_is_stored else evidence
    heard = "Learned again." if score is None else "Learned again in other words."
    before = old.last_confirmed_at
    known = fact_confirm(
        fact=old, by=by, score=score, reason="The same in other words." if review else heard, evidence=on_old
    )
    values: dict[str, Any] = {}
    if known.expires_at and new.expires_at and known.expires_at < new.expires_at:
        values = {"expires_at": new.expires_at} if by.is_person or not known.endorsed else {}
    if new.source_ref:
        values |= source_values(known, new.source_ref)
    if values:
        known = fact_write(known, Action.EDITED, by, "fact.update", values, before=values, reason=heard)
    done = {"confirmed": {"fact": str(known.pk), "at": plain(known.last_confirmed_at), "before": plain(before)}}
    if not new_is_stored:
        return known, new, done
    new, known = fact_merge(duplicate=new, into=known, by=by, score=score, reason=reason, evidence=evidence)
    return known, new, done | {"merged": [str(new.pk)]}
