"""Open reviews of memories: each at most once, in the transaction of the change that raises it."""

import hashlib
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
from memory.comparison.attribute_names import same_attribute, stated_name
from memory.comparison.compare_facts import Comparison, FactMatch, Kind, reasons_of
from memory.jobs import job_queue
from memory.judge import JudgeResult, RelationVerdict, configured_judge
from memory.models import Attribute, Censor, Fact, MemoryReview, MemoryReviewQuerySet, Relation, scope_contains
from memory.policy import (
    MAX_ATTRIBUTE_CHARACTERS,
    MAX_PENDING_REVIEWS_PER_ENDORSED_FACT,
    MAX_PENDING_REVIEWS_PER_TOKEN,
    MAX_REVIEWS_PER_TOKEN_AND_WINDOW,
    REVIEW_RETRY_SECONDS,
    REVIEW_WINDOW,
)
from memory.policy.attributes import Cardinality, plural
from memory.services.reviews.states import (
    OPENED,
    Status,
    is_budgeted,
    review_reopen,
    reviews_ask_within_budget,
    undecided_ask,
    undecided_mark,
)
from nousweb.lib import TooMany, clock


def pair_review_key(one: UUID, other: UUID) -> str:
    """The key (`MemoryReview.about`) of the review of two facts, in either order."""
    return "pair:" + ":".join(sorted([str(one), str(other)]))


@dataclass(frozen=True, slots=True)
class PairReviewDraft:
    """A review to be opened about an old fact and a new one.

    `judge_result` is the judge's verdict on the pair, None if the judge was not asked. `wish` is set if somebody wants
    `new` to replace `old`, and is their reason.
    """

    old: Fact
    new: Fact
    comparison: Comparison
    judge_result: JudgeResult[RelationVerdict] | None = None
    wish: str | None = None

    @property
    def contradicts(self) -> bool:
        """Whether the facts contradict each other (by the judge, else by the comparison) or one replaces the other."""
        if self.judge_result is not None:
            return self.judge_result.value.relation in (Relation.CONTRADICTION, Relation.UPDATE)
        return self.comparison.kind in (Kind.CHANGED, Kind.DIFFERS) or self.wish is not None


def pair_reviews_open(
    drafts: Sequence[PairReviewDraft], *, by: Principal, question: MemoryReview | None = None
) -> list[MemoryReview]:
    """Open these reviews, of facts of one persona; returns those about which people are asked. A pair that was reviewed
    before, with any resolution, gets no new review. `question`: the review of their attribute, which asks about them.

    If a judge is configured and has not been asked about a pair yet, the worker asks it.
    """
    drafts_by_key = {pair_review_key(each.old.pk, each.new.pk): each for each in drafts}
    opened = reviews_open([_pair_draft(about, each, by, question) for about, each in drafts_by_key.items()], by=by)
    judge = configured_judge() is not None
    for review in opened:
        draft = drafts_by_key[review.about]
        new = draft.new
        # It is told to all who read the new fact.
        is_told = review.status != Status.UNDECIDED and scope_contains(draft.old, new)
        if draft.contradicts and new.contradiction_of_id is None and is_told:
            new.put(contradiction_of=draft.old)
        if judge and draft.judge_result is None:
            job_queue("fact_judge", agent=new.agent, persona=new.persona, subject=review)
    return [review for review in opened if review.status == Status.PENDING]


def _pair_draft(about: str, draft: PairReviewDraft, by: Principal, question: MemoryReview | None) -> MemoryReview:
    old, new, judge_result = draft.old, draft.new, draft.judge_result
    wishes = []
    if draft.wish is not None:
        words = f"{by.name} wants the new fact to replace the old one. {draft.wish}".strip()
        wishes = [{"code": "wish", "words": words, "old": "", "new": ""}]
    review = MemoryReview(
        agent=new.agent,
        persona=new.persona,
        kind=MemoryReview.Kind.CONTRADICTION if draft.contradicts else MemoryReview.Kind.DUPLICATE,
        status=Status.JOINED if question else Status.PENDING,
        details={"question": str(question.pk)} if question else {},
        about=about,
        old=old,
        new=new,
        subject=new.subject or old.subject,
        score=round(draft.comparison.cosine, 4),
        reasons=[*wishes, *reasons_of(draft.comparison)],
        verdict=verdict_of(judge_result),
        judge_call_id=judge_result.call_id if judge_result else None,
    )
    if question is not None and "undecided" in question.details:
        undecided_mark(review, by)
    return review


