"""Side panel of an inbox item: assignee, snoozes, comments, opinions."""

import re
from dataclasses import fields
from typing import Any
from uuid import UUID

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from identity.models import ChangeProposal, ItemAssignment, ItemComment, ItemSnooze, SecondOpinion
from identity.policy.inbox import DECIDE_RIGHTS
from identity.principal import Principal
from identity.services.inbox_items import InboxItem, reviewers
from identity.services.item_comments import MENTION
from memory.models import MemoryReview
from memory.selectors import visible_reviews
from nousweb.console.common.inbox_filter import InboxFilter
from nousweb.console.common.inbox_query import PROPOSAL
from nousweb.console.common.snooze_choices import SNOOZE_CHOICES
from nousweb.lib import clock
from nousweb.lib.errors import NotFound


def inbox_item(item_type: str, pk: UUID, by: Principal) -> InboxItem:
    """The item of this type and key. Raises NotFound, also for an item that `by` may not see."""
    rows: Any = ChangeProposal.objects.visible_to(by) if item_type == PROPOSAL else visible_reviews(by)
    row = rows.filter(pk=pk).select_related("agent").first() if item_type in DECIDE_RIGHTS else None
    if row is None:
        raise NotFound("There is no such item.")
    return InboxItem.of(row)


def comment_html(text: str, names: set[str]) -> SafeString:
    """A comment with those marked that mention one of `names` (in lower case); all of its text is escaped."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for found in re.finditer(MENTION, text):
        name = next((one for one in (found[1], found[1].rstrip(".@+-")) if one.lower() in names), None)
        if name is not None:
            pieces.append((text[at : found.start()], f"@{name}"))
            at = found.start() + 1 + len(name)
    marked = format_html_join("", '{}<b class="mention">{}</b>', pieces)
    return format_html("{}{}", marked, text[at:])


def bulk_context(by: Principal, part: InboxFilter) -> dict[str, Any]:
    """For components/inbox_bulk.html, of a list that is this part of the inbox. One query, made as it is drawn."""
    values = {one.name: getattr(part, one.name) for one in fields(part)}
    query = InboxFilter(**values | {"view": "all"}).query(view=part.view)
    may = any(by.may(right) for right in DECIDE_RIGHTS.values())
    return {"snooze_choices": SNOOZE_CHOICES, "people": reviewers(by) if may else [], "bulk_query": query}


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
        "asked": next((one for one in opinions if str(one.person_id) == by.id), None),
        "answers": SecondOpinion.Answer.choices,
        "snooze": snooze if snooze and (snooze.until is None or snooze.until > clock.now()) else None,
        "snooze_choices": SNOOZE_CHOICES,
        "comments": [
            (comment, comment_html(comment.text, known)) for comment in ItemComment.objects.filter(item_id=item.id)
        ],
    }
