"""The one way to write the audit trail. Called inside the transaction of the mutation that it records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Required, TypedDict, Unpack

from django.contrib.auth.models import User
from django.db import models, transaction

from identity.models import Agent, AuditEvent, Persona
from identity.policy.permissions import ACTIONS_OF_BOTH_PERSONAS
from identity.principal import Principal
from identity.services.change_feed import feed_change_of_audit, feed_changes_record
from nousweb.lib import NotAllowed
from nousweb.lib.prepared_statements import instance_insert


class AuditEntry(TypedDict, total=False):
    """An entry: `by` did `action` ("noun.verb") to `target`; `before` and `after` are JSON-ready states.

    `label` replaces the target's own name if that must not be stored. `persona` is the persona whose memory it is
    about, if neither the target nor the author determines it.
    """

    by: Required[Principal]
    action: Required[str]
    target: Required[models.Model]
    agent: Required[Agent | None]
    before: Any
    after: Any
    message: str
    label: str
    persona: str


def audit_record(**entry: Unpack[AuditEntry]) -> None:
    """Write `entry` to the audit trail, and to the change feed where it is a domain event."""
    record = audit_draft(**entry)
    instance_insert(record)
    if change := feed_change_of_audit(record, entry["agent"], entry["target"]):
        feed_changes_record([change])


def audit_record_many(entries: Iterable[AuditEntry]) -> None:
    """Write entries to the audit trail in their order, and to the change feed those that are domain events."""
    entries = list(entries)
    records = AuditEvent.objects.bulk_create(audit_draft(**entry) for entry in entries)
    drafts = [
        feed_change_of_audit(record, entry["agent"], entry["target"])
        for record, entry in zip(records, entries, strict=True)
    ]
    feed_changes_record([draft for draft in drafts if draft is not None])


def audit_draft(**entry: Unpack[AuditEntry]) -> AuditEvent:
    """Build the unsaved record of `audit_record`: for a receipt that the database itself writes."""
    by, action, target, agent = entry["by"], entry["action"], entry["target"], entry["agent"]
    return AuditEvent(
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
        agent=agent,
        agent_slug=agent.slug if agent else "",
        persona=_persona(by, action, target, entry.get("persona", "")),
        action=action,
        object_type=target._meta.model_name or "",
        object_id=str(target.pk),
        object_label=(entry["label"] if "label" in entry else str(target))[:200],
        before=entry.get("before"),
        after=entry.get("after"),
        message=entry.get("message", ""),
        request_id=by.request_id,
        channel=by.channel,
    )


def _persona(by: Principal, action: str, target: models.Model, given: str) -> str:
    if action in ACTIONS_OF_BOTH_PERSONAS:
        return AuditEvent.BOTH
    if by.persona == Persona.SUBCONSCIOUS:
        # That it acts at all is for those who may see it.
        return Persona.SUBCONSCIOUS
    return given or getattr(target, "persona", "")


def person_of(by: Principal) -> User:
    """The account of a principal who is a person. Raises NotAllowed."""
    if not isinstance(by.user, User):
        raise NotAllowed("Only a signed-in person may do this.")
    return by.user


@transaction.atomic
def list_export_record(
    *,
    title: str,
    agent: Agent | None,
    file_format: str,
    filters: Mapping[str, Sequence[str]],
    rows: int,
    is_cut: bool,
    both: bool,
    by: Principal,
) -> None:
    """Record that `by` exports the list called `title`, of an agent or of the console, before the first row is sent.

    `rows` is the number of rows when it began. With `both` the list may include the subconscious, and so may its
    filters, which are then shown only to people who may see that. Raises NotAllowed for callers that are no person.
    """
    person = person_of(by)
    given = {name: list(values) for name, values in filters.items()}
    audit_record(
        by=by,
        action="list.export",
        target=agent or person,
        agent=agent,
        label=f"{title} of {agent.name}" if agent else title,
        after={"format": file_format, "rows": rows, "cut": is_cut, "filters": given},
        persona=AuditEvent.BOTH if both else "",
    )
