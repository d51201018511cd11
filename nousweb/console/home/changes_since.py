"""What others changed since a person's last visit, by what it is about, from the audit trail."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet, Value
from django.db.models.fields.json import KT
from django.urls import reverse

from context.models import ExpectationResult
from identity.models import AuditEvent
from identity.policy.changes import audit_phrase
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from nousweb.lib.permission_holder import PermissionHolder
from nousweb.lib.prepared_statements import CachedQuery

COUNTED = 100
"""Records of a group that are read."""
SHOWN = 3
QUOTED = 90

_PEOPLE = Q(author_kind="person")
_REPLACED = ("fact.supersede", "fact.merge")
GROUPS: dict[str, tuple[str, tuple[str, ...], Q]] = {
    "identity": (
        "Identity",
        ("proposal.approve", "identity.update", "identity.rollback", "agent.reinitiate"),
        Q(),
    ),
    "facts": ("Facts changed by people", (*_REPLACED, "fact.invalidate", "fact.restore", "fact.erase"), _PEOPLE),
    "automatic": ("Decided without people", (*_REPLACED, "memory_review.expire"), ~_PEOPLE),
    "censors": ("Censors", ("censor.create", "censor.update", "censor.retire", "censor.revive"), Q()),
}
"""By name: the title, the actions, and whose they are."""


@dataclass(frozen=True, slots=True)
class NewsLine:
    """One change as a sentence: who, did, and the object, which links to `url`; `by` is what replaced it."""

    who: str
    did: str
    what: str
    by: str
    at: datetime
    url: str


@dataclass(frozen=True, slots=True)
class NewsGroup:
    """The latest changes of one sort; `url` leads to all of them, and `rest` is the number of the others."""

    title: str
    lines: list[NewsLine]
    count: int
    url: str

    @property
    def rest(self) -> str:
        """How many are not listed: "12", "97 or more", or nothing."""
        rest = self.count - len(self.lines)
        return f"{rest}{' or more' if self.count >= COUNTED else ''}" if rest else ""


def changes_since(since: datetime, broken: Sequence[ExpectationResult], by: Principal) -> list[NewsGroup]:
    """What others than `by` changed since then, and the expectations among `broken` that began to fail. One query."""
    found = _rows(since, by)
    groups = [
        NewsGroup(title, [_line(row) for row in rows[:SHOWN]], len(rows), _url(name, since))
        for name, (title, _, _) in GROUPS.items()
        if (rows := sorted((row for row in found if row[0] == name), key=lambda row: -row[1]))
    ]
    return [*groups, *_began_to_fail(since, broken)]


def _began_to_fail(since: datetime, broken: Sequence[ExpectationResult]) -> list[NewsGroup]:
    began = [row for row in broken if row.since > since and row.state == ExpectationResult.State.FAILED]
    lines = [
        NewsLine(
            row.agent.name,
            "no longer meets",
            _short(row.expectation.input),
            "",
            row.since,
            reverse("agent_expectation", args=[row.agent.slug, row.expectation_id]),
        )
        for row in began[:SHOWN]
    ]
    url = reverse("agent_expectations", args=[began[0].agent.slug]) + "?state=failed" if began else ""
    return [NewsGroup("Expectations that began to fail", lines, len(began), url)] if began else []


def _url(group: str, since: datetime) -> str:
    if group == "automatic":
        return reverse("automatic_decisions")
    # The trail is filtered by whole days.
    return f"{reverse('audit')}?{urlencode({'since': f'{since:%Y-%m-%d}'})}"


def _line(row: tuple[Any, ...]) -> NewsLine:
    _, key, at, who, action, what, agent, newer = row
    of = f" of {agent}" if agent and action.startswith(("proposal.", "identity.")) else ""
    replaced = _short(newer) if action in _REPLACED and newer and newer != what else ""
    return NewsLine(who, audit_phrase(action), f"{_short(what)}{of}", replaced, at, reverse("audit_event", args=[key]))


def _short(words: str) -> str:
    return f"{words[:QUOTED].rstrip()}…" if len(words) > QUOTED else words


@dataclass(frozen=True)
class _Sight:
    """Of a person who sees all agents: whether they see records of the subconscious."""

    subconscious: bool
    agents: None = None

    def may(self, permission: str) -> bool:
        return self.subconscious and permission == VIEW_SUBCONSCIOUS


def _rows(since: datetime, by: Principal) -> list[tuple[Any, ...]]:
    if by.agents is None:
        # Writing the query takes several times as long as its answer.
        return _CACHED.rows(_Sight(by.may(VIEW_SUBCONSCIOUS)), since=since, person=by.id)
    return list(_query(by, since, by.id))


def _query(by: PermissionHolder, since: datetime, person: str) -> QuerySet[Any, Any]:
    mine = Q(author_kind="person", author_id=person)
    trail = AuditEvent.objects.visible_to(by).filter(at__gt=since).exclude(mine).order_by("-id")
    first, *others = (
        trail.filter(whose, action__in=actions)
        .annotate(group=Value(name), newer=KT("after__content"))
        .values_list("group", "id", "at", "author_name", "action", "object_label", "agent__name", "newer")[:COUNTED]
        for name, (_, actions, whose) in GROUPS.items()
    )
    return first.union(*others, all=True)


_CACHED = CachedQuery(_query, since=datetime.fromisoformat("2001-02-03T04:05:06+00:00"), person="nobody at all")
