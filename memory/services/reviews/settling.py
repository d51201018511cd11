"""Close reviews whose reason has ended, in the transaction that ends it, and reopen them if it stands again.

Every change that retires or restores a fact, merges or splits a subject, or changes a censor calls `reviews_settle`, so
that each pending review can be resolved.
"""

from collections.abc import Collection
from uuid import UUID

from django.db.models import Q

from identity.principal import Principal
from memory.models import Fact, MemoryReview, Subject
from memory.policy.autonomy import AutomaticDecision
from memory.policy.censors import ESCALATES_TO
from memory.services.reviews.attention import undecided_ask
from memory.services.reviews.records import joined_pairs, resolution_record, review_reopen
from nousweb.lib import clock

BY = Principal.of_system("reviews")
Kind = MemoryReview.Kind
Resolution = MemoryReview.Resolution
ENDED = "The review is no longer applicable: the matter was settled elsewhere."


def reviews_settle(
    *,
    agent_id: int,
    facts: Collection[UUID] = (),
    subjects: Collection[UUID] = (),
    censors: Collection[UUID] = (),
) -> None:
    """Close the open reviews of these rows that no longer stand, reopen the closed ones that stand again, and ask about
    undecided ones of facts that people verified.

    Call it after the change. A review that another transaction is resolving is skipped: `reviews_expire` closes it.
    """
    about = Q(censor__in=censors)
    if facts:
        about |= Q(old__in=facts) | Q(new__in=facts) | Q(facts__overlap=list(facts))
    if subjects:
        about |= Q(subjects__overlap=list(_with_merged(agent_id, subjects)))
    rows = MemoryReview.objects.filter(about, agent=agent_id)
    rows = rows.filter(Q(status__in=MemoryReview.OPEN) | Q(resolution=Resolution.MOOT))
    rows = rows.select_related("agent", "old", "new", "censor").order_by("pk")
    locked = rows.select_for_update(of=("self",), skip_locked=True)
    # Pairs of facts first: the review of their attribute rests on them.
    for review in sorted(locked, key=lambda review: review.kind == Kind.ATTRIBUTE):
        review_settle(review)


def review_settle(review: MemoryReview) -> None:
    """Close this locked review if it is open and no longer stands; reopen it if it was closed and stands again; ask
    people if it is undecided and they verified one of its facts."""
    is_open, stands = review.status in MemoryReview.OPEN, review_stands(review)
    if is_open and not stands:
        resolution_record(review, Resolution.MOOT, BY, comment=ENDED)
    elif stands and review.resolution == Resolution.MOOT:
        review_reopen(review, BY)
    if stands and review.status == MemoryReview.Status.UNDECIDED and _is_verified(review):
        undecided_ask(review, BY, always=True)


def _is_verified(review: MemoryReview) -> bool:
    """Whether people verified one of its facts; a pair of an attribute is asked with its attribute."""
    if review.kind == Kind.ATTRIBUTE:
        return Fact.objects.filter(agent=review.agent_id, pk__in=review.facts, endorsed=True, active=True).exists()
    facts = (review.old, review.new)
    return "question" not in review.details and any(fact is not None and fact.endorsed for fact in facts)


def review_stands(review: MemoryReview) -> bool:
    """Whether there is still something to decide: its facts are in use, its subjects are two, pairs of facts wait for
    its attribute, its censor is stricter than it was made."""
    if review.details.get("blind") and (stands := _sample_stands(review)) is not None:
        return stands
    if review.kind == Kind.ESCALATION:
        return review.censor is not None and review.censor.active and review.censor.severity in ESCALATES_TO.values()
    if review.kind == Kind.SAME_SUBJECT:
        return not _is_one(review)
    if review.kind == Kind.ATTRIBUTE:
        return joined_pairs(review).exists()
    if review.kind not in (Kind.COMPACTION, Kind.RELEARNED, Kind.REPEATED, Kind.HELD):
        return all(map(_in_use, filter(None, (review.old, review.new))))
    facts = list(Fact.objects.filter(agent=review.agent_id, pk__in=review.facts))
    match review.kind:
        case Kind.COMPACTION:
            return sum(map(_in_use, facts)) > 1
        case Kind.RELEARNED:
            return any(fact.invalidated_at is not None for fact in facts)
        case Kind.REPEATED:
            return not (_is_one(review) and any(map(_in_use, facts)))
        case _:
            others = len(review.details.get("items", [])) > len(review.facts)
            return others or any(fact.invalidated_at is None for fact in facts)


def _sample_stands(review: MemoryReview) -> bool | None:
    """Whether the decision of a blind sample still stands, so that an answer means something; None if the facts decide
    that as for any other review."""
    old, new = review.old, review.new
    decision = review.details["blind"]["decision"]
    if decision == AutomaticDecision.UNDECIDED or old is None or new is None:
        return None
    gone, kept = (old, new) if decision == AutomaticDecision.SUPERSEDED else (new, old)
    return gone.superseded_by_id == kept.pk and not gone.active and kept.is_current


def _in_use(fact: Fact) -> bool:
    return fact.active and (fact.valid_until is None or fact.valid_until > clock.now())


def _is_one(review: MemoryReview) -> bool:
    """Whether the two subjects of the review have been merged, or one of them no longer exists."""
    found = set()
    for key in review.subjects:
        subject = _subject(review.agent_id, key)
        while subject is not None and subject.merged_into_id is not None:
            subject = _subject(review.agent_id, subject.merged_into_id)
        found.add(subject and subject.pk)
    return len(review.subjects) > 1 and (len(found) == 1 or None in found)


def _subject(agent_id: int, key: UUID) -> Subject | None:
    return Subject.objects.filter(agent=agent_id, pk=key).first()


def _with_merged(agent_id: int, subjects: Collection[UUID]) -> set[UUID]:
    """These subjects and all that were merged into them."""
    found = new = set(subjects)
    while new:
        merged = Subject.objects.filter(agent=agent_id, merged_into__in=new).values_list("pk", flat=True)
        new = set(merged) - found
        found = found | new
    return found
