"""Sources that memories were read from: note their digests, and mark what rests on an earlier one."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.models import LOCATORS, Document, Fact, KnownSource, key_check, user_write_check
from memory.services.memory_write import source_ref_check
from nousweb.lib.transactions import transaction_lock

READING: tuple[tuple[type[Fact | Document], str], ...] = ((Fact, "fact.edited"), (Document, "document.updated"))
"""The models of memories with a source, and what the change feed calls a new mark."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The source as it is known after a report, and how many memories got a mark or lost it."""

    source: KnownSource
    marked: int


@agent_transaction(of="agent")
def source_report(*, agent: Agent, by: Principal, project: str = "", user: str = "", **source_ref: Any) -> SourceReport:
    """Note that a source was read again, and mark the memories of the caller's persona, this project and this user that
    rest on another digest; those of this digest lose the mark. A report older than the last one changes nothing.

    Raises Invalid, naming the field, or NotAllowed.
    """
    by.require("memory.add_fact", agent)
    keys = {"project": key_check("project", project), "user": user_write_check(agent, by, user)}
    by.require_project(keys["project"])
    checked = source_ref_check("source_ref", source_ref)
    source, before = _noted(agent, by.persona, keys, checked)
    marked = _mark(source)
    if before != source.sha256:
        audit_record(
            by=by,
            action="knownsource.report",
            target=source,
            agent=agent,
            before={"sha256": before},
            after={"sha256": source.sha256, "memories": marked},
        )
    return SourceReport(source, marked)


def source_seen(memory: Fact | Document) -> None:
    """Compare the source of a memory that is about to be written with what is known of it, and set its mark. A source
    that was read later than it was known counts as a report. Call it in the transaction of the write."""
    memory.source_changed_at = None
    if not memory.source_ref:
        return
    keys = {"project": memory.project, "user": memory.user}
    source, before = _noted(memory.agent, memory.persona, keys, memory.source_ref)
    if before != source.sha256:
        _mark(source)
    if memory.source_ref["sha256"] != source.sha256:
        memory.source_changed_at = source.changed_at or source.seen_at


def source_values(memory: Fact | Document, source_ref: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a stored memory gets by being read again from `source_ref`; none if the digest is the same."""
    read = copy(memory)
    read.source_ref = dict(source_ref)
    source_seen(read)
    memory.source_changed_at = read.source_changed_at
    if memory.source_ref and {**memory.source_ref, "seen_at": ""} == {**source_ref, "seen_at": ""}:
        return {}
    return {"source_ref": read.source_ref, "source_changed_at": read.source_changed_at}


def _noted(
    agent: Agent, persona: str, keys: Mapping[str, str], source_ref: Mapping[str, Any]
) -> tuple[KnownSource, str]:
    """The known source after a reading, and the digest that it had before ("" for a new one)."""
    locator = next(source_ref[name] for name in LOCATORS if name in source_ref)
    seen_at, digest = datetime.fromisoformat(source_ref["seen_at"]), source_ref["sha256"]
    transaction_lock(f"source:{agent.pk}:{persona}:{keys['project']}:{locator}")
    key = {"agent": agent, "persona": persona, **keys, "locator": locator}
    source = KnownSource.objects.filter(**key).first()
    if source is None:
        return KnownSource.objects.create(**key, sha256=digest, seen_at=seen_at), ""
    before = source.sha256
    if seen_at >= source.seen_at:
        if digest != before:
            source.sha256, source.changed_at = digest, seen_at
        source.seen_at = seen_at
        source.save(update_fields=["sha256", "seen_at", "changed_at"])
    return source, before


def _mark(source: KnownSource) -> int:
    """Mark what rests on another digest of this source, and take the mark from what rests on this; returns how many."""
    count = 0
    name = LOCATORS[0] if "://" in source.locator else LOCATORS[1]
    for model, kind in READING:
        # What was read from this source, in the same persona, project and user.
        rows = model._default_manager.filter(
            agent=source.agent_id,
            persona=source.persona,
            project=source.project,
            user=source.user,
            source_ref__contains={name: source.locator},
        )
        same = {"source_ref__contains": {"sha256": source.sha256}}
        changes: list[tuple[QuerySet[Any], datetime | None]] = [
            (rows.filter(source_changed_at__isnull=False, **same), None),
            (rows.filter(source_changed_at__isnull=True).exclude(**same), source.changed_at or source.seen_at),
        ]
        for found, moment in changes:
            keys = list(found.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
            model._default_manager.filter(agent=source.agent_id, pk__in=keys).update(source_changed_at=moment)
            feed_changes_record(
                feed_change_draft(kind, source.agent, source.persona, str(model._meta.model_name), key) for key in keys
            )
            count += len(keys)
    return count
