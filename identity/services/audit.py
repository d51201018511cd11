"""The one way to write the audit trail. Called inside the transaction of the mutation that it records."""

from typing import Any

from django.db import models

from identity.models import Agent, AuditEvent, Persona
from identity.policy import ACTIONS_OF_BOTH_PERSONAS
from identity.principal import Principal


def audit_record(
    *,
    by: Principal,
    action: str,
    target: models.Model,
    agent: Agent | None,
    before: Any = None,
    after: Any = None,
    message: str = "",
    label: str | None = None,
    persona: str = "",
) -> AuditEvent:
    """Record that `by` did `action` ("noun.verb") to `target`; `before` and `after` are JSON-ready states.

    `label` names the target where its own name must not stay behind. `persona` says whose memory it is about where
    neither the target nor who acts does.
    """
    record = audit_draft(
        by=by,
        action=action,
        target=target,
        agent=agent,
        before=before,
        after=after,
        message=message,
        label=label,
        persona=persona,
    )
    record.save(force_insert=True)
    return record


def audit_draft(
    *,
    by: Principal,
    action: str,
    target: models.Model,
    agent: Agent | None,
    before: Any = None,
    after: Any = None,
    message: str = "",
    label: str | None = None,
    persona: str = "",
) -> AuditEvent:
    """What `audit_record` would write, unsaved: for a receipt that the database itself writes."""
    return AuditEvent(
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
        agent=agent,
        agent_slug=agent.slug if agent else "",
        persona=_persona(by, action, target, persona),
        action=action,
        object_type=target._meta.model_name or "",
        object_id=str(target.pk),
        object_label=(str(target) if label is None else label)[:200],
        before=before,
        after=after,
        message=message,
        request_id=by.request_id,
    )


def _persona(by: Principal, action: str, target: models.Model, given: str) -> str:
    if action in ACTIONS_OF_BOTH_PERSONAS:
        return AuditEvent.BOTH
    if by.persona == Persona.SUBCONSCIOUS:
        # That it acts at all is for those who may see it.
        return Persona.SUBCONSCIOUS
    return given or getattr(target, "persona", "")
