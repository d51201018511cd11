"""The inbox: all pending items of a person, in one order."""

from dataclasses import asdict
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from identity.models import SavedFilter
from identity.policy.inbox import VIEW_RIGHTS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors.filters import InboxForm
from identity.services.proposal_records import REVIEW as REVIEW_IDENTITY
from nousweb.console.common.inbox_filter import VIEWS, InboxFilter, inbox_tabs
from nousweb.console.common.inbox_query import PROPOSAL, QUEUE_LIMIT, InboxEntry
from nousweb.console.common.item_panel import bulk_context
from nousweb.console.common.list_export import export_format, key_rows, list_export
from nousweb.console.common.review_pace import minutes_left
from nousweb.console.common.undo_offer import undo_offer
from nousweb.console.common.view_helpers import principal_of
from nousweb.console.home.inbox_export import INBOX, inbox_items
from nousweb.console.home.inbox_rows import decisions_lately, inbox_rows
from nousweb.lib import clock
from nousweb.lib.cursor import cursor_decode, cursor_encode
from nousweb.lib.errors import Invalid

ROWS = 25
"""On a page: each is read with its whole change."""


@require_safe
def inbox(request: HttpRequest) -> HttpResponseBase:
    """The pending items of a person, groups of near-identical items as one row, by risk and prompts first."""
    by = principal_of(request)
    seen_require(by)
    part = InboxFilter.of(request.GET)
    search = part.search(by)
    if export_format(request):
        items = key_rows(search.entries(), inbox_items, QUEUE_LIMIT)
        return list_export(request, INBOX, items, both=by.may(VIEW_SUBCONSCIOUS))
    after = request.GET.get("after", "")
    entries = search.groups(size=ROWS + 1, after=_entry_of(after) if after else None)
    moments = decisions_lately(by)
    may_review = by.may(REVIEW_IDENTITY)
    tabs = inbox_tabs(by, part)
    # The tab that is shown has counted it already, unless it is filtered further.
    left = search.count() if part.is_filtered else next((tab["count"] for tab in tabs if tab["active"]), 0)
    midnight = timezone.localtime(clock.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = inbox_rows(entries[:ROWS], part, by)
    return render(
        request,
        "home/inbox.html",
        {
            "part": part,
            "query": part.query() if part.view != "all" else part.query(view="all"),
            "page_query": part.query(),
            "form": InboxForm(asdict(part), by=by),
            "tabs": tabs,
            "view": VIEWS[part.view],
            "rows": rows,
            "next": _cursor_of(entries[ROWS - 1]) if len(entries) > ROWS else "",
            "page_size": ROWS,
            "is_first": not after,
            "left": left,
            "minutes": minutes_left(left, moments),
            "today": sum(moment >= midnight for moment in moments),
            "may_review": may_review,
            "filters": SavedFilter.objects.filter(person_id=int(by.id)),
            **bulk_context(by, part),
            "undo": undo_offer(request, by, part),
        },
    )


def seen_require(by: Principal) -> None:
    """Raise NotAllowed for people who may not see any pending items."""
    if not any(by.may(right) for right in VIEW_RIGHTS.values()):
        by.require(VIEW_RIGHTS[PROPOSAL])


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
