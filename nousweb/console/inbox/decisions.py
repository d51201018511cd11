"""What people do with items of the inbox: decisions, several at once and their undo, and the actions besides, with the
panel of an item."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from context.models import ASSEMBLE, VIEW_RUN, ContextRun
from context.selectors import runs_with_memory
from identity.models import ChangeProposal, IdentityVersion, ItemAssignment, ItemComment, ItemSnooze, SecondOpinion
from identity.policy.inbox import DECIDE_RIGHTS
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.services.inbox_items import (
    MENTION,
    InboxItem,
    item_assign,
    item_comment_add,
    item_skip,
    item_snooze,
    item_unsnooze,
    notifications_read,
    opinion_give,
    opinion_request,
)
from identity.services.proposals import (
    proposal_approve,
    proposal_keep,
    proposal_reject,
    proposal_revert,
    proposal_undo,
    proposal_withdraw,
    proposals_batch,
)
from identity.services.versions import StaleBase
from memory.models import MemoryReview
from memory.selectors import visible_reviews
from memory.services.reviews.quarantine_resolution import quarantined_texts, row_state
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.undo import review_undo
from nousweb.console.common import (
    MAX_SELECTED,
    POST,
    Refusals,
    attempt_each,
    moment_of,
    next_prompt_link,
    number_of,
    page,
    principal_of,
    uuids_of,
)
from nousweb.console.inbox.filter import InboxFilter
from nousweb.console.inbox.item_titles import MAX_CHARACTERS, PairOutcome, brief
from nousweb.console.inbox.proposal_items import ProposalItem, proposal_name, with_texts
from nousweb.console.inbox.query import PROPOSAL, REVIEW
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, DomainError, Invalid, NotFound, existing

ANOTHER_MUST_APPROVE = "Four eyes: another person must approve."


def proposal_decide(
    action: str,
    item: ProposalItem,
    by: Principal,
    comment: str,
    batch: UUID | None,
    content: str | None = None,
    base_version: int | None = None,
    *,
    merge: bool = False,
) -> Any:
    """Make the decision of a form; `batch` is that of a bulk action, which knows fewer decisions.

    Raises NotFound for an unknown decision, and all errors of the service.
    """
    target = item.proposal
    decisions: dict[str, Callable[[], Any]] = {
        "approve": lambda: proposal_approve(
            proposal=target,
            by=by,
            comment=comment,
            content=content,
            base_version=item.read_version if base_version is None else base_version,
            batch=batch,
            merge=merge,
        ),
        "reject": lambda: proposal_reject(proposal=target, by=by, comment=comment, batch=batch),
        "keep": lambda: proposal_keep(proposal=target, by=by, comment=comment, batch=batch),
    }
    if batch is None:
        decisions |= {
            "revert": lambda: proposal_revert(proposal=target, by=by, comment=comment),
            "withdraw": lambda: proposal_withdraw(proposal=target, by=by),
        }
    return existing(decisions.get(action), "There is no such decision.")()


def _proposals_decide(request: HttpRequest, keys: list[UUID], by: Principal, batch: UUID) -> tuple[int, Refusals]:
    """Decide several proposals with the form's action."""
    action = next((name for name in ("approve", "reject", "keep") if name in request.POST), "")
    action = action or request.POST.get("action", "")
    rows = {row.pk: row for row in with_texts(ChangeProposal.objects.visible_to(by).filter(pk__in=keys))}
    shown = _shown(request)
    done, refused = 0, []
    # The version of each section that this batch has led to: what follows was read before it.
    moved: dict[tuple[int, str], int] = {}
    for item in (ProposalItem(rows[key]) for key in keys if key in rows):
        proposal = item.proposal
        section = (proposal.agent_id, proposal.section)
        try:
            if action in ("approve", "keep"):
                _shown_check(item, shown)
            read = moved.get(section, shown.get(proposal.pk, 0))
            comment = request.POST.get("comment", "")
            version = proposal_decide(action, item, by, comment, batch, base_version=read, merge=True)
            if action == "approve" and isinstance(version, IdentityVersion):
                moved[section] = version.version
            done += 1
        except StaleBase:
            why = "It changes the same lines as the current text. Open the proposal to decide it."
            refused.append((item.title, why))
        except DomainError as error:
            refused.append((f"{item.title} (by {proposal.author_name})", error.detail))
    return done, refused


