"""Every way in which a known fact changes: confirmed, superseded, merged, found wrong, restored, edited.

Each service locks the facts that it changes, always in the order of their keys, and leaves a FactChange, the
index row and its audit record in the same transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import Fact, FactChange, Scope
from memory.persona import change_check
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.search.index_writer import index_put
from memory.services.facts.endorsement import endorse, endorsement_change, word_bind
from memory.services.facts.history import change_record, iso
from memory.services.row_update import row_change, row_lock
from memory.types import entry_of
from memory.validation import choice_check, past_check, tags_check, text_check, unit_check, word_check
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotFound

Action = FactChange.Action


@agent_transaction(of="fact")
def fact_confirm(
    *,
    fact: Fact,
    by: Principal,
    score: float | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> Fact:
    """Count that a fact was heard again. `score` is the similarity, 0 to 1, of what was heard, if one was measured.

    `evidence` is what the change rests on, ready for JSON.

    Raises Conflict when the fact is no longer held to be true.
    """
    change_check(fact, by, "memory.add_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    if not fact.active:
        raise Conflict("This fact is retired; only what is held to be true can be confirmed.")
    before = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    fact.confirmation_count += 1
    fact.last_confirmed_at = clock.now()
    held = before | endorse(fact, by)
    fact.save(update_fields=["confirmation_count", "last_confirmed_at", "endorsed"])
    change_record(fact, Action.CONFIRMED, by, score=score, reason=reason, before=held, evidence=evidence)
    audit_record(
        by=by,
        action="fact.confirm",
        target=fact,
        agent=fact.agent,
        before=before,
        after={
            "confirmation_count": fact.confirmation_count,
            "last_confirmed_at": iso(fact.last_confirmed_at),
        },
        message=reason,
    )
    return fact


@agent_transaction(of="fact")
def fact_unconfirm(*, fact: Fact, by: Principal, heard_at: datetime, before: datetime | None, reason: str = "") -> Fact:
    """Take back one confirmation, as a new change: it was heard at `heard_at`, and the time before at `before`."""
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    given: dict[str, Any] = {"confirmation_count": max(fact.confirmation_count - 1, 0)}
    if fact.last_confirmed_at == heard_at:
        given["last_confirmed_at"] = before
    was = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    for name, value in given.items():
        setattr(fact, name, value)
    fact.save(update_fields=list(given))
    change_record(fact, Action.EDITED, by, reason=reason, before=was)
    after = {"confirmation_count": fact.confirmation_count, "last_confirmed_at": iso(fact.last_confirmed_at)}
    audit_record(by=by, action="fact.unconfirm", target=fact, agent=fact.agent, before=was, after=after, message=reason)
    return fact


@agent_transaction(of="old")
def fact_supersede(
    *,
    old: Fact,
    new: Fact,
    by: Principal,
    reason: str = "",
    at: datetime | None = None,
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
    answers: UUID | None = None,
) -> tuple[Fact, Fact]:
    """Let `new` take the place of `old`, which was true until `at`; returns both as they are now.

    `at` is a moment in the world; without it, since when `new` is true, else when it was learned. The old
    fact keeps both clocks: it ends in the world at `at`, or where it had ended before, and in the agent's mind
    now. One whose time has not come never begins: its span stays as it was told, and counts no longer.

    A person who decides so makes the new one people's word; `answers` is the question that a judge answers by it.
    Raises Conflict when either is retired already, or when the old one is people's word or being asked about and `by`
    is no person; Invalid for a fact in its own place or a span turned round,
    NotAllowed where the category of the old one needs a right of its own.
    """
    change_check(old, by, "memory.add_fact")
    change_check(new, by, "memory.add_fact")
    if old.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[old.category], old.agent)
    if old.pk == new.pk:
        raise Invalid("A fact cannot take its own place.", field="fact_id")
    if (old.agent_id, old.persona) != (new.agent_id, new.persona):
        raise Invalid("Both facts must belong to the same memory.", field="fact_id")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    at = past_check("at", at)
    old, new = _lock_pair(old, new)
    if not old.active:
        raise Conflict(
            "This fact is superseded already." if old.superseded_by_id else "This fact is retired already.",
            superseded_by=str(old.superseded_by_id or ""),
        )
    if not new.active:
        raise Conflict("The fact that should take its place is retired itself.")
    word_bind(old, by, answers=answers)
    now = clock.now()
    begun = at or new.valid_from or min(max(old.recorded_at, new.recorded_at), now)
    never_began = old.valid_from is not None and now < old.valid_from and begun <= old.valid_from
    if begun > now and not never_began:
        raise Invalid("The new fact is not true yet; let it take the old one's place when it is.", field="at")
    ended: datetime | None = begun
    if never_began or (old.valid_until is not None and old.valid_until < begun):
        ended = old.valid_until
    if old.valid_from is not None and not never_began and begun <= old.valid_from:
        raise Invalid(
            f"The old fact is true only since {old.valid_from.isoformat()}: if it never was, mark it as wrong.",
            field="at",
        )
    now = _retirement(old, now)
    before = {"valid_until": iso(old.valid_until), "active": True}
    old.active, old.retired_at, old.valid_until, old.superseded_by = False, now, ended, new
    old.save(update_fields=["active", "retired_at", "valid_until", "superseded_by"])
    change_record(
        old, Action.SUPERSEDED, by, other=new, score=score, reason=reason, before=before, at=now, evidence=evidence
    )
    # What people wrote or kept only people change: their fact begins when they say so.
    bound = new.endorsed and not by.is_person
    if not bound and new.valid_from is None and (new.valid_until is None or new.valid_until > begun):
        new.valid_from = begun
        new.save(update_fields=["valid_from"])
        change_record(new, Action.EDITED, by, other=old, before={"valid_from": None}, at=now)
    if endorsement_change(fact=new, by=by, reason=reason, evidence=evidence):
        new.endorsed = True
    index_put([entry_of(old), entry_of(new)])
    audit_record(
        by=by,
        action="fact.supersede",
        target=old,
        agent=old.agent,
        before=before | {"content": old.content},
        after={
            "valid_until": iso(old.valid_until),
            "active": False,
            "superseded_by": str(new.pk),
            "content": new.content,
        },
        message=reason,
    )
    return old, new


@agent_transaction(of="duplicate")
def fact_merge(
    *,
    duplicate: Fact,
    into: Fact,
    by: Principal,
    reason: str = "",
    score: float | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> tuple[Fact, Fact]:
    """Retire `duplicate`, because `into` says it too; returns both as they are now.

    Unlike a superseded fact it did not end in the world: its span stays as it was told. Raises Conflict when
    either is retired already or the duplicate is people's word and `by` is no person, Invalid for a fact merged into
    itself or into another memory's.
    """
    change_check(duplicate, by, "memory.add_fact")
    change_check(into, by, "memory.add_fact")
    if duplicate.category in CATEGORY_PERMISSIONS:
        by.require(CATEGORY_PERMISSIONS[duplicate.category], duplicate.agent)
    if duplicate.pk == into.pk or (duplicate.agent_id, duplicate.persona) != (into.agent_id, into.persona):
        raise Invalid("A fact is merged into another fact of the same memory.", field="fact_id")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    duplicate, into = _lock_pair(duplicate, into)
    if not duplicate.active or not into.active:
        raise Conflict("Only facts that are held to be true can be merged.")
    if duplicate.endorsed:
        word_bind(duplicate, by)
    now = _retirement(duplicate, clock.now())
    before = {"active": True, "valid_until": iso(duplicate.valid_until)}
    duplicate.active, duplicate.retired_at, duplicate.superseded_by = False, now, into
    duplicate.save(update_fields=["active", "retired_at", "superseded_by"])
    change_record(
        duplicate, Action.MERGED, by, other=into, score=score, reason=reason, before=before, at=now, evidence=evidence
    )
    index_put([entry_of(duplicate)])
    audit_record(
        by=by,
        action="fact.merge",
        target=duplicate,
        agent=duplicate.agent,
        before=before | {"content": duplicate.content},
        after={"active": False, "superseded_by": str(into.pk), "content": into.content},
        message=reason,
    )
    return duplicate, into


@agent_transaction(of="fact")
def fact_invalidate(*, fact: Fact, by: Principal, reason: str = "") -> Fact:
    """Mark a fact as never true: it leaves every view of the world at any time, and stays in what was believed.

    Its span is kept as it was told and counts no longer. Raises Conflict when it is marked already.
    """
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    if fact.invalidated_at is not None:
        raise Conflict("This fact is marked as wrong already.")
    now = _retirement(fact, clock.now())
    before = {"active": fact.active, "retired_at": iso(fact.retired_at), "valid_until": iso(fact.valid_until)}
    # What was superseded before has left the agent's mind then, and not now.
    fact.active, fact.retired_at, fact.invalidated_at = False, fact.retired_at or now, now
    fact.save(update_fields=["active", "retired_at", "invalidated_at"])
    change_record(fact, Action.INVALIDATED, by, reason=reason, before=before, at=now)
    index_put([entry_of(fact)])
    audit_record(
        by=by,
        action="fact.invalidate",
        target=fact,
        agent=fact.agent,
        before=before,
        after={"active": False, "invalidated_at": iso(now)},
        message=reason,
    )
    return fact


@agent_transaction(of="fact")
def fact_restore(*, fact: Fact, by: Principal, reason: str = "") -> Fact:
    """Hold a retired fact to be true again, with the span in the world that it had before it was retired.

    A new change beside the old ones, which stay. What had taken its place stays active too, without the
    beginning that taking the place gave it. Raises Conflict when the fact is active.
    """
    change_check(fact, by, "memory.change_fact")
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    successor = Fact.objects.filter(supersedes=fact.pk).first()
    if successor is not None:
        fact, successor = _lock_pair(fact, successor)
    else:
        fact = row_lock(fact)
    if fact.active:
        raise Conflict("This fact is active: there is nothing to restore.")
    if fact.superseded_by_id != (successor.pk if successor else None):
        raise Conflict("This fact has changed in the meantime; look again.")
    before = {
        "active": False,
        "retired_at": iso(fact.retired_at),
        "invalidated_at": iso(fact.invalidated_at),
        "valid_until": iso(fact.valid_until),
        "superseded_by": str(fact.superseded_by_id) if fact.superseded_by_id else None,
    }
    fact.valid_until = _span_end_before_retirement(fact)
    fact.active, fact.retired_at, fact.invalidated_at, fact.superseded_by = True, None, None, None
    fact.save(update_fields=["active", "retired_at", "invalidated_at", "superseded_by", "valid_until"])
    held = before | endorse(fact, by)
    fact.save(update_fields=["endorsed"])
    change_record(fact, Action.RESTORED, by, other=successor, reason=reason, before=held)
    changed = [fact]
    if successor is not None and _begins_as_successor(successor, fact):
        change_record(successor, Action.EDITED, by, other=fact, before={"valid_from": iso(successor.valid_from)})
        successor.valid_from = None
        successor.save(update_fields=["valid_from"])
        changed.append(successor)
    index_put(entry_of(each) for each in changed)
    audit_record(
        by=by,
        action="fact.restore",
        target=fact,
        agent=fact.agent,
        before=before,
        after={"active": True, "valid_until": iso(fact.valid_until)},
        message=reason,
    )
    return fact


@agent_transaction(of="fact")
def fact_edit(
    *,
    fact: Fact,
    by: Principal,
    tags: Sequence[str] | None = None,
    importance: float | None = None,
    category: str | None = None,
    scope: str | None = None,
    confidence: float | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> Fact:
    """Change how a fact is filed and how sure it is, never what it says; None leaves a field alone."""
    change_check(fact, by, "memory.change_fact")
    for name in (fact.category, category or fact.category):
        if name in CATEGORY_PERMISSIONS:
            by.require(CATEGORY_PERMISSIONS[name], fact.agent)
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    fact = row_lock(fact)
    before, after = row_change(
        fact,
        {
            "tags": None if tags is None else tags_check(tags),
            "importance": None if importance is None else unit_check("importance", importance),
            "confidence": None if confidence is None else unit_check("confidence", confidence),
            "category": None if category is None else word_check("category", category),
            "scope": None if scope is None else choice_check("scope", scope, Scope.values),
        },
    )
    if after:
        held = before | endorse(fact, by)
        fact.save(update_fields=["endorsed"])
        change_record(fact, Action.EDITED, by, reason=reason, before=held, evidence=evidence)
        index_put([entry_of(fact)])
        audit_record(
            by=by, action="fact.edit", target=fact, agent=fact.agent, before=before, after=after, message=reason
        )
    return fact


def _retirement(fact: Fact, now: datetime) -> datetime:
    """When a fact that is retired now leaves the agent's mind: never before it was learned, whatever clocks say.

    Machines whose clocks differ, or one that was set back, leave facts that were recorded after now.
    """
    return max(now, fact.recorded_at)


def facts_lock(keys: Collection[UUID]) -> dict[UUID, Fact]:
    """Those of these facts that are there, locked until the transaction ends, in the order that all lock them in.

    Whoever is going to change several, one after another, locks them first.
    """
    if not keys:
        return {}
    rows = Fact.objects.select_for_update(of=("self",), no_key=True).select_related("agent").filter(pk__in=keys)
    return {row.pk: row for row in rows.order_by("pk")}


def _lock_pair(one: Fact, other: Fact) -> tuple[Fact, Fact]:
    found = facts_lock([one.pk, other.pk])
    if len(found) < 2:
        raise NotFound("There is no such fact.")
    return found[one.pk], found[other.pk]


def _span_end_before_retirement(fact: Fact) -> datetime | None:
    """Until when the fact was true in the world before it was last retired, as its history tells."""
    turns = list(FactChange.objects.filter(fact=fact, action__in=FactChange.VALIDITY_TRANSITIONS).order_by("id"))
    restored = [place for place, turn in enumerate(turns) if turn.action == Action.RESTORED]
    since = turns[restored[-1] + 1 :] if restored else turns
    # A fact that came without its history keeps the span that it came with.
    held = since[0].before.get("valid_until") if since else iso(fact.valid_until)
    return datetime.fromisoformat(held) if held else None


def _begins_as_successor(fact: Fact, of: Fact) -> bool:
    """Whether `fact` had no beginning of its own before it took the place of `of`."""
    last = FactChange.objects.filter(fact=fact, other=of, action=Action.EDITED).order_by("-id").first()
    return last is not None and last.before == {"valid_from": None}
