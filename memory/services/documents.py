"""Store documents under a key; each change is a version that people can see and undo.

A version that a person wrote, retired or restored is people's: no token supersedes or retires it until a person lets
the agent change it again.
"""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from identity.models import Agent
from identity.principal import Principal
from identity.services.agent_lock import agent_transaction
from identity.services.audit import audit_record
from memory.models import (
    KEYS,
    Document,
    Fact,
    Scope,
    Trust,
    carried_keys,
    document_address,
    keys_of,
    user_write_check,
)
from memory.persona import change_check
from memory.policy import (
    MAX_DOCUMENT_CHARACTERS,
    MAX_DOCUMENT_DEPTH,
    MAX_DOCUMENT_KEY_CHARACTERS,
    MAX_INDEX_FIELDS,
    MAX_NAMESPACE_CHARACTERS,
    MAX_NAMESPACE_LABELS,
    MAX_NUMBER_CHARACTERS,
    MAX_REMARK_CHARACTERS,
)
from memory.services.facts.repeated_facts import invalidated_match
from memory.services.memory_write import (
    expiry_checked,
    fields_checked,
    human_author_check,
    keys_checked,
    memory_index,
    memory_lock,
    memory_stored,
    plain_value,
    source_seen,
    source_values,
)
from memory.services.trust import fields_trust, origin_of, screened_as
from memory.types.stores import document_text
from nousweb.lib import (
    Conflict,
    Invalid,
    StaleEdit,
    clock,
    depth_check,
    is_blank,
    json_check,
    length_check,
    storable_check,
    text_check,
)
from nousweb.lib.transactions import transaction_lock
from nousweb.lib.validation import visible_text


@dataclass(frozen=True, slots=True)
class PutResult:
    """The version that is active now, and whether it was created, updated or is unchanged."""

    document: Document
    action: str


@agent_transaction()
def document_put(
    *,
    agent: Agent,
    namespace: Sequence[str],
    key: str,
    value: Mapping[str, Any],
    by: Principal,
    index: Sequence[str] | None = None,
    tags: Sequence[str] = (),
    scope: str = Scope.GLOBAL,
    project: str = "",
    task: str = "",
    user: str = "",
    importance: float = 0.5,
    expires_at: datetime | None = None,
    ttl: int | None = None,
    source_ref: Mapping[str, Any] | None = None,
    base_version: int | None = None,
    origin: str = "",
) -> PutResult:
    """Store `value` under a key of the persona that `by` acts as, and replace the current value.

    `index` names the fields that search reads, None for all and none of them to leave the document out of search.
    `base_version` is the version that this change was made from, 0 for a key that has no value; None changes any. The
    same value again changes nothing but its end; the same change from the same version again has the first result.
    With `expires_at` or `ttl` (seconds) it expires; each write states the end anew. A value that has expired is none.
    `source_ref`: see `source_ref_check`. `origin` is where its words come from, as its writer says.

    Raises Invalid, NotAllowed, or Conflict where the version is another one, or where people wrote or retired it and
    `by` is no person.
    """
    by.require("memory.add_document", agent)
    keys = keys_checked(scope, project, task, user_write_check(agent, by, user))
    by.require_project(keys["project"])
    namespace, key = namespace_check(namespace), document_key_check(key)
    end = {"expires_at": expiry_checked(expires_at, ttl), "ttl": ttl}
    end |= fields_checked(Document, {"source_ref": source_ref})
    content = value_check(value)
    fields = None if index is None else _fields_check(index)
    told = {"index_fields": fields, **keys, **fields_checked(Document, {"tags": tags, "importance": importance})}
    address = document_address(namespace, key, keys["project"], keys["task"], keys["user"])
    _address_lock(agent, by.persona, address)
    last = _last_version(agent, by.persona, address)
    head = last if last is not None and last.state == "active" else None
    if (
        head is not None
        and json_check("value", head.value) == content
        and all(getattr(head, n) == v for n, v in told.items())
    ):
        if base_version not in (None, head.version) and base_version == _replaced_version(head, by):
            return PutResult(head, "updated" if base_version else "created")
        _base_check(head, base_version)
        document_end_move(head, by, end)
        return PutResult(head, "unchanged")
    _base_check(head, base_version)
    document = Document(
        agent=agent,
        persona=by.persona,
        namespace=namespace,
        key=key,
        address=address,
        value=json.loads(content),
        text=document_text(json.loads(content), fields),
        origin=origin_of(by, *fields_trust(value), *fields_trust(source_ref or {}), declared=origin),
        **told,
        **end,
    )
    document.endorsed = document.origin == Trust.PERSON
    document.screened_as = screened_as(by, origin)
    _removed_by_people_check(document, by)
    _version_add(last, document, by, "document.put")
    return PutResult(document, "updated" if head is not None else "created")


