"""Answering what was asked about memories, and taking an answer back.

Each answer is made of the services of facts and censors, so its effects have their own history and audit records; here
is only what it says about the question. Locks are taken in one order: the question, then its facts.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from identity.models import Persona
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.judge import Judged, Relation, RelationVerdict
from memory.lifecycle.policy import ESCALATES_TO
from memory.models import Censor, Fact, FactChange, MemoryReview
from memory.policy import MAX_CONTENT_CHARACTERS, MAX_REMARK_CHARACTERS
from memory.services.censors import censor_update
from memory.services.facts import (
    Precheck,
    fact_confirm,
    fact_invalidate,
    fact_learn,
    fact_merge,
    fact_restore,
    fact_supersede,
    fact_unconfirm,
)
from memory.services.facts.change import facts_lock
from memory.services.facts.endorsement import endorsement_change
from memory.services.facts.history import iso
from memory.services.facts.learn import learning_lock
from memory.services.review_opening import verdict_of
from memory.validation import choice_check, shown_check, text_check
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, NotFound

REVIEW = "memory.review_memory"
Kind = MemoryReview.Kind
Status = MemoryReview.Status
Resolution = MemoryReview.Resolution

PAIR = (
    Resolution.SAME,
    Resolution.REPLACE,
    Resolution.OLD_WRONG,
    Resolution.NEW_WRONG,
    Resolution.BOTH,
    Resolution.MERGE,
)
RESOLUTIONS: dict[str, tuple[Resolution, ...]] = {
    Kind.DUPLICATE: PAIR,
    Kind.CONTRADICTION: PAIR,
    Kind.ESCALATION: (Resolution.KEEP, Resolution.REVERSE),
    Kind.LOW_CONFIDENCE: (Resolution.KEEP, Resolution.NEW_WRONG),
    Kind.COMPACTION: (Resolution.MERGE, Resolution.KEEP),
    Kind.RELEARNED: (Resolution.KEEP, Resolution.REVERSE),
}
"""Which answers each kind of question takes."""
BULK_RESOLUTIONS = (Resolution.SAME, Resolution.REPLACE, Resolution.BOTH, Resolution.KEEP)
"""Answers that several questions can be given at once."""


@agent_transaction(of="review")
def review_resolve(
    *,
    review: MemoryReview,
    resolution: str,
    by: Principal,
    comment: str = "",
    content: str = "",
    batch: UUID | None = None,
) -> MemoryReview:
    """Answer a question; `content` is the text of a merge. Only people.

    same: the new fact is merged into the old one, which is confirmed. replace: the old one was true until the new one
    became true. old_wrong, new_wrong: it never was. both: nothing changes, the pair is not asked about again. merge:
    a third text takes the place of all. keep and reverse: of a censor that rose by itself, of a single fact, or of the
    decision that a fact is wrong. What a person's answer leaves standing is people's word from then on.
    Raises Conflict when it was answered already or its facts have changed, Invalid for an answer that this kind of
    question does not take, NotAllowed.
    """
    by.require(REVIEW, review.agent)
    comment = text_check("comment", comment, MAX_REMARK_CHARACTERS)
    if resolution == Resolution.MERGE or (resolution == Resolution.REVERSE and review.kind == Kind.RELEARNED):
        # Another text is learned; who learns locks questions only after this.
        learning_lock(review.agent, review.persona)
    review = _lock(review)
    choice_check("resolution", resolution, RESOLUTIONS[review.kind])
    if review.status == Status.RESOLVED:
        who = f" by {review.resolver_name}" if review.resolver_name else ""
        raise Conflict(f"This was answered already{who}: {review.get_resolution_display().lower()}.")
    before = _effect(review, Resolution(resolution), by, comment, content)
    _settle(review, Resolution(resolution), by, comment=comment, before=before, batch=batch)
    return review


@agent_transaction(of="review")
def review_undo(*, review: MemoryReview, by: Principal) -> MemoryReview:
    """Take an answer back, as new changes; the question waits again.

    Raises Conflict when there is no answer to take back, or what it changed has changed since.
    """
    by.require(REVIEW, review.agent)
    review = _lock(review)
    if review.status != Status.RESOLVED:
        raise Conflict("This question has no answer to take back.")
    _take_back(review, by)
    was = review.resolution
    _reopen(review)
    audit_record(
        by=by,
        action="memory_review.undo",
        target=review,
        agent=review.agent,
        before={"resolution": was},
        after={"status": review.status},
    )
    return review


@agent_transaction(of="fact")
def supersession_undo(*, fact: Fact, by: Principal, reason: str = "") -> Fact:
    """Let a superseded fact hold again, as a new change; a question that led to it waits again.

    Raises Conflict when the fact is not superseded, NotAllowed.
    """
    by.require(REVIEW, fact.agent)
    if fact.active or fact.superseded_by_id is None:
        raise Conflict("This fact is not superseded: there is nothing to undo.")
    pairs = Q(old=fact, new=fact.superseded_by_id) | Q(old=fact.superseded_by_id, new=fact)
    review = MemoryReview.objects.select_for_update().filter(pairs, status=Status.RESOLVED).first()
    restored = fact_restore(fact=fact, by=by, reason=reason or "The supersession was undone.")
    if review is not None:
        _reopen(review)
    return restored


@transaction.atomic
def reviews_expire(*, by: Principal) -> int:
    """Close questions that nobody answered in time, and those whose facts were settled elsewhere; returns how many."""
    now = clock.now()
    settled = Q(old__active=False) | Q(new__active=False) | Q(censor__active=False)
    over = (
        MemoryReview.objects.pending()
        .filter(Q(expires_at__lte=now) | settled)
        .select_related("agent")
        .select_for_update(of=("self",), skip_locked=True)
        .order_by("created_at")
    )
    # So many of each persona, whatever the other has asked.
    waiting = [review for persona in Persona.values for review in over.filter(persona=persona)[:500]]
    for review in waiting:
        if review.expires_at <= now:
            review.status = Status.EXPIRED
            review.resolved_at = now
            review.save(update_fields=["status", "resolved_at"])
            audit_record(
                by=by, action="memory_review.expire", target=review, agent=review.agent, after={"status": review.status}
            )
        else:
            _settle(review, Resolution.MOOT, by, comment="What it is about was settled elsewhere.")
    return len(waiting)


def verdict_apply(*, review: MemoryReview, judged: Judged[RelationVerdict], comes_to: str | None, by: Principal) -> str:
    """Let a judge's verdict answer a waiting question where it may; returns the answer, or "" when it still waits.

    `comes_to` is what the pair certainly is by the verdict. Called in the transaction of a handler.
    """
    review = _lock(review)
    if review.status != Status.PENDING or review.old is None or review.new is None:
        return ""
    review.verdict, review.judge_call_id = verdict_of(judged), judged.call_id
    if judged.value.relation in (Relation.CONTRADICTION, Relation.UPDATE):
        review.kind = Kind.CONTRADICTION
    review.save(update_fields=["verdict", "judge_call", "kind"])
    answer = {"same": Resolution.SAME, "changed": Resolution.REPLACE, "unrelated": Resolution.BOTH}.get(comes_to or "")
    if answer is None:
        return ""
    # What people wrote or kept only they retire: for such a pair the verdict is shown, and decides nothing.
    retires = {Resolution.SAME: review.new, Resolution.REPLACE: review.old}.get(answer)
    if retires is not None and retires.endorsed:
        return ""
    if not (review.old.active and review.new.active):
        answer, before = Resolution.MOOT, {}
    else:
        before = _effect(review, answer, by, judged.value.reason, "")
    _settle(review, answer, by, comment=judged.value.reason, before=before)
    return str(answer)


def _effect(review: MemoryReview, resolution: Resolution, by: Principal, comment: str, content: str) -> dict[str, Any]:
    """Do what the answer says; returns what is needed to take it back."""
    effects: dict[Resolution, Callable[[], dict[str, Any]]] = {
        Resolution.SAME: lambda: _same(review, by, comment),
        Resolution.REPLACE: lambda: _replace(review, by, comment),
        Resolution.OLD_WRONG: lambda: _wrong(review.old, by, comment),
        Resolution.NEW_WRONG: lambda: _wrong(review.new, by, comment),
        Resolution.MERGE: lambda: _merge(review, by, comment, content),
        Resolution.REVERSE: lambda: _reverse(review, by, comment),
        Resolution.KEEP: lambda: _keep(review, by),
    }
    if resolution in PAIR and review.old_id and not _both_active(review):
        raise Conflict("One of these facts has been retired since; there is nothing left to decide.")
    held: dict[str, bool] = {}
    if by.is_person:
        locked = facts_lock([fact.pk for fact in (review.old, review.new) if fact is not None])
        held = {str(key): fact.endorsed for key, fact in locked.items()}
    done = effects[resolution]() if resolution in effects else {}
    if held:
        for fact in _kept(review, resolution):
            endorsement_change(fact=fact, by=by, reason=comment, evidence={"review": str(review.pk)})
        done["endorsed"] = held
    return done


def _kept(review: MemoryReview, resolution: Resolution) -> list[Fact]:
    """The facts that an answer lets stand, beside those that its own services make people's word."""
    kept = {
        Resolution.BOTH: (review.old, review.new),
        Resolution.OLD_WRONG: (review.new,),
        Resolution.NEW_WRONG: (review.old,),
        Resolution.KEEP: (review.new,),
    }
    return [fact for fact in kept.get(resolution, ()) if fact is not None]


