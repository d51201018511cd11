"""Query of the items of a person, in one order over all types: proposals of identities and reviews of memories.

Items of higher risk come first, and older ones first among equals. Home lists them in the same order.

`prompts` is the number of prompts of the last seven days that would have included it: all of its agent for items of
every prompt (an identity, a censor, a fact of core memory), else those with its facts, by reported answers.
Prompts of the subconscious count only for people who may see it.
A proposal has its own risk. The risk of a review is high if a censor rose by itself or a fact verified by people is
contradicted, medium for another contradiction and for an invalidated fact that is learned again, else low.

Near-identical items form one group: proposals of one section for the same text, whatever the agent; reviews of one
kind about the same words, ignoring case, spaces and punctuation; new memories of one writer and source. Rivals are a
group as well: pending proposals for one section of an agent, and contradictions of one known fact, as far as they can
be read side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from context.models import RECENT, InboxRank
from identity.models import ChangeProposal, Persona
from identity.policy.inbox import VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sections import Risk
from identity.principal import Principal
from memory.models import MemoryReview
from memory.policy import PROFILE_CATEGORIES
from nousweb.lib import clock
from nousweb.lib.transactions import sql_change, sql_row, sql_rows

RISKS = [Risk.LOW, Risk.MEDIUM, Risk.HIGH]

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
           coalesce(r.details ->> 'group', old.content || ' ' || new.content, old.content, new.content, censor.pattern,
                    nullif(r.proposal, ''), r.subject || r.id::text)
       ), '[\\s!-/:-@\\[-`{{-~]+', ' ', 'g'))) AS alike
FROM memory_memoryreview one
LEFT JOIN memory_fact old ON old.id = r.old_id AND old.agent_id = r.agent_id
LEFT JOIN memory_fact new ON new.id = r.new_id AND new.agent_id = r.agent_id
LEFT JOIN memory_censor censor ON censor.id = r.censor_id AND censor.agent_id = r.agent_id
WHERE one.id = r.id AND one.agent_id = r.agent_id"""

_WEIGHTS = " ".join(f"WHEN '{risk}' THEN {weight}" for weight, risk in enumerate(RISKS, 1))
PRIORITY = f"(CASE risk {_WEIGHTS} ELSE 0 END)"
"""SQL of the priority: 3 for high risk, 2 for medium, 1 for low, 0 for none."""


def placing_values(now: datetime) -> dict[str, Any]:
    """Parameters of OF_PROPOSAL and OF_REVIEW, but for the personas whose prompts count."""
    return {"core": sorted(PROFILE_CATEGORIES), "since": now - RECENT, "now": now}


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
    with transaction.atomic():
        placed = sql_change(_KEEP, values)
        InboxRank.objects.filter(at__lt=now).delete()
    return placed


PROPOSAL, REVIEW = "changeproposal", "memoryreview"
_WILD = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})
"""What means something else in a pattern of SQL."""
MAX_RIVALS = 6
"""More rivals than these cannot be read side by side: each is listed by itself."""
QUEUE_LIMIT = 10_000
"""Positions, neighbours and numbered pages are found among so many."""

_OF_PERSON = {
    "snoozed": "FROM identity_itemsnooze s WHERE s.person_id = %(person)s AND s.ended_at IS NULL"
    " AND (s.until IS NULL OR s.until > %(now)s)",
    "mentioned": "FROM identity_notification m WHERE m.person_id = %(person)s AND m.kind = 'mention'",
    "opinions": "FROM identity_secondopinion o WHERE o.person_id = %(person)s AND o.answered_at IS NULL",
}
"""By name of a person's relation to items: the rows that record it."""
_HAS = {name: f"EXISTS (SELECT 1 {rows} AND item_id = item.id)" for name, rows in _OF_PERSON.items()}
SCOPES = {
    "": f"NOT {_HAS['snoozed']}",
    "snoozed": _HAS["snoozed"],
    "mentioned": _HAS["mentioned"],
    "opinions": _HAS["opinions"],
}
"""By name of a scope the condition on an item; "" is for pending items that are not snoozed."""
_ASSIGNED = "EXISTS (SELECT 1 FROM identity_itemassignment a WHERE a.item_id = item.id"
ASSIGNEES = {"": "true", "me": f"{_ASSIGNED} AND a.person_id = %(person)s)", "nobody": f"NOT {_ASSIGNED})"}

