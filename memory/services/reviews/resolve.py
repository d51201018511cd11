"""Resolve a review, by a person or by a judge's verdict if that is allowed.

What follows is made of the services of facts and censors, so it has its own history and audit records; here is only
what a resolution says about the review.
"""

from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.versions import agent_lock
from memory.comparison.compare_facts import Kind as ComparisonKind
from memory.comparison.compare_facts import auto_resolution, compare_facts
from memory.judge import JudgeResult, RelationVerdict
from memory.models import (
    Censor,
    Event,
    Fact,
    FactChange,
    LongTermEntry,
    MemoryReview,
    Relation,
    Subject,
    inherited_user,
    keys_of,
    plain,
    same_keys,
)
from memory.policy import ESCALATES_TO, MAX_CONTENT_CHARACTERS, MAX_REMARK_CHARACTERS
from memory.services.censors import censor_update
from memory.services.facts import LearnResult, Precheck, fact_confirm, fact_invalidate, fact_learn, fact_restore
from memory.services.facts.changes import endorsement_change, facts_lock
from memory.services.facts.repeated_facts import resolution_apply, unstored_fact_fields
from memory.services.memory_write import learning_lock
from memory.services.quarantine.memories import MARKED, event_text, open_quarantine_review, type_name
from memory.services.reviews.blind_samples import decision_remeasure, fields_before, sample_agrees, verdict_sample
from memory.services.reviews.open_review import verdict_of
from memory.services.reviews.quarantine_resolution import ANSWERS, attribute_decide, quarantine_resolve, review_state
from memory.services.reviews.states import (
    REVIEW,
    Kind,
    Resolution,
    Status,
    resolution_record,
    review_lock,
    review_reopen,
    reviews_settle,
    subject_standing,
)
from memory.services.reviews.undo import effects_undo
from memory.services.subjects.changes import subject_merge
from memory.services.subjects.registry import open_subject_review, pair_snapshots, subject_pair_review_key
from memory.subjects.name_similarity import likeness
from nousweb.lib import Conflict, Invalid, NotFound, choice_check, existing, text_check, visible_text_check

PAIR = (
    Resolution.SAME,
    Resolution.NEW_WRONG,
    Resolution.REPLACE,
    Resolution.OLD_WRONG,
    Resolution.BOTH,
    Resolution.MERGE,
)
RESOLUTIONS: dict[str, tuple[MemoryReview.Resolution, ...]] = {
    Kind.DUPLICATE: PAIR,
    Kind.CONTRADICTION: PAIR,
    Kind.ESCALATION: (Resolution.KEEP, Resolution.REVERSE),
    Kind.LOW_CONFIDENCE: (Resolution.KEEP, Resolution.NEW_WRONG),
    Kind.COMPACTION: (Resolution.MERGE, Resolution.KEEP),
    Kind.RELEARNED: (Resolution.KEEP, Resolution.REVERSE),
    Kind.REPEATED: (Resolution.SAME, Resolution.BOTH, Resolution.NEW_WRONG),
    Kind.SAME_SUBJECT: (Resolution.SAME, Resolution.DIFFERENT),
    Kind.QUARANTINED: (Resolution.ALLOW, Resolution.HOLD),
    Kind.NEW_MEMORY: (Resolution.ALLOW, Resolution.HOLD),
    Kind.ATTRIBUTE: tuple(ANSWERS),
}
"""Which resolutions each kind of review takes."""
BULK_RESOLUTIONS = (
    Resolution.SAME,
    Resolution.DIFFERENT,
    Resolution.REPLACE,
    Resolution.BOTH,
    Resolution.KEEP,
    Resolution.ALLOW,
    Resolution.HOLD,
)
"""Resolutions that can be applied to several reviews at once."""


def bulk_resolutions(kind: str) -> dict[str, int]:
    """Those that a review of this kind takes in a list, each with its place among all. A quarantined text is not in it,
    so nobody allows it there."""
    unread = (Resolution.ALLOW,) if kind == Kind.QUARANTINED else ()
    return {
        each.value: place
        for place, each in enumerate(RESOLUTIONS[kind], 1)
        if each in BULK_RESOLUTIONS and each not in unread
    }


VERDICT_RESOLUTIONS = {
    ComparisonKind.SAME: Resolution.SAME,
    ComparisonKind.CHANGED: Resolution.REPLACE,
    ComparisonKind.UNRELATED: Resolution.BOTH,
}
"""The resolution of a review, by the certain relation of its pair according to a judge's verdict."""


