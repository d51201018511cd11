"""The audit trail: who did what to what, before and after; and its integrity: whether the log matches its seals, the
unsealed rows, and the seals themselves."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast, Coalesce, Length
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, render
from django.utils.text import Truncator
from django.utils.timezone import localtime

from context.expectations.services import personas_of
from context.models import VIEW_RUN, ContextRun
from identity.models import AuditEvent, LogHole, LogSeal, LogVerification
from identity.policy.changes import ERASURES, KIND_OF_ACTION, audit_phrase
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sealed_tables import SEALED_TABLES, VIEW
from identity.principal import Principal
from identity.selectors.filters import AUDIT_AREAS, AuditFilter
from identity.services.seals.export import (
    findings_seen,
    log_problem,
    seal_export,
    sealed_until,
    sees_all,
    unsealed_rows_count,
)
from identity.services.seals.sealer import HASHED
from identity.services.seals.verification import verification_request
from memory.models import Censor, Event
from nousweb.console.common import (
    PAGE_SIZE,
    POST,
    ExportRows,
    ListExport,
    ListPage,
    act,
    author_words,
    export_format,
    keyset_rows,
    list_export,
    number_of,
    object_url,
    page,
    query_without,
)
from nousweb.console.inbox.item_titles import changed_words
from nousweb.console.templatetags.console import day, when
from nousweb.console.templatetags.differences import item_title
from nousweb.lib import clock
from nousweb.lib.keyset_page import KeysetPage, keyset_page
from nousweb.lib.permission_holder import for_visible_agents
from nousweb.lib.textdiff import diff_texts

LIST = ListPage(
    title="Audit trail", noun="record", empty="Every change by people and agents is recorded here permanently."
)
AUDIT = ListExport(
    "Audit trail",
    (
        "id",
        "at",
        "author_kind",
        "author_name",
        "action",
        "object_type",
        "object_id",
        "object_label",
        "message",
        ("agent", lambda event: event.agent_slug),
        "persona",
        "channel",
        "request_id",
    ),
)
"""Without the states before and after, which the list does not show either."""
SYSTEM = "system"
CAUSES = {"memory_review.resolve": -1, "memory_review.ask": 1, "subject.create": 1}
"""Order of the records of one request, where the first one written is not the cause of the others."""
CHANGING = frozenset({"changed", "closed", "confirmed", "created", "edited", "extended", "opened", "updated"})
"""Kinds of changes (the words after their dot) that "changed" says of an object."""
PREPOSITIONS = frozenset({"for", "from", "in", "into", "of", "on", "to"})
EDIT_CHARACTERS, VALUE_CHARACTERS, TEXT_CHARACTERS = 600, 60, 4_000
"""Characters of the states of an edit, of its values, and of the states of an edited text, up to which the list tells
them."""
OUTCOME, TOUR = "context.outcome", "demo_tour.begin"
KINDS = {"changeproposal": "the change of", "identityversion": "the section"}
"""What an object is, by its type, where the phrases of actions do not say it."""
TRIGGERED, VIEW_CENSOR = "censor.trigger", "memory.view_censor"
VERDICTS = {"block": "blocked", "warn": "warned"}
SEEKS = ("about", "kind", "action", "channel", "author", "q", "object", "request")
"""What an address asks for that outcomes, begun tours and the system's own records may be: left out otherwise."""
DAY = timedelta(days=1)
INPUT_CHARACTERS = 120
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+(?:Z|[+-]\d\d:\d\d)$")


@page(VIEW)
def audit(request: HttpRequest, by: Principal) -> HttpResponseBase:
    """The trail, newest first, a page at a time from any row on."""
    found = AuditFilter(request.GET, queryset=AuditEvent.objects.visible_to(by).defer("before", "after"), by=by)
    actions = found.form.fields["action"]
    actions.choices = [(name, _choice(name) if name else label) for name, label in actions.choices]
    if export_format(request) and found.form.is_valid():
        return list_export(request, AUDIT, keyset_rows(found.qs, "at"), both=by.may(VIEW_SUBCONSCIOUS))
    is_sought = any(request.GET.get(name) for name in SEEKS)
    events = (
        found.results if is_sought else found.results.exclude(author_kind=SYSTEM).exclude(action__in=(OUTCOME, TOUR))
    )
    page = _page(events, request)
    _label(page.rows, by)
    _tell_edits(page.rows, by)
    context = LIST.context(request, page, found.form, found.is_filtered)
    context |= {
        "rows": _joined(page.rows, by_request="request" not in request.GET),
        "chosen": _chosen(request, page.rows),
        "sealed": f"Sealed against tampering up to {when(until)}" if (until := sealed_until()) else "",
        "narrows": True,
        "layouts": _areas(request.GET, request.GET.get("about") or ("all" if is_sought else "")),
    }
    return render(request, "identity/audit.html", context)


