"""What needs a person on Home: items that wait for a decision, and what failed, each with its remedy; and what others
changed since a person's last visit, by what it is about, from the audit trail."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.db.models import Count, F, Min, Q, QuerySet, Subquery, Value
from django.db.models.fields.json import KT, KeyTextTransform
from django.db.models.functions import Coalesce, Left
from django.urls import reverse

from context.expectations.services import broken_results
from context.models import ExpectationResult
from identity.models import AuditEvent, ChangeProposal, Webhook
from identity.policy.changes import audit_phrase
from identity.policy.sections import Section
from identity.principal import Principal
from memory.models import Job, MemoryReview
from nousweb.console.common import author_words
from nousweb.console.home.board_rows import Sight, board_query, moment_read
from nousweb.console.inbox.filter import InboxFilter, InboxRow
from nousweb.console.inbox.item_titles import changed_words, review_title
from nousweb.console.inbox.proposal_items import ProposalItem, with_texts
from nousweb.console.inbox.query import PROPOSAL, REVIEW, InboxEntry
from nousweb.console.templatetags.differences import item_title
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.prepared_statements import Rows

ITEMS_SHOWN = 5
FAILURES_READ = 100
WEBHOOKS_SHOWN = 3
QUESTION_CHARACTERS = 90
OF_REVIEW = ("kind", "subject", "proposal", "reasons", "facts", "details", "agent__name")


def waiting_items(by: Principal) -> tuple[list[InboxRow], int]:
    """The first items of the inbox of `by`, in its order, near-identical ones as one, and their number. Of a row there
    is no more than what would change or is at stake."""
    part = InboxFilter()
    inbox = part.search(by)
    found = inbox.groups(size=ITEMS_SHOWN + 1)
    entries = found[:ITEMS_SHOWN]
    rows = []
    items = _items(entries)
    for entry in entries:
        if (item := items.get(entry.id)) is None:
            continue
        proposed = item if isinstance(item, ProposalItem) else None
        row = InboxRow(
            entry,
            review_title(item) if isinstance(item, MemoryReview) else item.change,
            item.agent.name if isinstance(item, MemoryReview) else item.proposal.agent.name,
            kind=item.get_kind_display() if isinstance(item, MemoryReview) else Section(item.proposal.section).label,
            times=[("", entry.created_at)],
            proposal=proposed,
        )
        row.placed(part, by)
        rows.append(row)
    total = sum(entry.members for entry in found) if len(found) <= ITEMS_SHOWN else inbox.counts()[""]
    return rows, total


def _items(entries: Sequence[InboxEntry]) -> dict[UUID, ProposalItem | MemoryReview]:
    """The items of these entries, with no more of them than their titles need: a statement of all columns takes twice
    as long to write. A query for each type."""
    keys = {kind: [entry.id for entry in entries if entry.type == kind] for kind in (PROPOSAL, REVIEW)}
    proposals = with_texts(ChangeProposal.objects.filter(pk__in=keys[PROPOSAL])).only(
        "section", "status", "content", "edited", "base_version", "agent__name", "version__content"
    )
    reviews = (
        MemoryReview.objects.filter(pk__in=keys[REVIEW])
        .select_related("agent", "old", "new", "censor")
        .only("old__content", "new__content", *OF_REVIEW, "censor__pattern", "censor__reason")
    )
    items: dict[UUID, ProposalItem | MemoryReview] = {row.pk: ProposalItem(row) for row in proposals}
    return items | {row.pk: row for row in reviews}


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, as a sentence, what to do about it, and where; `brief` is a part of a sentence: "2 jobs failed"."""

    title: str
    remedy: str
    brief: str
    at: datetime | None
    url: str


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """An expectation that failed (`fails`), or could not be checked, since a moment."""

    agent: str
    slug: str
    question: str
    fails: bool
    since: datetime
    url: str


BROKEN = board_query(
    lambda sight: (
        broken_results(sight)
        .order_by("-since", "-id")
        .annotate(
            slug=F("agent__slug"), name=F("agent__name"), question=KeyTextTransform("input", "expectation__request")
        )
        .values_list("name", "slug", "question", "state", "since", "expectation_id")[:FAILURES_READ]
    )
)


def broken_expectations(rows: Rows) -> list[BrokenExpectation]:
    """The rows of BROKEN, the latest first."""
    return [
        BrokenExpectation(
            name,
            slug,
            question or "",
            state == ExpectationResult.State.FAILED,
            moment_read(since),
            reverse("agent_expectation", args=[slug, key]),
        )
        for name, slug, question, state, since, key in rows
    ]