def _shown(request: HttpRequest) -> dict[UUID, int]:
    """The proposals whose text the list has unfolded, each with the version beside which it was read."""
    return {
        pk: number
        for value in request.POST.getlist("shown")[:MAX_SELECTED]
        for key, _, version in [value.partition(":")]
        for pk in uuids_of([key])
        if (number := number_of(version)) is not None
    }


def _shown_check(item: ProposalItem, shown: Mapping[UUID, int]) -> None:
    """Raise Conflict for proposals that must not be approved from a list: high risk, or a text that was not unfolded
    there."""
    if item.proposal.risk == Risk.HIGH:
        raise Conflict("Open a proposal of high risk to approve it.")
    if item.proposal.pk not in shown:
        raise Conflict("Expand the proposal and read it before you approve it.")


def _reviews_resolve(request: HttpRequest, keys: list[UUID], by: Principal, batch: UUID) -> tuple[int, Refusals]:
    """Resolve several reviews with the form's answer."""
    seen = dict(value.partition(":")[::2] for value in request.POST.getlist("seen"))
    answer = request.POST.get("answer", "")
    rows = visible_reviews(by).filter(pk__in=keys).select_related("agent", "new")

    def resolve(review: MemoryReview) -> MemoryReview:
        if answer == MemoryReview.Resolution.ALLOW and any(
            len(text) > MAX_CHARACTERS for text in quarantined_texts(review)
        ):
            raise Conflict("Open it to allow it: its row shows only the beginning.")
        return review_resolve(review=review, resolution=answer, by=by, batch=batch, seen=seen.get(str(review.pk), ""))

    done, refused = attempt_each(rows, resolve)
    return len(done), refused


DECIDE_MANY: dict[str, Callable[[HttpRequest, list[UUID], Principal, UUID], tuple[int, Refusals]]] = {
    PROPOSAL: _proposals_decide,
    REVIEW: _reviews_resolve,
}
"""By type of an item: the decisions of a bulk form; returns how many were made, and the refusals."""


def rival_choose(
    chosen: UUID | None,
    rivals: Sequence[ProposalItem | MemoryReview],
    request: HttpRequest,
    by: Principal,
    batch: UUID,
    *,
    keeps: bool = False,
) -> tuple[str, UUID] | None:
    """Decide rivals together, all or none: the `chosen` one is approved, and those that change the same lines are
    rejected, or with `keeps` stay pending, to be edited, the first of which is returned; or it replaces the known fact,
    and the others were never true. No `chosen` keeps what is.

    Raises Conflict for a text that was not shown, and all errors of the services.
    """
    comment = request.POST.get("comment", "")
    shown = _shown(request)
    seen = dict(value.partition(":")[::2] for value in request.POST.getlist("seen"))

    # The first decision may change what the next one is about, so all of it is compared with what was shown before.
    for item in rivals:
        if isinstance(item, ProposalItem) and item.proposal.pk not in shown:
            raise Conflict("Another proposal has come since. Compare them again.")
        if isinstance(item, MemoryReview) and seen.get(str(item.pk)) != row_state(item):
            raise Conflict("What these reviews are about has changed since. Compare them again.")

    def decide(item: ProposalItem | MemoryReview, *, taken: bool) -> None:
        if isinstance(item, ProposalItem):
            action, read = ("approve", shown[item.proposal.pk]) if taken else ("reject", None)
            proposal_decide(action, item, by, comment, batch, base_version=read, merge=True)
        else:
            answer = "replace" if taken else "new_wrong"
            review_resolve(review=item, resolution=answer, by=by, comment=comment, batch=batch)

    keys = [item.proposal.pk if isinstance(item, ProposalItem) else item.pk for item in rivals]
    winner = rivals[keys.index(chosen)] if chosen in keys else None
    losers = [item for item in rivals if item is not winner]
    if isinstance(winner, ProposalItem):
        losers = [item for item in losers if isinstance(item, ProposalItem) and item.clashes(winner)]
    kept = [(PROPOSAL, item.proposal.pk) for item in losers if keeps and isinstance(item, ProposalItem)]
    with transaction.atomic():
        for item in () if kept else losers:
            decide(item, taken=False)
        if winner is not None:
            decide(winner, taken=True)
    return kept[0] if kept else None


