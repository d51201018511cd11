"""All ways to change an identity: propose, approve, reject, withdraw, roll back, expire, revert, undo.

Each service that may change an identity locks the agent's row first, so that decisions about one agent happen one after
another, and leaves its audit record in the same transaction. The subconscious changes no identity, and takes no lock
that could delay the actor.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from identity.models import Agent, AuditEvent, ChangeProposal, IdentityVersion, Persona
from identity.policy.sections import Risk, change_risk, section_check
from identity.principal import Principal
from identity.services.agent_lock import first_of_personas
from identity.services.audit import audit_record
from identity.services.guardrails import (
    Status,
    caps_check,
    guardrail_decide,
    proposal_waiting,
    proposing_lock,
    rejection_check,
    remark_check,
    section_text_check,
)
from identity.services.versions import (
    REVIEW,
    StaleBase,
    agent_lock,
    approval_check,
    base_check,
    change_tell,
    decision_save,
    pending_check,
    proposal_lock,
    requires_proposal,
    status_audit,
    version_activate,
    version_current,
)
from nousweb.lib import Conflict, Invalid, NotAllowed, clock, existing
from nousweb.lib.textdiff import merge_texts


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a proposal: "applied" (a version), "proposed" (it is pending) or "unchanged" (the text is current
    already).

    `repeated`: the same text is pending already, and `proposal` is that one.
    """

    action: str
    proposal: ChangeProposal | None
    version: IdentityVersion | None
    repeated: bool = False


@transaction.atomic
def identity_propose(
    *,
    agent: Agent,
    section: str,
    content: str,
    reason: str = "",
    learned_from: Sequence[str] = (),
    base_version: int | None = None,
    by: Principal,
    wait: bool = False,
    restores: IdentityVersion | None = None,
) -> ChangeResult:
    """Propose a new text of a section; the guardrails apply it at once or leave it pending for a person.

    `learned_from` are the events and facts for it, as "event 12".
    `base_version` is the version that was edited (0 for none; None stands for the current one). `wait` requests a
    review even if the guardrails would apply the text at once. A text that is pending already is not proposed twice.
    A text that reads like an instruction to the agent, and that no person wrote, is always proposed, at high risk.
    Raises StaleBase with the three texts, Invalid, NotAllowed or NotFound; for a token Conflict if people lately
    rejected this text or too many of its proposals are pending, and TooMany after too many in a day.
    """
    by.require("identity.propose_changeproposal", agent)
    section_check(section)
    content, reason = section_text_check(content, reason, by=by)
    if by.persona != Persona.SUBCONSCIOUS:
        agent = agent_lock(agent)
    current = base_check(agent=agent, section=section, base_version=base_version, yours=content)
    if current is not None and current.content == content:
        return ChangeResult("unchanged", None, current)
    if current is None and not content:
        raise Invalid(f"{section} has no text yet, and this is empty.", field="content")
    proposing_lock(agent, by)
    rejection_check(agent=agent, content=content, by=by)
    verdict = guardrail_decide(agent=agent, section=section, current=current, by=by, content=content, reason=reason)
    base = current.version if current else 0
    waits = wait or not verdict.apply
    alike = proposal_waiting(agent=agent, section=section, content=content, base_version=base, by=by) if waits else None
    if alike is not None:
        return ChangeResult("proposed", alike, None, repeated=True)
    caps_check(agent=agent, by=by, waits=waits)
    proposal = ChangeProposal.objects.create(
        agent=agent,
        persona=by.persona,
        section=section,
        base_version=base,
        content=content,
        reason=reason,
        learned_from=list(learned_from),
        risk=Risk.HIGH if verdict.quarantined else change_risk(section, current.content if current else "", content),
        guardrail="Kept for review on request." if wait and verdict.apply else verdict.reason,
        restores=restores,
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
        expires_at=clock.now() + timedelta(days=settings.PROPOSAL_EXPIRY_DAYS),
    )
    if waits:
        audit_record(
            by=by,
            action="proposal.create",
            target=proposal,
            agent=agent,
            before={"version": current.version, "content": current.content} if current else None,
            after={"content": content, "base_version": proposal.base_version},
            message=reason,
        )
        return ChangeResult("proposed", proposal, None)
    version = version_activate(
        agent=agent,
        section=section,
        content=content,
        reason=reason,
        by=by,
        current=current,
        restores=restores,
        action="identity.rollback" if restores else "identity.update",
    )
    if by.is_person:
        decision_save(proposal, Status.APPROVED, by, version=version)
    else:
        proposal.put(status=Status.APPLIED, version=version, self_applied=True)
    return ChangeResult("applied", proposal, version)


@transaction.atomic
def identity_rollback(
    *,
    agent: Agent,
    section: str,
    to_version: int,
    reason: str = "",
    base_version: int | None = None,
    by: Principal,
) -> ChangeResult:
    """Give a section the text of an earlier version, as a new version that names the one it restores."""
    by.require(REVIEW, agent)
    section_check(section)
    target = existing(
        IdentityVersion.objects.filter(agent=agent, section=section, version=to_version).first(),
        f"{section} has no version {to_version}.",
    )
    return identity_propose(
        agent=agent,
        section=section,
        content=target.content,
        reason=reason or f"Roll back to version {to_version}.",
        base_version=base_version,
        by=by,
        restores=target,
    )


