"""The changes that may have changed an agent's prompts, from the feed of changes and the versions of profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet

from context.models import ContextProfileVersion
from identity.models import Agent, AuditEvent, Change, IdentityVersion
from identity.policy.changes import KIND_OF_ACTION
from memory.persona import PersonaMemory

PROFILE_KIND = "profile.updated"
"""A version of a context profile, which is no change of any one agent."""
IGNORED_KINDS = frozenset(
    {
        "context.assembled", "context.answered", "context.outcome", "censor.triggered",
        "expectation.changed", "expectation.broken", "expectation.mended", "log.sealed",
        "proposal.created", "proposal.decided", "proposal.withdrawn", "proposal.expired", "proposal.reopened",
    }
)  # fmt: skip
"""Kinds of changes that change no prompt by themselves: their consequences are changes of their own."""
NOT_REBUILT: Mapping[str, str] = {
    "working.changed": "the session's earlier working memory is not kept",
    "subject.changed": "the names of subjects are known as of today only",
}
"""Kinds of change that a context of the past knows nothing of, and why."""
MAX_CHANGES = 5_000
"""Changes of one span among which one is looked for, the latest."""
SAME_MOMENT = timedelta(milliseconds=200)
"""Changes that lie so close together are of one transaction, as a rule."""
TRANSACTION = timedelta(seconds=5)
"""Maximum time between the moments of a change and of the rows that it wrote, however slow the machine."""
AUDIT_WITHIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that may have changed prompts: a change of the feed, or a new version of a profile."""

    kind: str
    at: datetime
    object_type: str
    object_id: str
    key: str = ""
    persona: str = ""
    author_name: str = ""
    author_kind: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def events_after(view: PersonaMemory, positions: Mapping[str, int], at: datetime) -> list[Event]:
    """The changes after these positions of the feed by persona, and the profiles since `at`, in the order of time."""
    after = Q()
    for persona in view.personas:
        after |= Q(persona=persona) & (Q(position__gt=positions.get(persona, 0)) | Q(position__isnull=True))
    return _events(view, Change.objects.filter(after), ContextProfileVersion.objects.filter(created_at__gt=at))


def events_between(view: PersonaMemory, since: datetime, until: datetime) -> list[Event]:
    """The events after `since`, up to and including `until`, in the order of time."""
    changes = Change.objects.filter(persona__in=view.personas, at__gt=since, at__lte=until)
    return _events(view, changes, ContextProfileVersion.objects.filter(created_at__gt=since, created_at__lte=until))


def _events(view: PersonaMemory, changes: QuerySet[Change], versions: QuerySet[ContextProfileVersion]) -> list[Event]:
    rows = changes.filter(agent=view.agent).exclude(kind__in=IGNORED_KINDS)
    latest = rows.order_by(F("position").desc(nulls_first=True), "-id")[:MAX_CHANGES]
    found = [
        Event(row.kind, row.at, row.object_type, row.object_id, str(row.key), row.persona, details=row.details)
        for row in sorted(latest, key=lambda row: (row.at, row.pk))
    ]
    found += [
        Event(
            PROFILE_KIND,
            version.created_at,
            "contextprofile",
            version.profile.slug,
            author_name=version.author_name,
            author_kind=version.author_kind,
        )
        for version in versions.select_related("profile")
    ]
    return sorted(found, key=lambda event: event.at)


def event_with_author(agent: Agent, event: Event) -> Event:
    """The event with its author from the audit trail."""
    name, kind = event.author_name, event.author_kind
    if not name and event.object_type == "identityversion":
        version = IdentityVersion.objects.filter(agent=agent, pk=event.object_id).first()
        name, kind = (version.author_name, version.author_kind) if version else ("", "")
    if not name:
        span = (event.at - AUDIT_WITHIN, event.at + AUDIT_WITHIN)
        actions = [action for action, kind in KIND_OF_ACTION.items() if kind == event.kind]
        trail = AuditEvent.objects.filter(
            Q(object_id=event.object_id) | Q(action__in=actions), agent=agent, at__range=span
        )
        rows = sorted(trail[:200], key=lambda row: (row.object_id != event.object_id, abs(row.at - event.at)))
        name, kind = (rows[0].author_name, rows[0].author_kind) if rows else ("", "")
    return replace(event, author_name=name[:200], author_kind=kind)


def event_groups(events: Sequence[Event]) -> list[list[Event]]:
    """Events in the order of time, those of one moment together."""
    groups: list[list[Event]] = []
    for event in events:
        if groups and event.at - groups[-1][-1].at <= SAME_MOMENT:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups
