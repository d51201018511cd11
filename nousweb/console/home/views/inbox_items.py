"""Actions on an inbox item besides its decision: assign, snooze, comment."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from identity.policy.inbox import DECIDE_RIGHTS
from identity.principal import Principal
from identity.services.inbox_items import InboxItem
from identity.services.item_assignment import item_assign
from identity.services.item_comments import item_comment_add
from identity.services.item_snooze import item_skip, item_snooze, item_unsnooze
from identity.services.notifications import notifications_read
from identity.services.second_opinions import opinion_give, opinion_request
from nousweb.console.common.bulk_refusals import refusals_summary
from nousweb.console.common.inbox_filter import VIEWS, InboxFilter
from nousweb.console.common.inbox_query import PROPOSAL
from nousweb.console.common.item_panel import inbox_item
from nousweb.console.common.snooze_choices import snooze_until
from nousweb.console.common.view_helpers import MAX_SELECTED, principal_of
from nousweb.console.identity.review_queue import QueueFilter
from nousweb.console.memory.review_queue import ReviewQueue, uuids_of
from nousweb.lib.errors import DomainError, Invalid, NotFound


@require_POST
def item_change(request: HttpRequest, item_type: str, pk: UUID, change: str) -> HttpResponse:
    """One action on an item; after snoozing or skipping, the next item follows."""
    by = principal_of(request)
    item = inbox_item(item_type, pk, by)
    part = (QueueFilter if item_type == PROPOSAL else ReviewQueue).of(request.GET)
    following = part.place(pk, by)["following"] if change in ("snooze", "skip") else (item_type, pk)
    if change not in CHANGES:
        raise NotFound("Unknown action.")
    try:
        messages.success(request, CHANGES[change](request, item, by))
        # A person who acts on an item has read the notifications about it.
        notifications_read(by=by, item=item.id)
    except DomainError as error:
        if error.status in (403, 404):
            raise
        messages.error(request, error.detail)
        following = (item_type, pk)
    return redirect(part.item_url(*following) if following else part.url())


@require_POST
def inbox_bulk(request: HttpRequest) -> HttpResponse:
    """Snooze or assign several items; each that refuses is named and stops none of the others."""
    by = principal_of(request)
    decide_require(by)
    part = InboxFilter.of(request.GET)
    change = request.POST.get("change", "")
    if change not in ("assign", "snooze"):
        raise NotFound("Unknown action.")
    done, refused = 0, []
    for value in request.POST.getlist("selected")[:MAX_SELECTED]:
        # A list of one kind names the key alone.
        item_type, _, key = value.rpartition(":")
        item_type = item_type or VIEWS[part.view].types[0]
        for pk in uuids_of([key]):
            try:
                CHANGES[change](request, inbox_item(item_type, pk, by), by)
                done += 1
            except DomainError as error:
                if error.status == 403:
                    raise
                refused.append((value, error.detail))
    if refused:
        messages.error(request, refusals_summary(refused))
    if done:
        words = "Snoozed" if change == "snooze" else "Assigned"
        messages.success(request, f"{words} {done} item{'' if done == 1 else 's'}.")
    elif not refused:
        messages.warning(request, "Nothing was selected.")
    return redirect(part.url())


def decide_require(by: Principal) -> None:
    """Raise NotAllowed for people who may not decide any pending items."""
    if not any(by.may(right) for right in DECIDE_RIGHTS.values()):
        by.require(DECIDE_RIGHTS[PROPOSAL])


def _assign(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    person = _person(request) if request.POST.get("person") else None
    item_assign(item=item, person=person, by=by)
    return f"Assigned to {person.get_username()}." if person else "Unassigned."


def _snooze(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    until = snooze_until(request.POST.get("until", ""), request.POST.get("day", ""))
    item_snooze(item=item, until=until, by=by)
    return "Snoozed. It is hidden from your inbox until then." if until else "Snoozed until something new happens."


def _unsnooze(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    item_unsnooze(item=item, by=by)
    return "The item is in your inbox again."


def _skip(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    item_skip(item=item, by=by)
    return "Skipped. It stays in the inbox."


def _comment(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    item_comment_add(item=item, text=request.POST.get("text", ""), by=by)
    return "Comment added."


def _ask(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    person = _person(request)
    opinion_request(item=item, person=person, by=by)
    return f"{person.get_username()} was asked for an opinion."


def _answer(request: HttpRequest, item: InboxItem, by: Principal) -> str:
    opinion_give(item=item, answer=request.POST.get("answer", ""), note=request.POST.get("note", ""), by=by)
    return "Your opinion was saved. It does not decide the item."


CHANGES: dict[str, Callable[[HttpRequest, InboxItem, Principal], str]] = {
    "assign": _assign,
    "snooze": _snooze,
    "unsnooze": _unsnooze,
    "skip": _skip,
    "comment": _comment,
    "ask": _ask,
    "answer": _answer,
}
"""By the last part of the address: the action and its confirmation."""


def _person(request: HttpRequest) -> User:
    """The active account that a form names. Raises Invalid."""
    key: Any = request.POST.get("person", "")
    if key == "me":
        key = principal_of(request).id
    usable = key.isascii() and key.isdigit() and len(key) < 10
    found = User.objects.filter(pk=int(key), is_active=True).first() if usable else None
    if found is None:
        raise Invalid("Choose a person.", field="person")
    return found
