"""The review queue, and decisions about several proposals at once."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from identity.models import ChangeProposal, IdentityVersion
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sections import Risk
from identity.selectors.filters import QueueForm
from identity.services.proposal_records import REVIEW
from identity.services.proposal_undo import proposal_undo
from identity.services.proposals import (
    proposals_batch,
)
from identity.services.versions import StaleBase
from nousweb.console.common.bulk_refusals import refusals_summary
from nousweb.console.common.inbox_filter import inbox_tabs
from nousweb.console.common.inbox_query import QUEUE_LIMIT
from nousweb.console.common.item_panel import bulk_context
from nousweb.console.common.list_export import export_format, key_rows, list_export
from nousweb.console.common.pagination import page_of
from nousweb.console.common.review_pace import minutes_left
from nousweb.console.common.undo_offer import undo_offer
from nousweb.console.common.view_helpers import MAX_SELECTED, principal_of
from nousweb.console.identity.list_exports import PROPOSALS
from nousweb.console.identity.review_decisions import (
    ANOTHER_MUST_APPROVE,
    proposal_decide,
    queue_url,
    uuid_of,
    version_of,
    with_shortfalls,
)
from nousweb.console.identity.review_queue import QueueFilter, ReviewItem, proposal_title, proposals_of, with_texts
from nousweb.lib.errors import Conflict, DomainError

VIEW = "identity.view_changeproposal"
ROWS = 25
"""On a page: each is read with its whole change."""


@require_safe
def review(request: HttpRequest) -> HttpResponseBase:
    """The queue of pending proposals, riskiest first."""
    by = principal_of(request)
    by.require(VIEW)
    queue = replace(QueueFilter.of(request.GET), view="identity")
    keys = [key for _, key in queue.keys(by)]
    if export_format(request):
        rows = key_rows(keys, proposals_of, QUEUE_LIMIT)
        return list_export(request, PROPOSALS, rows, both=by.may(VIEW_SUBCONSCIOUS))
    counts = queue.counts(by)
    page = page_of(request, keys, ROWS)
    waiting = page.paginator.count if not queue.is_decided else 0
    return render(
        request,
        "identity/review_queue.html",
        {
            "queue": queue,
            "query": queue.query(),
            "form": QueueForm(request.GET, by=by),
            "page": page,
            "items": with_shortfalls(proposals_of(list(page)), by),
            "tabs": inbox_tabs(by, queue),
            "today": counts["today"],
            "waiting": waiting,
            "minutes": minutes_left(waiting, counts["moments"]),
            "whole": counts["today"] + waiting,
            "may_review": by.may(REVIEW),
            **bulk_context(by, queue),
            "undo": undo_offer(request, by, queue),
        },
    )


@require_POST
def review_bulk(request: HttpRequest) -> HttpResponse:
    """Decide several proposals; each that refuses is named and stops none of the others."""
    by = principal_of(request)
    by.require(REVIEW)
    queue = QueueFilter.of(request.GET)
    action, ids = _chosen(request)
    proposals = {p.pk: p for p in with_texts(ChangeProposal.objects.visible_to(by).filter(pk__in=ids))}
    if not proposals:
        messages.warning(request, "Nothing was selected.")
        return redirect(queue_url(queue))
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
            version = proposal_decide(action, item, by, comment, batch, base_version=read, merge=True)
            if action == "approve" and isinstance(version, IdentityVersion):
                moved[section] = version.version
            done += 1
        except StaleBase:
            refused.append(
                (item.title, "It changes the same lines as the current text. Open the proposal to decide it.")
            )
        except DomainError as error:
            refused.append((f"{item.title} (by {item.proposal.author_name})", error.detail))
    if refused:
        messages.error(request, refusals_summary(refused))
    if queue.alike and not queue.keys(by):
        # The group is decided: what it was a part of goes on.
        queue = replace(queue, view="all", alike="")
    return redirect(queue_url(queue, batch=str(batch)) if done else queue_url(queue))


@require_POST
def review_batch_undo(request: HttpRequest, batch: UUID) -> HttpResponse:
    """Take back the decisions of one bulk action, the latest first."""
    by = principal_of(request)
    by.require(REVIEW)
    undone, proposed = 0, 0
    refused: list[tuple[str, str]] = []
    for proposal in list(proposals_batch(batch, by)):
        try:
            if proposal_undo(proposal=proposal, by=by, decided_at=proposal.decided_at).pk == proposal.pk:
                undone += 1
            else:
                proposed += 1
        except DomainError as error:
            refused.append((proposal_title(proposal), error.detail))
    if undone:
        text = "1 decision was undone. The proposal is pending again."
        if undone > 1:
            text = f"{undone} decisions were undone. The proposals are pending again."
        messages.success(request, text)
    if proposed:
        messages.success(request, f"Previous texts proposed for restoration: {proposed}. {ANOTHER_MUST_APPROVE}")
    if not (undone or proposed or refused):
        messages.warning(request, "These decisions have already been undone.")
    if refused:
        messages.error(request, refusals_summary(refused))
    return redirect(queue_url(QueueFilter.of(request.GET), undone="1"))


def _shown(request: HttpRequest) -> dict[UUID, int]:
    """The proposals whose text the list has unfolded, each with the version beside which it was read."""
    found = {}
    for value in request.POST.getlist("shown")[:MAX_SELECTED]:
        key, _, version = value.partition(":")
        pk, number = uuid_of(key), version_of(version)
        if pk is not None and number is not None:
            found[pk] = number
    return found


def _shown_check(item: ReviewItem, shown: dict[UUID, int]) -> None:
    """Raise Conflict for proposals that must not be approved from a list: high risk, or a text that was not unfolded
    there."""
    if item.proposal.risk == Risk.HIGH:
        raise Conflict("Open a proposal of high risk to approve it.")
    if item.proposal.pk not in shown:
        raise Conflict("Expand the proposal and read it before you approve it.")


def _chosen(request: HttpRequest) -> tuple[str, Sequence[UUID]]:
    """The decision and the proposals: one row's own button, or the bar's with the ticked rows."""
    for action in ("approve", "reject", "keep"):
        if one := uuid_of(request.POST.get(action)):
            return action, [one]
    ticked = (uuid_of(value) for value in request.POST.getlist("selected")[:MAX_SELECTED])
    return request.POST.get("action", ""), list(dict.fromkeys(pk for pk in ticked if pk))
