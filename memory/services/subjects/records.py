"""What every change of a subject leaves: a line of its history and an audit record, in the same plain words."""

from collections.abc import Collection, Mapping
from typing import Any

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Subject, SubjectChange

Action = SubjectChange.Action


def subject_change_record(
    subject: Subject,
    action: SubjectChange.Action,
    by: Principal,
    *,
    summary: str,
    other: Subject | None = None,
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    before: Any = None,
    after: Any = None,
    audit: str = "",
) -> SubjectChange:
    """Keep what happened to a subject, in its history and in the audit trail, in the same plain words."""
    change = SubjectChange.objects.create(
        agent=subject.agent,
        persona=subject.persona,
        subject=subject,
        other=other,
        action=action,
        summary=summary,
        reason=reason,
        details=dict(details or {}),
        author_kind=by.kind,
        author_id=by.id,
        author_name=by.name,
    )
    audit_record(
        by=by,
        action=audit or f"subject.{AUDITED[action]}",
        target=subject,
        agent=subject.agent,
        before=before,
        after={"change": summary, **(after or {})},
        message=reason,
    )
    return change


AUDITED = {
    Action.CREATED: "create",
    Action.ALIAS: "alias_add",
    Action.EDITED: "edit",
    Action.MERGED: "merge",
    Action.SPLIT: "split",
}
"""The audit trail's verb of each action."""


def quoted(names: Collection[str]) -> str:
    """Names as a sentence has them; of many the first few."""
    shown = [f"“{name}”" for name in list(names)[:5]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