def _choice(action: str) -> str:
    """An action as a choice: "Reported the outcome", "Approved (proposal)"."""
    words = audit_phrase(action).rstrip(":").split()
    while len(words) > 1 and words[-1] in PREPOSITIONS:
        words.pop()
    told = " ".join(words).capitalize()
    return told if len(words) > 1 else f"{told} ({action.partition('.')[0].replace('_', ' ')})"


def _label(rows: Sequence[Any], by: Principal) -> None:
    """Give each record its `phrase` and its `label`: that of its object, without the author again; of a run its input,
    and of an event its content, if `by` may read it. At most two queries."""
    texts: dict[str, str] = {}
    events = Event.objects.exclude(long_term__quarantined=True)
    sources: tuple[tuple[QuerySet[Any], str, str], ...] = (
        (ContextRun.objects.all(), "input", VIEW_RUN),
        (events, "content", "memory.view_event"),
    )
    for source, column, permission in sources:
        keys = [row.object_id for row in rows if row.object_type == source.model._meta.model_name]
        if keys and by.may(permission):
            found = for_visible_agents(source.filter(pk__in=keys, persona__in=personas_of(by)), by)
            texts |= {str(pk): text for pk, text in found.values_list("pk", column) if text.strip()}
    for row in rows:
        row.phrase = f"{audit_phrase(row.action)} {KINDS.get(row.object_type, '')}".strip()
        name = row.object_label.partition(", proposed by ")[0].removeprefix("Invitation ")
        row.label = re.sub(r"^[Ll]oop ", "session ", name)
        if row.object_id in texts:
            row.label = Truncator(" ".join(texts[row.object_id].split())).chars(INPUT_CHARACTERS)
            row.phrase = row.phrase.replace("recorded events of", "recorded the event")


def _joined(rows: Sequence[Any], *, by_request: bool) -> list[Any]:
    """The records, of which one of several alike on one day, one after another, stands for all, with the others as
    `more`. Alike are those of one author that did the same, that are about the same object, or, `by_request`, that one
    request made: of these the cause stands for its effects. Successes of one author are one, whatever was done between
    them; each erasure is its own, since its record is its receipt.

    Each has the name of its `day`; `every` record that it stands for; and `who` did it and what, as a `verb` and the
    number of `times`.
    """
    joined: list[Any] = []
    successes: dict[tuple[str, ...], Any] = {}
    today = clock.now().date()
    for row in rows:
        date = row.at.date()
        names = {today: "Today", today - DAY: "Yesterday"}
        row.day = names.get(date, f"{date:%A} {date.day} {date:%B}{f' {date:%Y}' * (date.year != today.year)}")
        row.whose = row.day, row.agent_slug, row.author_kind, row.author_name
        alike = _likeness(row, by_request)
        row.is_quiet = row.action == OUTCOME and not row.failed
        if row.is_quiet and (first := successes.get(row.whose)):
            first.more.append(row)
        elif joined and row.action not in ERASURES and (shared := joined[-1].alike & alike):
            joined[-1].alike = shared
            joined[-1].more.append(row)
        else:
            row.alike, row.more = alike, []
            joined.append(row)
            if row.is_quiet:
                successes[row.whose] = row
    for place, first in enumerate(joined):
        every = [first, *first.more]
        of_request = {kind for kind, *_ in first.alike} == {"request"}
        row = min(every, key=lambda each: (CAUSES.get(each.action, 0), each.pk)) if of_request else first
        row.more = [each for each in every if each is not row]
        joined[place], row.every, row.who, row.verb, row.times = row, every, author_words(row), row.phrase, ""
        if of_request:
            told = [f"{each.phrase} {each.label}" if len(row.more) == 1 else each.phrase for each in row.more]
            row.edit = row.edit or f"and {', '.join(dict.fromkeys(told))}"
        elif row.more and len({each.object_id for each in every}) == 1:
            row.verb = _one_verb({each.phrase: each.action for each in every})
            row.times = "twice" if len(every) == 2 else f"{len(every)} times"
    return joined