@agent_transaction(of="document")
def document_restore(*, document: Document, by: Principal, reason: str = "") -> Document:
    """Keep the value of an earlier version, or of one that was retired, as a new version that does not expire.

    Raises NotAllowed, or Conflict where this version is active.
    """
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    _address_lock(document.agent, document.persona, document.address)
    document = memory_lock(document, by, "memory.change_document", endorsed_too=True)
    if document.active:
        raise Conflict("This version is active: there is nothing to restore.")
    last = _last_version(document.agent, document.persona, document.address)
    kept = ("agent", "persona", "namespace", "key", "address", "value", "text", "index_fields", *KEYS,
            "tags", "scope", "importance", "origin", "source_ref")  # fmt: skip
    restored = Document(**{name: getattr(document, name) for name in kept}, endorsed=by.is_person)
    _version_add(last, restored, by, "document.restore", reason=reason, more={"restores": document.version})
    return restored


@agent_transaction(of="document")
def document_retire(
    *, document: Document, by: Principal, reason: str = "", base_version: int | None = None
) -> Document:
    """Leave a key without a value; its versions stay, and people may restore one.

    Retired again from the same `base_version` by the same caller, nothing changes. Raises NotAllowed, NotFound, or
    Conflict where it has been retired or changed, or is people's and `by` is no person.
    """
    reason = text_check("reason", reason, MAX_REMARK_CHARACTERS)
    _address_lock(document.agent, document.persona, document.address)
    document = memory_lock(document, by, "memory.add_document", endorsed_too=True)
    if base_version == document.version and document.retired_by == by.name and document.superseded_by_id is None:
        return document
    if not document.active:
        raise Conflict("This version is not active: there is nothing to retire.")
    _base_check(document, base_version)
    human_author_check(document, by)
    now = _moment(document)
    endorsed = document.endorsed or by.is_person
    document.put(active=False, retired_at=now, retired_by=by.name, updated_at=now, endorsed=endorsed)
    memory_index(document)
    audit_record(
        by=by,
        action="document.retire",
        target=document,
        agent=document.agent,
        before={"active": True},
        after={"active": False, "version": document.version},
        message=reason,
    )
    return document


@agent_transaction(of="document")
def document_release(*, document: Document, by: Principal) -> Document:
    """Let the agent change what people wrote, restored or retired under this key. Raises NotAllowed or Conflict."""
    change_check(document, by, "memory.change_document")
    _address_lock(document.agent, document.persona, document.address)
    last = _last_version(document.agent, document.persona, document.address)
    if last is None or not last.endorsed:
        raise Conflict("The agent can already change this document.")
    last.put(endorsed=False)
    audit_record(
        by=by,
        action="document.update",
        target=last,
        agent=last.agent,
        before={"endorsed": True},
        after={"endorsed": False},
    )
    return last


def namespace_check(namespace: Sequence[str]) -> list[str]:
    """The labels of a namespace. Raises Invalid."""
    if not 1 <= len(namespace) <= MAX_NAMESPACE_LABELS:
        raise Invalid(f"namespace must have 1 to {MAX_NAMESPACE_LABELS} labels.", field="namespace")
    return [_name_check("namespace", label, MAX_NAMESPACE_CHARACTERS) for label in namespace]


def document_key_check(key: str) -> str:
    """The key of a document. Raises Invalid."""
    return _name_check("key", key, MAX_DOCUMENT_KEY_CHARACTERS)


def value_check(value: Mapping[str, Any]) -> str:
    """A value as JSON, its members in one order and its numbers as the database writes them. Raises Invalid."""
    if not isinstance(value, dict):
        raise Invalid("value must be an object.", field="value")
    depth_check("value", value, MAX_DOCUMENT_DEPTH)
    written = json_check("value", _stored_numbers(value))
    if len(written) > MAX_DOCUMENT_CHARACTERS:
        raise Invalid(
            f"value must have at most {MAX_DOCUMENT_CHARACTERS:,} characters of JSON; this has {len(written):,}.",
            field="value",
        )
    return written


