"""People around an item of the inbox: its side panel, and the actions besides its decision."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from identity.models import ChangeProposal, ItemAssignment, ItemComment, ItemSnooze, SecondOpinion
from identity.policy.inbox import DECIDE_RIGHTS
from identity.principal import Principal
from identity.services.inbox_items import (
    MENTION,
    InboxItem,
    item_assign,
    item_comment_add,
    item_skip,
    item_snooze,
    item_unsnooze,
    notifications_read,
    opinion_give,
    opinion_request,
)
from memory.models import MemoryReview
from memory.selectors import visible_reviews
from nousweb.console.common import POST, page, principal_of
from nousweb.console.inbox.decisions import item_undo
from nousweb.console.inbox.filter import InboxFilter
from nousweb.console.inbox.query import PROPOSAL
from nousweb.lib import clock
from nousweb.lib.errors import DomainError, Invalid, NotFound, existing

MORNING = time(8)
"""The time of day when items come back that were snoozed until a day, in the time zone of the console."""
SNOOZE_CHOICES = {
    "tomorrow": "Until tomorrow",
    "monday": "Until Monday",
    "again": "Until something new happens",
}


Change = Callable[[HttpRequest, InboxItem, Principal], str]


def inbox_item(item_type: str, pk: UUID, by: Principal) -> InboxItem:
    """The item of this type and key. Raises NotFound, also for an item that `by` may not see."""
    rows: Any = ChangeProposal.objects.visible_to(by) if item_type == PROPOSAL else visible_reviews(by)
    row = existing(
        rows.filter(pk=pk).select_related("agent").first() if item_type in DECIDE_RIGHTS else None,
        "There is no such item.",
    )
    return InboxItem.of(row)


def comment_html(text: str, names: set[str]) -> SafeString:
    """A comment with those marked that mention one of `names` (in lower case); all of its text is escaped."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for match in re.finditer(MENTION, text):
        name = next((name for name in (match[1], match[1].rstrip(".@+-")) if name.lower() in names), None)
        if name is not None:
            pieces.append((text[at : match.start()], f"@{name}"))
            at = match.start() + 1 + len(name)
    marked = format_html_join("", '{}<b class="mention">{}</b>', pieces)
    return format_html("{}{}", marked, text[at:])


def item_panel(row: ChangeProposal | MemoryReview, by: Principal, query: str) -> dict[str, Any]:
    """For components/item_panel.html, of a page whose part of the inbox is `query`. Six queries."""
    item = InboxItem.of(row)
    people = list(item.people())
    names = [person.get_username() for person in people]
    deciders = list(item.people(DECIDE_RIGHTS))
    assigned = ItemAssignment.objects.filter(item_id=item.id).select_related("person").first()
    opinions = list(SecondOpinion.objects.filter(item_id=item.id).select_related("person"))
    snooze = ItemSnooze.objects.filter(item_id=item.id, person_id=int(by.id), ended_at=None).first()
    known = {name.lower() for name in names}
    return {
        "item": item,
        "query": query,
        "may": by.may(DECIDE_RIGHTS[item.type]),
        "me": by.id,
        "my_name": by.name,
        "assigned": assigned.person if assigned else None,
        "deciders": deciders,
        "others": [person for person in people if str(person.pk) != by.id],
        "names": " ".join(names),
        "opinions": opinions,
        "asked": next((opinion for opinion in opinions if str(opinion.person_id) == by.id), None),
        "answers": SecondOpinion.Answer.choices,
        "snooze": snooze if snooze and (snooze.until is None or snooze.until > clock.now()) else None,
        "snooze_choices": SNOOZE_CHOICES.items(),
        "comments": [
            (comment, comment_html(comment.text, known)) for comment in ItemComment.objects.filter(item_id=item.id)
        ],
    }


@page(methods=POST)
def item_change(request: HttpRequest, by: Principal, item_type: str, pk: UUID, change: str) -> HttpResponse:
    """One action on an item; after snoozing or skipping, the next item follows."""
    item = inbox_item(item_type, pk, by)
    if change not in CHANGES:
        raise NotFound("Unknown action.")
    part, extra = InboxFilter.of(request.GET), {}
    following = part.place(pk, by)["following"] if change in ("snooze", "skip") else (item_type, pk)
    if change == "undo":
        part, extra = replace(part, status="pending"), {"undone": "1"}
    try:
        messages.success(request, CHANGES[change](request, item, by))
        # A person who acts on an item has read the notifications about it.
        notifications_read(by=by, item=item.id)
    except DomainError as error:
        if error.status in (403, 404) or (change == "undo" and isinstance(error, Invalid)):
            raise
        messages.error(request, error.detail)
        following = (item_type, pk)
    return redirect(part.after(following, **extra))


def _assign(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    person = _person(request) if request.POST.get("person") else None
    item_assign(item=item, person=person, by=by)
    return f"Assigned to {person.get_username()}." if person else "Unassigned."


def _snooze(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    until = snooze_until(request.POST.get("until", ""), request.POST.get("day", ""))
    item_snooze(item=item, until=until, by=by)
    return "Snoozed. It is hidden from your inbox until then." if until else "Snoozed until something new happens."


def _plain(service: Callable[..., object], done: str, *names: str) -> Change:
    """An action whose service takes the fields `names` of the form."""

    def change(request: HttpRequest, item: InboxItem, by: Principal) -> str:
        service(item=item, by=by, **{name: request.POST.get(name, "") for name in names})
        return done

    return change


def _ask(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    person = _person(request)
    opinion_request(item=item, person=person, by=by)
    return f"{person.get_username()} was asked for an opinion."


CHANGES: dict[str, Change] = {
    "assign": _assign,
    "snooze": _snooze,
    "unsnooze": _plain(item_unsnooze, "The item is in your inbox again."),
    "skip": _plain(item_skip, "Skipped. It stays in the inbox."),
    "comment": _plain(item_comment_add, "Comment added.", "text"),
    "ask": _ask,
    "answer": _plain(opinion_give, "Your opinion was saved. It does not decide the item.", "answer", "note"),
    "undo": item_undo,
}
"""By the last part of the address: the action and its confirmation."""


def _person(request: HttpRequest) -> User:
    """The active account that a form names. Raises Invalid."""
    key: Any = request.POST.get("person", "")
    if key == "me":
        key = principal_of(request).id
    usable = key.isascii() and key.isdigit() and len(key) < 10
    person = User.objects.filter(pk=int(key), is_active=True).first() if usable else None
    if person is None:
        raise Invalid("Choose a person.", field="person")
    return person


def snooze_until(choice: str, day: str = "") -> datetime | None:
    """The moment that a choice or a day as "2026-03-04" means; None for until it is seen again. Raises Invalid."""
    today = timezone.localtime(clock.now()).date()
    if choice == "again":
        return None
    if choice == "tomorrow":
        wanted = today + timedelta(days=1)
    elif choice == "monday":
        wanted = today + timedelta(days=7 - today.weekday())
    else:
        try:
            wanted = date.fromisoformat(day)
        except ValueError as error:
            raise Invalid(
                "Snooze until tomorrow, Monday, a date, or until something new happens.", field="until"
            ) from error
    return timezone.make_aware(datetime.combine(wanted, MORNING))
