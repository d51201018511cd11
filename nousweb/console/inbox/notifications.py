"""One's own notifications and saved filters."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from identity.models import ChangeProposal, Notification
from identity.policy.inbox import ITEM_PAGES
from identity.services.inbox_items import notifications_read, person_of
from identity.services.inbox_settings import saved_filter_delete, saved_filter_save
from memory.selectors import visible_reviews
from nousweb.console.common.pagination import request_page
from nousweb.console.common.view_helpers import principal_of, uuids_of
from nousweb.console.inbox.filter import InboxFilter
from nousweb.console.inbox.proposal_items import proposal_name
from nousweb.console.inbox.query import PROPOSAL, REVIEW
from nousweb.console.inbox.review_items import review_title, reviews_of
from nousweb.lib.errors import DomainError

KIND_BADGES = {"high_risk": "block", "erred": "warn", "mention": "accent", "assignment": "accent", "opinion": "accent"}


@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """One's own notifications, the latest first."""
    by = principal_of(request)
    mine = Notification.objects.filter(person=person_of(by)).visible_to(by).select_related("agent")
    page = request_page(request, mine, "at")
    keys = {kind: [row.item_id for row in page.rows if row.item_type == kind] for kind in (PROPOSAL, REVIEW)}
    proposals = ChangeProposal.objects.visible_to(by).filter(pk__in=keys[PROPOSAL]).select_related("agent")
    visible = set(visible_reviews(by).filter(pk__in=keys[REVIEW]).values_list("pk", flat=True))
    titles: dict[UUID, str] = {row.pk: proposal_name(row.section, row.agent.name) for row in proposals}
    titles |= {review.pk: review_title(review) for review in reviews_of(list(visible))}
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


@require_POST
def notifications_mark(request: HttpRequest) -> HttpResponse:
    """Mark notifications as read: the one whose button was pressed, or all."""
    by = principal_of(request)
    keys = uuids_of(request.POST.getlist("key"))
    notifications_read(by=by, keys=keys or None)
    return redirect("notifications")


@require_POST
def inbox_filter_save(request: HttpRequest) -> HttpResponse:
    """Keep the part of the inbox that the address names, under a name."""
    part = InboxFilter.of(request.GET)
    try:
        saved = saved_filter_save(name=request.POST.get("name", ""), query=part.query(), by=principal_of(request))
        messages.success(request, f"The filter {saved.name} was saved.")
    except DomainError as error:
        messages.error(request, error.detail)
    return redirect(part.url())


@require_POST
def inbox_filter_delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a filter of one's own."""
    saved_filter_delete(key=pk, by=principal_of(request))
    messages.success(request, "The filter was removed.")
    return redirect("inbox")