def item_undo(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    """Undo the last decision about an item, and return what to say of it."""
    moment = moment_of(request, "decided")
    if isinstance(item.row, MemoryReview):
        review = review_undo(review=item.row, by=by, resolved_at=moment)
        if review.is_mark:
            return "The mark was undone. Prompts may include it again."
        return f"The resolution was undone.{' The review is pending again.' * (review.status in review.OPEN)}"
    proposal: Any = item.row
    undone = proposal_undo(proposal=proposal, by=by, decided_at=moment)
    title = proposal_name(proposal.section, proposal.agent.name)
    if undone.status == ChangeProposal.Status.REVERTED:
        return f"The change of {title} was undone. The previous text is active again."
    if undone.pk == proposal.pk:
        return f"The decision on {title} was undone."
    return f"The previous text of {title} was proposed. {ANOTHER_MUST_APPROVE}"


def batch_undo(batch: UUID, by: Principal) -> tuple[list[str], Refusals]:
    """Undo the decisions of one bulk action, the latest first: what to say of it, and the refusals."""
    reviews = visible_reviews(by).filter(batch=batch, status=MemoryReview.Status.RESOLVED).order_by("-resolved_at")

    def undo(row: ChangeProposal | MemoryReview) -> str:
        if isinstance(row, MemoryReview):
            review_undo(review=row, by=by, resolved_at=row.resolved_at)
            return REVIEW
        return PROPOSAL if proposal_undo(proposal=row, by=by, decided_at=row.decided_at).pk == row.pk else "proposed"

    def name(row: ChangeProposal | MemoryReview) -> str:
        return str(row) if isinstance(row, MemoryReview) else proposal_name(row.section, row.agent.name)

    done, refused = attempt_each([*proposals_batch(batch, by), *reviews], undo, name)
    undone = Counter(done)
    said = [
        f"{number} {noun}{'s were' if number > 1 else ' was'} undone. "
        f"The {what}{'s are' if number > 1 else ' is'} pending again."
        for number, noun, what in (
            (undone[PROPOSAL], "decision", "proposal"),
            (undone[REVIEW], "resolution", "review"),
        )
        if number
    ]
    if proposed := undone["proposed"]:
        said.append(f"Previous texts proposed for restoration: {proposed}. {ANOTHER_MUST_APPROVE}")
    return said, refused


LATELY = timedelta(days=1)
"""How long a decision is offered to be undone."""
OFFERED = 5
"""Decisions that can be undone from a page; those of a bulk action count as one."""
Status = ChangeProposal.Status


def decided_today(by: Principal) -> int:
    """The number of items, of all types, that this person has decided since midnight."""
    midnight = timezone.localtime(clock.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    proposals = ChangeProposal.objects.filter(reviewer_id=by.id, decided_at__gte=midnight).order_by()
    reviews = MemoryReview.objects.filter(resolver_id=by.id, resolver_kind="person", resolved_at__gte=midnight)
    return proposals.values("pk").union(reviews.order_by().values("pk"), all=True).count()


LatestDecision = dict[str, Any]
"""A decision, or those of one bulk action (word, what, at, many); `url` undoes it, "" where it cannot be undone.

`at` names the decision: an undo of another one, made since, is refused.
"""


def undo_offer(request: HttpRequest, by: Principal, part: InboxFilter) -> dict[str, Any] | None:
    """For components/undo.html, after a decision or an undo: the latest decisions of `by`. At most seven queries.

    The one that the address names (`done`, `batch`; the latest for `undo`) comes first, and has the key; `latest` are
    all, if there are others.
    """
    named = request.GET.get("batch") or request.GET.get("done") or ""
    asked = "undo" in request.GET
    if not (named or asked or "undone" in request.GET):
        return None
    decided = dict([*_proposals(by), *_reviews(by)])
    stays = {"listed": "1"} if request.path == reverse("inbox") else {}
    for told in decided.values():
        told["url"] = told["url"] and part.address(told["url"], **stays)
    latest = sorted(decided, key=lambda key: decided[key]["at"], reverse=True)[:OFFERED]
    if asked and not latest:
        return {"word": "Nothing to undo:", "what": "you have decided nothing within a day"}
    named = str(latest[0]) if asked else named
    first = next((decided[key] for key in latest if str(key) == named), None) or _closed(named, by)
    others = [decided[key] for key in latest] if [*map(str, latest)] != [named] else []
    return {"latest": others, "proof": _proof(named, by)} | (first or {}) if first or others else None


def _proof(named: str, by: Principal) -> str:
    """A link to the latest prompt that the decision of this key is about, as it is now; "" without one."""
    keys = uuids_of([named]) if by.may(ASSEMBLE) and by.may(VIEW_RUN) else []
    proposals = ChangeProposal.objects.visible_to(by).filter(pk__in=keys, status=Status.APPROVED)
    reviews = visible_reviews(by).filter(pk__in=keys, status=MemoryReview.Status.RESOLVED)
    row = proposals.select_related("agent").first() or reviews.select_related("agent", "old", "new").first()
    if row is None:
        return ""
    facts = [fact for fact in (row.old, row.new) if fact] if isinstance(row, MemoryReview) else []
    if isinstance(row, MemoryReview) and not facts:
        return ""
    # The known fact has been in prompts, the new one perhaps not yet.
    runs: QuerySet[ContextRun] = ContextRun.objects.visible_to(by).filter(agent=row.agent)
    runs = runs_with_memory(row.agent, "fact", str(facts[0].pk), by) if facts else runs
    lost = [str(fact.pk) for fact in facts if not fact.active]
    run = runs.order_by("-created_at").first()
    return next_prompt_link(row.agent.slug, run, lost[0] if lost else "") if run else ""


def _proposals(by: Principal) -> Iterator[tuple[UUID, LatestDecision]]:
    mine = ChangeProposal.objects.visible_to(by).filter(
        reviewer_id=by.id, status__in=(Status.APPROVED, Status.REJECTED), decided_at__gte=clock.now() - LATELY
    )
    counts = {"kept": Count("pk", Q(self_applied=True)), "approved": Count("pk", Q(status=Status.APPROVED))}
    rows = list(_groups(mine, "decided_at", "section", "status", "agent__name", **counts))
    # Of rivals one was approved, and is named.
    rivals = Q(status=Status.APPROVED, batch__in=[row["key"] for row in rows if 0 < row["approved"] < row["number"]])
    alone = Q(pk__in=[row["key"] for row in rows if not row["batches"]])
    named = with_texts(mine.filter(rivals | alone)) if rows else ()
    chosen = {one.proposal.batch or one.proposal.pk: one.brief for one in map(ProposalItem, named)}
    for row in rows:
        word = "Kept" if row["kept"] and row["status"] == Status.APPROVED else str(Status(row["status"]).label)
        what = chosen.get(row["key"]) or proposal_name(row["section"], row["agent__name"])
        key, told = _decided(PROPOSAL, row, word, what, by)
        if key in chosen and row["batches"]:
            others = row["number"] - row["approved"]
            rest = f"the other {others} were rejected" if others > 1 else "the other was rejected"
            told |= {"word": "Approved:", "what": f"{chosen[key]}; {rest}"}
        yield key, told


def _reviews(by: Principal) -> Iterator[tuple[UUID, LatestDecision]]:
    mine = visible_reviews(by).filter(
        resolver_id=by.id, resolver_kind="person", status="resolved", resolved_at__gte=clock.now() - LATELY
    )
    about = ("subject", "new__content", "censor__pattern", "proposal", "old__content")
    counts = {"answers": Count("resolution", distinct=True), "marks": Count("pk", Q(details__codes=["marked"]))}
    for row in _groups(mine, "resolved_at", "kind", "resolution", *about, **counts):
        named = next((row[name] for name in about if row[name]), "")
        what = ", ".join(filter(None, [MemoryReview.Kind(row["kind"]).label, brief(named)]))
        word = f"{MemoryReview.Resolution(row['resolution']).label}:" if row["answers"] == 1 else "Decided together:"
        old, new = row["old__content"], row["new__content"]
        if old and new and not row["batches"] and (outcome := PairOutcome.of(row["resolution"], old, new)):
            word, what = f"{outcome.phrase}:", outcome.holds.brief
        if row["marks"]:
            word, what = "Marked as wrong:", "a memory"
        yield _decided(REVIEW, row, word, what, by)


def _groups(rows: QuerySet[Any], moment: str, *fields: str, **counts: Count) -> QuerySet[Any]:
    """One row for each bulk action and each single decision, the latest first."""
    about = {name: Max(name) for name in fields}
    grouped = rows.order_by().values(key=Coalesce("batch", "pk"))
    return grouped.annotate(at=Max(moment), number=Count("pk"), batches=Count("batch"), **counts, **about).order_by(
        "-at"
    )[:OFFERED]


def _decided(item_type: str, row: dict[str, Any], word: str, what: str, by: Principal) -> tuple[UUID, LatestDecision]:
    if row["batches"]:
        page = reverse("inbox_undo", args=[row["key"]])
    else:
        page = reverse("item_change", args=[item_type, row["key"], "undo"])
    url = page if by.may(DECIDE_RIGHTS[item_type]) else ""
    many = row["number"] > 1
    nouns = "proposals" if item_type == PROPOSAL else "reviews"
    what = f"{row['number']} {nouns}" if many else _ended(what)
    return row["key"], {"word": word, "what": what, "at": row["at"], "url": url, "many": many}


def _ended(what: str) -> str:
    """A sentence without its full stop, for where it ends the whole; "…" of one that was cut stays."""
    return what.replace(".”", "”").rstrip(". ")


def _closed(named: str, by: Principal) -> LatestDecision | None:
    """The proposal of this key if it was closed in a way that cannot be undone: withdrawn, or reverted."""
    closed = ChangeProposal.objects.visible_to(by).filter(
        pk__in=uuids_of([named]), status__in=(Status.WITHDRAWN, Status.REVERTED)
    )
    row = with_texts(closed).first()
    if row is None or row.decided_at is None:
        return None
    what = _ended(ProposalItem(row).brief)
    told: LatestDecision = {"word": row.get_status_display(), "what": what, "at": row.decided_at}
    if row.status == Status.REVERTED:
        # No undo brings a reverted change back, but the history has its text.
        history = reverse("section_history", args=[row.agent.slug, row.section])
        told["proof"] = format_html('<a href="{}">Restore it from the history</a>', history)
    return told


MORNING = time(8)
"""The time of day when items come back that were snoozed until a day, in the time zone of the console."""
SNOOZE_CHOICES = {
    "tomorrow": "Until tomorrow",
    "monday": "Until Monday",
    "again": "Until something new happens",
}


Change = Callable[[HttpRequest, InboxItem, Principal], str]


def inbox_item(item_type: str, pk: UUID, by: Principal) -> InboxItem:
    """The item of this type and key. Raises NotFound, also for an item that `by` may not see."""
    rows: Any = ChangeProposal.objects.visible_to(by) if item_type == PROPOSAL else visible_reviews(by)
    row = existing(
        rows.filter(pk=pk).select_related("agent").first() if item_type in DECIDE_RIGHTS else None,
        "There is no such item.",
    )
    return InboxItem.of(row)


def comment_html(text: str, names: set[str]) -> SafeString:
    """A comment with those marked that mention one of `names` (in lower case); all of its text is escaped."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for match in re.finditer(MENTION, text):
        name = next((name for name in (match[1], match[1].rstrip(".@+-")) if name.lower() in names), None)
        if name is not None:
            pieces.append((text[at : match.start()], f"@{name}"))
            at = match.start() + 1 + len(name)
    marked = format_html_join("", '{}<b class="mention">{}</b>', pieces)
    return format_html("{}{}", marked, text[at:])


def item_panel(row: ChangeProposal | MemoryReview, by: Principal, query: str) -> dict[str, Any]:
    """For components/item_panel.html, of a page whose part of the inbox is `query`. Six queries."""
    item = InboxItem.of(row)
    people = list(item.people())
    names = [person.get_username() for person in people]
    deciders = list(item.people(DECIDE_RIGHTS))
    assigned = ItemAssignment.objects.filter(item_id=item.id).select_related("person").first()
    opinions = list(SecondOpinion.objects.filter(item_id=item.id).select_related("person"))
    snooze = ItemSnooze.objects.filter(item_id=item.id, person_id=int(by.id), ended_at=None).first()
    known = {name.lower() for name in names}
    return {
        "item": item,
        "query": query,
        "may": by.may(DECIDE_RIGHTS[item.type]),
        "me": by.id,
        "my_name": by.name,
        "assigned": assigned.person if assigned else None,
        "deciders": deciders,
        "others": [person for person in people if str(person.pk) != by.id],
        "names": " ".join(names),
        "opinions": opinions,
        "asked": next((opinion for opinion in opinions if str(opinion.person_id) == by.id), None),
        "answers": SecondOpinion.Answer.choices,
        "snooze": snooze if snooze and (snooze.until is None or snooze.until > clock.now()) else None,
        "snooze_choices": SNOOZE_CHOICES.items(),
        "comments": [
            (comment, comment_html(comment.text, known)) for comment in ItemComment.objects.filter(item_id=item.id)
        ],
    }


@page(methods=POST)
def item_change(request: HttpRequest, by: Principal, item_type: str, pk: UUID, change: str) -> HttpResponse:
    """One action on an item; after snoozing or skipping, the next item follows."""
    item = inbox_item(item_type, pk, by)
    if change not in CHANGES:
        raise NotFound("Unknown action.")
    part, extra = InboxFilter.of(request.GET), {}
    following = part.place(pk, by)["following"] if change in ("snooze", "skip") else (item_type, pk)
    if change == "undo":
        # Who undoes from the list stays there, at its page.
        extra = {"undone": str(pk)} | ({"after": request.GET["after"]} if "after" in request.GET else {})
        part, following = (part, None) if "listed" in request.GET else (replace(part, status="pending"), following)
    try:
        messages.success(request, CHANGES[change](request, item, by))
        # A person who acts on an item has read the notifications about it.
        notifications_read(by=by, item=item.id)
    except DomainError as error:
        if error.status in (403, 404) or (change == "undo" and isinstance(error, Invalid)):
            raise
        messages.error(request, error.detail)
        following = (item_type, pk)
    return redirect(part.after(following, **extra))


def _assign(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    person = _person(request) if request.POST.get("person") else None
    item_assign(item=item, person=person, by=by)
    return f"Assigned to {person.get_username()}." if person else "Unassigned."


def _snooze(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    until = snooze_until(request.POST.get("until", ""), request.POST.get("day", ""))
    item_snooze(item=item, until=until, by=by)
    return "Snoozed. It is hidden from your inbox until then." if until else "Snoozed until something new happens."


def _plain(service: Callable[..., object], done: str, *names: str) -> Change:
    """An action whose service takes the fields `names` of the form."""

    def change(request: HttpRequest, item: InboxItem, by: Principal) -> str:
        service(item=item, by=by, **{name: request.POST.get(name, "") for name in names})
        return done

    return change


def _ask(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    person = _person(request)
    opinion_request(item=item, person=person, by=by)
    return f"{person.get_username()} was asked for an opinion."


CHANGES: dict[str, Change] = {
    "assign": _assign,
    "snooze": _snooze,
    "unsnooze": _plain(item_unsnooze, "The item is in your inbox again."),
    "skip": _plain(item_skip, "Skipped. It stays in the inbox."),
    "comment": _plain(item_comment_add, "Comment added.", "text"),
    "ask": _ask,
    "answer": _plain(opinion_give, "Your opinion was saved. It does not decide the item.", "answer", "note"),
    "undo": item_undo,
}
"""By the last part of the address: the action and its confirmation."""


def _person(request: HttpRequest) -> User:
    """The active account that a form names. Raises Invalid."""
    key: Any = request.POST.get("person", "")
    if key == "me":
        key = principal_of(request).id
    people = User.objects.filter(pk=number_of(key) or 0, is_active=True)
    return existing(people.first(), Invalid("Choose a person.", field="person"))


def snooze_until(choice: str, day: str = "") -> datetime | None:
    """The moment that a choice or a day as "2026-03-04" means; None for until it is seen again. Raises Invalid."""
    today = timezone.localtime(clock.now()).date()
    if choice == "again":
        return None
    if choice == "tomorrow":
        wanted = today + timedelta(days=1)
    elif choice == "monday":
        wanted = today + timedelta(days=7 - today.weekday())
    else:
        try:
            wanted = date.fromisoformat(day)
        except ValueError as error:
            raise Invalid(
                "Snooze until tomorrow, Monday, a date, or until something new happens.", field="until"
            ) from error
    return timezone.make_aware(datetime.combine(wanted, MORNING))
