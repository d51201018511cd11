"""The review queue, one proposal, and the decisions about them."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from context.what_if.identity_delivery import IdentityDelivery
from context.what_if.scenarios import proposal_overrides
from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.selectors.filters import QueueForm
from identity.services.four_eyes import approval_barred
from identity.services.proposals import (
    REVIEW,
    proposal_approve,
    proposal_keep,
    proposal_reject,
    proposal_revert,
    proposal_undo,
    proposal_withdraw,
    proposals_batch,
)
from identity.services.versions import StaleBase
from nousweb.console.common.bulk_refusals import refusals_summary
from nousweb.console.common.pagination import page_of
from nousweb.console.common.requests import SELECTED_MOST, layout_of, principal_of
from nousweb.console.common.review_pace import minutes_left
from nousweb.console.identity.review_queue import STATUSES, QueueFilter, ReviewItem, review_title, with_texts
from nousweb.lib.errors import Conflict, DomainError, NotFound
from nousweb.lib.textdiff import diff_texts
from nousweb.lib.token_estimate import estimate_tokens

Status = ChangeProposal.Status
VIEW = "identity.view_changeproposal"
DONE = {
    "approve": ("Approved", Status.APPROVED),
    "keep": ("Kept", Status.APPROVED),
    "reject": ("Rejected", Status.REJECTED),
    "revert": ("Reverted", Status.REVERTED),
    "withdraw": ("Withdrew", Status.WITHDRAWN),
}
ANOTHER = "Four eyes: another person must approve."
UNDOABLE = (Status.APPROVED, Status.REJECTED)


@require_safe
def review(request: HttpRequest) -> HttpResponse:
    """The queue: what waits for a person, riskiest first."""
    by = principal_of(request)
    by.require(VIEW)
    queue = QueueFilter.of(request.GET)
    counts = queue.counts(by)
    page = page_of(request, with_texts(queue.proposals(by)))
    waiting = counts.get(queue.status, 0)
    return render(
        request,
        "identity/review.html",
        {
            "queue": queue,
            "query": queue.query(),
            "form": QueueForm(request.GET),
            "page": page,
            "items": _with_shortfalls([ReviewItem(proposal) for proposal in page], by),
            "tabs": [
                {
                    "label": label,
                    "url": f"{reverse('review')}?{queue.with_status(status).query()}",
                    "active": status == queue.status,
                    "count": counts.get(status),
                }
                for status, label in STATUSES.items()
            ]
            + [{"label": "Memory reviews", "url": reverse("memory_review"), "active": False, "count": None}],
            "today": counts["today"],
            "waiting": waiting,
            "minutes": minutes_left(waiting, counts["moments"]),
            "whole": counts["today"] + waiting,
            "may_review": by.may(REVIEW),
            "undo": _undo_offer(request, by),
        },
    )


@require_POST
def review_bulk(request: HttpRequest) -> HttpResponse:
    """Decide several proposals; each that refuses is named and stops none of the others."""
    by = principal_of(request)
    by.require(REVIEW)
    queue = QueueFilter.of(request.GET)
    action, ids = _chosen(request)
    proposals = {p.pk: p for p in with_texts(ChangeProposal.objects.seen_by(by).filter(pk__in=ids))}
    if not proposals:
        messages.warning(request, "Nothing was selected.")
        return redirect(_queue_url(queue))
    batch, shown = uuid4(), _shown(request)
    comment = request.POST.get("comment", "")
    done, refused = 0, []
    # The version of each section that this batch has led to: what follows was read before it.
    moved: dict[tuple[int, str], int] = {}
    for pk in ids:
        if pk not in proposals:
            continue
        item = ReviewItem(proposals[pk])
        section = (item.proposal.agent_id, item.proposal.section)
        try:
            if action in ("approve", "keep"):
                _shown_check(item, shown)
            read = moved.get(section, shown.get(pk, 0))
            version = _decide_one(action, item, by, comment, batch, base_version=read, merge=True)
            if action == "approve" and isinstance(version, IdentityVersion):
                moved[section] = version.version
            done += 1
        except StaleBase:
            refused.append((item.title, "It touches the same lines as what is current now: open it."))
        except DomainError as error:
            refused.append((f"{item.title} (by {item.proposal.author_name})", error.detail))
    if refused:
        messages.error(request, refusals_summary(refused))
    return redirect(_queue_url(queue, batch=str(batch)) if done else _queue_url(queue))


@require_POST
def review_batch_undo(request: HttpRequest, batch: UUID) -> HttpResponse:
    """Take back the decisions of one bulk action, the latest first."""
    by = principal_of(request)
    by.require(REVIEW)
    undone, proposed = 0, 0
    refused: list[tuple[str, str]] = []
    for proposal in list(proposals_batch(batch, by)):
        try:
            if proposal_undo(proposal=proposal, by=by).pk == proposal.pk:
                undone += 1
            else:
                proposed += 1
        except DomainError as error:
            refused.append((review_title(proposal), error.detail))
    if undone:
        messages.success(request, f"Took back {undone} decision{'s' if undone > 1 else ''}; they wait again.")
    if proposed:
        messages.success(request, f"Proposed to restore {proposed} text{'s' if proposed > 1 else ''}. {ANOTHER}")
    if not (undone or proposed or refused):
        messages.warning(request, "These decisions were taken back already.")
    if refused:
        messages.error(request, refusals_summary(refused))
    return redirect(_queue_url(QueueFilter.of(request.GET)))


@require_http_methods(["GET", "HEAD", "POST"])
def proposal(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One proposal, with everything that a decision needs; its form comes back here, so that no refusal stands at an
    address that cannot be opened again."""
    by = principal_of(request)
    by.require(VIEW)
    if request.method == "POST":
        return _proposal_decide(request, pk, by)
    return _proposal_page(request, _item_get(pk, by), by)


