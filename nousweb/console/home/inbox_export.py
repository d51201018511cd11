"""The inbox as a file: each item by itself, also those that the page shows as one group."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.models import MemoryReview
from nousweb.console.common.inbox_query import PROPOSAL, REVIEW, InboxEntry
from nousweb.console.common.list_export import ListExport
from nousweb.console.identity.review_queue import ReviewItem, proposals_of
from nousweb.console.memory.review_queue import review_title, reviews_of


@dataclass(frozen=True, slots=True)
class InboxItemRow:
    """One item as a line of the file."""

    entry: InboxEntry
    agent: str
    persona: str
    kind: str
    title: str
    reason: str

    @classmethod
    def of_proposal(cls, entry: InboxEntry, item: ReviewItem) -> "InboxItemRow":
        one = item.proposal
        return cls(entry, one.agent.slug, one.persona, one.section, item.title, one.reason)

    @classmethod
    def of_review(cls, entry: InboxEntry, one: MemoryReview) -> "InboxItemRow":
        known = one.old.content if one.old else ""
        return cls(entry, one.agent.slug, one.persona, one.kind, review_title(one), known)


INBOX = ListExport(
    "Inbox",
    (
        ("id", lambda row: row.entry.id),
        ("type", lambda row: row.entry.type),
        "agent",
        "persona",
        "kind",
        "title",
        "reason",
        ("risk", lambda row: row.entry.risk),
        ("priority", lambda row: row.entry.priority),
        ("prompts", lambda row: row.entry.prompts),
        ("created_at", lambda row: row.entry.created_at),
    ),
)
"""`reason` is why a change is proposed, and the known fact that a question is about."""


def inbox_items(entries: Sequence[InboxEntry]) -> list[InboxItemRow]:
    """The lines of these entries, in their order; those that are gone meanwhile are left out."""
    keys = {one: [entry.id for entry in entries if entry.type == one] for one in (PROPOSAL, REVIEW)}
    proposals = {item.proposal.pk: item for item in proposals_of(keys[PROPOSAL])}
    reviews = {review.pk: review for review in reviews_of(keys[REVIEW])}
    rows = []
    for entry in entries:
        if entry.id in proposals:
            rows.append(InboxItemRow.of_proposal(entry, proposals[entry.id]))
        elif entry.id in reviews:
            rows.append(InboxItemRow.of_review(entry, reviews[entry.id]))
    return rows