def review_open(
    *, agent: Agent, persona: str, kind: str, about: str, by: Principal, always: bool = False, **fields: Any
) -> MemoryReview | None:
    """Open a review; None if one with the key `about` was opened before. `fields` are those of MemoryReview. `always`:
    people are asked whatever the attention budget.

    Raises TooMany if a token is over its limits; the caller's transaction then stores nothing.
    """
    draft = MemoryReview(agent=agent, persona=persona, kind=kind, about=about, **fields)
    return next(iter(reviews_open([draft], by=by, always=always)), None)


def reviews_open(drafts: Sequence[MemoryReview], *, by: Principal, always: bool = False) -> list[MemoryReview]:
    """Open reviews of one agent's persona; returns those that were not opened before, in order. Those that are over the
    attention budget are undecided.

    Raises TooMany if a token would be over its limits; the caller's transaction then stores nothing.
    """
    if not drafts:
        return []
    now = clock.now()
    budgeted = [draft for draft in drafts if draft.status == Status.PENDING and is_budgeted(draft) and not always]
    for draft in budgeted:
        undecided_mark(draft, by)
    for draft in drafts:
        draft.created_at = now
        draft.expires_at = draft.expires_at or now + timedelta(days=settings.REVIEW_EXPIRY_DAYS)
    MemoryReview.objects.bulk_create(drafts, ignore_conflicts=True)
    keys = [draft.pk for draft in drafts]
    stored = set(MemoryReview.objects.filter(agent=drafts[0].agent_id, pk__in=keys).values_list("pk", flat=True))
    opened = [draft for draft in drafts if draft.pk in stored]
    reviews_ask_within_budget([draft for draft in budgeted if draft.pk in stored])
    asked = [review for review in opened if review.status == Status.PENDING]
    if by.kind == "token" and asked:
        _caps_check(asked, by)
    audit_record_many(
        {
            "by": by,
            "action": OPENED,
            "target": review,
            "agent": review.agent,
            "after": {"kind": review.kind, "about": review.about},
        }
        for review in asked
    )
    return opened