@agent_transaction(of="review")
def review_resolve(
    *,
    review: MemoryReview,
    resolution: str,
    by: Principal,
    comment: str = "",
    content: str = "",
    batch: UUID | None = None,
    seen: str = "",
) -> MemoryReview:
    """Resolve a review. People only. Each kind has its own RESOLUTIONS:

    - A pair of facts: see `resolution_apply`. merge: a third text, `content`, replaces all of them. The pair is not
      reviewed again.
    - An escalated censor, a single fact, a fact that was invalidated before: keep, reverse or new_wrong.
    - A sentence about two subjects: same (merge the subjects), both (true of both), new_wrong (do not learn it).
    - Two subjects: same (merge them), different.
    - An attribute: replace (one value at a time, so newer values replace older ones), both (several hold at once).
    - A quarantined text, or a new memory: allow (in use, with the trust class of a person), hold (in quarantine).

    Facts that stay active after a person's resolution count as verified by people. `seen` is the `review_state` that
    was shown. Raises Conflict if the review is resolved already, or if it or its facts have changed since, Invalid for
    a resolution that the kind does not have, NotAllowed.
    """
    by.require(REVIEW, review.agent)
    comment = text_check("comment", comment, MAX_REMARK_CHARACTERS)
    if review.details.get("blind"):
        agent_lock(review.agent)
    learns = resolution == Resolution.MERGE or (resolution == Resolution.REVERSE and review.kind == Kind.RELEARNED)
    if learns or review.kind in (Kind.REPEATED, Kind.SAME_SUBJECT, *MemoryReview.ABOUT_TEXTS, Kind.ATTRIBUTE):
        # A text is learned or subjects are merged; learning takes this lock before the locks of reviews.
        learning_lock(review.agent, review.persona)
    review = review_lock(review)
    choice_check("resolution", resolution, RESOLUTIONS[review.kind])
    if review.status == Status.RESOLVED:
        who = f" by {review.resolver_name}" if review.resolver_name else ""
        raise Conflict(f"This review is already resolved{who}: {review.get_resolution_display().lower()}.")
    if seen and seen != review_state(review):
        raise Conflict("What this review is about has changed since it was shown. Read it again, then resolve it.")
    chosen = Resolution(resolution)
    _claim(review)
    blind = review.details.get("blind")
    if blind:
        blind["agrees"] = sample_agrees(review, chosen)
    undo = {}
    if not (blind and blind["agrees"]):
        if blind and blind["undo"]:
            # The decision is undone first; then the answer holds as for two facts that nobody decided about.
            effects_undo(review, blind["undo"], by)
            (review.old, review.new) = (_reloaded(review.old), _reloaded(review.new))
        undo = _apply(review, chosen, by, comment, content)
    resolution_record(review, chosen, by, comment=comment, undo=undo, batch=batch)
    if blind:
        decision_remeasure(review)
    return review


@agent_transaction(of="event")
def event_mark_wrong(*, event: Event, by: Principal, comment: str = "") -> MemoryReview:
    """Quarantine an event whose text is wrong: its record stays, and no prompt and no search has it. Returns the review
    of its words, which is resolved so, and whose resolution can be undone. People only.

    Raises Conflict if it is in quarantine already, or in no search yet, NotAllowed.
    """
    by.require(REVIEW, event.agent)
    learning_lock(event.agent, event.persona)
    entry = LongTermEntry.objects.filter(agent=event.agent_id, event=event).first()
    if entry is None or entry.quarantined:
        raise Conflict("This event is in quarantine already." if entry else "This event is in no search yet.")
    items, words = [(type_name(event), str(event.pk))], event_text(event)
    review = existing(open_quarantine_review(event.agent, event.persona, items, words, MARKED), "There is no review.")
    # Events of the same words share the review: to undo it puts all that are marked back to use, and no other.
    marked = review.before.get("quarantined", []) if review.resolution == Resolution.HOLD else []
    if review.is_mark:
        named = [[kind, key] for kind, key, _ in marked] + [list(item) for item in items]
        review.put(details={**review.details, "items": named})
    if review.status == Status.RESOLVED:
        review_reopen(review, by)
    review = review_resolve(review=review, resolution=Resolution.HOLD, by=by, comment=comment)
    if marked:
        review.put(before={**review.before, "quarantined": [*marked, *review.before["quarantined"]]})
    return review


