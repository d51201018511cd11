"""Cache of the ranks of a long inbox, so that a page does not have to rank all items."""

from django.db import connection, transaction

from context.models import InboxRank
from identity.models import ChangeProposal, Persona
from memory.models import MemoryReview
from nousweb.console.common.inbox_priority import OF_PROPOSAL, OF_REVIEW, PROMPTS, placing_values
from nousweb.lib import clock

LONG_INBOX = 300
"""From this number of items on, they are ranked in the background; fewer are ranked when the inbox is read."""

_PLACED = f"""
WITH {PROMPTS}
SELECT p.id, p.agent_id, p.persona, own.risk, own.prompts, own.alike
FROM identity_changeproposal p CROSS JOIN LATERAL ({OF_PROPOSAL}) own WHERE p.status = ANY (%(waiting)s)
UNION ALL
SELECT r.id, r.agent_id, r.persona, own.risk, own.prompts, own.alike
FROM memory_memoryreview r CROSS JOIN LATERAL ({OF_REVIEW}) own WHERE r.status IN ('pending', 'undecided')
"""  # noqa: S608
_OF_ACTOR, _OF_BOTH = (_PLACED.replace("%(personas)s", f"%({name})s") for name in ("actor", "both"))
_KEEP = f"""
INSERT INTO context_inboxrank (item_id, agent_id, persona, risk, prompts, prompts_both, alike, at)
SELECT id, one.agent_id, one.persona, one.risk, one.prompts, two.prompts, one.alike, %(now)s
FROM ({_OF_ACTOR}) one JOIN ({_OF_BOTH}) two USING (id) ORDER BY id
ON CONFLICT (item_id) DO UPDATE SET risk = excluded.risk, prompts = excluded.prompts,
    prompts_both = excluded.prompts_both, alike = excluded.alike, at = excluded.at
"""  # noqa: S608


def inbox_ranks_refresh() -> int:
    """Rank each pending or undecided item, if there are many, and delete ranks of other items; returns how many."""
    now = clock.now()
    waiting = ChangeProposal.objects.waiting().order_by()[:LONG_INBOX].count()
    ranked = (MemoryReview.Status.PENDING, MemoryReview.Status.UNDECIDED)
    waiting += MemoryReview.objects.filter(status__in=ranked).order_by()[:LONG_INBOX].count()
    if waiting < LONG_INBOX:
        InboxRank.objects.all().delete()
        return 0
    values = placing_values(now) | {
        "waiting": list(ChangeProposal.WAITING),
        "actor": [Persona.ACTOR.value],
        "both": list(Persona.values),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_KEEP, values)
        placed = cursor.rowcount
        InboxRank.objects.filter(at__lt=now).delete()
    return placed
