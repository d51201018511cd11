"""Undo a change that an agent applied itself, or a decision about a proposal."""

from datetime import datetime, timedelta

from django.db import transaction

from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.guardrails import remark_check
from identity.services.proposals import identity_propose
from identity.services.versions import (
    change_tell,
    decision_save,
    proposal_lock,
    requires_proposal,
    status_audit,
    version_activate,
    version_current,
)
from nousweb.lib import Conflict, clock

Status = ChangeProposal.Status


@transaction.atomic
def proposal_revert(*, proposal: ChangeProposal, by: Principal, comment: str = "") -> IdentityVersion | None:
    """Take back, after the fact, a change that the agent applied itself: a new version restores the old text.

    With four eyes that is proposed, the change stays until another person agrees, and there is no version yet.
    """
    comment = remark_check(comment, field="comment")
    agent, proposal = proposal_lock(proposal, by)
    if proposal.status != Status.APPLIED:
        raise Conflict(f"This change is {proposal.get_status_display().lower()}; it cannot be reverted here.")
    if requires_proposal(by):
        _restore_propose(agent, proposal, by, comment)
        return None
    version = _restore_before(agent, proposal, by, action="proposal.revert", message=comment)
    decision_save(proposal, Status.REVERTED, by, comment=comment, version=proposal.version)
    return version


@transaction.atomic
def proposal_undo(*, proposal: ChangeProposal, by: Principal, decided_at: datetime | None = None) -> ChangeProposal:
    """Undo a decision: the proposal is pending again.

    `decided_at` names the decision to undo. Raises Conflict if another one was made since.

    An approval can be undone while nothing came after it; its text is replaced by a new version that restores the one
    before. A change that a person applied directly, such as a rollback, was never pending, and is reverted by the undo.
    A rejection can always be undone, and so can keeping an agent's own change, which must then be looked over again and
    stays in force.

    With four eyes no single person can undo an approval: the text before is proposed, the approved one stays current
    until another person agrees, and that new proposal is returned.
    """
    agent, proposal = proposal_lock(proposal, by)
    if decided_at not in (None, proposal.decided_at) and proposal.status != Status.PENDING:
        raise Conflict(f"This proposal has been decided again since, by {proposal.reviewer_name}: nothing was undone.")
    if proposal.status == Status.REJECTED:
        proposal.status = Status.PENDING
        status_audit(proposal, agent, by, "proposal.undo", Status.REJECTED, "")
    elif proposal.status == Status.APPROVED and proposal.self_applied:
        proposal.status = Status.APPLIED
        status_audit(proposal, agent, by, "proposal.undo", Status.APPROVED, "Undo of a look-over.")
    elif proposal.status == Status.APPROVED and requires_proposal(by):
        return _restore_propose(agent, proposal, by, "")
    elif proposal.status == Status.APPROVED:
        waited = AuditEvent.objects.of_object("changeproposal", proposal.pk).filter(action="proposal.create").exists()
        undone = "an approval" if waited else "a rollback" if proposal.restores_id else "a change"
        restored = _restore_before(agent, proposal, by, action="proposal.undo", message=f"Undo of {undone}.")
        if not waited:
            decision_save(proposal, Status.REVERTED, by, comment=proposal.comment, version=proposal.version)
            return proposal
        if not proposal.edited:
            # A text that was merged or edited says what it changes only beside the one it was written on.
            proposal.base_version = restored.version
        proposal.status, proposal.version, proposal.edited = Status.PENDING, None, False
    else:
        raise Conflict(f"This proposal is {proposal.get_status_display().lower()}; there is nothing to undo.")
    proposal.reviewer_id = proposal.reviewer_name = proposal.comment = ""
    proposal.decided_at = proposal.batch = None
    # A proposal that is pending again must get time to be seen before it expires.
    proposal.expires_at = max(proposal.expires_at, clock.now() + timedelta(days=1))
    proposal.save()
    change_tell("proposal.reopened", proposal)
    return proposal


def _restore_before(
    agent: Agent, proposal: ChangeProposal, by: Principal, *, action: str, message: str
) -> IdentityVersion:
    """Write a new version with the text from before `proposal` was applied, if nothing came after it."""
    current, before = _applied(agent, proposal)
    return version_activate(
        agent=agent,
        section=proposal.section,
        content=before.content if before else "",
        reason=f"Restores version {before.version}." if before else "Restores the empty section.",
        by=by,
        current=current,
        restores=before,
        action=action,
        message=message,
    )


def _restore_propose(agent: Agent, proposal: ChangeProposal, by: Principal, comment: str) -> ChangeProposal:
    """Propose the text from before `proposal` was applied. Raises Conflict where that waits already."""
    current, before = _applied(agent, proposal)
    content = before.content if before else ""
    same = ChangeProposal.objects.pending().filter(
        agent=agent, section=proposal.section, base_version=current.version, content=content
    )
    if same.exists():
        raise Conflict("Four eyes: restoring the previous text is already proposed; another person must approve it.")
    restored = f"Restores version {before.version}." if before else "Restores the empty section."
    result = identity_propose(
        agent=agent,
        section=proposal.section,
        content=content,
        reason=comment or restored,
        base_version=current.version,
        by=by,
        restores=before,
    )
    if result.proposal is None:
        raise Conflict("The previous text is already current.")
    return result.proposal


def _applied(agent: Agent, proposal: ChangeProposal) -> tuple[IdentityVersion, IdentityVersion | None]:
    """The version that `proposal` led to and the one before. Raises Conflict when it is no longer the current one."""
    applied = proposal.version
    current = version_current(agent, proposal.section)
    # A later version that restored its text, as the undo of a later change does, does not count.
    if applied is None or current is None or applied.pk not in (current.pk, current.restores_id):
        raise Conflict(f"{proposal.get_section_display()} has changed since; roll back from its history instead.")
    return current, applied.previous