def _caps_check(opened: Sequence[MemoryReview], by: Principal) -> None:
    """Raise TooMany if the token `by` is over its limits with the reviews that it has just opened."""
    first, count = opened[0], len(opened)
    others = MemoryReview.objects.filter(agent=first.agent, persona=first.persona)
    others = others.exclude(pk__in=[review.pk for review in opened])
    pending = others.pending()
    endorsed = {review.old.pk: review.old for review in opened if review.old is not None and review.old.endorsed}
    if endorsed:
        about = Counter(pending.filter(old__in=endorsed).values_list("old", flat=True))
        opened_now = Counter(review.old_id for review in opened)
        for key, old in endorsed.items():
            if about[key] + opened_now[key] > MAX_PENDING_REVIEWS_PER_ENDORSED_FACT:
                raise TooMany(
                    f"{about[key]} reviews of this fact, which is verified by people, are pending: this is the"
                    " limit. Learn it after they are resolved.",
                    retry_after=REVIEW_RETRY_SECONDS,
                    **({"fact": str(key)} if by.reads(old) else {}),
                )
    # From this number of earlier reviews on, the new ones do not fit.
    full = MAX_PENDING_REVIEWS_PER_TOKEN - count + 1
    if len(_opened_at(pending, by, full)) >= full:
        raise TooMany(
            f"{MAX_PENDING_REVIEWS_PER_TOKEN} reviews opened by this token are pending, which is the limit.",
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
    """When `by` opened the latest `limit` of these reviews, the latest first; [] if there are fewer than `limit`."""
    # The usual case: a count is much cheaper than reading all reviews.
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
    """Open the review of a censor that was escalated automatically, so that people keep or reverse the escalation."""
    return review_open(
        agent=censor.agent,
        persona=censor.persona,
        kind=MemoryReview.Kind.ESCALATION,
        about=f"escalation:{censor.pk}:{censor.activation_count}",
        by=by,
        censor=censor,
    )


def verdict_of(judge_result: JudgeResult[RelationVerdict] | None) -> dict[str, Any]:
    """A judge's verdict as it is stored with a review; {} without one."""
    if judge_result is None:
        return {}
    return judge_result.value.model_dump(mode="json") | {
        "model": judge_result.model,
        "prompt_version": judge_result.prompt_version,
    }


MAX_FACTS = 500
"""Facts that one review names."""


def attribute_rules(agent_id: int, persona: str) -> dict[str, Cardinality]:
    """How many values attributes have at a time, as people decided, by name."""
    decided = Attribute.objects.filter(agent=agent_id, persona=persona)
    return {name: Cardinality(cardinality) for name, cardinality in decided.values_list("name", "cardinality")}


def asks_about_attribute(match: FactMatch) -> bool:
    """Whether the pair differs in an attribute of which nobody knows how many values it has."""
    return match.comparison.kind is Kind.DIFFERS and not match.review_only


def attribute_questions_open(drafts: Sequence[PairReviewDraft], *, by: Principal) -> list[MemoryReview]:
    """The pending reviews of the attributes of these pairs of stored facts, which the pairs join; new ones where there
    are none. Nothing for an attribute that people have decided about. Call it under the learning lock.

    Until then each pair has a row of its own, which nobody is asked about: by that prompts mark its facts as contested,
    and a judge sees it. An attribute over the attention budget is undecided, and so are its pairs, until a later pair
    is within it.
    """
    found = {}
    for draft in drafts:
        if (review := _question(draft, by)) is not None:
            pair_reviews_open([draft], by=by, question=review)
            if "undecided" not in review.details:
                found[review.pk] = review
    return list(found.values())


def _known_name(fact: Fact, name: str) -> str:
    """The spelling under which the attribute was asked about before, else that of the older `fact`, else `name`."""
    asked = MemoryReview.objects.filter(agent=fact.agent_id, persona=fact.persona, kind=MemoryReview.Kind.ATTRIBUTE)
    names = asked.order_by("created_at").values_list("details__attribute", flat=True)[:MAX_FACTS]
    known = (*names, stated_name(fact.attribute))
    return next((spelled for spelled in known if same_attribute(spelled, name)), name)


def _question(draft: PairReviewDraft, by: Principal) -> MemoryReview | None:
    new = draft.new
    name = _known_name(draft.old, stated_name(draft.comparison.attribute)[:MAX_ATTRIBUTE_CHARACTERS])
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    about = f"attribute:{new.agent_id}:{new.persona}:{digest}"
    pair = [draft.old.pk, new.pk]
    subject = draft.new.subject or draft.old.subject
    verified = draft.old.endorsed or draft.new.endorsed
    opened = review_open(
        agent=new.agent,
        persona=new.persona,
        kind=MemoryReview.Kind.ATTRIBUTE,
        about=about,
        by=by,
        always=verified,
        subject=subject,
        facts=pair,
        details={"attribute": name},
        reasons=[
            {
                "code": "cardinality",
                "words": f"Can {subject or 'one thing'} have several {plural(name.replace('_', ' '))} at once?",
                "old": draft.comparison.old_value,
                "new": draft.comparison.new_value,
            }
        ],
    )
    if opened is not None:
        return opened
    locked = MemoryReview.objects.select_for_update(of=("self",)).select_related("agent")
    review = locked.filter(agent=new.agent_id, about=about).first()
    if review is None or (review.status == review.Status.RESOLVED and review.resolution != review.Resolution.MOOT):
        return None
    review.put(facts=list(dict.fromkeys([*review.facts, *pair]))[-MAX_FACTS:])
    if review.resolution == review.Resolution.MOOT:
        review_reopen(review, by)
    if review.status == review.Status.UNDECIDED:
        undecided_ask(review, by, always=verified)
    return review
