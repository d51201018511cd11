"""Records of changes of subjects: an entry in the subject's history and an audit record, with the same summary."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from identity.principal import Principal
from identity.services.audit import audit_record_many
from memory.models import Subject, SubjectChange
from memory.services.reviews.settling import reviews_settle

Action = SubjectChange.Action


@dataclass(frozen=True, slots=True)
class SubjectEvent:
    """A change of a subject, with a `summary` in plain words and a `reason`.

    `details`: data for undoing it. `before`, `after`: for the audit record. `audit`: the audit action, if it is not the
    one of AUDITED.
    """

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
    subject: Subject, action: SubjectChange.Action, by: Principal, *, summary: str, **fields: Any
) -> SubjectChange:
    """Record a change of a subject; `fields` are further fields of a SubjectEvent."""
    return subject_changes_record([SubjectEvent(subject, action, summary, **fields)], by)[0]


def subject_changes_record(events: Sequence[SubjectEvent], by: Principal) -> list[SubjectChange]:
    """Record changes of subjects in their history and in the audit trail."""
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
    for each in events:
        if each.action in (Action.MERGED, Action.SPLIT):
            keys = [subject.pk for subject in (each.subject, each.other) if subject is not None]
            reviews_settle(agent_id=each.subject.agent_id, subjects=keys)
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
    """Names in quotation marks for a sentence; only the first five, and the number of the others."""
    shown = [f"“{name}”" for name in list(names)[:5]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