def expectation_failures(broken: Sequence[BrokenExpectation]) -> list[Failure]:
    """Expectations that failed or could not be checked, by agent."""
    groups: dict[tuple[str, bool], list[BrokenExpectation]] = {}
    for row in broken:
        groups.setdefault((row.slug, row.fails), []).append(row)
    failures = []
    for (slug, fails), rows in groups.items():
        number = len(rows)
        name, verb = rows[0].agent, _verb(number) if fails else "could not be checked"
        if number == 1:
            title, url = f"The expectation of {name} for “{_shortened(rows[0].question)}” {verb}", rows[0].url
        else:
            title = f"{_number(number)} expectations of {name} {verb}"
            state = ExpectationResult.State.FAILED if fails else ExpectationResult.State.ERROR
            url = f"{reverse('agent_expectations', args=[slug])}?state={state}"
        remedy = (
            "See which change broke it, then undo the change or correct the expectation."
            if fails
            else "Read why on its page, and correct the expectation."
        )
        brief = f"{_number(number)} expectation{'' if number == 1 else 's'} {verb}"
        failures.append(Failure(title, remedy, brief, min(row.since for row in rows), url))
    return failures


def _shortened(words: str) -> str:
    return f"{words[:QUESTION_CHARACTERS].rstrip()}…" if len(words) > QUESTION_CHARACTERS else words


def _number(number: int) -> str:
    return f"{number:,}{' or more' if number >= FAILURES_READ else ''}"


def _verb(number: int) -> str:
    return "fails" if number == 1 else "fail"


DEAD_JOBS = board_query(
    lambda sight: (
        for_visible_agents(Job.objects.filter(status=Job.Status.DEAD, persona__in=sight.personas), sight)
        .order_by()
        .values_list(Value("jobs"))
        .annotate(count=Count("pk"), oldest=Min("finished_at"))
        .values_list("count", "oldest")
    )
)


def job_failures(rows: Rows) -> list[Failure]:
    """Jobs that failed too often and were given up, from the row of DEAD_JOBS."""
    count, oldest = rows[0] if rows else (0, None)
    if not count:
        return []
    what = f"{count:,} job{'' if count == 1 else 's'} failed"
    return [
        Failure(
            f"{what} permanently",
            "Its work is not done. Read the error, remove the cause and try it again."
            if count == 1
            else "Their work is not done. Read the errors, remove the causes and try them again.",
            what,
            moment_read(oldest),
            f"{reverse('lifecycle')}?status={Job.Status.DEAD}",
        )
    ]


FAILING_WEBHOOKS = board_query(
    lambda sight: (
        for_visible_agents(
            Webhook.objects.filter(
                Q(state=Webhook.State.DISABLED) | Q(state=Webhook.State.ACTIVE, failures__gt=0),
                persona__in=sight.personas,
            ),
            sight,
        )
        .order_by("state", "-failures", "id")
        .annotate(slug=F("agent__slug"), name=F("agent__name"))
        .values_list("id", "name", "slug", "url", "state", "failures")[:FAILURES_READ]
    )
)


def webhook_failures(rows: Rows) -> list[Failure]:
    """Webhooks whose messages fail, or that were disabled for it, from the rows of FAILING_WEBHOOKS."""
    failures = []
    for key, name, slug, url, state, number in rows[:WEBHOOKS_SHOWN]:
        tries = f"{number:,} failed attempt{'' if number == 1 else 's'}"
        off = state == Webhook.State.DISABLED
        # An address may have a secret in its path.
        title = f"The webhook of {name} to {urlsplit(url).hostname or 'its address'}"
        failures.append(
            Failure(
                f"{title} {'was disabled' if off else 'does not deliver'} after {tries}",
                "Its receiver learns of no change. Correct the address or the receiver"
                f"{', then activate it' if off else ''}.",
                "1 webhook fails",
                None,
                reverse("agent_webhook", args=[slug, key]),
            )
        )
    if rest := max(len(rows) - WEBHOOKS_SHOWN, 0):
        more = f"{_number(rest)} more webhook{'' if rest == 1 else 's'} {_verb(rest)}"
        failures.append(Failure(more, "Open the agent's webhooks.", more, None, reverse("agents")))
    return failures


COUNTED = 100
"""Records of a group that are read."""
SHOWN = 3