def _likeness(row: Any, by_request: bool) -> set[tuple[str, ...]]:
    """What a record must have one of in common with another to be shown as one with it."""
    alike: set[tuple[str, ...]] = {("did", *row.whose, row.action, str(row.failed))}
    if row.object_id:
        alike.add(("about", *row.whose, row.object_type, row.object_id))
    if row.request_id and by_request:
        # The id is the caller's own: two callers may name the same one.
        alike.add(("request", *row.whose, row.channel, row.request_id))
    return alike


def _one_verb(told: Mapping[str, str]) -> str:
    """Phrases about one object, with their actions, as one: the only one, else "changed the subject", or "used the
    procedure", with the words that all of them end with; of outcomes the last."""
    actions = set(told.values())
    phrases = [phrase.split() for phrase in told][: 1 if actions == {OUTCOME} else None]
    if len(phrases) == 1:
        return " ".join(phrases[0])
    shared = 0
    while len({tuple(each[-shared - 1 :]) for each in phrases}) == 1:
        shared += 1
    kinds = {KIND_OF_ACTION.get(action, "").rpartition(".")[2] for action in actions}
    verb = "changed" if kinds <= CHANGING else "used" if "used" in kinds else "worked with"
    return " ".join([verb, *phrases[0][len(phrases[0]) - shared :]])


def _tell_edits(rows: Sequence[Any], by: Principal) -> None:
    """Give each record of a small edit its `edit`, the old and the new values in words, of an edited text its `change`,
    the words that differ, and of a check the censors that it triggered. One query, and one of censors."""
    size = Coalesce(Length(Cast("before", TextField())), 0) + Length(Cast("after", TextField()))
    shown = AuditEvent.objects.filter(pk__in=[row.pk for row in rows if row.shows_states(by)]).alias(size=size)
    is_told = Q(size__lt=EDIT_CHARACTERS) | Q(after__has_key="content", size__lt=TEXT_CHARACTERS)
    edits = shown.filter(is_told).values_list("pk", "before", "after")
    states = {pk: (before, after) for pk, before, after in edits}
    checks: dict[int, dict[str, Any]] = {
        row.pk: states[row.pk][1] or {} for row in rows if row.action == TRIGGERED and row.pk in states
    }
    for row in rows:
        before, after = states.get(row.pk, (None, None))
        row.title, row.change = _changed_words(row, before, after)
        row.edit = "" if row.title or row.change else _edit(before, after, row.phrase.split(), row.label)
        row.failed = row.action == OUTCOME and row.edit.endswith(ContextRun.Outcome.FAILURE)
        if row.action == OUTCOME and row.edit:
            was, _, now = row.edit.rpartition(" → ")
            row.phrase, row.edit = f"reported {now} with the prompt", f"before: {was}" if was else ""
    if checks and by.may(VIEW_CENSOR):
        ids = {pk for after in checks.values() for pk in after.get("censors", [])}
        found = for_visible_agents(Censor.objects.filter(pk__in=ids, persona__in=personas_of(by)), by)
        names = {str(censor.pk): Truncator(str(censor)).chars(VALUE_CHARACTERS) for censor in found}
        for row in rows:
            check = checks.get(row.pk, {})
            if shown := [names[pk] for pk in check.get("censors", []) if pk in names]:
                row.phrase, row.label = f"triggered the censor{'s' * (len(shown) > 1)}", ", ".join(shown)
                row.edit = VERDICTS.get(check["verdict"], check["verdict"])
                row.failed = check["verdict"] == "block"


