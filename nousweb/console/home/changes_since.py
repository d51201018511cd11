"""What others changed since a person's last visit, by what it is about, from the audit trail."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import F, Q, QuerySet, Subquery, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.urls import reverse

from identity.models import AuditEvent
from identity.policy.changes import audit_phrase
from nousweb.console.common import author_words
from nousweb.console.home.attention import BrokenExpectation
from nousweb.console.home.board_rows import Sight, board_query, moment_read
from nousweb.lib.prepared_statements import Rows

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
    """One change as a sentence: who, did, and the object, which links to `url`; `by` is what replaced it, and `of`
    the agent where the object does not say it."""

    who: str
    did: str
    what: str
    by: str
    at: datetime
    url: str
    of: str = ""


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


def changes_since(since: datetime, rows: Rows, broken: Sequence[BrokenExpectation]) -> list[NewsGroup]:
    """What others changed since then, from the rows of NEWS, and the expectations that began to fail."""
    groups = [
        NewsGroup(title, [_line(row) for row in latest[:SHOWN]], len(latest), _url(name, since))
        for name, (title, _, _) in GROUPS.items()
        if (latest := sorted((row for row in rows if row[0] == name), key=lambda row: -row[1]))
    ]
    return [*groups, *_began_to_fail(since, broken)]


def _began_to_fail(since: datetime, broken: Sequence[BrokenExpectation]) -> list[NewsGroup]:
    began = [row for row in broken if row.since > since and row.fails]
    lines = [
        NewsLine(row.agent, "no longer meets", _short(row.question), "", row.since, row.url) for row in began[:SHOWN]
    ]
    url = reverse("agent_expectations", args=[began[0].slug]) + "?state=failed" if began else ""
    return [NewsGroup("Expectations that began to fail", lines, len(began), url)] if began else []


def _url(group: str, since: datetime) -> str:
    if group == "automatic":
        return reverse("automatic_decisions")
    # The trail is filtered by whole days.
    return f"{reverse('audit')}?{urlencode({'since': f'{since:%Y-%m-%d}'})}"


def _line(row: tuple[Any, ...]) -> NewsLine:
    _, key, at, *who, action, what, agent, newer = row
    of = agent if agent and action.startswith(("proposal.", "identity.")) else ""
    replaced = _short(newer) if action in _REPLACED and newer and newer != what else ""
    url = reverse("audit_event", args=[key])
    return NewsLine(author_words(*who), audit_phrase(action), _short(what), replaced, moment_read(at), url, of)


def _short(words: str) -> str:
    return f"{words[:QUOTED].rstrip()}…" if len(words) > QUOTED else words


def _news(sight: Sight, since: datetime, author: str) -> QuerySet[Any, Any]:
    mine = Q(author_kind="person", author_id=author)
    # The records of an action are read by the index of actions and keys, from the last key before then on: in the order
    # of the keys themselves, those of all actions would be.
    earlier = AuditEvent.objects.filter(at__lte=since).order_by("-at").values("id")[:1]
    fresh = AuditEvent.objects.filter(at__gt=since, id__gt=Coalesce(Subquery(earlier), 0))
    trail = fresh.visible_to(sight).exclude(mine).order_by((F("id") + 0).desc())
    first, *others = (
        trail.filter(whose, action__in=actions)
        .annotate(group=Value(name), newer=KT("after__content"))
        .values_list(
            "group", "id", "at", "author_name", "author_kind", "action", "object_label", "agent__name", "newer"
        )[:COUNTED]
        for name, (_, actions, whose) in GROUPS.items()
    )
    return first.union(*others, all=True)


NEWS = board_query(_news, "since", author=True)
