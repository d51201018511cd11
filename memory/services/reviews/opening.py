"""Opening reviews of memories: each once, in the transaction of what raised it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from identity.models import Agent, AuditEvent
from identity.principal import Principal
from identity.services.audit import audit_record_many
from memory.comparison.compare import Comparison, Kind
from memory.comparison.resolution import reasons_of
from memory.jobs.queue import job_queue
from memory.judge import Judged, RelationVerdict, judge_in_force
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


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """What `new` is to `old`, to be asked of people.

    `wish` says that somebody wants `new` in the place of `old`, and why in their words.
    """

    old: Fact
    new: Fact
    comparison: Comparison
    judged: Judged[RelationVerdict] | None = None
    wish: str | None = None

    @property
    def contradicts(self) -> bool:
        """Whether the two cannot both hold, by the judge or else by the comparison, or are not to."""
        if self.judged is not None:
            return self.judged.value.relation in (Relation.CONTRADICTION, Relation.UPDATE)
        return self.comparison.kind in (Kind.CHANGED, Kind.DIFFERS) or self.wish is not None


def pair_reviews_open(questions: Sequence[PairQuestion], *, by: Principal) -> list[MemoryReview]:
    """Ask people these questions about facts of one persona; the reviews of those pairs that were never reviewed,
    whatever the resolution.

    The judge in force, if it has not been asked, is asked by the worker.
    """
    asked = {pair_about(each.old.pk, each.new.pk): each for each in questions}
    opened = reviews_open([_pair_draft(about, each, by) for about, each in asked.items()], by=by)
    judge = judge_in_force() is not None
    for review in opened:
        question = asked[review.about]
        new = question.new
        if question.contradicts and new.contradiction_of_id is None:
            new.contradiction_of = question.old
            new.save(update_fields=["contradiction_of"])
        if judge and question.judged is None:
            job_queue("fact_judge", agent=new.agent, persona=new.persona, subject=review)
    return opened


def _pair_draft(about: str, question: PairQuestion, by: Principal) -> MemoryReview:
    old, new, judged = question.old, question.new, question.judged
    wishes = []
    if question.wish is not None:
        words = f"{by.name} wants the new fact to replace the old one. {question.wish}".strip()
        wishes = [{"code": "wish", "words": words, "old": "", "new": ""}]
    return MemoryReview(
        agent=new.agent,
        persona=new.persona,
        kind=ReviewKind.CONTRADICTION if question.contradicts else ReviewKind.DUPLICATE,
        about=about,
        old=old,
        new=new,
        subject=new.subject or old.subject,
        score=round(question.comparison.cosine, 4),
        reasons=[*wishes, *reasons_of(question.comparison)],
        verdict=verdict_of(judged),
        judge_call_id=judged.call_id if judged else None,
    )


def review_open(
    *, agent: Agent, persona: str, kind: str, about: str, by: Principal, **fields: Any
) -> MemoryReview | None:
    """Let a review wait for people; None when it was opened before. `fields` are those of MemoryReview.

    Raises TooMany where a token has asked as much as it may, so that nothing of what opens it is stored.
    """
    draft = MemoryReview(agent=agent, persona=persona, kind=kind, about=about, **fields)
    return next(iter(reviews_open([draft], by=by)), None)


def reviews_open(drafts: Sequence[MemoryReview], *, by: Principal) -> list[MemoryReview]:
    """Let reviews of one agent's persona wait for people; those that were not opened before, in their order.

    Raises TooMany where a token would ask more than it may, so that nothing of what opens them is stored.
    """
    if not drafts:
        return []
    now = clock.now()
    for draft in drafts:
        draft.created_at, draft.expires_at = now, now + timedelta(days=settings.REVIEW_EXPIRY_DAYS)
    MemoryReview.objects.bulk_create(drafts, ignore_conflicts=True)
    keys = [draft.pk for draft in drafts]
    stored = set(MemoryReview.objects.filter(agent=drafts[0].agent_id, pk__in=keys).values_list("pk", flat=True))
    opened = [draft for draft in drafts if draft.pk in stored]
    if by.kind == "token" and opened:
        _caps_check(opened, by)
    audit_record_many(
        {
            "by": by,
            "action": OPENED,
            "target": review,
            "agent": review.agent,
            "after": {"kind": review.kind, "about": review.about},
        }
        for review in opened
    )
    if settings.WEBHOOK_URL:
        for review in opened:
            job_queue("webhook", agent=review.agent, persona=review.persona, subject=review)
    return opened


def _caps_check(opened: Sequence[MemoryReview], by: Principal) -> None:
    """Raise TooMany where the token `by` asks people more than it may with what it has just opened."""
    first, count = opened[0], len(opened)
    others = MemoryReview.objects.filter(agent=first.agent, persona=first.persona)
    others = others.exclude(pk__in=[review.pk for review in opened])
    waiting = others.pending()
    endorsed = {review.old.pk: review.old for review in opened if review.old is not None and review.old.endorsed}
    if endorsed:
        about = Counter(waiting.filter(old__in=endorsed).values_list("old", flat=True))
        asked = Counter(review.old_id for review in opened)
        for key, old in endorsed.items():
            if about[key] + asked[key] > MAX_WAITING_REVIEWS_PER_ENDORSED_FACT:
                raise TooMany(
                    f"{about[key]} reviews of this fact, which is verified by people, are pending: this is the"
                    " limit. Learn it after they are resolved.",
                    retry_after=REVIEW_RETRY_SECONDS,
                    **({"fact": str(key)} if by.reads_project(old.project) else {}),
                )
    # With so many before, there is no room for all of them.
    full = MAX_WAITING_REVIEWS_PER_TOKEN - count + 1
    if len(_opened_at(waiting, by, full)) >= full:
        raise TooMany(
            f"{MAX_WAITING_REVIEWS_PER_TOKEN} reviews opened by this token are pending, which is the limit.",
            retry_after=REVIEW_RETRY_SECONDS,
        )
    since = first.created_at - REVIEW_WINDOW
    full = MAX_REVIEWS_PER_TOKEN_AND_WINDOW - count + 1
    moments = _opened_at(others.filter(created_at__gt=since), by, full)
    if len(moments) >= full:
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