def _changed_words(row: Any, before: Any, after: Any) -> tuple[str, str]:
    """The first words that an edited text lost and got, marked: of a fact as the `title` of its record, of others as a
    line below it; the first line of a new section of the identity."""
    old, new = (state.get("content") if isinstance(state, dict) else None for state in (before, after))
    is_told = old or row.object_type in KINDS
    title = changed_words(old or "", new) if is_told and isinstance(new, str) else None
    if title and row.object_type == "fact":
        # Of one in other words the old ones are the title, and the new ones follow.
        return item_title(title) if len(title.spans) > 1 else "", ""
    return "", item_title(title)


def _edit(before: Any, after: Any, told: Sequence[str] = (), label: str = "") -> str:
    """The values that an edit replaced, without what the words `told` and the `label` say already: "kind: other →
    system"; of a change without old values its own words."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after.get("change", "") if isinstance(after, dict) and told[:2] != ["added", "the"] else ""
    changed = [(name, _short(old), _short(after[name])) for name, old in before.items() if name in after]
    changed = [each for each in changed if each[1] != each[2] and each[0] != "active" and each[2] not in told]
    if any(len(text) > VALUE_CHARACTERS or "\n" in text for each in changed for text in each):
        return ""
    if follows := next((new for _, old, new in changed if old == label), ""):
        return f"→ {follows}"
    names = {name: "" if name in told else f"{name.replace('_', ' ')}: " for name, _, _ in changed}
    return ", ".join(f"{names[name]}{f'{old} → ' if old else ''}{new or 'none'}" for name, old, new in changed)


def _short(value: Any) -> str:
    """A value in words, a moment as its day and time."""
    text = _text(value)
    if not MOMENT.match(text):
        return text
    at = localtime(datetime.fromisoformat(text))
    return f"{day(at)} {at:%H:%M}"


def _areas(query: QueryDict, shown: str) -> list[dict[str, Any]]:
    """What the records may be about, as views of the page: all changes first, without reported outcomes and what the
    system did itself."""
    areas = {"": "Changes", **{key: label for key, (label, _) in AUDIT_AREAS.items()}}
    rest = {name: value for name, value in query.items() if name not in ("about", "before", "after")}
    return [
        {"label": label, "url": f"?{urlencode({**rest, 'about': key})}", "active": key == shown}
        for key, label in areas.items()
    ]


@page(VIEW)
def audit_event(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """One record with its states before and after: a page, or the part of one that a row unfolds."""
    event = get_object_or_404(AuditEvent.objects.visible_to(by), pk=pk)
    states = _states(event) if event.shows_states(by) else {"withheld": True}
    _label([event], by)
    shown = {
        "event": event,
        "url": object_url(event.object_type, event.object_id, by),
        "records": f"?{urlencode({'object': f'{event.object_type}:{event.object_id}'})}",
        "source": event.author_name if author_words(event) != event.author_name else "",
        **states,
    }
    template = "identity/_audit_states.html" if request.htmx else "identity/audit_event.html"  # type: ignore[attr-defined]
    return render(request, template, shown)


def _chosen(request: HttpRequest, rows: Sequence[AuditEvent]) -> list[dict[str, str]]:
    """The object and the request whose records alone are shown, in words, with the address that shows those of others
    too."""
    words = {"object": f"about {rows[0].object_label}" if rows else "", "request": "in one request"}
    return [
        {"text": text or f"about {request.GET[name]}", "url": f"?{query_without(request, name)}"}
        for name, text in words.items()
        if request.GET.get(name)
    ]


def _page(events: QuerySet[AuditEvent], request: HttpRequest) -> KeysetPage[AuditEvent]:
    """The records before or after the id that the address names: an id is found fast with each of the filters."""
    before, after = (number_of(request.GET.get(name), 18) for name in ("before", "after"))
    if before is not None:
        rows = list(events.filter(pk__gt=before).order_by("pk")[: PAGE_SIZE + 1])
        later, rows = len(rows) > PAGE_SIZE, rows[:PAGE_SIZE][::-1]
        earlier = bool(rows)
    else:
        rows = list((events if after is None else events.filter(pk__lt=after))[: PAGE_SIZE + 1])
        earlier, later, rows = len(rows) > PAGE_SIZE, after is not None and bool(rows), rows[:PAGE_SIZE]
    return KeysetPage(rows, str(rows[0].pk) if later else "", str(rows[-1].pk) if earlier else "")


def _states(event: AuditEvent) -> dict[str, Any]:
    """The values of a state: short ones beside each other, long ones as a difference."""
    before = event.before if isinstance(event.before, dict) else {"value": event.before}
    after = event.after if isinstance(event.after, dict) else {"value": event.after}
    if "base_version" in after:
        # A proposal is of the version that it would replace: nothing changes yet.
        before, after = ({**state, "version": None, "base_version": None} for state in (before, after))
    states: dict[str, list[dict[str, Any]]] = {"short": [], "long": []}
    for name in dict.fromkeys([*before, *after]):
        old, new = _short(before.get(name)), _short(after.get(name))
        if old == new == "":
            continue
        long = name == "content" or "\n" in old + new or len(old) + len(new) > 200
        change = {
            "name": name.replace("_", " ").capitalize(),
            "before": old,
            "after": new,
            "diff": diff_texts(old, new) if long else None,
        }
        states["long" if long else "short"].append(change)
    return states


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)


NAMES = (*HASHED, "hash")
SEALS = ListExport("Seals", tuple((name, partial(lambda name, row: seal_export(row)[name], name)) for name in NAMES))
BATCH = 500
MAX_HOLES = 20
STATUS_BADGES = {"waiting": "neutral", "running": "accent", "done": "ok", "failed": "block"}


@page(VIEW, fresh=True)
def integrity(request: HttpRequest, by: Principal) -> HttpResponseBase:
    """The findings of the last verification, unsealed rows, tombstones with their receipts, and the seals, latest
    first."""
    seals = LogSeal.objects.visible_to(by)
    if export_format(request):
        rows = ExportRows(seals.count(), False, _batches(seals))
        return list_export(request, SEALS, rows, both=by.may(VIEW_SUBCONSCIOUS))
    found = seals.annotate(hole_count=Count("holes"))
    page = keyset_page(
        found,
        moment="sealed_at",
        size=PAGE_SIZE,
        key="serial",
        after=request.GET.get("after", ""),
        before=request.GET.get("before", ""),
    )
    holes = LogHole.objects.filter(seal__in=seals).select_related("seal")
    context = {
        "page": page,
        "rows": [(seal, label_of(seal.kind)) for seal in page.rows],
        "query": query_without(request),
        "unsealed": unsealed_rows_count(by),
        "until": sealed_until(),
        "hole_count": holes.count(),
        "holes": [(hole, label_of(hole.seal.kind)) for hole in holes[:MAX_HOLES]],
        "problem": log_problem() if sees_all(by) else "",
        "state": _state(by),
    }
    return render(request, "identity/integrity.html", context)


@page(VIEW, fresh=True)
def integrity_state(request: HttpRequest, by: Principal) -> HttpResponse:
    """The part of the page that changes while the worker checks."""
    return render(request, "identity/_integrity_state.html", {"state": _state(by)})


@page(methods=POST)
def integrity_verify(request: HttpRequest, by: Principal) -> HttpResponse:
    """Ask for a verification, which the worker makes."""
    done = "The verification starts in the background within a minute."
    return act(request, lambda: verification_request(by=by), "integrity", done)


def label_of(kind: str) -> str:
    """The label of a kind of sealed rows."""
    table = SEALED_TABLES.get(kind)
    return table.label if table else kind


def _state(by: Principal) -> dict[str, Any]:
    last = LogVerification.objects.first()
    if last is None:
        return {"verification": None, "may_verify": by.agents is None}
    findings = findings_seen(last, by)
    is_working = last.status in (LogVerification.Status.WAITING, LogVerification.Status.RUNNING)
    problems = last.problems if sees_all(by) else len(findings)
    return {
        "verification": last,
        "badge": "block" if problems else STATUS_BADGES[last.status],
        "findings": findings,
        "problems": problems,
        "is_working": is_working,
        "percent": min(100, round(100 * last.serial / last.last_serial)) if last.last_serial else 0,
        "shows_counts": sees_all(by),
        "may_verify": by.agents is None and not is_working,
    }


def _batches(seals: QuerySet[LogSeal]) -> Iterator[Sequence[LogSeal]]:
    """The seals, the first one first, as a file that is kept outside has them."""
    last = 0
    while found := list(seals.filter(serial__gt=last).order_by("serial")[:BATCH]):
        yield found
        last = found[-1].serial
