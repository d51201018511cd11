"""The order of the inbox: priorities of items, and groups of near-identical items.

Items of higher priority come first, and older ones first among equals:

    priority = weight of its risk x (1 + prompts)

`prompts` is the number of prompts of the last seven days that would have included it: all of its agent for items of
every prompt (an identity, a censor, a fact of core memory), else those with its facts, by reported answers.
Prompts of the subconscious count only for people who may see it.
A proposal has its own risk. The risk of a review is high if a censor rose by itself or a fact verified by people is
contradicted, medium for another contradiction and for an invalidated fact that is learned again, else low.

Near-identical items form one group: proposals of one section for the same text, whatever the agent; reviews of one
kind about the same words, ignoring case, spaces and punctuation.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from context.models import InboxRank
from identity.models import ChangeProposal, Persona
from identity.policy.sections import Risk
from memory.models import MemoryReview
from memory.policy.categories import PROFILE_CATEGORIES
from nousweb.lib import clock

RISK_WEIGHTS = {Risk.LOW: 1, Risk.MEDIUM: 3, Risk.HIGH: 9}
PROMPTS_SINCE = timedelta(days=7)

PROMPTS = """
prompts AS MATERIALIZED (
    SELECT agent_id, persona, count(*) AS number FROM context_contextrun
    WHERE created_at >= %(since)s AND persona = ANY (%(personas)s) GROUP BY agent_id, persona
), agent_prompts AS MATERIALIZED (SELECT agent_id, sum(number) AS number FROM prompts GROUP BY agent_id)"""


# Each begins with the row itself once more: Citus sends the other reads to the part of the table that holds it.
OF_PROPOSAL = """
SELECT p.risk, coalesce((SELECT number FROM agent_prompts WHERE agent_prompts.agent_id = p.agent_id), 0) AS prompts,
       md5(concat_ws('/', p.status, p.persona, p.section, lower(p.content))) AS alike
FROM identity_changeproposal one WHERE one.id = p.id AND one.agent_id = p.agent_id"""
OF_REVIEW = """
SELECT CASE WHEN r.kind = 'escalation' OR r.kind = 'contradiction' AND old.endorsed THEN 'high'
            WHEN r.kind IN ('contradiction', 'relearned', 'attribute') THEN 'medium' ELSE 'low' END AS risk,
       CASE WHEN r.censor_id IS NOT NULL OR old.category = ANY (%(core)s) OR new.category = ANY (%(core)s)
            THEN coalesce((SELECT number FROM prompts WHERE agent_id = r.agent_id AND persona = r.persona), 0)
            ELSE (SELECT count(DISTINCT u.run_id) FROM context_memoryusage u
                  WHERE u.agent_id = r.agent_id AND u.item_type = 'fact' AND u.at >= %(since)s
                  AND u.persona = ANY (%(personas)s)
                  AND u.item_id = ANY (array_remove(r.facts || ARRAY[r.old_id, r.new_id], NULL)::text[])
                 ) END AS prompts,
       md5(concat_ws('/', r.kind, r.persona, regexp_replace(lower(
           coalesce(old.content, new.content, censor.pattern, nullif(r.proposal, ''), r.subject || r.id::text)
       ), '[\\s!-/:-@\\[-`{{-~]+', ' ', 'g'))) AS alike
FROM memory_memoryreview one
LEFT JOIN memory_fact old ON old.id = r.old_id AND old.agent_id = r.agent_id
LEFT JOIN memory_fact new ON new.id = r.new_id AND new.agent_id = r.agent_id
LEFT JOIN memory_censor censor ON censor.id = r.censor_id AND censor.agent_id = r.agent_id
WHERE one.id = r.id AND one.agent_id = r.agent_id"""

_WEIGHTS = " ".join(f"WHEN '{risk}' THEN {weight}" for risk, weight in RISK_WEIGHTS.items())
PRIORITY = f"(CASE risk {_WEIGHTS} ELSE 0 END) * (1 + prompts)::bigint"
"""SQL of the priority, of `risk` and `prompts`."""


def placing_values(now: datetime) -> dict[str, Any]:
    """Parameters of OF_PROPOSAL and OF_REVIEW, but for the personas whose prompts count."""
    return {"core": sorted(PROFILE_CATEGORIES), "since": now - PROMPTS_SINCE, "now": now}


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
