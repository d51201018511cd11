"""Make a version of an identity current, and record a decision about a proposal.

Internal: callers have checked rights and guardrails.

With NOUS_FOUR_EYES no single person can make a text the current one: it becomes current only when one person approves
the proposal of another. A token's proposal counts as a proposal of the person who made the token and so holds its
secret. Changes that would be applied at once become proposals, including the restoring of an earlier text. Only the
command line, whose user could change the database as well, seeds an agent without approval.
"""

from uuid import UUID

from django.conf import settings
from django.db import transaction

from identity.models import Agent, ApiToken, AuthorFields, ChangeProposal, IdentityVersion, Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_record
from identity.services.guardrails import remark_check
from identity.services.inbox_items import notifications_end
from nousweb.lib import Conflict, NotAllowed, clock, existing


def is_own(proposal: ChangeProposal, by: Principal) -> bool:
    """Whether `by` wrote the proposal, or made its token or a secret of its token.

    True if the token is gone, since its maker is unknown then.
    """
    if proposal.author_kind == by.kind and proposal.author_id == by.id:
        return True
    if proposal.author_kind != ChangeProposal.Kind.TOKEN or not by.is_person:
        return False
    key = proposal.author_id
    token = ApiToken.objects.filter(pk=key).first() if key.isascii() and key.isdigit() and len(key) < 19 else None
    if token is None:
        return True
    made_by = (token.maker_kind, token.maker_id) == (by.kind, by.id) or f"{by.kind}:{by.id}" in token.secret_holders
    # An old token may record only the name of its maker.
    return made_by or (not token.maker_id and token.created_by == by.name)


def is_self_approval(proposal: ChangeProposal, by: Principal) -> bool:
    """Whether four eyes are required and the proposal is `by`'s own, so that `by` must not approve it."""
    return settings.FOUR_EYES and is_own(proposal, by)


def approval_check(proposal: ChangeProposal, by: Principal, *, edits: bool) -> None:
    """Raise NotAllowed if four eyes forbid `by` to approve the proposal, or to edit it in approving."""
    if is_self_approval(proposal, by):
        raise NotAllowed(
            "Four eyes: you proposed this, or created the token that proposed it, so another person must approve it."
        )
    if settings.FOUR_EYES and edits:
        raise NotAllowed("Four eyes: save your edited text as a proposal of its own.")


def activation_check(by: Principal, approved: ChangeProposal | None) -> None:
    """Raise NotAllowed for a version that only one person wrote and approved. The final check of every path."""
    if not settings.FOUR_EYES or by.kind == "system":
        return
    if approved is None or not by.is_person or is_own(approved, by):
        raise NotAllowed("Four eyes: a text becomes current only when another person approves it.")


def requires_proposal(by: Principal) -> bool:
    """Whether changes of `by` must become proposals, even if `by` has the permission to apply them."""
    return settings.FOUR_EYES and by.kind != "system"


class StaleBase(Conflict):
    """The section has moved on since the text that was edited; carries the base, current and wished texts."""

    code = "stale_base"
    title = "The section has changed since this edit began"

    def __init__(
        self,
        *,
        section: str,
        base: IdentityVersion | None,
        base_version: int,
        current: IdentityVersion | None,
        yours: str,
    ) -> None:
        now = current.version if current else 0
        super().__init__(
            f"This edit is based on version {base_version} of {section}, but version {now} is current.",
            section=section,
            base={"version": base_version, "content": base.content if base else ""},
            current={"version": now, "content": current.content if current else ""},
            yours={"content": yours},
        )


def agent_lock(agent: Agent) -> Agent:
    """Take the agent's row lock, which orders all changes of one agent's identity. Needs a transaction.

    Not the strongest lock: every row written for the agent holds its key, and neither waits for the other.
    Raises NotFound when the agent has been erased meanwhile.
    """
    return existing(Agent.objects.select_for_update(no_key=True).filter(pk=agent.pk).first(), "There is no such agent.")


def version_current(agent: Agent, section: str) -> IdentityVersion | None:
    return IdentityVersion.objects.current().filter(agent=agent, section=section).first()


def base_check(*, agent: Agent, section: str, base_version: int | None, yours: str) -> IdentityVersion | None:
    """Return the current version; raise StaleBase unless it is `base_version` (None accepts any)."""
    current = version_current(agent, section)
    now = current.version if current else 0
    if base_version is not None and base_version != now:
        raise StaleBase(
            section=section,
            base=IdentityVersion.objects.filter(agent=agent, section=section, version=base_version).first(),
            base_version=base_version,
            current=current,
            yours=yours,
        )
    return current


def version_activate(
    *,
    agent: Agent,
    section: str,
    content: str,
    reason: str,
    by: Principal,
    current: IdentityVersion | None,
    restores: IdentityVersion | None = None,
    author: AuthorFields | None = None,
    approved: ChangeProposal | None = None,
    action: str,
    message: str = "",
) -> IdentityVersion:
    """Write the next version of a section and make it current, with its audit record.

    `current` is the section's current version as read under the agent's lock. `author` wrote the text if that is not
    `by`, who activates it. `approved` is the proposal, unedited, that `by` approves. Raises NotAllowed if four eyes
    require another person.
    """
    activation_check(by, approved)
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("Take agent_lock first: versions change under it.")
    if current is not None:
        IdentityVersion.objects.filter(agent=agent, pk=current.pk, is_current=True).update(is_current=False)
    version = IdentityVersion.objects.create(
        agent=agent,
        section=section,
        version=current.version + 1 if current else 1,
        content=content,
        previous=current,
        restores=restores,
        reason=reason,
        author_kind=author.author_kind if author else by.kind,
        author_id=author.author_id if author else by.id,
        author_name=author.author_name if author else by.name,
    )
    if agent.initiated_at is None:
        Agent.objects.filter(pk=agent.pk).update(initiated_at=version.created_at)
        agent.initiated_at = version.created_at
    audit_record(
        by=by,
        action=action,
        target=version,
        agent=agent,
        before={"version": current.version, "content": current.content} if current else None,
        after={
            "version": version.version,
            "content": content,
            "restores": restores.version if restores else None,
        },
        message=message or reason,
    )
    # The actor may read every version, whatever persona proposed it.
    feed_change_record(
        kind="identity.changed",
        agent=agent,
        persona=Persona.ACTOR,
        object_type="identityversion",
        object_id=version.pk,
        details={"section": section, "version": version.version},
    )
    return version


REVIEW = "identity.review_changeproposal"


def proposal_lock(proposal: ChangeProposal, by: Principal) -> tuple[Agent, ChangeProposal]:
    """Lock the agent and the proposal. Raises NotFound if it is gone, or of a persona that `by` may not see."""
    by.require(REVIEW, proposal.agent)
    agent = agent_lock(proposal.agent)
    locked = existing(
        ChangeProposal.objects.visible_to(by)
        .select_for_update(of=("self",))
        .select_related("version__previous", "restores")
        .filter(agent=agent, pk=proposal.pk)
        .first(),
        "There is no such proposal.",
    )
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
    notifications_end(proposal.pk, by)
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