SORTS = {"risk": "priority DESC, created_at, id", "oldest": "created_at, id", "newest": "created_at DESC, id"}
_BEYOND = {
    "risk": "(priority < %(priority)s OR priority = %(priority)s AND (created_at, id) > (%(moment)s, %(key)s))",
    "oldest": "(created_at, id) > (%(moment)s, %(key)s)",
    "newest": "(created_at < %(moment)s OR created_at = %(moment)s AND id > %(key)s)",
}

_SEEN = "(%(agents)s::bigint[] IS NULL OR {0}.agent_id = ANY (%(agents)s)) AND {0}.persona = ANY (%(personas)s)"
# Items that the worker has not ranked yet are ranked here, each by itself.
_PROPOSALS = f"""
    SELECT p.id, 'changeproposal' AS type, p.agent_id, p.persona, p.section AS kind, p.status, p.risk, p.created_at,
           coalesce(CASE WHEN %(both)s THEN kept.prompts_both ELSE kept.prompts END, own.prompts) AS prompts,
           coalesce(kept.alike, own.alike) AS alike,
           CASE p.status WHEN 'pending' THEN concat_ws('/', p.agent_id, p.persona, p.section)
           ELSE p.id::text END AS rival
    FROM identity_changeproposal p LEFT JOIN context_inboxrank kept ON kept.item_id = p.id
    LEFT JOIN LATERAL ({OF_PROPOSAL} AND kept.item_id IS NULL) own ON true
    WHERE {_SEEN.format("p")} AND p.status = ANY (%(statuses)s)"""  # noqa: S608
_REVIEWS = f"""
    SELECT r.id, 'memoryreview' AS type, r.agent_id, r.persona, r.kind, r.status, coalesce(kept.risk, own.risk) AS risk,
           r.created_at,
           coalesce(CASE WHEN %(both)s THEN kept.prompts_both ELSE kept.prompts END, own.prompts) AS prompts,
           coalesce(kept.alike, own.alike) AS alike,
           CASE r.kind WHEN 'contradiction' THEN coalesce(r.old_id, r.id) ELSE r.id END::text AS rival
    FROM memory_memoryreview r LEFT JOIN context_inboxrank kept ON kept.item_id = r.id
    LEFT JOIN LATERAL ({OF_REVIEW} AND kept.item_id IS NULL) own ON true
    WHERE {_SEEN.format("r")} AND r.status = 'pending'"""  # noqa: S608
_DECIDED_PROPOSALS = f"""
    SELECT p.id, 'changeproposal' AS type, p.agent_id, p.persona, p.section AS kind, p.status, p.risk,
           coalesce(p.decided_at, p.created_at) AS created_at, 0 AS prompts, '' AS alike, '' AS rival
    FROM identity_changeproposal p WHERE {_SEEN.format("p")} AND p.status <> ALL (%(statuses)s)"""  # noqa: S608
_DECIDED_REVIEWS = f"""
    SELECT r.id, 'memoryreview' AS type, r.agent_id, r.persona, r.kind, r.status, '' AS risk,
           coalesce(r.resolved_at, r.created_at) AS created_at, 0 AS prompts, '' AS alike, '' AS rival
    FROM memory_memoryreview r WHERE {_SEEN.format("r")} AND r.status IN ('resolved', 'expired')"""  # noqa: S608
