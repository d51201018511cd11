"""One proposal: everything that a decision needs, and the decision."""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from identity.models import AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.four_eyes import is_self_approval
from identity.services.proposal_records import REVIEW
from identity.services.proposal_undo import proposal_undo
from identity.services.versions import StaleBase
from nousweb.console.common.item_panel import item_panel
from nousweb.console.common.undo_offer import undo_offer
from nousweb.console.common.view_helpers import layout_of, moment_of, principal_of
from nousweb.console.identity.review_decisions import (
    ANOTHER_MUST_APPROVE,
    item_find,
    item_get,
    proposal_decide,
    uuid_of,
    version_of,
    with_shortfalls,
)
from nousweb.console.identity.review_queue import QueueFilter, ReviewItem
from nousweb.lib.errors import Conflict, DomainError, Invalid
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

APPROVE_LABELS = {"approve": "Approve", "approve_merged": "Approve merged", "approve_edited": "Approve my edit"}
EDIT_LEFT = "The text was edited, and this would lose your edit. Approve your edit, or decide once more to lose it."


@require_http_methods(["GET", "HEAD", "POST"])
def proposal(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One proposal, with everything that a decision needs; its form comes back here, so that no refusal stands at an
    address that cannot be opened again."""
    by = principal_of(request)
    by.require(VIEW)
    if request.method == "POST":
        return _decision_take(request, pk, by)
    return _proposal_page(request, _as_if_approved(request, item_get(pk, by), by), by)


def _as_if_approved(request: HttpRequest, item: ReviewItem, by: Principal) -> ReviewItem:
    """The item as it is once the sibling that ?approved= names is approved: a decision about it names that version, so
    that it counts for no other text."""
    sibling = item_find(uuid_of(request.GET.get("approved")), by)
    own, other = item.proposal, sibling.proposal if sibling else None
    alike = other is not None and (own.agent_id, own.section) == (other.agent_id, other.section) and own.pk != other.pk
    if sibling is not None and alike and sibling.approvable:
        item.current_text, item.current_version = sibling.wished, sibling.current_version + 1
    return item


@require_POST
def proposal_preview(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The difference that the text in the editor would make, while it is typed."""
    by = principal_of(request)
    by.require(VIEW)
    item = item_get(pk, by)
    return render(
        request,
        "identity/_proposal_edit_diff.html",
        {"diff": diff_texts(item.current_text, _normal(request.POST.get("content", ""))), "layout": "unified"},
    )


def _decision_take(request: HttpRequest, pk: UUID, by: Principal) -> HttpResponse:
    """Make one decision, then show the next proposal; a refusal shows the proposal again with the entered values."""
    item = item_get(pk, by)
    action = request.POST.get("action", "")
    comment = request.POST.get("comment", "")
    typed = request.POST.get("content")
    content = typed if action == "approve_edited" else None
    merge = action == "approve_merged"
    # A button that does not name the edit, as one of a page without its script, decides nothing beside one.
    lost = content is None and typed is not None and "discard" not in request.POST and _normal(typed) != _draft(item)
    action = "approve" if action in ("approve_edited", "approve_merged") else action
    queue = QueueFilter.of(request.GET)
    place = queue.place(pk, by)
    try:
        read = version_of(request.POST.get("base_version"))
        if lost and read == item.current_version:
            content = typed
            raise Invalid(EDIT_LEFT, field="content")
        proposal_decide(action, item, by, comment, None, content, read, merge=merge)
    except StaleBase as error:
        return _proposal_page(request, item_get(pk, by), by, refusal=error, typed=content, comment=comment)
    except Conflict as error:
        fresh = item_get(pk, by)
        # A key pressed twice, or a form sent again: it is as this person wanted it.
        if not (fresh.proposal.reviewer_id == by.id and fresh.proposal.status == DONE[action][1]):
            return _proposal_page(request, fresh, by, refusal=error, typed=content, comment=comment)
    except DomainError as error:
        return _proposal_page(request, item, by, refusal=error, typed=content, comment=comment)
    following = place["following"]
    return redirect(queue.item_url(*following, done=str(pk)) if following else queue.url(done=str(pk)))


@require_POST
def proposal_undo_view(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Take back the last decision on a proposal and show it again."""
    by = principal_of(request)
    by.require(REVIEW)
    item = item_get(pk, by)
    try:
        undone = proposal_undo(proposal=item.proposal, by=by, decided_at=moment_of(request, "decided"))
    except Conflict as error:
        messages.error(request, error.detail)
        undone = None
    if undone is not None and undone.status == Status.REVERTED:
        messages.success(request, f"The change of {item.title} was undone. The previous text is active again.")
    elif undone is not None and undone.pk == pk:
        messages.success(request, f"The decision on {item.title} was undone.")
    elif undone is not None:
        messages.success(request, f"The previous text of {item.title} was proposed. {ANOTHER_MUST_APPROVE}")
    return redirect(f"{reverse('proposal', args=[pk])}?{QueueFilter.of(request.GET).query(undone='1')}")


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
    draft = _draft(item)
    text = _normal(typed) if typed is not None else draft
    own = target.author_kind == by.kind and target.author_id == by.id
    history = AuditEvent.objects.visible_to(by).of_object("changeproposal", target.pk)
    if target.version_id:
        history |= AuditEvent.objects.visible_to(by).of_object("identityversion", target.version_id)
    replaced = item.before if item.merged is None else item.current_text
    before, after = estimate_tokens(replaced), estimate_tokens(item.wished)
    undo, place = undo_offer(request, by, queue), queue.place(target.pk, by)
    return render(
        request,
        "identity/proposal.html",
        {
            "item": item,
            "proposal": target,
            "queue": queue,
            "query": queue.query(),
            "layout": layout,
            "panel": item_panel(target, by, queue.query()),
            "place": place,
            "refusal": refusal,
            "edit": {
                "text": text,
                "draft": draft,
                "is_open": (item.stale and item.merged is None) or typed is not None,
                "diff": diff_texts(item.current_text, text),
                "four_eyes": settings.FOUR_EYES,
            },
            "merged_diff": diff_texts(item.current_text, item.merged) if item.merged is not None else None,
            "tokens": {"before": before, "after": after, "change": after - before},
            "history": history[:50],
            "shortfall": with_shortfalls([item], by)[0].shortfall,
            "may_review": by.may(REVIEW),
            "undo": undo,
            "decision": {
                "query": queue.query(),
                "following": place["following_url"],
                "may_review": by.may(REVIEW),
                "own": own,
                "is_self_approval": is_self_approval(target, by),
                "approve": _approve_button(item, edited=text != draft),
                "discards": refusal is not None and refusal.detail == EDIT_LEFT,
                "comment": comment,
                "may_undo": by.may(REVIEW) and item.undoable,
                "undo": undo,
            },
        },
        status=refusal.status if refusal else 200,
    )


def _draft(item: ReviewItem) -> str:
    """The text that an edit starts from."""
    if not item.stale:
        return _normal(item.proposal.content)
    return _normal(item.current_text if item.merged is None else item.merged)


def _approve_button(item: ReviewItem, *, edited: bool) -> dict[str, str] | None:
    """The button that approves, by its value and label, also as they are without an edit; None where only an edit can
    be approved, and people may not edit."""
    kind = "approve_edited" if item.stale and item.merged is None else "approve_merged" if item.stale else "approve"
    if kind == "approve_edited" and settings.FOUR_EYES:
        return None
    shown = "approve_edited" if edited else kind
    return {
        "value": shown,
        "label": APPROVE_LABELS[shown],
        "unedited": kind,
        "unedited_label": APPROVE_LABELS[kind],
    }


def _normal(text: str) -> str:
    """Line ends as they are stored: a browser sends its own."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
