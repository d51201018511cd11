"""Decisions about items of the inbox, several at once, and their undo: one adapter for each type of item."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from identity.models import ChangeProposal, IdentityVersion
from identity.policy.sections import Risk
from identity.principal import Principal
from identity.services.inbox_items import InboxItem
from identity.services.proposal_undo import proposal_revert, proposal_undo
from identity.services.proposals import (
    proposal_approve,
    proposal_keep,
    proposal_reject,
    proposal_withdraw,
    proposals_batch,
)
from identity.services.versions import StaleBase
from memory.models import MemoryReview
from memory.selectors import visible_reviews
from memory.services.reviews.resolve import review_resolve
from memory.services.reviews.undo import review_undo
from nousweb.console.common.view_helpers import MAX_SELECTED, moment_of, uuids_of
from nousweb.console.inbox.proposal_items import ProposalItem, proposal_name, with_texts
from nousweb.console.inbox.query import PROPOSAL, REVIEW
from nousweb.lib.errors import Conflict, DomainError, NotFound

ANOTHER_MUST_APPROVE = "Four eyes: another person must approve."
Refusals = list[tuple[str, str]]
"""What was refused, each with the reason."""


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
    if action not in decisions:
        raise NotFound("There is no such decision.")
    return decisions[action]()


def version_of(value: str | None) -> int | None:
    """The number of a version from a form; None if it is invalid."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else None


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
    shown: dict[UUID, int] = {}
    for value in request.POST.getlist("shown")[:MAX_SELECTED]:
        key, _, version = value.partition(":")
        number = version_of(version)
        if number is not None:
            shown |= dict.fromkeys(uuids_of([key]), number)
    return shown


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
    done, refused = 0, []
    for review in visible_reviews(by).filter(pk__in=keys).select_related("agent", "new"):
        try:
            review_resolve(review=review, resolution=answer, by=by, batch=batch, seen=seen.get(str(review.pk), ""))
            done += 1
        except DomainError as error:
            refused.append((str(review), error.detail))
    return done, refused


DECIDE_MANY: dict[str, Callable[[HttpRequest, list[UUID], Principal, UUID], tuple[int, Refusals]]] = {
    PROPOSAL: _proposals_decide,
    REVIEW: _reviews_resolve,
}
"""By type of an item: the decisions of a bulk form; returns how many were made, and the refusals."""


def item_undo(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    """Undo the last decision about an item, and return what to say of it."""
    moment = moment_of(request, "decided")
    if isinstance(item.row, MemoryReview):
        review_undo(review=item.row, by=by, resolved_at=moment)
        return "The resolution was undone. The review is pending again."
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
    undone, proposed = {PROPOSAL: 0, REVIEW: 0}, 0
    refused: Refusals = []
    reviews = visible_reviews(by).filter(batch=batch, status=MemoryReview.Status.RESOLVED).order_by("-resolved_at")
    rows: list[ChangeProposal | MemoryReview] = [*proposals_batch(batch, by), *reviews]
    for row in rows:
        try:
            if isinstance(row, MemoryReview):
                review_undo(review=row, by=by, resolved_at=row.resolved_at)
                undone[REVIEW] += 1
            elif proposal_undo(proposal=row, by=by, decided_at=row.decided_at).pk == row.pk:
                undone[PROPOSAL] += 1
            else:
                proposed += 1
        except DomainError as error:
            title = str(row) if isinstance(row, MemoryReview) else proposal_name(row.section, row.agent.name)
            refused.append((title, error.detail))
    said = [
        f"{number} {noun}{'s were' if number > 1 else ' was'} undone. "
        f"The {what}{'s are' if number > 1 else ' is'} pending again."
        for number, noun, what in (
            (undone[PROPOSAL], "decision", "proposal"),
            (undone[REVIEW], "resolution", "review"),
        )
        if number
    ]
    if proposed:
        said.append(f"Previous texts proposed for restoration: {proposed}. {ANOTHER_MUST_APPROVE}")
    return said, refused
