"""Opening reviews of memories: each once, in the transaction of what raised it."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.comparison.compare import Comparison, Kind
from memory.jobs.queue import job_queue
from memory.judge import Judged, RelationVerdict, judge_in_force
from memory.judge.resolution import reasons_of
from memory.models import Censor, Fact, MemoryReview
from memory.models.relation import Relation
from memory.models.reviews import MemoryReviewQuerySet
from memory.policy import (
    MAX_REVIEWS_PER_TOKEN_AND_WINDOW,
    MAX_WAITING_REVIEWS_PER_ENDORSED_FACT,
    MAX_WAITING_REVIEWS_PER_TOKEN,
    REVIEW_RETRY_SECONDS,
    REVIEW_WINDOW,
)
from nousweb.lib import clock
from nousweb.lib.errors import TooMany

OPENED = "memory_review.ask"
ReviewKind = MemoryReview.Kind
Status = MemoryReview.Status


def pair_about(one: UUID, other: UUID) -> str:
    """What a review of two facts is about, whichever of them is named first."""
    return "pair:" + ":".join(sorted([str(one), str(other)]))


def pair_review_open(
    *,
    old: Fact,
    new: Fact,
    comparison: Comparison,
    by: Principal,
    judged: Judged[RelationVerdict] | None = None,
    wish: str | None = None,
) -> MemoryReview | None:
    """Ask people what `new` is to `old`; None when this pair was reviewed before, whatever the resolution.

    `wish` says that somebody wants `new` in the place of `old`, and why in their words. The judge in force, if it has
    not been asked, is asked by the worker.
    """
    contradicts = comparison.kind in (Kind.CHANGED, Kind.DIFFERS) or wish is not None
    wishes = []
    if wish is not None:
        words = f"{by.name} wants the new one to take the old one's place. {wish}".strip()
        wishes = [{"code": "wish", "words": words, "old": "", "new": ""}]
    if judged is not None:
        contradicts = judged.value.relation in (Relation.CONTRADICTION, Relation.UPDATE)
    review = review_open(
        agent=new.agent,
        persona=new.persona,
        kind=ReviewKind.CONTRADICTION if contradicts else ReviewKind.DUPLICATE,
        about=pair_about(old.pk, new.pk),
        by=by,
        old=old,
        new=new,
        subject=new.subject or old.subject,
        score=round(comparison.cosine, 4),
        reasons=[*wishes, *reasons_of(comparison)],
        verdict=verdict_of(judged),
        judge_call_id=judged.call_id if judged else None,
    )
    if review is None:
        return None
    if contradicts and new.contradiction_of_id is None:
        new.contradiction_of = old
        new.save(update_fields=["contradiction_of"])
    if judged is None and judge_in_force() is not None:
        job_queue("fact_judge", agent=new.agent, persona=new.persona, subject=review)
    return review


def review_open(
    *, agent: Agent, persona: str, kind: str, about: str, by: Principal, **fields: Any
) -> MemoryReview | None:
    """Let a review wait for people; None when it was opened before. `fields` are those of MemoryReview.

    Raises TooMany where a token has asked as much as it may, so that nothing of what opens it is stored.
    """
    now = clock.now()
    review = MemoryReview(
        agent=agent,
        persona=persona,
        kind=kind,
        about=about,
        created_at=now,
        expires_at=now + timedelta(days=settings.REVIEW_EXPIRY_DAYS),
        **fields,
    )
    MemoryReview.objects.bulk_create([review], ignore_conflicts=True)
    if not MemoryReview.objects.filter(pk=review.pk).exists():
        return None
    if by.kind == "token":
        _caps_check(review, by)
    audit_record(
        by=by,
        action=OPENED,
        target=review,
        agent=agent,
        after={"kind": kind, "about": about},
    )
    if settings.WEBHOOK_URL:
        job_queue("webhook", agent=agent, persona=persona, subject=review)
    return review


def _caps_check(review: MemoryReview, by: Principal) -> None:
    """Raise TooMany where the token `by` has asked people as much as it may, before this review."""
    others = MemoryReview.objects.filter(agent=review.agent, persona=review.persona).exclude(pk=review.pk)
    waiting = others.pending()
    if review.old is not None and review.old.endorsed:
        about = waiting.filter(old=review.old).count()
        if about >= MAX_WAITING_REVIEWS_PER_ENDORSED_FACT:
            raise TooMany(
                f"{about} reviews of this word of people's wait, as many as may: learn it once they are resolved.",
                retry_after=REVIEW_RETRY_SECONDS,
                **({"fact": str(review.old.pk)} if by.reads_project(review.old.project) else {}),
            )
    if len(_opened_at(waiting, by, MAX_WAITING_REVIEWS_PER_TOKEN)) >= MAX_WAITING_REVIEWS_PER_TOKEN:
        raise TooMany(
            f"{MAX_WAITING_REVIEWS_PER_TOKEN} reviews opened by this token wait for people, as many as may.",
            retry_after=REVIEW_RETRY_SECONDS,
        )
    since = review.created_at - REVIEW_WINDOW
    moments = _opened_at(others.filter(created_at__gt=since), by, MAX_REVIEWS_PER_TOKEN_AND_WINDOW)
    if len(moments) >= MAX_REVIEWS_PER_TOKEN_AND_WINDOW:
        raise TooMany(
            f"A token may open {MAX_REVIEWS_PER_TOKEN_AND_WINDOW} reviews in 24 hours.",
            retry_after=max(1, int((moments[-1] - since) / timedelta(seconds=1)) + 1),
        )


def _opened_at(reviews: MemoryReviewQuerySet, by: Principal, limit: int) -> list[datetime]:
    """When `by` opened the latest `limit` of these reviews, the latest first; [] where there are fewer than `limit`."""
    # The usual case, in which reading them all would take longer than the rest of what the token asks for.
    if reviews.count() < limit:
        return []
    moments = dict(reviews.order_by("-created_at").values_list("pk", "created_at"))
    records = AuditEvent.objects.filter(
        object_type="memoryreview",
        object_id__in=list(map(str, moments)),
        action=OPENED,
        author_kind=by.kind,
        author_id=by.id,
    )
    keys = set(records.values_list("object_id", flat=True))
    return [moment for key, moment in moments.items() if str(key) in keys][:limit]


def escalation_announce(*, censor: Censor, by: Principal) -> MemoryReview | None:
    """Tell people that a censor has risen by itself, so that one of them keeps or reverses it."""
    return review_open(
        agent=censor.agent,
        persona=censor.persona,
        kind=ReviewKind.ESCALATION,
        about=f"escalation:{censor.pk}:{censor.activation_count}",
        by=by,
        censor=censor,
    )


def verdict_of(judged: Judged[RelationVerdict] | None) -> dict[str, Any]:
    """A judge's verdict as a review keeps it."""
    if judged is None:
        return {}
    return judged.value.model_dump(mode="json") | {"model": judged.model, "prompt_version": judged.prompt_version}
