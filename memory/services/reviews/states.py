"""The states of reviews: pending within the attention budget or undecided, resolved, reopened, settled, expired."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction, first_of_personas
from identity.services.audit import audit_record
from identity.services.inbox_items import notifications_end
from memory.models import Fact, MemoryReview, Subject, Validity
from memory.policy import ESCALATES_TO, PROFILE_CATEGORIES
from memory.policy.oversight import DAY, FACTS, AttentionBudget, AutomaticDecision, Autonomy
from nousweb.lib import Conflict, clock, existing

REVIEW = "memory.review_memory"
Kind = MemoryReview.Kind
Status = MemoryReview.Status
Resolution = MemoryReview.Resolution


def review_lock(review: MemoryReview) -> MemoryReview:
    """Lock a review until the end of the transaction and read it again, with its facts. Raises NotFound.

    Locks are always taken in this order: the review, then its facts.
    """
    return existing(
        MemoryReview.objects.select_for_update(of=("self",))
        .select_related("agent", "old__agent", "new__agent", "censor__agent")
        .filter(agent=review.agent_id, pk=review.pk)
        .first(),
        "There is no such review.",
    )


def resolution_record(
    review: MemoryReview,
    resolution: MemoryReview.Resolution,
    by: Principal,
    *,
    comment: str = "",
    undo: dict[str, Any] | None = None,
    batch: UUID | None = None,
) -> None:
    """Store the resolution of a review, its author, and the data for undoing it."""
    review.status, review.resolution, review.comment = Status.RESOLVED, resolution, comment
    review.resolver_kind, review.resolver_id, review.resolver_name = by.kind, by.id, by.name
    review.resolved_at, review.batch, review.before = clock.now(), batch, undo or {}
    review.save()
    notifications_end(review.pk, by)
    audit_record(
        by=by,
        action="memory_review.resolve",
        target=review,
        agent=review.agent,
        before={"status": str(Status.PENDING)},
        after={"resolution": str(resolution)},
        message=comment,
    )


def joined_pairs(review: MemoryReview) -> QuerySet[MemoryReview]:
    """The pairs of facts that wait for the answer to this review of an attribute."""
    waiting = (Status.JOINED, Status.UNDECIDED)
    return MemoryReview.objects.filter(agent=review.agent_id, status__in=waiting, details__question=str(review.pk))


def review_reopen(review: MemoryReview, by: Principal) -> None:
    """Make a resolved or expired review wait again: pending, joined to the review of its attribute, or undecided if
    nobody was asked and no person does it; a blind sample waits as one, while its decision stands. Contested facts as
    of a moment are computed from the records."""
    was, blind = review.resolution, review.details.get("blind", {})
    # A decision that a person's answer undid does not stand any more.
    is_blind = bool(blind) and (blind.pop("agrees", True) or not blind["undo"])
    if not is_blind:
        review.details.pop("blind", None)
    if by.is_person and not is_blind:
        review.details.pop("undecided", None)
    review.status = Status.JOINED if review.details.get("question") else Status.PENDING
    if review.details.get("undecided") and not is_blind:
        review.status = Status.UNDECIDED
    review.resolution = review.comment = ""
    review.resolver_kind = review.resolver_id = review.resolver_name = ""
    review.resolved_at = review.batch = None
    review.before = {}
    # A reopened review stays pending for at least a day before it expires.
    review.expires_at = max(review.expires_at, clock.now() + timedelta(days=1))
    review.save()
    audit_record(
        by=by,
        action="memory_review.undo",
        target=review,
        agent=review.agent,
        before={"resolution": was},
        after={"status": review.status},
    )


OPENED = "memory_review.ask"
BUDGETED = (Kind.CONTRADICTION, Kind.DUPLICATE, Kind.ATTRIBUTE)
"""The kinds that cost attention. Without an answer to one of them, its facts stay beside each other."""


def is_budgeted(review: MemoryReview) -> bool:
    """Whether people are asked about a new review only within the budget: it is about two facts that nobody verified,
    or about an attribute."""
    verified = any(fact is not None and fact.endorsed for fact in (review.old, review.new))
    return review.kind in BUDGETED and not verified


def undecided_mark(review: MemoryReview, by: Principal) -> None:
    """Let nobody be asked about this review, which `by` opens; the caller saves it."""
    review.status = Status.UNDECIDED
    review.details = review.details | {"undecided": True, "writer": by.name}


def undecided_ask(review: MemoryReview, by: Principal, *, always: bool) -> None:
    """Ask people about this locked, undecided review, if the budget allows it; `always`: whatever the budget."""
    if always:
        _ask(review, later=True)
    else:
        reviews_ask_within_budget([review], later=True)
    if review.status == Status.PENDING:
        opened_record(review, by)


def reviews_ask_within_budget(reviews: Sequence[MemoryReview], *, later: bool = False) -> None:
    """Ask people about as many of these undecided reviews of one agent as its budget allows, the highest stake first.
    `later`: they have been undecided for a time."""
    if not reviews:
        return
    now = clock.now()
    asked = sorted(reviews, key=_stake, reverse=True)[: _left(reviews[0].agent_id)]
    for review in asked:
        review.asked_at = now
        _ask(review, later=later)


@agent_transaction(of="review")
def review_ask(*, review: MemoryReview, by: Principal) -> MemoryReview:
    """Ask people about an undecided review, whatever the budget; for a pair of an attribute, about its attribute.

    Raises Conflict if it is not undecided, NotAllowed.
    """
    by.require(REVIEW, review.agent)
    review = review_lock(review)
    if review.status == Status.UNDECIDED and (question := review.details.get("question")):
        review = review_lock(MemoryReview(pk=question, agent=review.agent))
    if review.status != Status.UNDECIDED:
        raise Conflict("This review is not undecided: people are asked, or it is resolved.")
    undecided_ask(review, by, always=True)
    return review


def opened_record(review: MemoryReview, by: Principal) -> None:
    """Record that people are asked about a review that was not opened for them at first."""
    after: dict[str, Any] = {"kind": review.kind, "about": review.about}
    audit_record(by=by, action=OPENED, target=review, agent=review.agent, after=after)


def _ask(review: MemoryReview, *, later: bool) -> None:
    now = clock.now()
    for each in (review, *(joined_pairs(review) if review.kind == Kind.ATTRIBUTE else ())):
        each.status = Status.PENDING if each is review else Status.JOINED
        each.details = {name: value for name, value in each.details.items() if name != "undecided"}
        if later:
            # Prompts as of a moment before show it as undecided.
            each.details["undecided_until"] = now.isoformat()
        each.expires_at = now + timedelta(days=settings.REVIEW_EXPIRY_DAYS)
        each.save(update_fields=["status", "details", "asked_at", "expires_at"])


def has_budget_left(agent_id: int) -> bool:
    """Whether people may be asked about one more review of this agent now."""
    return _left(agent_id) != 0


def _left(agent_id: int) -> int | None:
    """How many more reviews people may be asked about now; None for any number."""
    config = Agent.objects.values_list("config", flat=True).get(pk=agent_id)
    budget = AttentionBudget.of_config(config)
    if budget.unlimited or Autonomy.of_config(config).asks(AutomaticDecision.UNDECIDED):
        return None
    asked = MemoryReview.objects.filter(agent=agent_id, asked_at__isnull=False)
    left = budget.per_day - asked.filter(asked_at__gt=clock.now() - DAY).count()
    if left <= 0 or not budget.per_hundred_facts:
        return 0
    spent = asked.count()
    # Of a large agent, only as many facts as are needed are counted.
    needed = FACTS * ((spent + left) // budget.per_hundred_facts + 1)
    facts = Fact.objects.filter(agent=agent_id).order_by()[:needed].count()
    return max(0, min(left, budget.asked_at_most(facts) - spent))


def _stake(review: MemoryReview) -> tuple[bool, bool, float]:
    """The importance of a review: core memory, contradicting values, and the uncertainty of the judge."""
    is_core = any(fact is not None and fact.category in PROFILE_CATEGORIES for fact in (review.old, review.new))
    return is_core, review.kind != Kind.DUPLICATE, 1.0 - float(review.verdict.get("confidence") or 0.0)


BY = Principal.of_system("reviews")
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
        resolution_record(review, Resolution.MOOT, BY, comment="" if review.is_mark else ENDED)
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
    if review.kind not in (Kind.COMPACTION, Kind.RELEARNED, Kind.REPEATED, *MemoryReview.ABOUT_TEXTS):
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
            if review.is_mark:
                return False
            others = len(review.details.get("items", [])) > len(review.facts)
            shown = review.details.get("codes") == ["shown"]
            return others or any(_in_use(fact) if shown else fact.invalidated_at is None for fact in facts)


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
    return fact.active and fact.validity_at(clock.now()) != Validity.EXPIRED


def _is_one(review: MemoryReview) -> bool:
    """Whether the two subjects of the review have been merged, or one of them no longer exists."""
    subjects = [subject_standing(review.agent_id, key) for key in review.subjects]
    return len(subjects) > 1 and (None in subjects or len(set(subjects)) == 1)


def subject_standing(agent_id: int, key: UUID) -> Subject | None:
    """A subject, or the one into which it has been merged since; None if there is none."""
    subjects = Subject.objects.select_related("agent").filter(agent=agent_id)
    subject = subjects.filter(pk=key).first()
    while subject is not None and subject.merged_into_id is not None:
        subject = subjects.filter(pk=subject.merged_into_id).first()
    return subject


def _with_merged(agent_id: int, subjects: Collection[UUID]) -> set[UUID]:
    """These subjects and all that were merged into them."""
    found = new = set(subjects)
    while new:
        merged = Subject.objects.filter(agent=agent_id, merged_into__in=new).values_list("pk", flat=True)
        new = set(merged) - found
        found = found | new
    return found


MAX_CLOSED = 500
"""Maximum number per persona and call, so that a backlog of one persona does not delay the other."""


@transaction.atomic
def reviews_expire(*, by: Principal) -> int:
    """Close reviews that were not resolved in time, and those whose facts were retired elsewhere or have ended.

    Returns how many.
    """
    now = clock.now()
    settled = Q(old__active=False) | Q(new__active=False) | Q(censor__active=False)
    settled |= Q(old__valid_until__lte=now) | Q(new__valid_until__lte=now)
    settled |= Q(old__expires_at__lte=now) | Q(new__expires_at__lte=now)
    settled &= Q(details__blind__isnull=True)
    pending, undecided = Q(status=MemoryReview.Status.PENDING), Q(status=MemoryReview.Status.UNDECIDED)
    ended = pending & Q(expires_at__lte=now) | (pending | undecided) & settled
    over = MemoryReview.objects.filter(ended).order_by("created_at")
    reviews = first_of_personas(over, MAX_CLOSED)
    for review in reviews:
        if review.status == MemoryReview.Status.PENDING and review.expires_at <= now:
            review.put(status=MemoryReview.Status.EXPIRED, resolved_at=now)
            audit_record(
                by=by, action="memory_review.expire", target=review, agent=review.agent, after={"status": review.status}
            )
        else:
            resolution_record(
                review,
                MemoryReview.Resolution.MOOT,
                by,
                comment=ENDED,
            )
    return len(reviews)
