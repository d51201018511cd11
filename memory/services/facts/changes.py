"""Changes of facts: store, confirm, edit, invalidate and restore one, with its history and its mark of verification.

A fact is `endorsed` once a person wrote, confirmed, edited or kept it, or verified it when restoring it. A token, judge
or schedule that would retire it opens a review instead. Tokens also cannot replace a fact with a pending review.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.jobs import job_queue
from memory.models import (
    ENDS,
    KEYS,
    Fact,
    FactChange,
    MemoryReview,
    Scope,
    carried_keys,
    keys_changed,
)
from memory.persona import memory_of
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.services.facts.comparable_facts import Vector, search_table
from memory.services.memory_write import (
    changed_values,
    expiry_checked,
    fields_checked,
    keys_checked,
    memory_lock,
    plain_value,
    row_lock,
    source_seen,
)
from memory.services.reviews.states import reviews_settle
from memory.services.search_index.writer import index_put
from memory.services.subjects.registry import alias_enter
from memory.services.trust import event_named
from memory.subjects.name_similarity import key_of
from memory.types import entry_of
from nousweb.lib import Conflict, Invalid, NotFound, clock, text_check
from nousweb.lib.transactions import sql_change

_VECTOR_PUT = """
UPDATE {table} SET embedding = %(vector)s::halfvec, model = %(model)s, status = 'ready', error = '', due_at = NULL
WHERE agent_id = %(agent)s AND item_type = 'fact' AND item_id = %(item_id)s AND text = %(text)s AND status = 'pending'
AND EXISTS (SELECT 1 FROM memory_embeddingmodel WHERE state = 'active' AND name = %(model)s)
"""


def alias_assign(fact: Fact, by: Principal) -> None:
    """Set `subject_alias` of the fact; a spelling that is not registered yet is entered. Call it under the learning
    lock."""
    # The alias was looked up under the learning lock, so it is current.
    if fact.subject_alias is None or fact.subject_alias.key != key_of(fact.subject):
        fact.subject_alias = alias_enter(
            agent=fact.agent, persona=fact.persona, spelling=fact.subject, by=by, category=fact.category
        )


def source_event_link(fact: Fact, by: Principal) -> None:
    """Link a new fact to the event that its source names, if `by` may read that. Call it with the agent locked."""
    if (named := event_named(fact.source)) is not None:
        fact.source_event = memory_of(fact.agent, by).events.filter(pk=named).first() or fact.source_event


def fact_store(fact: Fact, vector: Vector | None, *, by: Principal, unjudged: bool = False) -> None:
    """Store a fact with the embedding of its content, if that is known. Call it under the learning lock, in the
    transaction that compared it. A fact without an embedding, or `unjudged`, is checked later."""
    source_seen(fact)
    source_event_link(fact, by)
    fact.save(force_insert=True)
    fact_change_record(fact, FactChange.Action.STORED, by)
    index_put([entry_of(fact)], notify=vector is None)
    if vector is not None:
        # So the next fact finds this one by meaning.
        sql_change(
            _VECTOR_PUT.format(table=search_table(fact.persona)),
            {
                "agent": fact.agent_id,
                "item_id": str(fact.pk),
                "text": fact.content,
                "vector": vector.literal,
                "model": vector.model,
            },
        )
    if vector is None or unjudged:
        job_queue("fact_check", agent=fact.agent, persona=fact.persona, subject=fact)
    fact_store_audit(fact, by)


def fact_store_audit(fact: Fact, by: Principal) -> None:
    """Write a newly stored fact to the audit trail."""
    after = {"content": fact.content, "subject": fact.subject, "category": fact.category, **carried_keys(fact)}
    audit_record(by=by, action="fact.store", target=fact, agent=fact.agent, after=after)


FACT_FIELDS = (
    "subject", "attribute", "value", "category", "kind", "scope", *KEYS, "tags", "confidence", "importance",
    "source", "source_ref",
)  # fmt: skip
"""The fields that a writer may state beside the content, without its times."""
TIME_FIELDS = ("valid_from", "valid_until", "expires_at")


def fact_fields_check(
    *,
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    user: str = "",
    ttl: int | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """The fields of a new fact as they are stored. Raises Invalid with the name of the field."""
    fields["expires_at"] = expiry_checked(fields.get("expires_at"), ttl)
    checked = keys_checked(scope, project, task, user) | fields_checked(Fact, fields)
    begins = checked.get("valid_from")
    for name in ENDS:
        if begins and (ends := checked.get(name)) and ends <= begins:
            raise Invalid(f"{name} must be later than valid_from.", field=name)
    return checked


Action = FactChange.Action


def facts_lock(agent_id: int, keys: Collection[UUID]) -> dict[UUID, Fact]:
    """Lock the existing facts among `keys` until the end of the transaction, in the order of their keys.

    To change several facts one after another, lock all of them first, to avoid deadlocks.
    """
    rows = Fact.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    return {row.pk: row for row in rows.filter(agent=agent_id, pk__in=keys).order_by("pk")}


def pair_lock(one: Fact, other: Fact) -> tuple[Fact, Fact]:
    """Lock two facts and read them again. Raises NotFound if one of them no longer exists."""
    facts = facts_lock(one.agent_id, [one.pk, other.pk])
    if len(facts) < 2:
        raise NotFound("There is no such fact.")
    return facts[one.pk], facts[other.pk]


def fact_change_record(
    fact: Fact,
    action: FactChange.Action,
    by: Principal,
    *,
    other: Fact | None = None,
    score: float | None = None,
    reason: str = "",
    before: Mapping[str, Any] | None = None,
    at: datetime | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> FactChange:
    """Save a history entry of `fact`, which is saved already; `before` and `evidence` must be JSON values.

    Reviews whose reason ends with the change are closed, and undecided ones of a fact that people verify now are asked.
    """
    change = FactChange.objects.create(
        agent_id=fact.agent_id,
        fact=fact,
        action=action,
        other=other,
        score=score,
        reason=reason,
        before=dict(before or {}),
        evidence=dict(evidence or {}),
        at=at or clock.now(),
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )
    verified = change.before.get("endorsed") is False
    if (
        action in FactChange.VALIDITY_TRANSITIONS
        or not {"valid_until", "expires_at"}.isdisjoint(change.before)
        or verified
    ):
        reviews_settle(agent_id=fact.agent_id, facts=[fact.pk])
    return change


def fact_write(
    fact: Fact,
    change: FactChange.Action,
    by: Principal,
    action: str,
    values: Mapping[str, Any],
    *,
    before: Collection[str],
    after: Collection[str] = (),
    endorses: bool = False,
    reason: str = "",
    **history: Any,
) -> Fact:
    """Store `values` of a locked fact with its history entry `change`, its index row and the audit record `action`.

    The fields in `before` are recorded as they were; those in `after`, by default the same, in the audit trail as they
    are now. With `endorses`, a person verifies the fact by the change. `history`: see `fact_change_record`.
    """
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    audited, was = {}, {name: plain_value(fact, name) for name in before}
    if successor := values.get("superseded_by"):
        audited = {"superseded_by": str(successor.pk), "content": successor.content}
    verified = {"endorsed": False} if endorses and by.is_person and not fact.endorsed else {}
    fact.put(**values, endorsed=fact.endorsed or bool(verified))
    fact_change_record(fact, change, by, reason=reason, before=was | verified, **history)
    if change != Action.CONFIRMED:
        index_put([entry_of(fact)])
    audit_record(
        by=by,
        action=action,
        target=fact,
        agent=fact.agent,
        before=was | ({"content": fact.content} if audited else {}),
        after={name: plain_value(fact, name) for name in after or before} | audited,
        message=reason,
    )
    return fact


def retirement_time(fact: Fact, now: datetime) -> datetime:
    """The `retired_at` of a fact that is retired now: `now`, but not before it was recorded.

    With differing or adjusted clocks of machines, a fact may have been recorded after `now`.
    """
    return max(now, fact.recorded_at)


@agent_transaction(of="fact")
def fact_confirm(
    *,
    fact: Fact,
    by: Principal,
    score: float | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> Fact:
    """Count a confirmation of a fact. `score`: similarity of the new statement in [0, 1], if it was measured.

    `evidence`: reasons of the change, as JSON values. Raises Conflict if the fact is retired.
    """
    fact = memory_lock(fact, by, "memory.add_fact", endorsed_too=True)
    if not fact.active:
        raise Conflict("This fact is retired; only active facts can be confirmed.")
    values = {"confirmation_count": fact.confirmation_count + 1, "last_confirmed_at": clock.now()}
    return fact_write(
        fact, Action.CONFIRMED, by, "fact.confirm", values,
        before=values, endorses=True, reason=reason, score=score, evidence=evidence,
    )  # fmt: skip


@agent_transaction(of="fact")
def fact_unconfirm(*, fact: Fact, by: Principal, heard_at: datetime, before: datetime | None, reason: str = "") -> Fact:
    """Undo the confirmation of the time `heard_at`; `before` is the time of the one before it. This is a new change."""
    fact = memory_lock(fact, by, "memory.change_fact", endorsed_too=True)
    values = {
        "confirmation_count": max(fact.confirmation_count - 1, 0),
        "last_confirmed_at": before if fact.last_confirmed_at == heard_at else fact.last_confirmed_at,
    }
    return fact_write(fact, Action.EDITED, by, "fact.unconfirm", values, before=values, reason=reason)


@agent_transaction(of="fact")
def fact_edit(
    *,
    fact: Fact,
    by: Principal,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
    category: str | None = None,
    scope: str | None = None,
    project: str | None = None,
    task: str | None = None,
    user: str | None = None,
    confidence: float | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> Fact:
    """Change a fact's category, metadata and confidence, never its content; None keeps a value.

    A fact that is moved to another project, task or user is not compared with the facts there.
    """
    fact = memory_lock(fact, by, "memory.change_fact", endorsed_too=True)
    for name in (fact.category, category or fact.category):
        if name in CATEGORY_PERMISSIONS:
            by.require(CATEGORY_PERMISSIONS[name], fact.agent)
    fields = {"tags": tags, "importance": importance, "confidence": confidence, "category": category}
    given = fields_checked(Fact, fields) | keys_changed(fact, scope, project, task, user)
    if not (values := changed_values(fact, given)):
        return fact
    return fact_write(
        fact, Action.EDITED, by, "fact.edit", values, before=values, endorses=True, reason=reason, evidence=evidence
    )


@agent_transaction(of="fact")
def fact_invalidate(*, fact: Fact, by: Principal, reason: str = "") -> Fact:
    """Mark a fact as never true: it leaves every view by valid time, and stays in views by recorded time.

    Its `valid_from` and `valid_until` keep their values but no longer apply. Raises Conflict if it is invalidated
    already.
    """
    fact = memory_lock(fact, by, "memory.change_fact", endorsed_too=True)
    if fact.invalidated_at is not None:
        raise Conflict("This fact is already marked as wrong.")
    now = retirement_time(fact, clock.now())
    # A fact that was superseded before keeps the time at which it was retired.
    values = {"active": False, "retired_at": fact.retired_at or now, "invalidated_at": now}
    return fact_write(
        fact, Action.INVALIDATED, by, "fact.invalidate", values,
        before=("active", "retired_at", "valid_until"), after=("active", "invalidated_at"), reason=reason, at=now,
    )  # fmt: skip


@agent_transaction(of="fact")
def fact_restore(*, fact: Fact, by: Principal, reason: str = "", endorse: bool = False) -> Fact:
    """Restore a retired fact as it was, with the `valid_until` that it had before it was retired.

    With `endorse`, a person also verifies it; else it is verified by people only if it was before. This is a new entry
    in its history. A fact that superseded it stays active too, without the `valid_from` that it got from superseding.
    Raises Conflict if the fact is active or quarantined, or has changed in the meantime.
    """
    successor = Fact.objects.filter(supersedes=fact.pk).first()
    if successor is not None:
        successor = facts_lock(fact.agent_id, [fact.pk, successor.pk]).get(successor.pk)
    fact = memory_lock(fact, by, "memory.change_fact", endorsed_too=True)
    if fact.active:
        raise Conflict("This fact is active: there is nothing to restore.")
    if fact.quarantined:
        raise Conflict("This fact is quarantined. Resolve its review first.")
    if fact.superseded_by_id != (successor.pk if successor else None):
        raise Conflict("This fact has changed in the meantime. Reload it.")
    values = {
        "active": True,
        "retired_at": None,
        "invalidated_at": None,
        "superseded_by": None,
        "valid_until": _valid_until_before_retirement(fact),
    }
    fact_write(
        fact, Action.RESTORED, by, "fact.restore", values,
        before=values, after=("active", "valid_until"), endorses=endorse, reason=reason, other=successor,
    )  # fmt: skip
    if successor is not None and _begins_as_successor(successor, fact):
        before = {"valid_from": plain_value(successor, "valid_from")}
        successor.put(valid_from=None)
        fact_change_record(successor, Action.EDITED, by, other=fact, before=before)
        index_put([entry_of(successor)])
    return fact


def _valid_until_before_retirement(fact: Fact) -> datetime | None:
    """The `valid_until` of the fact before it was last retired, from its history."""
    transitions = list(FactChange.objects.filter(fact=fact, action__in=FactChange.VALIDITY_TRANSITIONS).order_by("id"))
    restored = [place for place, change in enumerate(transitions) if change.action == Action.RESTORED]
    since = transitions[restored[-1] + 1 :] if restored else transitions
    # An imported fact without history keeps its current value.
    valid_until = since[0].before.get("valid_until") if since else plain_value(fact, "valid_until")
    return datetime.fromisoformat(valid_until) if valid_until else None


def _begins_as_successor(fact: Fact, of: Fact) -> bool:
    """Whether `fact` had no `valid_from` before it superseded `of`."""
    last = FactChange.objects.filter(fact=fact, other=of, action=Action.EDITED).order_by("-id").first()
    return last is not None and last.before == {"valid_from": None}


def endorsement_change(
    *, fact: Fact, by: Principal, endorsed: bool = True, reason: str = "", evidence: Mapping[str, Any] | None = None
) -> bool:
    """Set or remove the mark of verification by people, with a history entry; returns whether it changed.

    Call it in the transaction of a person's decision, which has its own audit record.
    """
    fact = row_lock(fact)
    if not by.is_person or fact.endorsed is endorsed:
        return False
    fact.put(endorsed=endorsed)
    before = {"endorsed": not endorsed}
    fact_change_record(fact, Action.EDITED, by, reason=reason, before=before, evidence=evidence)
    return True


def oldest_pending_review(fact: Fact) -> MemoryReview | None:
    """The oldest review of this fact about which people are asked, or None; a blind sample changes nothing."""
    of_its_agent = MemoryReview.objects.filter(agent=fact.agent_id, status__in=MemoryReview.ASKED)
    of_its_agent = of_its_agent.exclude(details__has_key="blind")
    return of_its_agent.filter(Q(old=fact) | Q(new=fact)).order_by("created_at").first()


def pending_review_check(fact: Fact) -> None:
    """Raise Conflict while people are asked about this fact."""
    if pending := oldest_pending_review(fact):
        raise Conflict(
            f"People are reviewing this fact (review {pending.asked_by}): it does not change before they have decided.",
            review=pending.asked_by,
        )


def retirement_check(fact: Fact, by: Principal, *, resolves: UUID | None = None) -> None:
    """Raise Conflict if `by` may not retire `fact`: people have verified it, or a review of it is pending.

    The row must be locked. `resolves` is the review that the judge `by` resolves with it; then other reviews are
    ignored.
    """
    if by.is_person:
        return
    if fact.endorsed:
        raise Conflict(
            "This fact is verified by people: only people can let another fact replace it.", fact=str(fact.pk)
        )
    if resolves is None:
        pending_review_check(fact)


@agent_transaction(of="fact")
def fact_expiry_set(
    *, fact: Fact, by: Principal, expires_at: datetime | None = None, ttl: int | None = None, reason: str = ""
) -> Fact:
    """Let a fact expire at a moment or in `ttl` seconds; with neither of them it has no such end any more.

    A token may do so if it may replace the fact. Raises Invalid, NotAllowed, or Conflict if the fact is retired.
    """
    end = expiry_checked(expires_at, ttl)
    fact = memory_lock(fact, by, "memory.add_fact", endorsed_too=True)
    if not fact.active:
        raise Conflict("This fact is retired: it has no end to change.")
    if end and fact.valid_from and end <= fact.valid_from:
        raise Invalid("expires_at must be later than valid_from.", field="expires_at")
    if fact.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[fact.category], fact.agent)
    retirement_check(fact, by)
    if fact.expires_at == end:
        return fact
    values = {"expires_at": end}
    return fact_write(
        fact, FactChange.Action.EDITED, by, "fact.update", values, before=values, endorses=True, reason=reason
    )