@agent_transaction(of="one")
def subjects_tell_apart(*, one: Subject, other: Subject, by: Principal) -> MemoryReview:
    """Decide that two subjects of a memory are different; returns the resolved review, by which nobody is asked about
    them again. People only.

    Raises Conflict where they were told apart or merged before, Invalid for subjects of two memories, NotAllowed.
    """
    by.require(REVIEW, one.agent)
    if one.pk == other.pk or (one.agent_id, one.persona) != (other.agent_id, other.persona):
        raise Invalid("Both must be subjects of the same memory.", field="into")
    learning_lock(one.agent, one.persona)
    found = likeness(one.name, other.name)
    reasons = [(found.code, found.words, one.name, other.name)] if found else []
    review = open_subject_review(older=one, newer=other, score=found.score if found else 0.0, reasons=reasons)
    if review is None:
        reviews = MemoryReview.objects.select_related("agent").filter(agent=one.agent)
        review = reviews.get(about=subject_pair_review_key(one.pk, other.pk))
    return review_resolve(review=review, resolution=Resolution.DIFFERENT, by=by)


def _reloaded(fact: Fact | None) -> Fact | None:
    return fact and Fact.objects.select_related("agent").get(agent=fact.agent_id, pk=fact.pk)


def verdict_apply(*, review: MemoryReview, judge_result: JudgeResult[RelationVerdict], by: Principal) -> str:
    """Store a judge's verdict with a pending review, and resolve the review if the verdict is certain
    (`auto_resolution`); returns the resolution, or "" if it is still pending. Call it in a job's transaction."""
    review = review_lock(review)
    if review.status not in MemoryReview.OPEN or review.old is None or review.new is None:
        return ""
    if review.details.get("blind"):
        # People answer it, without a hint.
        return ""
    review.verdict, review.judge_call_id = verdict_of(judge_result), judge_result.call_id
    if judge_result.value.relation in (Relation.CONTRADICTION, Relation.UPDATE):
        review.kind = Kind.CONTRADICTION
    review.save(update_fields=["verdict", "judge_call", "kind"])
    old, new = pair_snapshots(review.old, review.new)
    relation = auto_resolution(compare_facts(old, new, review.score or 0.0), judge_result.value)
    resolution = VERDICT_RESOLUTIONS.get(relation) if relation else None
    if resolution is None:
        return ""
    # Facts that are verified by people, or have another scope, are only retired by people: the verdict is just shown.
    retires = {Resolution.SAME: review.new, Resolution.REPLACE: review.old}.get(resolution)
    if retires is not None and (retires.endorsed or not same_keys(review.old, review.new)):
        return ""
    reason, undo = judge_result.value.reason, {}
    before = {"old": fields_before(review.old), "new": fields_before(review.new)}
    if review.old.active and review.new.active:
        _claim(review)
        undo = _pair(review, resolution, review.old, review.new, by, reason)
    else:
        resolution = Resolution.MOOT
    if not verdict_sample(review, resolution, undo=undo, before=before, by=by):
        resolution_record(review, resolution, by, comment=reason, undo=undo)
    reviews_settle(agent_id=review.agent_id, facts=[review.old.pk, review.new.pk])
    return str(resolution)


def _claim(review: MemoryReview) -> None:
    """Take the review out of the pending ones, which the changes of its own resolution would close."""
    MemoryReview.objects.filter(agent=review.agent_id, pk=review.pk).update(status=Status.RESOLVED)


def _apply(
    review: MemoryReview, resolution: MemoryReview.Resolution, by: Principal, comment: str, content: str
) -> dict[str, Any]:
    """Apply a person's resolution; returns the data for undoing it."""
    if review.kind in MemoryReview.ABOUT_TEXTS:
        return quarantine_resolve(review, resolution, by, comment)
    if review.kind == Kind.ESCALATION:
        return _escalation(review, resolution, by, comment)
    if review.kind == Kind.RELEARNED:
        return _reinstate_invalidated(review, by, comment) if resolution is Resolution.REVERSE else {}
    if review.kind == Kind.SAME_SUBJECT:
        return _subjects_merge(review, by, comment) if resolution is Resolution.SAME else {}
    if review.kind == Kind.ATTRIBUTE:
        return attribute_decide(review, resolution, by)
    if review.kind == Kind.REPEATED:
        return _repeated(review, resolution, by, comment)
    if resolution is Resolution.MERGE:
        return _merge(review, by, comment, content)
    if review.kind == Kind.COMPACTION:
        return {}
    new = existing(review.new, "There is no such fact.")
    if review.old is None:
        return _single(review, resolution, new, by, comment)
    return _pair(review, resolution, review.old, new, by, comment)


