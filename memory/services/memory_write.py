"""The parts of every write of a memory: permission, lock, checks, change, quarantine, index, audit record, and source.

A memory is `endorsed` once a person wrote, changed, reviewed or closed it: tokens and schedules cannot rewrite it.
Facts have rules of their own (`memory.services.facts.changes`). Each field that writers give is declared once, in
FIELDS: how a value is checked, and in which form it is stored, whatever interface it comes by.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from identity.models import Agent, AgentRow
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.models import (
    KEYS,
    LOCATORS,
    Censor,
    Decision,
    Document,
    Fact,
    KnownSource,
    Memory,
    Scope,
    ScopedMemory,
    Trust,
    key_check,
    keys_changed,
    plain,
    tier_of,
    user_write_check,
)
from memory.persona import change_check
from memory.policy import (
    MAX_ATTRIBUTE_CHARACTERS,
    MAX_CONTENT_CHARACTERS,
    MAX_DETAIL_CHARACTERS,
    MAX_LESSONS,
    MAX_LOCATOR_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_PARTICIPANTS,
    MAX_REASONS,
    MAX_REMARK_CHARACTERS,
    MAX_STEPS,
    MAX_TTL_SECONDS,
    MAX_VALUE_CHARACTERS,
)
from memory.policy.attributes import attribute_words
from memory.services.quarantine.memories import quarantine_if_needed
from memory.services.search_index.writer import index_put, index_remove
from memory.services.trust import least_trusted, memory_consent, origin_check, origin_of, screened_as
from memory.types import entry_of
from nousweb.lib import (
    Conflict,
    Invalid,
    choice_check,
    clock,
    existing,
    moment_check,
    tags_check,
    text_check,
    texts_check,
    unit_check,
    visible_text_check,
    whole_check,
    word_check,
)
from nousweb.lib.transactions import transaction_lock

Check = Callable[[str, Any], Any]
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_SHA256 = re.compile(r"[0-9a-f]{64}")
CLOCKS_DIFFER = timedelta(minutes=5)
"""So far ahead of ours may the clock of a client be."""


def _optional_word(field: str, value: str) -> str:
    return value and word_check(field, value)


def attribute_check(field: str, value: str) -> str:
    """The name of an attribute in one form: lower case, one space between words, without an article."""
    return " ".join(attribute_words(visible_text_check(field, value, MAX_ATTRIBUTE_CHARACTERS)))


def future_check(field: str, value: datetime) -> datetime:
    """A moment that is still to come, in UTC."""
    if value.tzinfo is None:
        raise Invalid(f"{field} lacks its time zone, such as 2026-01-31T09:00:00+00:00.", field=field)
    if value <= clock.now():
        raise Invalid(f"{field} lies in the past.", field=field)
    moment_check(field, value)
    return value.astimezone(UTC)


def expiry_checked(expires_at: datetime | None, ttl: int | None) -> datetime | None:
    """The moment from which a memory is forgotten: `expires_at`, or `ttl` seconds from now; None for never.

    Raises Invalid, naming the field.
    """
    if ttl is None:
        return None if expires_at is None else future_check("expires_at", expires_at)
    if expires_at is not None:
        raise Invalid("Give either expires_at or ttl.", field="ttl")
    return clock.now() + timedelta(seconds=whole_check("ttl", ttl, 1, MAX_TTL_SECONDS))


def source_ref_check(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """What a memory was read from: {"url" or "path", "sha256", "seen_at"}, as it is stored. Nothing opens the address.

    Raises Invalid, naming the part.
    """
    given = {name: part for name, part in value.items() if part} if isinstance(value, Mapping) else {}
    if unknown := given.keys() - {*LOCATORS, "sha256", "seen_at"}:
        raise Invalid(f"A source has no {min(unknown)[:60]!r}.", field=field)
    if len(given.keys() & {*LOCATORS}) != 1:
        raise Invalid("A source has either a url or a path.", field="url")
    name = next(name for name in LOCATORS if name in given)
    if not isinstance(given[name], str):
        raise Invalid(f"{name} is text.", field=name)
    locator = visible_text_check(name, given[name], MAX_LOCATOR_CHARACTERS, required=True)
    if locator != given[name] or not locator.isprintable() or (name == "url") is not bool(_URL.match(locator)):
        raise Invalid(f"{name} is no {'address of the web' if name == 'url' else 'path'} in one line.", field=name)
    if not _SHA256.fullmatch(digest := str(given.get("sha256", "")).lower()):
        raise Invalid("sha256 has 64 hexadecimal digits.", field="sha256")
    seen_at = given.get("seen_at") or clock.now()
    with suppress(ValueError):
        seen_at = datetime.fromisoformat(seen_at) if isinstance(seen_at, str) else seen_at
    if not isinstance(seen_at, datetime) or seen_at.tzinfo is None:
        raise Invalid("seen_at is a moment with its time zone.", field="seen_at")
    if seen_at > clock.now() + CLOCKS_DIFFER:
        raise Invalid("seen_at lies in the future.", field="seen_at")
    moment_check("seen_at", seen_at)
    return {name: locator, "sha256": digest, "seen_at": min(seen_at, clock.now()).astimezone(UTC).isoformat()}


FIELDS: Mapping[str, Check] = {
    "active": lambda field, value: value,
    "attribute": attribute_check,
    "category": _optional_word,
    "confidence": unit_check,
    "content": partial(visible_text_check, limit=MAX_CONTENT_CHARACTERS, required=True),
    "detail": partial(text_check, limit=MAX_DETAIL_CHARACTERS),
    "domain": _optional_word,
    "expires_at": future_check,
    "importance": unit_check,
    "kind": _optional_word,
    "lessons": partial(texts_check, count=MAX_LESSONS, limit=MAX_REMARK_CHARACTERS),
    "name": partial(text_check, limit=MAX_NAME_CHARACTERS, required=True),
    "participants": partial(texts_check, count=MAX_PARTICIPANTS, limit=100),
    "reasons": partial(texts_check, count=MAX_REASONS, limit=MAX_REMARK_CHARACTERS),
    "source_ref": source_ref_check,
    "stakes": partial(choice_check, choices=Decision.Stakes.values),
    "steps": partial(texts_check, count=MAX_STEPS, limit=MAX_REMARK_CHARACTERS),
    "subject": partial(visible_text_check, limit=200),
    "tags": lambda field, value: tags_check(value),
    "valid_from": moment_check,
    "valid_until": moment_check,
    "value": partial(visible_text_check, limit=MAX_VALUE_CHARACTERS),
    "decision.description": partial(text_check, limit=MAX_CONTENT_CHARACTERS, required=True),
    "fact.category": word_check,
}
"""By name; by type and name where a type differs. Any other text is checked by the length of its column."""


def fields_checked(model: type[Model], values: Mapping[str, Any]) -> dict[str, Any]:
    """These fields as they are stored; None leaves one as it is. Raises Invalid, naming the field."""
    checked = {}
    for name, value in values.items():
        if value is not None:
            check = FIELDS.get(f"{model._meta.model_name}.{name}") or FIELDS.get(name) or _column_check(model, name)
            checked[name] = check(name, value)
    return checked


def _column_check(model: type[Model], name: str) -> Check:
    column: Any = model._meta.get_field(name)
    return partial(text_check, limit=column.max_length or MAX_CONTENT_CHARACTERS)


def keys_checked(scope: str, project: str, task: str, user: str = "") -> dict[str, str]:
    """The keys of a new memory, and the scope that follows; `user` is by `user_write_check`. Raises Invalid."""
    project, task = key_check("project", project), key_check("task", task)
    tier = tier_of(choice_check("scope", scope, Scope.values), project, task)
    return {"scope": tier, "project": project, "task": task, "user": user}


Row = TypeVar("Row", bound=AgentRow)
MemoryRow = TypeVar("MemoryRow", bound=Memory | Fact)


def memory_new(
    model: type[MemoryRow],
    agent: Agent,
    by: Principal,
    *,
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    user: str = "",
    rests_on: str = "",
    origin: str = "",
    **fields: Any,
) -> MemoryRow:
    """An unsaved memory of `by` with these fields; `rests_on` is the trust class of what it is drawn from, if any, and
    `origin` what its writer says of where its words come from.

    Raises Invalid, naming the field, or NotAllowed.
    """
    by.require(f"memory.add_{model._meta.model_name}", agent)
    keys = keys_checked(scope, project, task, user_write_check(agent, by, user))
    by.require_project(keys["project"])
    declared, origin = origin, origin_of(by, *filter(None, [rests_on]), declared=origin)
    written = keys | fields_checked(model, fields)
    memory = model(agent=agent, persona=by.persona, endorsed=origin == Trust.PERSON, origin=origin, **written)
    memory.screened_as = screened_as(by, declared)
    return memory


def memory_add(memory: MemoryRow, by: Principal, action: str, after: Mapping[str, Any]) -> MemoryRow:
    """Store a new memory, index it or quarantine it, and record that."""
    memory.save(force_insert=True)
    memory_stored(memory, by, action, after=after)
    return memory


def memory_lock(memory: MemoryRow, by: Principal, permission: str, *, endorsed_too: bool = False) -> MemoryRow:
    """The memory, locked for a change by `by` until the transaction ends.

    Raises NotFound, NotAllowed, or Conflict if people verified it and `by` is no person, unless `endorsed_too`.
    """
    change_check(memory, by, permission)
    memory = row_lock(memory)
    if not endorsed_too:
        human_author_check(memory, by)
    return memory


def memory_change(memory: Memory | Fact, by: Principal, action: str, given: Mapping[str, Any]) -> None:
    """Change fields of a locked memory, index or quarantine it, and record that, if any differs; None keeps a value."""
    before, after = fields_change(memory, given)
    if after:
        memory_endorse(memory, by)
        memory_stored(memory, by, action, before=before, after=after)


def memory_update(
    memory: MemoryRow, by: Principal, fields: Mapping[str, Any], *, only: str, endorsed_too: bool = False
) -> MemoryRow:
    """Change those of the fields `only` that are given, and its keys, and record that; None keeps a value. An `origin`
    among the fields can only lower the trust class.

    Raises Invalid, NotAllowed, or Conflict if people verified it and `by` is no person, unless `endorsed_too`.
    """
    name = memory._meta.model_name
    memory = memory_lock(memory, by, f"memory.change_{name}", endorsed_too=endorsed_too)
    keys = {key: fields.get(key) for key in ("scope", *KEYS)}
    if unknown := fields.keys() - {*keys, "origin"} - set(only.split()):
        raise TypeError(f"{', '.join(sorted(unknown))} of a {name} cannot be changed.")
    given = fields_checked(type(memory), {key: value for key, value in fields.items() if key in only.split()})
    given |= origin_lowered(memory, fields.get("origin"), by)
    memory_change(memory, by, f"{name}.update", given | keys_move(memory, by, **keys))  # type: ignore[arg-type]
    return memory


def origin_lowered(memory: Memory | Fact, declared: str | None, by: Principal) -> dict[str, str]:
    """The field that a change sets whose words come from `declared`. Raises Invalid."""
    if not (declared and origin_check(declared)):
        return {}
    memory.screened_as = screened_as(by, declared)
    return {"origin": least_trusted((memory.origin, declared))}


def memory_stored(
    memory: Any, by: Principal, action: str, *, after: Any, before: Any = None, message: str = ""
) -> None:
    """Index or quarantine a memory that has just been written, and record that. Raises NotAllowed where the agent's
    consent policy refuses it."""
    memory.consent = memory_consent(memory, by) if by.kind == "token" else None
    quarantine_if_needed(memory)
    memory_index(memory)
    audit_record(by=by, action=action, target=memory, agent=memory.agent, before=before, after=after, message=message)


def memory_index(memory: Any) -> None:
    """Keep the memory's row of the index, if there is anything to find it by; censors are not searched."""
    if isinstance(memory, Censor):
        return
    entry = entry_of(memory)
    if entry.text or entry.quarantined:
        index_put([entry])
    else:
        index_remove(memory.agent_id, memory.persona, entry.item_type, [entry.item_id])