@transaction.atomic
def proposal_approve(
    *,
    proposal: ChangeProposal,
    by: Principal,
    comment: str = "",
    content: str | None = None,
    base_version: int | None = None,
    batch: UUID | None = None,
    merge: bool = False,
) -> IdentityVersion:
    """Make a pending proposal the current version; `content` is the reviewer's own edit of its text.

    With `base_version` the reviewer says against which version the text was read, so that a proposal
    whose section has moved on can be approved after its text was brought up to date. `merge` does that itself where
    both changed different lines: the text stays its author's, and four eyes count it as unedited.
    The actor reads every version, so one that the subconscious proposed has the approver for its author, and no reason
    but theirs. Raises Conflict when it is no longer pending, StaleBase when the section has moved on.
    """
    comment = remark_check(comment, field="comment")
    agent, proposal = proposal_lock(proposal, by)
    pending_check(proposal)
    approval_check(proposal, by, edits=content is not None)
    merged = _merge(agent, proposal, base_version) if merge and content is None else None
    if merged is not None and base_version is None:
        current = version_current(agent, proposal.section)
        base_version = current.version if current else 0
    own = merged if merged is not None else proposal.content
    wished, _ = section_text_check(own if content is None else content, "", by=by)
    current = base_check(
        agent=agent,
        section=proposal.section,
        yours=wished,
        base_version=proposal.base_version if base_version is None else base_version,
    )
    edited = wished != own
    sealed = proposal.persona == Persona.SUBCONSCIOUS
    version = version_activate(
        agent=agent,
        section=proposal.section,
        content=wished,
        reason="" if sealed else proposal.reason,
        by=by,
        current=current,
        restores=None if wished != proposal.content else proposal.restores,
        author=None if edited or sealed else proposal,
        approved=None if edited else proposal,
        action="proposal.approve",
        message=comment or ("Merged with the current text of the section." if wished != proposal.content else ""),
    )
    # Of a merged text, too, the version says what became current.
    proposal.edited = wished != proposal.content
    decision_save(proposal, Status.APPROVED, by, comment=comment, version=version, batch=batch)
    return version


@transaction.atomic
def proposal_reject(
    *, proposal: ChangeProposal, by: Principal, comment: str = "", batch: UUID | None = None
) -> ChangeProposal:
    """Turn a pending proposal down; the comment tells its author why."""
    agent, proposal = proposal_lock(proposal, by)
    pending_check(proposal)
    decision_save(proposal, Status.REJECTED, by, comment=comment, batch=batch)
    status_audit(proposal, agent, by, "proposal.reject", Status.PENDING, comment)
    return proposal


@transaction.atomic
def proposal_keep(
    *, proposal: ChangeProposal, by: Principal, comment: str = "", batch: UUID | None = None
) -> ChangeProposal:
    """Confirm, after the fact, a change that the guardrails let the agent apply itself."""
    agent, proposal = proposal_lock(proposal, by)
    approval_check(proposal, by, edits=False)
    if proposal.status != Status.APPLIED:
        raise Conflict(f"This change is {proposal.get_status_display().lower()}; there is nothing to keep.")
    decision_save(proposal, Status.APPROVED, by, comment=comment, version=proposal.version, batch=batch)
    status_audit(proposal, agent, by, "proposal.keep", Status.APPLIED, comment)
    return proposal


@transaction.atomic
def proposal_withdraw(*, proposal: ChangeProposal, by: Principal) -> ChangeProposal:
    """Take one's own pending proposal back."""
    by.require("identity.propose_changeproposal", proposal.agent)
    agent = agent_lock(proposal.agent)
    proposal = ChangeProposal.objects.select_for_update().get(agent=agent, pk=proposal.pk)
    ours = proposal.author_kind == by.kind and proposal.persona == by.persona
    if not ours or (by.is_person and proposal.author_id != by.id):
        raise NotAllowed("Only the author of a proposal can withdraw it.")
    pending_check(proposal)
    proposal.put(status=Status.WITHDRAWN, decided_at=clock.now())
    status_audit(proposal, agent, by, "proposal.withdraw", Status.PENDING, "")
    return proposal


@transaction.atomic
def proposals_expire(*, by: Principal, now: datetime | None = None) -> int:
    """Close pending proposals past their expiry; returns how many."""
    now = now or clock.now()
    over = ChangeProposal.objects.pending().filter(expires_at__lte=now).order_by("expires_at")
    # So many of each persona, whatever the other has proposed.
    expired = first_of_personas(over, 500)
    for proposal in expired:
        proposal.put(status=Status.EXPIRED, decided_at=now)
        status_audit(proposal, proposal.agent, by, "proposal.expire", Status.PENDING, "Nobody decided in time.")
    return len(expired)


def proposals_batch(batch: UUID, by: Principal) -> Iterable[ChangeProposal]:
    """The proposals of one bulk action that `by` may see, latest first, the order of undoing."""
    decided = ChangeProposal.objects.visible_to(by).filter(batch=batch)
    return decided.select_related("agent", "version").order_by("-decided_at")


def approved_text(proposal: ChangeProposal) -> str:
    """The text that approving a pending proposal makes current: merged with what has changed in other lines since, or
    its own."""
    try:
        merged = _merge(proposal.agent, proposal, None)
    except StaleBase:
        merged = None
    return proposal.content if merged is None else merged


def _merge(agent: Agent, proposal: ChangeProposal, base_version: int | None) -> str | None:
    """Merge the proposed change into the current text; None if the text has not changed since, or `base_version` is not
    the current version.

    Raises StaleBase if both changed the same lines.
    """
    current = version_current(agent, proposal.section)
    now = current.version if current else 0
    if now == proposal.base_version or base_version not in (None, now):
        return None
    base = IdentityVersion.objects.filter(agent=agent, section=proposal.section, version=proposal.base_version).first()
    before, since = (version.content if version else "" for version in (base, current))
    text = proposal.content if before == since else merge_texts(before, since, proposal.content)
    if text is None:
        base_check(agent=agent, section=proposal.section, base_version=proposal.base_version, yours=proposal.content)
    return text


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