def _pair(
    review: MemoryReview, resolution: MemoryReview.Resolution, old: Fact, new: Fact, by: Principal, reason: str
) -> dict[str, Any]:
    _both_active_check(old, new)
    return resolution_apply(
        resolution=resolution,
        old=old,
        new=new,
        by=by,
        reason=reason,
        score=review.score,
        evidence=_evidence(review),
        review=review,
    ).undo


def _single(
    review: MemoryReview, resolution: MemoryReview.Resolution, fact: Fact, by: Principal, comment: str
) -> dict[str, Any]:
    """An uncertain fact: keep it, or invalidate it."""
    undo: dict[str, Any] = {
        "endorsed": {str(key): row.endorsed for key, row in facts_lock(fact.agent_id, [fact.pk]).items()}
    }
    if resolution is Resolution.NEW_WRONG:
        fact_invalidate(fact=fact, by=by, reason=comment)
        return undo | {"invalidated": str(fact.pk)}
    endorsement_change(fact=fact, by=by, reason=comment, evidence={"review": str(review.pk)})
    return undo


def _merge(review: MemoryReview, by: Principal, comment: str, content: str) -> dict[str, Any]:
    """Merge all facts into one text, which is learned if none of the facts has it."""
    if review.old is not None and review.new is not None:
        _both_active_check(review.old, review.new)
    keys: list[UUID] = [key for key in (review.old_id, review.new_id) if key] if review.old_id else review.facts
    content = visible_text_check("content", content or review.proposal, MAX_CONTENT_CHARACTERS, required=True)
    locked = [each for each in facts_lock(review.agent_id, keys).values() if each.active]
    sources = sorted(locked, key=lambda each: (each.recorded_at, each.pk))
    if len(sources) < 2:
        raise Conflict("Fewer than two of these facts are still active; there is nothing to merge.")
    if not all(same_keys(each, sources[0]) for each in sources):
        raise Invalid("Facts of different projects, tasks or users cannot be merged into one text.", field="resolution")
    # A text that one of the sources has already needs no third fact.
    into = next((each for each in sources if each.content == content), None)
    undo: dict[str, Any] = {"merged": [], "endorsed": {}}
    if into is None:
        begun = [each.valid_from for each in sources]
        learned = fact_learn(
            agent=review.agent,
            persona=review.persona,
            content=content,
            subject=review.subject or sources[0].subject,
            category=sources[0].category,
            kind=sources[0].kind,
            scope=sources[0].scope,
            **keys_of(sources[0]) | {"user": inherited_user(None, sources[0])},
            tags=sorted({tag for each in sources for tag in each.tags})[:20],
            confidence=max(each.confidence for each in sources),
            importance=max(each.importance for each in sources),
            source=f"merge: {by.name}"[:200],
            valid_from=min(moment for moment in begun if moment) if all(begun) else None,
            by=by,
            exclude=[each.pk for each in sources],
            precheck=Precheck(),
            repeats=True,
        )
        into, undo = learned.fact, undo | _learning_undo(learned)
    for each in sources:
        if each.pk == into.pk:
            continue
        merged = resolution_apply(
            resolution=Resolution.MERGE,
            old=each,
            new=into,
            by=by,
            reason=comment,
            evidence=_evidence(review),
            review=review,
        )
        undo["merged"] += merged.undo["merged"]
        undo["endorsed"] = merged.undo["endorsed"] | undo["endorsed"]
    return undo


def _escalation(
    review: MemoryReview, resolution: MemoryReview.Resolution, by: Principal, comment: str
) -> dict[str, Any]:
    """A censor that was escalated automatically: kept, and then binding, or reversed to its severity before.

    A reversed censor is escalated again only after as many further activations.
    """
    censor = review.censor
    if resolution is Resolution.KEEP:
        if censor is None or censor.binding:
            return {}
        Censor.objects.filter(agent=censor.agent_id, pk=censor.pk).update(endorsed=True)
        return {"censor_kept": True}
    censor = existing(censor, "There is no such censor.")
    censor.refresh_from_db()
    now = censor.get_severity_display().lower()
    was = existing(
        next((low for low, high in ESCALATES_TO.items() if high == censor.severity), None),
        Conflict(f"This censor has the severity {now} now; there is nothing to reverse."),
    )
    before = {"severity": censor.severity, "escalation_threshold": censor.escalation_threshold}
    endorsed = censor.endorsed
    threshold = min(censor.activation_count + censor.escalation_threshold, 1000)
    censor_update(censor=censor, by=by, severity=was, escalation_threshold=threshold, message=comment)
    return {"censor": before, "censor_kept": not endorsed}