@require_POST
def proposal_preview(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The difference that the text in the editor would make, while it is typed."""
    by = principal_of(request)
    by.require(VIEW)
    item = _item_get(pk, by)
    return render(
        request,
        "identity/_proposal_edit_diff.html",
        {"diff": diff_texts(item.current_text, _normal(request.POST.get("content", ""))), "layout": "unified"},
    )


def _proposal_decide(request: HttpRequest, pk: UUID, by: Principal) -> HttpResponse:
    """Take one decision, then show what is next; a refusal shows the proposal again with what was typed."""
    item = _item_get(pk, by)
    action = request.POST.get("action", "")
    comment = request.POST.get("comment", "")
    content = request.POST.get("content") if action == "approve_edited" else None
    merge = action == "approve_merged"
    action = "approve" if action in ("approve_edited", "approve_merged") else action
    queue = QueueFilter.of(request.GET)
    place = queue.neighbours(pk, by)
    try:
        read = _whole(request.POST.get("base_version"))
        _decide_one(action, item, by, comment, None, content, read, merge=merge)
    except StaleBase as error:
        return _proposal_page(request, _item_get(pk, by), by, refusal=error, typed=content, comment=comment)
    except Conflict as error:
        fresh = _item_get(pk, by)
        # A key pressed twice, or a form sent again: it is as this person wanted it.
        if not (fresh.proposal.reviewer_id == by.id and fresh.proposal.status == DONE[action][1]):
            return _proposal_page(request, fresh, by, refusal=error, typed=content, comment=comment)
    except DomainError as error:
        return _proposal_page(request, item, by, refusal=error, typed=content, comment=comment)
    following = place.next or (place.first if place.first != pk else None)
    if following is None:
        return redirect(_queue_url(queue, done=str(pk)))
    return redirect(f"{reverse('proposal', args=[following])}?{queue.query(done=str(pk))}")


@require_POST
def proposal_undo_view(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Take back the last decision on a proposal and show it again."""
    by = principal_of(request)
    by.require(REVIEW)
    item = _item_get(pk, by)
    try:
        undone = proposal_undo(proposal=item.proposal, by=by)
    except Conflict as error:
        messages.error(request, error.detail)
        undone = None
    if undone is not None and undone.status == Status.REVERTED:
        messages.success(request, f"Took back the change of {item.title}: the text before is in force again.")
    elif undone is not None and undone.pk == pk:
        messages.success(request, f"Took back the decision on {item.title}.")
    elif undone is not None:
        messages.success(request, f"Proposed to restore the text before, for {item.title}. {ANOTHER}")
    return redirect(f"{reverse('proposal', args=[pk])}?{QueueFilter.of(request.GET).query()}")


def _decide_one(
    action: str,
    item: ReviewItem,
    by: Principal,
    comment: str,
    batch: UUID | None,
    content: str | None = None,
    base_version: int | None = None,
    *,
    merge: bool = False,
) -> Any:
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
    if action not in decisions:
        raise NotFound("There is no such decision.")
    return decisions[action]()


def _shown(request: HttpRequest) -> dict[UUID, int]:
    """The proposals whose text the list has unfolded, each with the version beside which it was read."""
    found = {}
    for value in request.POST.getlist("shown")[:SELECTED_MOST]:
        key, _, version = value.partition(":")
        pk, number = _uuid(key), _whole(version)
        if pk is not None and number is not None:
            found[pk] = number
    return found


def _shown_check(item: ReviewItem, shown: dict[UUID, int]) -> None:
    """Raise Conflict for what must not be let pass from a list: high risk, and a text that nobody has seen there."""
    if item.proposal.risk == Risk.HIGH:
        raise Conflict("High risk has to be opened to be approved.")
    if item.proposal.pk not in shown:
        raise Conflict("Its text was not unfolded: read it first.")


def _proposal_page(
    request: HttpRequest,
    item: ReviewItem,
    by: Principal,
    *,
    refusal: DomainError | None = None,
    typed: str | None = None,
    comment: str = "",
) -> HttpResponse:
    queue = QueueFilter.of(request.GET)
    target = item.proposal
    layout = layout_of(request)
    on_top = item.current_text if item.merged is None else item.merged
    draft = on_top if item.stale else target.content
    text = _normal(typed) if typed is not None else draft
    own = target.author_kind == by.kind and target.author_id == by.id
    history = AuditEvent.objects.seen_by(by).of_object("changeproposal", target.pk)
    if target.version_id:
        history |= AuditEvent.objects.seen_by(by).of_object("identityversion", target.version_id)
    replaced = item.before if item.merged is None else item.current_text
    before, after = estimate_tokens(replaced), estimate_tokens(item.wished)
    undo = _undo_offer(request, by)
    return render(
        request,
        "identity/proposal.html",
        {
            "item": item,
            "proposal": target,
            "queue": queue,
            "query": queue.query(),
            "layout": layout,
            "place": queue.neighbours(target.pk, by),
            "refusal": refusal,
            "edit": {
                "query": queue.query(),
                "text": text,
                "is_open": (item.stale and item.merged is None) or typed is not None,
                "diff": diff_texts(item.current_text, text),
                "comment": comment,
                "four_eyes": settings.FOUR_EYES,
            },
            "merged_diff": diff_texts(item.current_text, item.merged) if item.merged is not None else None,
            "tokens": {"before": before, "after": after, "change": after - before},
            "history": history[:50],
            "shortfall": _with_shortfalls([item], by)[0].shortfall,
            "may_review": by.may(REVIEW),
            "undo": undo,
            "decision": {
                "query": queue.query(),
                "may_review": by.may(REVIEW),
                "own": own,
                "barred": approval_barred(target, by),
                "comment": comment,
                "may_undo": by.may(REVIEW) and item.undoable,
                "undo": undo,
            },
        },
        status=refusal.status if refusal else 200,
    )


def _with_shortfalls(items: list[ReviewItem], by: Principal) -> list[ReviewItem]:
    """What prompts would leave out of the identity were each that waits approved; read together for all agents."""
    waiting = [item for item in items if item.is_pending]
    agents = {item.proposal.agent_id: item.proposal.agent for item in waiting}
    deliveries = IdentityDelivery.load_each(list(agents.values()), by) if agents else {}
    for item in waiting:
        item.shortfall = deliveries[item.proposal.agent_id].shortfall(proposal_overrides(item.proposal))
    return items


def _undo_offer(request: HttpRequest, by: Principal) -> dict[str, Any] | None:
    """What was just decided, as the address says, and where it can be taken back."""
    queue, seen = QueueFilter.of(request.GET), ChangeProposal.objects.seen_by(by)
    done, batch = _uuid(request.GET.get("done")), _uuid(request.GET.get("batch"))
    if batch:
        decided = list(seen.filter(batch=batch).select_related("agent")[:201])
        url = reverse("review_batch_undo", args=[batch])
    elif done:
        decided = list(seen.filter(pk=done, reviewer_id=by.id).select_related("agent"))
        decided += seen.filter(pk=done, status=Status.WITHDRAWN).select_related("agent")
        url = reverse("proposal_undo", args=[done])
    else:
        return None
    if not decided:
        return None
    kept = decided[0].self_applied and decided[0].status == Status.APPROVED
    word = "Kept" if kept else decided[0].get_status_display()
    what = review_title(decided[0]) if len(decided) == 1 else f"{len(decided)} proposals"
    return {
        "word": word,
        "what": what,
        "url": f"{url}?{queue.query()}" if by.may(REVIEW) and decided[0].status in UNDOABLE else "",
        "many": len(decided) > 1,
    }


def _item_get(pk: UUID, by: Principal) -> ReviewItem:
    found = with_texts(ChangeProposal.objects.seen_by(by).filter(pk=pk)).first()
    if found is None:
        raise NotFound("There is no such proposal.")
    return ReviewItem(found)


def _chosen(request: HttpRequest) -> tuple[str, Sequence[UUID]]:
    """The decision and the proposals: one row's own button, or the bar's with the ticked rows."""
    for action in ("approve", "reject", "keep"):
        if one := _uuid(request.POST.get(action)):
            return action, [one]
    ticked = (_uuid(value) for value in request.POST.getlist("selected")[:SELECTED_MOST])
    return request.POST.get("action", ""), list(dict.fromkeys(pk for pk in ticked if pk))


def _queue_url(queue: QueueFilter, **extra: str) -> str:
    query = queue.query(**extra)
    return f"{reverse('review')}?{query}" if query else reverse("review")


def _uuid(value: str | None) -> UUID | None:
    try:
        return UUID(value) if value else None
    except ValueError:
        return None


def _whole(value: str | None) -> int | None:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else None


def _normal(text: str) -> str:
    """Line ends as they are stored: a browser sends its own."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