_OF_STATE: dict[str, Mapping[str, str]] = {
    "pending": {PROPOSAL: _PROPOSALS, REVIEW: _REVIEWS},
    "decided": {PROPOSAL: _DECIDED_PROPOSALS, REVIEW: _DECIDED_REVIEWS},
    # A pair of an undecided attribute is listed with its attribute.
    "undecided": {
        REVIEW: _REVIEWS.replace("r.status = 'pending'", "r.status = 'undecided' AND NOT r.details ? 'question'")
    },
}
"""The items of each type by state. `created_at` of a decided one is when it was decided."""
_NOTHING = """
    SELECT item_id AS id, '' AS type, agent_id, persona, '' AS kind, '' AS status, risk, at AS created_at, prompts,
           alike, '' AS rival
    FROM context_inboxrank WHERE false"""

_TEXTS = {
    PROPOSAL: "concat_ws(' ', p.section, p.content, p.reason)",
    REVIEW: """concat_ws(' ', r.subject, r.proposal,
        (SELECT string_agg(f.content, ' ') FROM memory_fact f WHERE f.agent_id = r.agent_id
            AND (f.id = r.old_id OR f.id = r.new_id OR f.id = ANY (r.facts))),
        (SELECT string_agg(e.content, ' ') FROM memory_event e WHERE e.agent_id = r.agent_id AND e.id IN (
            SELECT (item ->> 1)::bigint FROM jsonb_array_elements(coalesce(r.details -> 'items', '[]')) item
            WHERE item ->> 0 = 'event')),
        (SELECT c.pattern FROM memory_censor c WHERE c.agent_id = r.agent_id AND c.id = r.censor_id))""",
}
"""By type of an item: the text in which words are searched for."""

# Where an item stands is not asked for by counts, and what a person has to do with items is read once, not for each.
_COUNTED_OF_TYPE = {
    PROPOSAL: f"""
    SELECT p.id, 'changeproposal' AS type, p.status, p.section AS kind FROM identity_changeproposal p
    WHERE {_SEEN.format("p")} AND p.status = ANY (%(statuses)s)""",  # noqa: S608
    REVIEW: f"""
    SELECT r.id, 'memoryreview' AS type, r.status, r.kind FROM memory_memoryreview r
    WHERE {_SEEN.format("r")} AND r.status = 'pending'""",  # noqa: S608
}
_MARKED = " UNION ALL ".join(f"SELECT '{name}' AS name, item_id {rows}" for name, rows in _OF_PERSON.items())
_MARKS = f"""
SELECT item_id AS id, {", ".join(f"bool_or(name = '{name}') AS {name}" for name in _OF_PERSON)}
FROM ({_MARKED}) marked GROUP BY item_id"""  # noqa: S608
_WAITS = "NOT coalesce(snoozed, false)"
_COUNTED = {
    "snoozed": "snoozed",
    "mentioned": "mentioned",
    "opinions": "opinions",
    "": f"{_WAITS} AND status = 'pending'",
    PROPOSAL: f"{_WAITS} AND status = 'pending' AND type = 'changeproposal'",
    REVIEW: f"{_WAITS} AND type = 'memoryreview'",
    "applied": f"{_WAITS} AND status = 'applied'",
    "censors": f"{_WAITS} AND kind = 'escalation'",
}
"""By name of a scope or a sort the condition on an item with its marks."""
_COUNTS = ", ".join(f"count(*) FILTER (WHERE {where})" for where in _COUNTED.values())


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """One item of the inbox, or the first of a group of `members`.

    The group is that of the `copies` near-identical ones, which `alike` names, or else of its rivals.
    """

    id: UUID
    type: str
    priority: int
    prompts: int
    risk: str
    created_at: datetime
    alike: str = ""
    members: int = 1
    copies: int = 1

    @property
    def has_rivals(self) -> bool:
        return self.members > self.copies