def _repeated(review: MemoryReview, resolution: MemoryReview.Resolution, by: Principal, comment: str) -> dict[str, Any]:
    """A sentence stored about another subject: the subjects are the same, it is true of both, or of the old only."""
    if resolution is Resolution.NEW_WRONG:
        return {}
    if resolution is Resolution.BOTH:
        learned = fact_learn(
            agent=review.agent,
            persona=review.persona,
            by=by,
            exclude=review.facts,
            precheck=Precheck(),
            repeats=True,
            **unstored_fact_fields(review),
        )
        return _learning_undo(learned)
    known = existing(
        Fact.objects.select_related("agent").filter(agent=review.agent_id, pk__in=review.facts).first(),
        "There is no such fact.",
    )
    undo = _subjects_merge(review, by, comment) if len(review.subjects) > 1 else {}
    if not known.active:
        return undo
    known = fact_confirm(fact=known, by=by, reason="Learned again under another name.", evidence=_evidence(review))
    return undo | _confirmation_undo(known)


def _subjects_merge(review: MemoryReview, by: Principal, comment: str) -> dict[str, Any]:
    """Merge the newer of two subjects into the older; nothing is done if they are merged already."""
    older, newer = (subject_standing(review.agent_id, key) for key in review.subjects)
    if older is None or newer is None:
        raise NotFound("There is no such subject.")
    if older.pk == newer.pk:
        return {}
    change = subject_merge(subject=newer, into=older, by=by, reason=comment)
    return {"subjects": str(change.pk)}


def _reinstate_invalidated(review: MemoryReview, by: Principal, comment: str) -> dict[str, Any]:
    """Restore the invalidated fact of a review, or learn it in the new words of the review's proposal."""
    invalidated = existing(
        Fact.objects.select_related("agent").filter(agent=review.agent_id, pk__in=review.facts).first(),
        "There is no such fact.",
    )
    if review.proposal == invalidated.content:
        fact_restore(fact=invalidated, by=by, reason=comment, endorse=True)
        return {"restored": str(invalidated.pk), "endorsed": {str(invalidated.pk): invalidated.endorsed}}
    learned = fact_learn(
        agent=review.agent,
        persona=review.persona,
        content=review.proposal,
        subject=invalidated.subject,
        category=invalidated.category,
        kind=invalidated.kind,
        scope=invalidated.scope,
        **keys_of(invalidated) | {"user": inherited_user(None, invalidated)},
        tags=invalidated.tags,
        source=f"review: {by.name}"[:200],
        by=by,
        precheck=Precheck(),
        repeats=True,
    )
    return _learning_undo(learned)


def _learning_undo(learned: LearnResult) -> dict[str, Any]:
    """The data for undoing what a resolution taught: a new fact and those that it replaced, or a confirmation."""
    if learned.action == "confirmed":
        return _confirmation_undo(learned.fact)
    made = str(learned.fact.pk) if learned.action != "decided" else ""
    return {"made": made, "ended": [str(fact.pk) for fact in learned.superseded]}


def _confirmation_undo(fact: Fact) -> dict[str, Any]:
    """The data for undoing the confirmation that a fact has just had, by which a person may have verified it."""
    before = fact.changes.filter(action=FactChange.Action.CONFIRMED).latest("pk").before
    heard = {"fact": str(fact.pk), "at": plain(fact.last_confirmed_at), "before": before["last_confirmed_at"]}
    return {"confirmed": heard, "endorsed": {str(fact.pk): False} if "endorsed" in before else {}}


def _both_active_check(old: Fact, new: Fact) -> None:
    if not (old.active and new.active):
        raise Conflict("One of these facts has been retired since then; there is nothing left to decide.")


def _evidence(review: MemoryReview) -> dict[str, Any]:
    evidence: dict[str, Any] = {"review": str(review.pk), "kind": review.kind, "reasons": review.reasons}
    if review.verdict:
        evidence["judge"] = review.verdict | {"call": review.judge_call_id}
    return evidence
