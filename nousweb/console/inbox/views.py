"""The inbox: the list of items, actions on several at once, saved filters, notifications, and what was decided about
facts without people."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from identity.models import Agent, ChangeProposal, Notification, Persona, SavedFilter
from identity.policy.inbox import DECIDE_RIGHTS, ITEM_PAGES, VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.inbox_items import notifications_read, person_of, reviewers
from identity.services.personal_settings import saved_filter_delete, saved_filter_save
from memory.models import FactChange, MemoryReview
from memory.policy.oversight import AttentionBudget, AutomaticDecision, Autonomy
from memory.selectors import visible_reviews
from memory.services.reviews.blind_samples import decision_errors
from memory.services.reviews.resolve import BULK_RESOLUTIONS
from memory.services.reviews.states import review_ask
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common import (
    FORM,
    MAX_SELECTED,
    POST,
    act,
    attempt_each,
    author_words,
    export_format,
    key_rows,
    list_export,
    number_of,
    page,
    page_of,
    request_page,
    tell_each,
    uuids_of,
)
from nousweb.console.inbox.decisions import (
    CHANGES,
    DECIDE_MANY,
    SNOOZE_CHOICES,
    batch_undo,
    decided_today,
    inbox_item,
    rival_choose,
    undo_offer,
)
from nousweb.console.inbox.filter import STATUSES, InboxFilter, InboxForm, InboxRow, inbox_tabs
from nousweb.console.inbox.item_titles import ItemTitle, review_title
from nousweb.console.inbox.items import INBOX, export_lines, inbox_rows, items_of, reviews_of
from nousweb.console.inbox.proposal_items import proposals_of
from nousweb.console.inbox.query import MAX_RIVALS, PROPOSAL, QUEUE_LIMIT, REVIEW, InboxEntry, InboxQuery
from nousweb.console.inbox.reviews import BULK_BUTTONS
from nousweb.lib.errors import DomainError, Invalid, NotFound
from nousweb.lib.keyset_page import cursor_decode, cursor_encode
from nousweb.lib.permission_holder import for_visible_agents

ROWS = 25
"""On a page: each is read with its whole change."""
CHOICES = "123456"
"""The shortcuts of rivals by their place, as in a review."""
BULK_DECISIONS = {
    "approve": ("Approve selected", "primary", "approve"),
    "keep": ("Keep selected", "primary", "approve"),
    "reject": ("Reject selected", "danger", "reject"),
}
"""The buttons of decisions about what is ticked: label, look and key."""
BESIDE = 30
"""Items in the list beside one of them."""


def _limited(entries: Iterable[InboxEntry], by: Principal) -> list[tuple[Agent, AttentionBudget]]:
    """The agents of these reviews, with the limits that hold them back."""
    reviews = visible_reviews(by).filter(pk__in=[entry.id for entry in entries])
    return [
        (agent, AttentionBudget.of_config(agent.config))
        for agent in Agent.objects.filter(pk__in=reviews.values("agent"))
    ]


@page()
def inbox(request: HttpRequest, by: Principal) -> HttpResponseBase:
    """The items of one part of the inbox; groups of near-identical items are one row where types are mixed. ?start=
    opens the first one."""
    part = InboxFilter.of(request.GET)
    part.require(by)
    search = part.search(by)
    if export_format(request):
        lines = key_rows(search.entries(), export_lines, QUEUE_LIMIT)
        return list_export(request, INBOX, lines, both=by.may(VIEW_SUBCONSCIOUS))
    after = request.GET.get("after", "")
    entries = search.groups(size=ROWS + 1, after=_entry_of(after) if after else None)
    tabs = inbox_tabs(by, part)
    # The tab that is shown has counted it already, unless it is filtered further.
    counted = next((tab["count"] for tab in tabs if tab["active"]), 0)
    left = search.count() if part.is_filtered or part.is_decided else counted
    may_review = not part.is_decided and any(by.may(DECIDE_RIGHTS[item_type]) for item_type in part.split.types)
    rows = inbox_rows(entries[:ROWS], part, by)
    if "start" in request.GET and rows:
        return redirect(rows[0].url)
    today = decided_today(by)
    possible = {answer for row in rows if row.may_decide for answer in row.answers}
    # A number is the key of an answer where it is on the page of each row that can have it.
    answers = [
        replace(BULK_BUTTONS[answer], place=places.pop() if len(places) == 1 else 0)
        for answer in BULK_RESOLUTIONS
        if (places := {row.answers[answer] for row in rows if row.may_decide and answer in row.answers})
    ]
    return render(
        request,
        "inbox/inbox.html",
        {
            "part": part,
            "query": part.query(),
            "form": InboxForm(part, by),
            "tabs": tabs,
            "rows": rows,
            "next": quote(_cursor_of(entries[ROWS - 1])) if len(entries) > ROWS else "",
            "page_size": ROWS,
            "after": after,
            "here": part.query(**{"after": after} if after else {}),
            "left": left,
            "waiting": _waiting(left, part, 0 if after or len(entries) > ROWS else len(rows), today),
            "limited": _limited(entries, by) if part.is_held_back else (),
            "held_back": next((tab["count"] for tab in tabs if tab["label"] == STATUSES["undecided"]), 0),
            "today": today,
            "may_review": may_review,
            "filters": SavedFilter.objects.filter(person_id=int(by.id)),
            "bulk": {
                "possible": possible,
                "decisions": [(one, *button) for one, button in BULK_DECISIONS.items() if one in possible],
                "answers": answers,
                "changing": " ".join(answer.value for answer in answers if answer.changes),
                "choices": SNOOZE_CHOICES.items(),
                "people": reviewers(by) if may_review else [],
            },
            "undo": undo_offer(request, by, part),
        },
    )


def _waiting(left: int, part: InboxFilter, rows: int, today: int) -> str:
    """How much waits in a part of the inbox, and in how many rows where these are fewer, before what was decided."""
    grouped = f" in {rows} rows" if 0 < rows < left else ""
    return f"{left:,} {part.split.noun}{grouped}{',' if today else ''}" if left else ""


@page()
def inbox_list(request: HttpRequest, by: Principal, pk: UUID) -> HttpResponse:
    """The items around one, as its page shows them beside it, and the other parts of the inbox that have any."""
    part = InboxFilter.of(request.GET)
    part.require(by)
    search = part.search(by)
    rows = inbox_rows(search.around(pk, before=BESIDE // 2, after=BESIDE), part, by)
    tabs = inbox_tabs(by, None if part.is_filtered else part)
    parts = [tab for tab in tabs if tab["count"] and (tab["active"] or not tab.get("is_apart"))]
    if part.is_filtered or not any(tab["active"] for tab in parts):
        label = f"{part.label}, filtered" if part.is_filtered else part.label
        parts.insert(0, {"label": label, "url": part.url(), "active": True, "count": search.count()})
    for tab in parts:
        tab["url"] += f"{'&' if '?' in tab['url'] else '?'}start=1"
    shown = next((row.entry.type for row in rows if row.entry.id == pk), "")
    if shown and part.status == "pending" and not (part.is_filtered or part.split.scope or part.view == "applied"):
        # The item is in all of them too, which come first: there, one stays at it.
        parts[0]["url"] = InboxFilter().item_url(shown, pk)
    return render(
        request,
        "inbox/_beside.html",
        {
            "parts": parts,
            "rows": rows,
            "shown": pk,
            "is_apart": part.is_held_back or part.view in ("applied", "snoozed"),
        },
    )


@page(methods=FORM)
def inbox_compare(request: HttpRequest, by: Principal, item_type: str, pk: UUID) -> HttpResponse:
    """An item beside its rivals, and the choice of one of them."""
    if item_type not in VIEW_RIGHTS:
        raise NotFound("There is no such item.")
    by.require((DECIDE_RIGHTS if request.method == "POST" else VIEW_RIGHTS)[item_type])
    part = InboxFilter.of(request.GET)
    entries = InboxQuery(by, (item_type,), statuses=("pending",)).rivals(pk)
    if not 1 < len(entries) <= MAX_RIVALS:
        return redirect(part.item_url(item_type, pk))
    if request.method == "POST":
        named, _, keeps = request.POST.get("choose", "").partition(":")
        batch, chosen = uuid4(), next(iter(uuids_of([named])), None)
        items = [item for _, item in items_of(entries)]
        if chosen not in [entry.id for entry in entries] and (named != "none" or keeps):
            raise Invalid(f"Choose one of them{'' if keeps else ', or none'}.", field="choose")
        try:
            kept = rival_choose(chosen, items, request, by, batch, keeps=bool(keeps))
        except DomainError as error:
            if error.status == 403:
                raise
            messages.error(request, error.detail)
            return redirect(part.address(reverse("inbox_compare", args=[item_type, pk])))
        return redirect(part.after(kept, batch=str(batch)))
    known = next((item.old for _, item in items_of(entries[:1]) if isinstance(item, MemoryReview)), None)
    rows = inbox_rows(entries, part, by)
    for row, key in zip(rows, CHOICES[1 if known else 0 :], strict=False):
        row.key = key
    for one, row in permutations([row for row in rows if row.proposal], 2):
        if one.proposal.clashes(row.proposal):
            lines = " and ".join(map(str, sorted(row.proposal.lines_changed & one.proposal.lines_changed)))
            row.collides = [*row.collides, f"change {one.key}{f' (line {lines})' if lines else ''}"]
    return render(
        request,
        "inbox/compare.html",
        {
            "part": part,
            "query": part.query(),
            "rows": rows,
            "known": known,
            "title": f"{len(rows)} changes to {rows[0].proposal.title}"
            if rows[0].proposal
            else f"{len(rows)} facts that contradict a known one",
            "item": {"type": item_type, "id": pk},
            "may_review": by.may(DECIDE_RIGHTS[item_type]),
            "may_edit": not settings.FOUR_EYES,
        },
    )


@require_safe
def old_page(request: HttpRequest, view: str) -> HttpResponse:
    """Lead from the address that a part of the inbox had before to that part, with its filter."""
    query = request.GET.copy()
    query["view"] = "applied" if query.get("status") == "applied" else view
    if section := query.pop("section", None):
        query["kind"] = section[-1]
    return redirect(f"{reverse('inbox')}?{query.urlencode()}")


@page(methods=POST)
def inbox_bulk(request: HttpRequest, by: Principal) -> HttpResponse:
    """Decide, snooze or assign several items; each that refuses is named and stops none of the others."""
    part = InboxFilter.of(request.GET)
    change = request.POST.get("change", "")
    if change:
        return _people_change(request, change, part, by)
    decided = REVIEW if "answer" in request.POST else PROPOSAL
    by.require(DECIDE_RIGHTS[decided])
    pressed = next((request.POST[name] for name in ("approve", "reject", "keep") if name in request.POST), "")
    values = [pressed] if pressed else request.POST.getlist("selected")
    keys = [key for item_type, key in _selected(values, decided) if item_type == decided]
    batch = uuid4()
    done, refused = DECIDE_MANY[decided](request, keys, by, batch)
    tell_each(request, [], refused, "" if done else "Nothing was selected.")
    if part.alike and not part.search(by).count():
        # The group is decided: what it was a part of goes on.
        part = replace(part, view="all", alike="")
    return redirect(part.url(batch=str(batch)) if done else part.url())


def _people_change(request: HttpRequest, change: str, part: InboxFilter, by: Principal) -> HttpResponse:
    """Snooze or assign the selected items."""
    if not any(by.may(right) for right in DECIDE_RIGHTS.values()):
        by.require(DECIDE_RIGHTS[PROPOSAL])
    if change not in ("assign", "snooze"):
        raise NotFound("Unknown action.")
    done, refused = attempt_each(
        _selected(request.POST.getlist("take") or request.POST.getlist("selected"), part.split.types[0]),
        lambda item: CHANGES[change](request, inbox_item(item[0], item[1], by), by),
        lambda item: ":".join(map(str, item)),
    )
    word = "Snoozed" if change == "snooze" else "Assigned"
    tell_each(request, [f"{word} {len(done)} item{'' if len(done) == 1 else 's'}."] if done else [], refused)
    return redirect(part.url())


def _selected(values: Iterable[str], usual: str) -> Iterable[tuple[str, UUID]]:
    """The types and keys of the selected items, each once; a key alone is of the `usual` type."""
    chosen: dict[tuple[str, UUID], None] = {}
    for value in list(values)[:MAX_SELECTED]:
        item_type, _, key = value.rpartition(":")
        chosen |= dict.fromkeys((item_type or usual, pk) for pk in uuids_of([key]))
    return chosen


@page(methods=POST)
def inbox_undo(request: HttpRequest, by: Principal, batch: UUID) -> HttpResponse:
    """Undo the decisions of one bulk action."""
    if not any(by.may(right) for right in DECIDE_RIGHTS.values()):
        by.require(DECIDE_RIGHTS[PROPOSAL])
    said, refused = batch_undo(batch, by)
    tell_each(request, said, refused, "These decisions have already been undone.", undoing=True)
    return redirect(InboxFilter.of(request.GET).url(undone="1"))


def _cursor_of(entry: InboxEntry) -> str:
    return cursor_encode(entry.created_at, f"{entry.priority}:{entry.id}")


def _entry_of(cursor: str) -> InboxEntry:
    """The entry that a cursor of ours names, as far as the order needs it. Raises Invalid."""
    moment, written = cursor_decode(cursor)
    priority, _, key = written.partition(":")
    try:
        return InboxEntry(UUID(key), "", int(priority), 0, "", moment)
    except ValueError as error:
        raise Invalid("Invalid cursor: it does not come from a page of the inbox.", field="cursor") from error


KIND_BADGES = {"high_risk": "block", "erred": "warn", "mention": "accent", "assignment": "accent", "opinion": "accent"}


@page()
def notifications(request: HttpRequest, by: Principal) -> HttpResponse:
    """One's own notifications, the latest first."""
    mine = Notification.objects.filter(person=person_of(by)).visible_to(by).select_related("agent")
    page = request_page(request, mine, "at")
    keys = {kind: [row.item_id for row in page.rows if row.item_type == kind] for kind in (PROPOSAL, REVIEW)}
    proposals = ChangeProposal.objects.visible_to(by).filter(pk__in=keys[PROPOSAL]).values_list("pk", flat=True)
    visible = set(visible_reviews(by).filter(pk__in=keys[REVIEW]).values_list("pk", flat=True))
    titles = {item.proposal.pk: item.sentence for item in proposals_of(list(proposals))}
    titles |= {review.pk: str(review_title(review)) for review in reviews_of(list(visible))}
    rows = [
        {
            "notification": row,
            "title": titles.get(row.item_id, "This item no longer exists"),
            "url": reverse(ITEM_PAGES[row.item_type], args=[row.item_id]) if row.item_id in titles else "",
            "badge": KIND_BADGES.get(row.kind, "neutral"),
        }
        for row in page.rows
    ]
    unread = mine.unread().count()
    return render(request, "inbox/notifications.html", {"rows": rows, "page": page, "unread": unread})


