"""The common parts of decisions about a proposal: locking its rows, and recording status, change and audit record."""

from uuid import UUID

from identity.models import Agent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_record
from identity.services.guardrails import remark_check
from identity.services.versions import agent_lock
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, NotFound

REVIEW = "identity.review_changeproposal"


def proposal_lock(proposal: ChangeProposal, by: Principal) -> tuple[Agent, ChangeProposal]:
    """Lock the agent and the proposal. Raises NotFound if it is gone, or of a persona that `by` may not see."""
    by.require(REVIEW, proposal.agent)
    agent = agent_lock(proposal.agent)
    locked = (
        ChangeProposal.objects.visible_to(by)
        .select_for_update(of=("self",))
        .select_related("version__previous", "restores")
        .filter(agent=agent, pk=proposal.pk)
        .first()
    )
    if locked is None:
        raise NotFound("There is no such proposal.")
    return agent, locked


def pending_check(proposal: ChangeProposal) -> None:
    """Raise Conflict for a proposal that is decided, or past its expiry."""
    if proposal.status != ChangeProposal.Status.PENDING:
        who = f" by {proposal.reviewer_name}" if proposal.reviewer_name else ""
        raise Conflict(
            f"This proposal is already {proposal.get_status_display().lower()}{who}.", status=proposal.status
        )
    if proposal.expires_at <= clock.now():
        raise Conflict("This proposal has expired.", status=ChangeProposal.Status.EXPIRED)


def decision_save(
    proposal: ChangeProposal,
    status: ChangeProposal.Status,
    by: Principal,
    *,
    comment: str = "",
    version: IdentityVersion | None = None,
    batch: UUID | None = None,
) -> None:
    """Save who decided what, and tell the change feed. Its caller writes the audit record. Raises Invalid."""
    proposal.status = status
    proposal.reviewer_id, proposal.reviewer_name = by.id, by.name
    proposal.comment, proposal.batch = remark_check(comment, field="comment"), batch
    proposal.version = version
    proposal.decided_at = clock.now()
    proposal.save()
    change_tell("proposal.decided", proposal, status=str(status))


def change_tell(kind: str, proposal: ChangeProposal, **details: str) -> None:
    """Record a change of kind `kind` about a proposal in the change feed."""
    feed_change_record(
        kind=kind,
        agent=proposal.agent,
        persona=proposal.persona,
        object_type="changeproposal",
        object_id=proposal.pk,
        details={"section": proposal.section} | details,
    )


def status_audit(proposal: ChangeProposal, agent: Agent, by: Principal, action: str, before: str, message: str) -> None:
    """The audit record of a proposal that had the status `before`."""
    audit_record(
        by=by,
        action=action,
        target=proposal,
        agent=agent,
        before={"status": str(before)},
        after={"status": str(proposal.status)},
        message=message,
    )