def _same(review: MemoryReview, by: Principal, comment: str) -> dict[str, Any]:
    old, new = _pair(review)
    facts_lock([old.pk, new.pk])
    evidence = _evidence(review)
    heard_before = old.last_confirmed_at
    # What is said about the pair is kept with the new fact and not with the old: it goes when the new one is erased.
    kept = fact_confirm(
        fact=old, by=by, score=review.score, reason="The same in other words.", evidence={"review": str(review.pk)}
    )
    fact_merge(duplicate=new, into=kept, by=by, score=review.score, reason=comment, evidence=evidence)
    heard = {"fact": str(old.pk), "at": iso(kept.last_confirmed_at), "before": iso(heard_before)}
    return {"merged": [str(new.pk)], "confirmed": heard}


def _replace(review: MemoryReview, by: Principal, comment: str) -> dict[str, Any]:
    old, new = _pair(review)
    fact_supersede(
        old=old,
        new=new,
        by=by,
        reason=comment,
        score=review.score,
        evidence=_evidence(review),
        answers=review.pk,
    )
    return {"superseded": str(old.pk)}


def _wrong(fact: Fact | None, by: Principal, comment: str) -> dict[str, Any]:
    if fact is None:
        raise NotFound("There is no such fact.")
    fact_invalidate(fact=fact, by=by, reason=comment)
    return {"invalidated": str(fact.pk)}


