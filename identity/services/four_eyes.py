"""Four eyes: with NOUS_FOUR_EYES no single person can make a text the current one.

A text becomes current only when one person approves the proposal of another. A token's proposal counts as a proposal of
the person who made the token and so holds its secret. Changes that would be applied at once become proposals, including
the restoring of an earlier text. Only the command line, whose user could change the database as well, seeds an agent
without approval.
"""

from django.conf import settings

from identity.models import ApiToken, ChangeProposal
from identity.principal import Principal
from nousweb.lib.errors import NotAllowed


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
