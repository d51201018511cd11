"""Four eyes: with NOUS_FOUR_EYES no single person makes a text the current one.

A text becomes current when somebody approves what somebody else proposed. What a token proposed counts as the words of
whoever made the token, who holds its secret. Nothing else makes a version: what would be applied at once becomes a
proposal, also what restores an earlier text. Only the command line, whose user could change the database as well, seeds
an agent without asking.
"""

from django.conf import settings

from identity.models import ApiToken, ChangeProposal
from identity.principal import Principal
from nousweb.lib.errors import NotAllowed


def is_own(proposal: ChangeProposal, by: Principal) -> bool:
    """Whether `by` wrote the proposal, or made the token that did or a secret of it.

    Of a token that is gone nobody knows who made it.
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
    # Of an old token only the name of its maker may be known.
    return made_by or (not token.maker_id and token.created_by == by.name)


def approval_barred(proposal: ChangeProposal, by: Principal) -> bool:
    """Whether four eyes keep `by` from approving the proposal: it is their own."""
    return settings.FOUR_EYES and is_own(proposal, by)


def approval_check(proposal: ChangeProposal, by: Principal, *, edits: bool) -> None:
    """Raise NotAllowed where four eyes keep `by` from approving this, or from editing it while they do."""
    if approval_barred(proposal, by):
        raise NotAllowed(
            "Four eyes: you proposed this, or created the token that proposed it, so another person must approve it."
        )
    if settings.FOUR_EYES and edits:
        raise NotAllowed("Four eyes: save your edited text as a proposal of its own.")


def activation_check(by: Principal, approved: ChangeProposal | None) -> None:
    """Raise NotAllowed for a version that only one person stands behind. The last gate, whatever led to it."""
    if not settings.FOUR_EYES or by.kind == "system":
        return
    if approved is None or not by.is_person or is_own(approved, by):
        raise NotAllowed("Four eyes: a text becomes current only when another person approves it.")


def waits(by: Principal) -> bool:
    """Whether what `by` wishes has to be proposed, though they hold the right to have it at once."""
    return settings.FOUR_EYES and by.kind != "system"