@dataclass(frozen=True, slots=True)
class InboxQuery:
    """A query of the inbox of person `by`: its filters and its order.

    `state`: of the items that are "pending", that were "decided", or of the reviews about which nobody is asked
    ("undecided"). `grouped`: near-identical items are one group, and rivals are. `words`: all stand in an item's text.
    """

    by: Principal
    types: tuple[str, ...] = (PROPOSAL, REVIEW)
    statuses: tuple[str, ...] = tuple(ChangeProposal.WAITING)
    scope: str = ""
    agent: str = ""
    risk: str = ""
    assignee: str = ""
    kinds: tuple[str, ...] = field(default=())
    alike: str = ""
    sort: str = "risk"
    state: str = "pending"
    grouped: bool = True
    words: str = ""

    def entries(self) -> list[InboxEntry]:
        """Its items, each by itself, in their order; at most QUEUE_LIMIT."""
        sql = f"{self._scored()} SELECT id, type, priority, prompts, risk, created_at FROM scored"  # noqa: S608
        return self._read(f"{sql} ORDER BY {SORTS[self.sort]} LIMIT {QUEUE_LIMIT}")

    def place(self, pk: UUID) -> dict[str, Any]:
        """The position of an item among the `total` items of the query (`place`, None if it is not among them), its
        `type` and `risk`, the number of its `rivals`, and the types and keys of its neighbours (`previous`, `next`)
        and of the `following` item after a decision, None where there is no other."""
        sql = f"""{self._scored()}, numbered AS (
            SELECT id, row_number() OVER w AS place, count(*) OVER () AS total, type,
                   lag(type) OVER w AS type_before, lag(id) OVER w AS id_before,
                   lead(type) OVER w AS type_after, lead(id) OVER w AS id_after, risk,
                   CASE rival WHEN '' THEN 0 ELSE count(*) OVER (PARTITION BY rival) - 1 END AS rivals
            FROM scored WINDOW w AS (ORDER BY {SORTS[self.sort]})
        ) SELECT * FROM numbered WHERE id = %(pk)s OR place = 1 ORDER BY place"""  # noqa: S608
        rows = sql_rows(sql, self._params() | {"pk": pk})
        first = (rows[0][3], rows[0][0]) if rows else None
        own = next((row for row in rows if row[0] == pk), None)
        found = {"place": None, "total": rows[0][2] if rows else 0, "previous": None, "next": None}
        if own is None:
            return found | {"following": first, "risk": "", "rivals": 0}
        before, after = ((kind, key) if key else None for kind, key in (own[4:6], own[6:8]))
        following = after or (first if own[1] > 1 else None)
        around = {"place": own[1], "previous": before, "next": after, "following": following}
        return found | around | {"type": own[3], "risk": own[8], "rivals": own[9]}

    def groups(self, *, size: int, after: InboxEntry | None = None) -> list[InboxEntry]:
        """The first items of up to `size` groups, or items, in their order; those after an entry of an earlier page."""
        beyond = f"AND {_BEYOND[self.sort]}" if after else ""
        window = f"""count(*) OVER (PARTITION BY one_group) AS members,
                   row_number() OVER (PARTITION BY one_group ORDER BY {SORTS[self.sort]}) AS place"""
        counted = "count(*) OVER (PARTITION BY alike) AS copies, count(*) OVER (PARTITION BY rival) AS rivals"
        sql = f"""{self._scored()}, counted AS (
            SELECT *, {counted if self.grouped else "1 AS copies, 1 AS rivals"} FROM scored
        ), joined AS (
            SELECT *, CASE WHEN copies > 1 THEN alike WHEN rivals <= {MAX_RIVALS} THEN rival
                      ELSE id::text END AS one_group
            FROM counted
        ), grouped AS (
            SELECT *, {window if self.grouped else "1 AS members, 1 AS place"} FROM joined
        )
        SELECT id, type, priority, prompts, risk, created_at, alike, members, copies FROM grouped
        WHERE place = 1 {beyond} ORDER BY {SORTS[self.sort]} LIMIT %(size)s"""  # noqa: S608
        last = {"priority": after.priority, "moment": after.created_at, "key": after.id} if after else {}
        return self._read(sql, size=size, **last)

    def around(self, pk: UUID, *, before: int, after: int) -> list[InboxEntry]:
        """The items around this one, each by itself, in their order: up to `before` and `after` of them; the first
        ones, where it is not among them."""
        sql = f"""{self._scored()}, numbered AS (
            SELECT *, row_number() OVER (ORDER BY {SORTS[self.sort]}) AS place FROM scored
        ), own AS (SELECT coalesce(max(place) FILTER (WHERE id = %(pk)s), 1) AS place FROM numbered)
        SELECT id, type, priority, prompts, risk, created_at FROM numbered
        WHERE place BETWEEN (SELECT place FROM own) - %(before)s AND (SELECT place FROM own) + %(after)s
        ORDER BY place"""  # noqa: S608
        return self._read(sql, pk=pk, before=before, after=after)

    def rivals(self, pk: UUID) -> list[InboxEntry]:
        """The item of this key and its rivals, the oldest first; none where it is not among the items."""
        sql = f"""{self._scored()} SELECT id, type, priority, prompts, risk, created_at FROM scored
        WHERE rival = (SELECT rival FROM scored WHERE id = %(pk)s) ORDER BY created_at, id LIMIT {MAX_RIVALS + 1}"""  # noqa: S608
        return self._read(sql, pk=pk)

    def count(self) -> int:
        """The number of items, with all items of groups."""
        sql = f"WITH {self._items()} SELECT count(*) FROM item {self._where()}"  # noqa: S608
        return int(sql_row(sql, self._params())[0])

    def counts(self) -> dict[str, int]:
        """The number of items in each scope ("" without a name), and of each kind."""
        parts = " UNION ALL ".join(self._of_types(_COUNTED_OF_TYPE) or [_NOTHING])
        sql = f"WITH item AS ({parts}), mark AS ({_MARKS}) SELECT {_COUNTS} FROM item LEFT JOIN mark USING (id)"  # noqa: S608
        return dict(zip(_COUNTED, sql_row(sql, self._params()), strict=True))

    def _scored(self) -> str:
        return f"""WITH {self._items()}, scored AS (
            SELECT item.*, {PRIORITY} AS priority FROM item {self._where()}
        )"""  # noqa: S608

    def _items(self) -> str:
        parts = self._of_types(_OF_STATE[self.state]) or [_NOTHING]
        return f"{PROMPTS}, item AS ({' UNION ALL '.join(parts)})"

    def _of_types(self, parts: Mapping[str, str]) -> list[str]:
        searched = " AND {} ILIKE ALL (%(words)s)"
        return [
            parts[item_type] + (searched.format(_TEXTS[item_type]) if self.words else "")
            for item_type in self.types
            if self.by.may(VIEW_RIGHTS[item_type])
        ]

    def _where(self) -> str:
        conditions = {
            SCOPES[self.scope]: self.scope or self.state != "decided",
            "agent_id = (SELECT id FROM identity_agent WHERE slug = %(agent)s)": self.agent,
            "risk = %(risk)s": self.risk,
            ASSIGNEES[self.assignee]: self.assignee,
            "alike = %(alike)s": self.alike,
            "kind = ANY (%(kinds)s)": self.kinds,
        }
        return "WHERE " + " AND ".join(["true", *(condition for condition, asked in conditions.items() if asked)])

    def _params(self) -> dict[str, Any]:
        personas = list(Persona.values) if self.by.may(VIEW_SUBCONSCIOUS) else [Persona.ACTOR.value]
        now = clock.now()
        return placing_values(now) | {
            "statuses": list(self.statuses),
            "agents": None if self.by.agents is None else sorted(self.by.agents),
            "personas": personas,
            "both": len(personas) > 1,
            "person": int(self.by.id) if self.by.is_person else 0,
            "agent": self.agent,
            "risk": self.risk,
            "alike": self.alike,
            "kinds": list(self.kinds),
            "words": [f"%{word.translate(_WILD)}%" for word in self.words.split()],
        }

    def _read(self, sql: str, **more: Any) -> list[InboxEntry]:
        return [InboxEntry(*row) for row in sql_rows(sql, self._params() | more)]
