"""What every change of a subject leaves: a line of its history and an audit record, in the same plain words."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from identity.principal import Principal
from identity.services.audit import audit_record_many
from memory.models import Subject, SubjectChange

Action = SubjectChange.Action


@dataclass(frozen=True, slots=True)
class SubjectEvent:
    """That something happened to a subject, and for its history why, in plain words; `details` are for undoing it,
    `before` and `after` for the audit trail, whose action is `audit` where that is not the plain one."""

    subject: Subject
    action: SubjectChange.Action
    summary: str
    other: Subject | None = None
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    before: Any = None
    after: Mapping[str, Any] = field(default_factory=dict)
    audit: str = ""


def subject_change_record(
    subject: Subject, action: SubjectChange.Action, by: Principal, *, summary: str, **given: Any
) -> SubjectChange:
    """Keep what happened to a subject; `given` are other fields of a SubjectEvent."""
    return subject_changes_record([SubjectEvent(subject, action, summary, **given)], by)[0]


def subject_changes_record(events: Sequence[SubjectEvent], by: Principal) -> list[SubjectChange]:
    """Keep what happened to subjects, in their history and in the audit trail, in the same plain words."""
    changes = SubjectChange.objects.bulk_create(
        SubjectChange(
            agent=each.subject.agent,
            persona=each.subject.persona,
            subject=each.subject,
            other=each.other,
            action=each.action,
            summary=each.summary,
            reason=each.reason,
            details=dict(each.details),
            author_kind=by.kind,
            author_id=by.id,
            author_name=by.name,
        )
        for each in events
    )
    audit_record_many(
        {
            "by": by,
            "action": each.audit or f"subject.{AUDITED[each.action]}",
            "target": each.subject,
            "agent": each.subject.agent,
            "before": each.before,
            "after": {"change": each.summary, **each.after},
            "message": each.reason,
        }
        for each in events
    )
    return changes


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