def _merge(review: MemoryReview, by: Principal, comment: str, content: str) -> dict[str, Any]:
    keys: list[UUID] = [key for key in (review.old_id, review.new_id) if key] if review.old_id else review.facts
    content = shown_check("content", content or review.proposal, MAX_CONTENT_CHARACTERS, required=True)
    locked = [each for each in facts_lock(keys).values() if each.active]
    sources = sorted(locked, key=lambda each: (each.recorded_at, each.pk))
    if len(sources) < 2:
        raise Conflict("Fewer than two of these facts are still held to be true; there is nothing to merge.")
    # A text that one of the sources has already needs no third fact.
    into = next((each for each in sources if each.content == content), None)
    made = into is None
    if into is None:
        begun = [each.valid_from for each in sources]
        into = fact_learn(
            agent=review.agent,
            persona=review.persona,
            content=content,
            subject=review.subject or sources[0].subject,
            category=sources[0].category,
            kind=sources[0].kind,
            scope=sources[0].scope,
            tags=sorted({tag for each in sources for tag in each.tags})[:20],
            confidence=max(each.confidence for each in sources),
            importance=max(each.importance for each in sources),
            source=f"merge: {by.name}"[:200],
            valid_from=min(moment for moment in begun if moment) if all(begun) else None,
            by=by,
            exclude=[each.pk for each in sources],
            probe=Precheck(),
        ).fact
        made = into.confirmation_count == 0
    merged = [each for each in sources if each.pk != into.pk]
    for each in merged:
        fact_merge(duplicate=each, into=into, by=by, reason=comment, evidence=_evidence(review))
    return {"merged": [str(each.pk) for each in merged], "made": str(into.pk) if made else ""}


def _reverse(review: MemoryReview, by: Principal, comment: str) -> dict[str, Any]:
    """Put a censor back where it was, or let a fact that was found wrong hold after all.

    A censor rises again only after as many further activations.
    """
    if review.kind == Kind.RELEARNED:
        return _hold_after_all(review, by, comment)
    censor = review.censor
    if censor is None:
        raise NotFound("There is no such censor.")
    censor.refresh_from_db()
    was = next((low for low, high in ESCALATES_TO.items() if high == censor.severity), None)
    if was is None:
        raise Conflict(f"This censor is at {censor.get_severity_display().lower()} now; there is nothing to reverse.")
    before = {"severity": censor.severity, "escalation_threshold": censor.escalation_threshold}
    threshold = min(censor.activation_count + censor.escalation_threshold, 1000)
    censor_update(censor=censor, by=by, severity=was, escalation_threshold=threshold, message=comment)
    return {"censor": before}


def _hold_after_all(review: MemoryReview, by: Principal, comment: str) -> dict[str, Any]:
    """Restore what was found wrong, or where it was learned again in other words, learn it in those."""
    wrong = Fact.objects.select_related("agent").filter(pk__in=review.facts).first()
    if wrong is None:
        raise NotFound("There is no such fact.")
    if review.proposal == wrong.content:
        fact_restore(fact=wrong, by=by, reason=comment)
        return {"restored": str(wrong.pk)}
    learned = fact_learn(
        agent=review.agent,
        persona=review.persona,
        content=review.proposal,
        subject=wrong.subject,
        category=wrong.category,
        kind=wrong.kind,
        scope=wrong.scope,
        tags=wrong.tags,
        source=f"question: {by.name}"[:200],
        by=by,
        probe=Precheck(),
    )
    return {"made": str(learned.fact.pk) if learned.action != "confirmed" else ""}


