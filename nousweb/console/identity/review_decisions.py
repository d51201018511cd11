"""Shared parts of the queue and the page of one proposal: loading, decisions, and undoing a decision."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from context.what_if.change_overrides import proposal_overrides
from context.what_if.identity_delivery import IdentityDelivery
from identity.models import ChangeProposal
from identity.principal import Principal
from identity.services.proposal_undo import proposal_revert
from identity.services.proposals import (
    proposal_approve,
    proposal_keep,
    proposal_reject,
    proposal_withdraw,
)
from nousweb.console.identity.review_queue import QueueFilter, ReviewItem, with_texts
from nousweb.lib.errors import NotFound

ANOTHER_MUST_APPROVE = "Four eyes: another person must approve."


def item_get(pk: UUID, by: Principal) -> ReviewItem:
    """The proposal as a reviewer reads it. Raises NotFound."""
    found = item_find(pk, by)
    if found is None:
        raise NotFound("There is no such proposal.")
    return found


def item_find(pk: UUID | None, by: Principal) -> ReviewItem | None:
    """The proposal as a reviewer reads it; None for one that is not there."""
    found = with_texts(ChangeProposal.objects.visible_to(by).filter(pk=pk)).first() if pk else None
    return ReviewItem(found) if found else None


def with_shortfalls(items: list[ReviewItem], by: Principal) -> list[ReviewItem]:
    """The parts of the identity that prompts would leave out if each pending proposal were approved; loaded together
    for all agents."""
    waiting = [item for item in items if item.is_pending]
    agents = {item.proposal.agent_id: item.proposal.agent for item in waiting}
    deliveries = IdentityDelivery.load_each(list(agents.values()), by) if agents else {}
    for item in waiting:
        item.shortfall = deliveries[item.proposal.agent_id].shortfall(proposal_overrides(item.proposal))
    return items


def proposal_decide(
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


def queue_url(queue: QueueFilter, **extra: str) -> str:
    """The address of the list that this filter is of."""
    return queue.url(**extra)


def uuid_of(value: str | None) -> UUID | None:
    """An id of an address or a form; None if it is invalid."""
    try:
        return UUID(value) if value else None
    except ValueError:
        return None


def version_of(value: str | None) -> int | None:
    """The number of a version from a form; None if it is invalid."""
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else None
