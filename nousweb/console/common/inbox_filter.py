"""The part of the inbox that is worked through, as the address of each of its pages names it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse

from identity.models import ChangeProposal
from identity.policy.inbox import ITEM_PAGES, VIEW_RIGHTS
from identity.policy.sections import Risk, Section
from identity.principal import Principal
from memory.models import MemoryReview
from nousweb.console.common.inbox_query import CENSOR_KINDS, PROPOSAL, REVIEW, SORTS, InboxPlace, InboxQuery


def place_among(keys: Sequence[tuple[str, UUID]], pk: UUID) -> InboxPlace:
    """The position of an item in an ordered list."""
    at = next((place for place, (_, key) in enumerate(keys) if key == pk), None)
    if at is None:
        return InboxPlace(None, len(keys), None, None, keys[0] if keys else None)
    before, after = keys[at - 1] if at else None, keys[at + 1] if at + 1 < len(keys) else None
    return InboxPlace(at + 1, len(keys), before, after, after or (keys[0] if at else None))


@dataclass(frozen=True, slots=True)
class SplitView:
    """A part of the inbox with a tab of its own: its items, and its number in InboxQuery.counts."""

    label: str
    counted: str
    page: str = "inbox"
    types: tuple[str, ...] = (PROPOSAL, REVIEW)
    statuses: tuple[str, ...] = tuple(ChangeProposal.WAITING)
    kinds: tuple[str, ...] = ()
    scope: str = ""


VIEWS = {
    "all": SplitView("All", ""),
    "identity": SplitView("Identity", PROPOSAL, "review", (PROPOSAL,)),
    "applied": SplitView("Applied", "applied", types=(PROPOSAL,), statuses=(ChangeProposal.Status.APPLIED.value,)),
    "questions": SplitView("Reviews", REVIEW, "memory_review", (REVIEW,)),
    "censors": SplitView("Censors", "censors", types=(REVIEW,), kinds=CENSOR_KINDS),
    "mine": SplitView("Assigned to me", "mine", scope="mine"),
    "mentioned": SplitView("Mentions", "mentioned", scope="mentioned"),
    "opinions": SplitView("Opinion requests", "opinions", scope="opinions"),
    "snoozed": SplitView("Snoozed", "snoozed", scope="snoozed"),
}
"""By name in the address. The pages of identities and reviews show further items."""


@dataclass(frozen=True)
class InboxFilter:
    """The filter of the inbox, in the address."""

    view: str = "all"
    status: str = "pending"
    agent: str = ""
    risk: str = ""
    section: str = ""
    kind: str = ""
    sort: str = "risk"
    alike: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        """The filter of an address; invalid values are ignored."""
        known = cls.choices()
        default = cls()
        given = {name: query.get(name, "") for name in known}
        values = {name: value for name, value in given.items() if value in known[name]}
        alike = query.get("alike", "")
        values["alike"] = alike if len(alike) == 32 and alike.isalnum() and alike.isascii() else ""
        return replace(default, agent=query.get("agent", "").replace("\x00", "")[:50], **values)

    @classmethod
    def choices(cls) -> dict[str, Sequence[str]]:
        """The valid values of each parameter that has a fixed set."""
        return {
            "view": list(VIEWS),
            "status": ["pending", "applied", "decided"],
            "risk": Risk.values,
            "section": Section.values,
            "kind": MemoryReview.Kind.values,
            "sort": list(SORTS),
        }

    def query(self, **extra: str) -> str:
        """The query of this filter's address, without default values."""
        default = type(self)()
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return urlencode({name: value for name, value in values.items() if value != getattr(default, name)} | extra)

    def url(self, **extra: str) -> str:
        """The address of the list that this filter is of."""
        page = VIEWS[self.view].page
        return self._address(reverse(page), self.view if page == "inbox" else "all", "all", extra)

    def item_url(self, item_type: str, key: UUID, **extra: str) -> str:
        """The address of an item's page, from which one goes on in this part of the inbox."""
        return self.address_of(reverse(ITEM_PAGES[item_type], args=[key]), item_type, **extra)

    def address_of(self, page: str, item_type: str, **extra: str) -> str:
        """The address of a page about items of this type, which goes on in this part of the inbox."""
        own = "identity" if item_type == PROPOSAL else "questions"
        return self._address(page, self.view, own, extra)

    def _address(self, page: str, view: str, usual: str, extra: dict[str, str]) -> str:
        """An address with this filter, where a page without a view in its query is that of the view `usual`."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        plain = InboxFilter(**values | {"view": "all"})
        query = plain.query(**({"view": view} if view != usual else {}), **extra)
        return f"{page}?{query}" if query else page

    @property
    def is_filtered(self) -> bool:
        return bool(self.agent or self.risk or self.section or self.kind or self.alike)

    def search(self, by: Principal) -> InboxQuery:
        """The inbox query of this filter for `by`, if it is about pending items."""
        view = VIEWS[self.view]
        status = (self.status,) if self.view == "identity" else view.statuses
        kinds = tuple(filter(None, (self.section, self.kind))) or view.kinds
        return InboxQuery(by, view.types, status, view.scope, self.agent, self.risk, kinds, self.alike, self.sort)

    def keys(self, by: Principal) -> list[tuple[str, UUID]]:
        """Types and keys of the filtered items, in order; at most one sitting's worth."""
        return self.search(by).keys()

    def position(self, pk: UUID, by: Principal) -> InboxPlace:
        """The position of an item among the filtered ones."""
        return self.search(by).place(pk)

    def place(self, pk: UUID, by: Principal) -> dict[str, Any]:
        """The position of an item in this part of the inbox, the addresses of its neighbours, and the `following`
        one."""
        found = self.position(pk, by)
        return {
            "place": found.place,
            "total": found.total,
            "risk": found.risk,
            "previous": self.item_url(*found.previous) if found.previous else None,
            "next": self.item_url(*found.next) if found.next else None,
            "following": found.following,
            "following_url": self.item_url(*found.following) if found.following else "",
        }

    @property
    def label(self) -> str:
        return VIEWS[self.view].label


def inbox_tabs(by: Principal, current: InboxFilter | None) -> list[dict[str, Any]]:
    """The tabs of the inbox, with how much is in each for `by`; the last one is of what was decided without people,
    where no filter is `current`. One query."""
    counts = InboxQuery(by).counts()
    tabs: list[dict[str, Any]] = [
        {
            "label": view.label,
            "url": InboxFilter(view=name).url(),
            "active": current is not None and name == current.view,
            "count": counts[view.counted],
        }
        for name, view in VIEWS.items()
        if any(by.may(VIEW_RIGHTS[one]) for one in view.types)
    ]
    if by.may(VIEW_RIGHTS[REVIEW]):
        url = reverse("automatic_decisions")
        tabs.append({"label": "Decided automatically", "url": url, "active": current is None, "count": None})
    return tabs
