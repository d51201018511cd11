"""Memories that are to be forgotten: set, move or remove their end, refresh it, and erase what has expired."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive, agent_transaction
from identity.services.audit import audit_record
from memory.models import Document, Fact, FactChange
from memory.policy import CATEGORY_PERMISSIONS, MAX_REMARK_CHARACTERS
from memory.services.erasure import document_erase, fact_erase
from memory.services.facts.changes import fact_write, retirement_check
from memory.services.memory_write import expiry_checked, human_author_check, memory_index, memory_lock, plain_value
from memory.services.sources import source_values
from nousweb.lib import Conflict, Invalid, clock, text_check

PURGED_AT_ONCE = 200
REASON = "It expired, and its retention is over."
REFRESH_STEP = 10
"""A refresh moves an end that is further away than this part of the time to live; any other would be a write a read."""


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


@agent_transaction(of="document")
def document_expiry_set(
    *, document: Document, by: Principal, expires_at: datetime | None = None, ttl: int | None = None, reason: str = ""
) -> Document:
    """Let a document expire at a moment, or `ttl` seconds after it is last written or refreshed; with neither, never.

    Its value stays the agent's or people's. Raises Invalid, NotAllowed, or Conflict if this version is not active, or
    is people's and `by` is no person.
    """
    end = expiry_checked(expires_at, ttl)
    document = memory_lock(document, by, "memory.add_document")
    if not document.active:
        raise Conflict("This version is not active: it has no end to change.")
    document_end_move(document, by, {"expires_at": end, "ttl": ttl}, reason)
    return document


@agent_transaction(of="agent")
def documents_refresh(*, agent: Agent, ids: Sequence[UUID], by: Principal) -> int:
    """Begin the time to live of these documents of `by`'s own persona anew, as a read does; returns how many moved.

    What has none, has expired or is people's stays as it is, and so does an end that would hardly move.
    """
    by.require("memory.add_document", agent)
    now = clock.now()
    rows = Document.objects.current(now).filter(agent=agent, persona=by.persona, pk__in=ids, ttl__isnull=False)
    if not by.is_person:
        rows = rows.filter(endorsed=False)
    moved = 0
    for document in rows.select_for_update(of=("self",), no_key=True).select_related("agent").order_by("pk"):
        end = now + timedelta(seconds=document.ttl or 0)
        slack = timedelta(seconds=(document.ttl or 0) / REFRESH_STEP)
        if by.writes(document) and document.expires_at and end - document.expires_at >= slack:
            document_end_move(document, by, {"expires_at": end})
            moved += 1
    return moved


def document_end_move(document: Document, by: Principal, values: dict[str, Any], reason: str = "") -> None:
    """Store another end of a locked document, or another `source_ref`, and record that; the same changes nothing."""
    if ref := values.pop("source_ref", None):
        values |= source_values(document, ref)
    before = {name: plain_value(document, name) for name in values}
    for name, value in values.items():
        setattr(document, name, value)
    after = {name: plain_value(document, name) for name in values}
    if before == after:
        return
    human_author_check(document, by)
    document.updated_at = clock.now()
    document.save(update_fields=[*values, "updated_at"])
    memory_index(document)
    audit_record(
        by=by,
        action="document.update",
        target=document,
        agent=document.agent,
        before=before,
        after=after,
        message=text_check("reason", reason, MAX_REMARK_CHARACTERS),
    )


def expired_purge(*, by: Principal) -> int:
    """Erase what expired before the retention of prompts began, in a bounded batch; returns how many.

    What people marked as wrong or retired stays: it keeps the agent from storing the same again.
    """
    horizon = clock.now() - timedelta(days=settings.CONTEXT_RETENTION_DAYS)
    facts = Fact.objects.filter(expires_at__lte=horizon, invalidated_at__isnull=True)
    documents = Document.objects.filter(expires_at__lte=horizon, superseded_by__isnull=True)
    documents = documents.exclude(Q(active=False, endorsed=True))
    purged = 0
    kinds: list[tuple[str, Any, Any]] = [("fact", facts, fact_erase), ("document", documents, document_erase)]
    for name, rows, erase in kinds:
        for row in rows.select_related("agent").order_by("expires_at", "pk")[:PURGED_AT_ONCE]:
            with transaction.atomic():
                agent_lock_exclusive(row.agent)
                # It may have been kept or erased since.
                if rows.filter(agent=row.agent_id, pk=row.pk).exists():
                    erase(**{name: row, "by": by, "reason": REASON})
                    purged += 1
    return purged