def _keep(review: MemoryReview, by: Principal) -> dict[str, Any]:
    """A censor that a person keeps where it rose to is people's from then on."""
    censor = review.censor
    if censor is None or censor.binding or not by.is_person:
        return {}
    Censor.objects.filter(pk=censor.pk).update(endorsed=True)
    return {"censor_kept": True}


def _take_back(review: MemoryReview, by: Principal) -> None:
    reason = "The answer was taken back."
    before = review.before
    held = _endorsed_before(review)
    keys = [*before.get("merged", []), *filter(None, [before.get("superseded"), before.get("invalidated")])]
    took_over = Fact.objects.filter(supersedes__in=keys).values_list("pk", flat=True)
    others = [before.get("confirmed", {}).get("fact"), before.get("made"), before.get("restored")]
    facts = facts_lock({*map(UUID, [*keys, *filter(None, others)]), *took_over, *held})
    if any(UUID(key) not in facts for key in keys):
        raise Conflict("One of these facts is gone; the answer cannot be taken back.")
    for key in keys:
        fact_restore(fact=facts[UUID(key)], by=by, reason=reason)
    for pk in held.keys() & facts.keys():
        endorsement_change(fact=facts[pk], by=by, endorsed=held[pk], reason=reason)
    if (key := before.get("restored")) and (restored := facts.get(UUID(key))):
        fact_invalidate(fact=restored, by=by, reason=reason)
    if before.get("censor_kept") and review.censor is not None:
        Censor.objects.filter(pk=review.censor.pk).update(endorsed=False)
    if (heard := before.get("confirmed")) and (old := facts.get(UUID(heard["fact"]))):
        last = heard["before"] and datetime.fromisoformat(heard["before"])
        fact_unconfirm(fact=old, by=by, heard_at=datetime.fromisoformat(heard["at"]), before=last, reason=reason)
    if made := before.get("made"):
        third = Fact.objects.select_related("agent").filter(pk=made, active=True).first()
        if third is not None:
            fact_invalidate(fact=third, by=by, reason=reason)
    if (held := before.get("censor")) and review.censor is not None:
        censor_update(censor=review.censor, by=by, message=reason, **held)


def _endorsed_before(review: MemoryReview) -> dict[UUID, bool]:
    """Of a pair which were people's word before the answer, without those that people have changed since."""
    held = {UUID(key): bool(was) for key, was in review.before.get("endorsed", {}).items()}
    answered = review.resolved_at or review.created_at
    since = FactChange.objects.filter(fact__in=held, author_kind="person", at__gt=answered)
    for key in since.values_list("fact_id", flat=True):
        held.pop(key, None)
    return held


def _settle(
    review: MemoryReview,
    resolution: Resolution,
    by: Principal,
    *,
    comment: str = "",
    before: dict[str, Any] | None = None,
    batch: UUID | None = None,
) -> None:
    review.status, review.resolution, review.comment = Status.RESOLVED, resolution, comment
    review.resolver_kind, review.resolver_id, review.resolver_name = by.kind, by.id, by.name
    review.resolved_at, review.batch, review.before = clock.now(), batch, before or {}
    review.save()
    audit_record(
        by=by,
        action="memory_review.resolve",
        target=review,
        agent=review.agent,
        before={"status": str(Status.PENDING)},
        after={"resolution": str(resolution)},
        message=comment,
    )


def _reopen(review: MemoryReview) -> None:
    review.status, review.resolution, review.comment = Status.PENDING, "", ""
    review.resolver_kind = review.resolver_id = review.resolver_name = ""
    review.resolved_at = review.batch = None
    review.before = {}
    # What waits again must get a chance to be seen before it expires.
    review.expires_at = max(review.expires_at, clock.now() + timedelta(days=1))
    review.save()


def _lock(review: MemoryReview) -> MemoryReview:
    found = (
        MemoryReview.objects.select_for_update(of=("self",))
        .select_related("agent", "old__agent", "new__agent", "censor__agent")
        .filter(pk=review.pk)
        .first()
    )
    if found is None:
        raise NotFound("There is no such question.")
    return found


def _pair(review: MemoryReview) -> tuple[Fact, Fact]:
    if review.old is None or review.new is None:
        raise NotFound("There is no such fact.")
    return review.old, review.new


def _both_active(review: MemoryReview) -> bool:
    return all(fact is not None and fact.active for fact in (review.old, review.new))


def _evidence(review: MemoryReview) -> dict[str, Any]:
    found: dict[str, Any] = {"review": str(review.pk), "kind": review.kind, "reasons": review.reasons}
    if review.verdict:
        found["judge"] = review.verdict | {"call": review.judge_call_id}
    return found