def keys_move(
    memory: ScopedMemory, by: Principal, scope: str | None, project: str | None, task: str | None, user: str | None
) -> dict[str, str]:
    """The fields that a move to another scope or other keys sets; None keeps one. Raises Invalid or NotAllowed."""
    keys = keys_changed(memory, scope, project, task, user)
    by.require_project(keys.get("project", memory.project))
    by.require_user(keys.get("user", memory.user))
    return keys


def memory_endorse(memory: Memory | Fact, by: Principal) -> None:
    """Mark a memory as verified by people if `by`, who has just changed it, is a person. Its row must be locked."""
    if by.is_person and not memory.endorsed:
        memory.put(endorsed=True)


def human_author_check(memory: Memory | Fact, by: Principal) -> None:
    """Raise Conflict if `memory` is verified by people and `by` is not a person. Its row must be locked."""
    if memory.endorsed and not by.is_person:
        raise Conflict(f"People wrote or decided this {memory._meta.verbose_name}: only people can change it.")


def row_lock(row: Row) -> Row:
    """The row as it stands, locked until the transaction ends, with its agent. Raises NotFound when it has gone.

    Its key stays free: the subconscious may refer to a row of the actor's, and neither waits for the other.
    """
    rows = type(row)._default_manager.select_for_update(of=("self",), no_key=True).select_related("agent")
    return existing(rows.filter(agent=row.agent_id, pk=row.pk).first(), f"There is no such {row._meta.verbose_name}.")


def fields_change(row: AgentRow, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Save those of `values` that differ; return what they were and what they are, ready for the audit trail.

    A value of None leaves its field alone. Two empty dicts mean that nothing changed and nothing was saved.
    """
    changed = changed_values(row, values)
    before = {name: plain_value(row, name) for name in changed}
    if changed:
        now = clock.now()
        stamp: dict[str, datetime | None] = {"updated_at": now} if hasattr(row, "updated_at") else {}
        if "active" in changed and hasattr(row, "retired_at"):
            stamp["retired_at"] = None if changed["active"] else now
        row.put(**changed, **stamp)
    return before, {name: plain_value(row, name) for name in changed}


def changed_values(row: Model, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that differ from the row's; None leaves a field alone."""
    return {name: value for name, value in values.items() if value is not None and value != getattr(row, name)}


def plain_value(row: Model, name: str) -> Any:
    """The value of a field as JSON has it; of a reference, the key."""
    return plain(getattr(row, row._meta.get_field(name).attname))  # type: ignore[union-attr]


def learning_lock(agent: Agent, persona: str) -> None:
    """Take the lock for learning in this memory until the end of the transaction, so that learning is serialised."""
    transaction_lock(f"learn:{agent.pk}:{persona}")


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