_PEOPLE = Q(author_kind="person")
_UNREVIEWED = Q(action="identity.update", author_kind="token")
_REPLACED = ("fact.supersede", "fact.merge")
GROUPS: dict[str, tuple[str, tuple[str, ...], Q]] = {
    "applied": ("Applied without review", ("identity.update",), _UNREVIEWED),
    "identity": (
        "Identity",
        ("proposal.approve", "identity.update", "identity.rollback", "agent.reinitiate"),
        ~_UNREVIEWED,
    ),
    "facts": ("Facts changed by people", (*_REPLACED, "fact.invalidate", "fact.restore", "fact.erase"), _PEOPLE),
    "automatic": ("Decided without people", (*_REPLACED, "memory_review.expire"), ~_PEOPLE),
    "censors": ("Censors", ("censor.create", "censor.update", "censor.retire", "censor.revive"), Q()),
}
"""By name: the title, the actions, and whose they are."""
ABOUT = {
    "applied": {"about": "identity", "kind": "token"},
    "identity": {"about": "identity"},
    "facts": {"about": "memory", "kind": AuditEvent.Kind.PERSON.value},
    "censors": {"about": "prompts"},
}
"""What the audit trail is filtered by for such a group."""
TEXT_READ = 2_000
"""Characters of the text of a change, before and after, that are read."""


NewsGroup = dict[str, Any]
"""The latest changes of one sort (key, title, lines); `url` leads to all of them, and `rest` is the number of the
others in words. A line is a sentence: who, did, and the object (what), which links to `url`; `by` is what replaced it,
`change` the words that differ, and `of` the agent where the object does not say it."""


def changes_since(since: datetime, rows: Rows, broken: Sequence[BrokenExpectation]) -> list[NewsGroup]:
    """What others changed since then, from the rows of NEWS, and the expectations that began to fail."""
    groups = [
        _group(name, title, [_line(row) for row in latest[:SHOWN]], len(latest), _url(name, since))
        for name, (title, _, _) in GROUPS.items()
        if (latest := sorted((row for row in rows if row[0] == name), key=lambda row: -row[1]))
    ]
    if began := [row for row in broken if row.since > since and row.fails]:
        lines = [
            {
                "who": row.agent,
                "did": "does not meet the expectation of",
                "what": _shortened(row.question),
                "at": row.since,
                "url": row.url,
                "of": "",
            }
            for row in began[:SHOWN]
        ]
        url = reverse("agent_expectations", args=[began[0].slug]) + "?state=failed"
        groups.append(_group("expectations", "Expectations that began to fail", lines, len(began), url))
    return groups


def _group(key: str, title: str, lines: list[dict[str, Any]], count: int, url: str) -> NewsGroup:
    rest = count - len(lines)
    more = f"{rest}{' or more' if count >= COUNTED else ''}" if rest else ""
    return {"key": key, "title": title, "lines": lines, "url": url, "rest": more}


def _url(group: str, since: datetime) -> str:
    if group == "automatic":
        return reverse("automatic_decisions")
    # The trail is filtered by whole days.
    return f"{reverse('audit')}?{urlencode({'since': f'{since:%Y-%m-%d}', **ABOUT[group]})}"


def _line(row: tuple[Any, ...]) -> dict[str, Any]:
    _, key, at, *who, action, what, agent, newer, older = row
    by = _shortened(newer) if action in _REPLACED and newer and newer != what else ""
    return {
        "who": (author := author_words(*who)),
        "did": audit_phrase(action),
        "what": _shortened(what),
        "by": by,
        "change": "" if by else _change(older, newer),
        "at": moment_read(at),
        "url": reverse("audit_event", args=[key]),
        "of": agent if agent != author and action.startswith(("proposal.", "identity.")) else "",
    }


def _change(older: str | None, newer: str | None) -> str:
    """The first line that differs between two texts, marked; "" for one whose end was not read."""
    texts = [older or "", newer or ""]
    return item_title(changed_words(*texts)) if max(map(len, texts)) < TEXT_READ else ""


def _content(state: str) -> Left:
    return Left(KT(f"{state}__content"), TEXT_READ)


def _news(sight: Sight, since: datetime, author: str) -> QuerySet[Any, Any]:
    mine = Q(author_kind="person", author_id=author)
    # The records of an action are read by the index of actions and keys, from the last key before then on: in the order
    # of the keys themselves, those of all actions would be.
    earlier = AuditEvent.objects.filter(at__lte=since).order_by("-at").values("id")[:1]
    fresh = AuditEvent.objects.filter(at__gt=since, id__gt=Coalesce(Subquery(earlier), 0))
    trail = fresh.visible_to(sight).exclude(mine).order_by((F("id") + 0).desc())
    first, *others = (
        trail.filter(whose, action__in=actions)
        .annotate(group=Value(name), newer=_content("after"), older=_content("before"))
        .values_list(
            "group", "id", "at", "author_name", "author_kind", "action", "object_label", "agent__name", "newer", "older"
        )[:COUNTED]
        for name, (_, actions, whose) in GROUPS.items()
    )
    return first.union(*others, all=True)


NEWS = board_query(_news, "since", author=True)