def _stored_numbers(value: Any) -> Any:
    """`value` with numbers that JSON writes with an exponent as the database does: in full. Of known depth."""
    if isinstance(value, dict):
        return {name: _stored_numbers(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_stored_numbers(one) for one in value]
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    if "e" not in repr(value):
        # The database knows no negative zero.
        return value + 0.0
    if value.is_integer():
        return int(value)
    if len(format(Decimal(repr(value)), "f")) <= MAX_NUMBER_CHARACTERS:
        return value
    raise Invalid(f"value holds a number of too many digits ({value!r}): store it as text.", field="value")


def _name_check(field: str, value: str, limit: int) -> str:
    value = unicodedata.normalize("NFC", storable_check(field, value))
    if is_blank(value) or not value.isprintable() or value != value.strip() or value != visible_text(value):
        raise Invalid(
            f"{field} must be visible text without leading or trailing white space, and not empty.", field=field
        )
    return length_check(field, value, limit)


def _removed_by_people_check(document: Document, by: Principal) -> None:
    """Raise Conflict if a token stores a text that people retired as a document or invalidated as a fact."""
    if not document.text or by.is_person or by.kind == "system":
        return
    retired = Document.objects.filter(
        agent=document.agent, persona=document.persona, endorsed=True, active=False, superseded_by=None,
        text=document.text, user__in=("", document.user),
    )  # fmt: skip
    if by.projects is not None:
        retired = retired.filter(project__in=("", *by.projects))
    if retired.exclude(address=document.address).exists():
        raise Conflict("People retired a document with the same text under another key.")
    stated = Fact(agent=document.agent, persona=document.persona, content=document.text, scope=document.scope,
                  **keys_of(document))  # fmt: skip
    # A longer text that contains an invalidated statement is stored, and left out of prompts.
    if invalidated_match(stated, vector=None, by=by, sentences=False) is not None:
        raise Conflict("People marked this statement as wrong.")


def _fields_check(index: Sequence[str]) -> list[str]:
    if len(index) > MAX_INDEX_FIELDS:
        raise Invalid(f"index names at most {MAX_INDEX_FIELDS} fields.", field="index")
    return [_name_check("index", name, 200) for name in index]


def _replaced_version(head: Document, by: Principal) -> int | None:
    """The version that `by` replaced with the active one, 0 if the key had no value; None if somebody else did."""
    if (head.author_kind, head.author_id) != (by.kind, by.id):
        return None
    return head.version - 1 if head.first_created_at < head.created_at else 0


def _base_check(head: Document | None, base_version: int | None) -> None:
    current = head.version if head is not None else 0
    if base_version is None or base_version == current:
        return
    if head is None:
        raise Conflict("This document no longer exists.", version=current)
    if base_version == 0:
        raise Conflict("A document with this key already exists.", version=current)
    raise StaleEdit(base_version, current, version=current)


def _address_lock(agent: Agent, persona: str, address: str) -> None:
    """Wait for whoever writes the same key, until the end of their transaction."""
    transaction_lock(f"document:{agent.pk}:{persona}:{address}")


def _last_version(agent: Agent, persona: str, address: str) -> Document | None:
    rows = Document.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    return rows.filter(agent=agent, persona=persona, address=address).order_by("-version").first()


def _moment(last: Document | None) -> Any:
    """Now, and never before the last version was written: the clocks of machines differ."""
    now = clock.now()
    return max(now, last.created_at) if last is not None else now


def _version_add(
    last: Document | None,
    document: Document,
    by: Principal,
    action: str,
    *,
    reason: str = "",
    more: Mapping[str, Any] | None = None,
) -> None:
    """Store the next version after `last`, whose row and address are locked."""
    now = _moment(last)
    document.author_kind, document.author_id, document.author_name = by.kind, by.id, by.name
    document.created_at = document.updated_at = document.first_created_at = now
    if last is not None:
        human_author_check(last, by)
        document.version = last.version + 1
        was_active = last.active
        if was_active and not last.has_expired:
            document.first_created_at = last.first_created_at
        if was_active:
            last.active, last.retired_at = False, now
        last.superseded_by, last.updated_at = document, now
        # The new version is stored in the same transaction, before which the reference is not checked.
        Document.objects.filter(agent=last.agent_id, pk=last.pk).update(
            active=False, retired_at=last.retired_at, superseded_by_id=document.pk, updated_at=now
        )
    source_seen(document)
    document.save(force_insert=True)
    if last is not None:
        memory_index(last)
        audit_record(
            by=by,
            action="document.supersede",
            target=last,
            agent=last.agent,
            before={"active": was_active},
            after={"active": False, "superseded_by": str(document.pk)},
        )
    after = {"namespace": list(document.namespace), "key": document.key, "version": document.version}
    memory_stored(document, by, action, after=after | carried_keys(document) | dict(more or {}), message=reason)


REFRESH_STEP = 10
"""A refresh moves an end that is further away than this part of the time to live; any other would be a write a read."""


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