@page(methods=POST)
def notifications_mark(request: HttpRequest, by: Principal) -> HttpResponse:
    """Mark notifications as read: the one whose button was pressed, or all."""
    notifications_read(by=by, keys=uuids_of(request.POST.getlist("key")) or None)
    return redirect("notifications")


@page(methods=POST)
def inbox_filter_save(request: HttpRequest, by: Principal) -> HttpResponse:
    """Keep the part of the inbox that the address names, under a name."""
    part = InboxFilter.of(request.GET)

    def save() -> str:
        saved = saved_filter_save(name=request.POST.get("name", ""), query=part.query(), by=by)
        return f"The filter {saved.name} was saved."

    return act(request, save, part.url(), refusals=(DomainError,))


@page(methods=POST)
def inbox_filter_delete(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """Remove a filter of one's own."""
    return act(request, lambda: saved_filter_delete(key=pk, by=by), "inbox", "The filter was removed.")


CHANGE = "factchange"
SUPERSEDED, CONFIRMED = "superseded", "confirmed"
DECISIONS = {
    SUPERSEDED: "Replaced by a newer fact",
    CONFIRMED: "Confirmed in other words",
}
ASKED_AGAIN: Mapping[str, str] = {
    AutomaticDecision.SUPERSEDED: "newer facts",
    AutomaticDecision.CONFIRMED: "facts in other words",
    AutomaticDecision.UNDECIDED: "facts over the attention budget",
}

Key = tuple[str, int]
"""A decision and the key of its change of a fact."""


class DecisionForm(forms.Form):
    """The filter of the page, in its address."""

    agent = forms.ChoiceField(required=False)
    decision = forms.ChoiceField(choices=[("", "Any decision"), *DECISIONS.items()], required=False)

    def __init__(self, query: QueryDict, agents: Sequence[Agent]) -> None:
        super().__init__(query)
        choices = [("", "Any agent"), *((agent.slug, agent.name) for agent in agents)]
        self.fields["agent"].choices = choices  # type: ignore[attr-defined]


def decision_keys(by: Principal, agent: str, decision: str) -> list[Key]:
    """The decisions about facts of an agent, or all, that were such, or any, the latest first."""
    about = {"agent__in": Agent.objects.filter(slug=agent)} if agent else {}
    changes = [
        (at, action, key)
        for action in DECISIONS
        if decision in ("", action) and by.may("memory.view_factchange")
        for at, key in automatic_changes(by, action).filter(**about).values_list("at", "pk")[:QUEUE_LIMIT]
    ]
    return [(action, key) for _, action, key in sorted(changes, reverse=True)][:QUEUE_LIMIT]


def automatic_changes(by: Principal, action: str) -> QuerySet[FactChange]:
    """The changes of this kind that no person made and that still stand, as far as `by` may see them."""
    rows = for_visible_agents(FactChange.objects.all(), by).exclude(author_kind="person")
    if not by.may(VIEW_SUBCONSCIOUS):
        rows = rows.filter(fact__persona=Persona.ACTOR)
    if action == SUPERSEDED:
        rows = rows.filter(action=action, fact__active=False, fact__superseded_by=F("other"))
    else:
        rows = rows.filter(action=CONFIRMED, score__isnull=False)
    return rows.order_by("-at", "-pk")


def decision_rows(keys: Sequence[Key], by: Principal) -> list[InboxRow]:
    """The rows of these decisions, in their order. One query, whatever their number."""
    numbers = [key for _, key in keys]
    related = ("agent", "fact__agent", "other__agent")
    changes = FactChange.objects.filter(pk__in=numbers).select_related(*related).in_bulk() if numbers else {}
    return [_of_change(decision, changes[key], by) for decision, key in keys if key in changes]


def _of_change(decision: str, change: FactChange, by: Principal) -> InboxRow:
    """The row of a decision: its title is the newest fact, and the other one is listed."""
    fact, other = change.fact, change.other
    newest = other if decision == SUPERSEDED and other else fact
    suffix = "?persona=subconscious" if fact.persona == Persona.SUBCONSCIOUS else ""
    key: Any = change.pk
    return InboxRow(
        entry=InboxEntry(key, CHANGE, 0, 0, "", change.at),
        title=ItemTitle.plain(newest.content),
        agent=change.agent.name,
        url=newest.get_absolute_url() + suffix,
        facts=[fact] if fact.content != newest.content else [],
        meta=[
            *([f"about {fact.subject}"] if fact.subject else ()),
            f"by {author_words(change)}",
            *filter(None, [change.reason[:120]]),
        ],
        times=[("", change.at)],
        outcome=DECISIONS[decision],
        is_open=False,
        may_decide=decision != CONFIRMED and by.may(DECIDE_RIGHTS[REVIEW]),
    )


@page(VIEW_RIGHTS[REVIEW])
def automatic_decisions(request: HttpRequest, by: Principal) -> HttpResponse:
    """The decisions about facts that no person made."""
    reviews, agents = visible_reviews(by), list(Agent.objects.visible_to(by).order_by("slug")[:200])
    form = DecisionForm(request.GET, agents)
    form.full_clean()
    # An agent that is not there has no decisions.
    about, decision = request.GET.get("agent", "").replace("\x00", "")[:50], form.cleaned_data.get("decision", "")
    page = page_of(request, decision_keys(by, about, decision))
    return render(
        request,
        "inbox/automatic_decisions.html",
        {
            "tabs": inbox_tabs(by, None),
            "query": urlencode({**({"agent": about} if about else {}), **({"decision": decision} if decision else {})}),
            "page": page,
            "rows": decision_rows(list(page), by),
            "form": form,
            "may_review": by.may(DECIDE_RIGHTS[REVIEW]),
            "errors": decision_errors(reviews.filter(agent__slug=about) if about else reviews),
            "asked_again": [
                (agent, ASKED_AGAIN[decision])
                for agent in agents
                if about in ("", agent.slug)
                for decision in Autonomy.of_config(agent.config).asking
            ],
        },
    )


@page(DECIDE_RIGHTS[REVIEW], methods=POST)
def automatic_decisions_undo(request: HttpRequest, by: Principal) -> HttpResponse:
    """Ask about the selected reviews that are held back, and restore the selected replaced facts; each that refuses is
    named and stops none of the others."""
    reviews, changes = _decisions_selected(by, request.POST.getlist("selected")[:MAX_SELECTED])
    asked, unasked = attempt_each(reviews, lambda review: review_ask(review=review, by=by))
    restored, kept = attempt_each(
        changes, lambda change: supersession_undo(fact=change.fact, by=by), lambda change: f"“{change.fact}”"
    )
    said = [f"{len(asked)} review{' is' if len(asked) == 1 else 's are'} pending now."] if asked else []
    if restored:
        said.append(f"{len(restored)} older fact{' was' if len(restored) == 1 else 's were'} restored.")
    tell_each(request, said, unasked + kept, undoing=True)
    if reviews and not changes:
        return redirect(InboxFilter(view="reviews").url())
    return redirect(f"{reverse('automatic_decisions')}?{request.GET.urlencode()}".rstrip("?"))


def _decisions_selected(by: Principal, values: Sequence[str]) -> tuple[list[MemoryReview], list[FactChange]]:
    """The reviews and supersessions that the values of the form name, as far as `by` may see them."""
    named = [value.partition(":") for value in values]
    numbers = [number for what, _, key in named if what == CHANGE and (number := number_of(key, 18))]
    keys = uuids_of([key for what, _, key in named if what == REVIEW])
    reviews = visible_reviews(by).filter(pk__in=keys).select_related("agent", "new")
    changes = automatic_changes(by, SUPERSEDED).filter(pk__in=numbers).select_related("fact__agent")
    return list(reviews), list(changes) if numbers else []
