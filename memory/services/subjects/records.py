"""Records of changes of subjects: an entry in the subject's history and an audit record, with the same summary."""

from collections.abc import Collection, Mapping
from typing import Any

from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Subject, SubjectChange
from memory.services.reviews.states import reviews_settle

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
    after: Mapping[str, Any] | None = None,
    audit: str = "",
) -> SubjectChange:
    """Record a change of a subject in its history and in the audit trail.

    `summary`: what changed, in plain words. `details`: data for undoing it. `before`, `after`: for the audit record.
    `audit`: the audit action, if it is not the one of AUDITED.
    """
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
    if action in (Action.MERGED, Action.SPLIT):
        keys = [changed.pk for changed in (subject, other) if changed is not None]
        reviews_settle(agent_id=subject.agent_id, subjects=keys)
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
    """Names in quotation marks for a sentence; only the first five, and the number of the others."""
    shown = [f"“{name}”" for name in list(names)[:5]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
