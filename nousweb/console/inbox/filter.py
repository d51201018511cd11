"""The part of the inbox that is worked through, as the address of each of its pages names it, and its tabs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import QueryDict
from django.urls import reverse

from identity.models import ChangeProposal, ItemSnooze
from identity.policy.inbox import DECIDE_RIGHTS, ITEM_PAGES, VIEW_RIGHTS
from identity.policy.sections import Risk, Section
from identity.principal import Principal
from identity.selectors.filters import agent_choices
from memory.models import Fact, MemoryReview
from nousweb.console.common.shortcut_keys import SHORTCUTS
from nousweb.console.inbox.item_titles import ItemTitle
from nousweb.console.inbox.query import ASSIGNEES, MAX_RIVALS, PROPOSAL, REVIEW, SORTS, InboxEntry, InboxQuery
from nousweb.lib import clock
from nousweb.lib.textdiff import TextDiff

SORT_LABELS = {"risk": "Risk first", "oldest": "Oldest first", "newest": "Newest first"}
STATUSES = {"pending": "Pending", "decided": "Decided", "undecided": "Held back"}
MAX_WORDS = 200
"""Characters of a search."""
SOON = timedelta(days=7)
"""From so long before it expires, a row says so."""
SEARCH = forms.SearchInput({"placeholder": "Search"})
_KINDS = {PROPOSAL: ("Identity", Section.choices), REVIEW: ("Memory", MemoryReview.Kind.choices)}


@dataclass(frozen=True, slots=True)
class SplitView:
    """A part of the inbox with a tab of its own: its items, its number in InboxQuery.counts, and what stands there
    while it is empty: a title, and what will appear."""

    label: str
    counted: str
    types: tuple[str, ...] = (PROPOSAL, REVIEW)
    statuses: tuple[str, ...] = tuple(ChangeProposal.WAITING)
    kinds: tuple[str, ...] = ()
    scope: str = ""
    empty: tuple[str, str] | None = None
    noun: str = "pending"


PENDING = (ChangeProposal.Status.PENDING.value,)
VIEWS = {
    "all": SplitView("All", "", statuses=PENDING),
    "identity": SplitView("Identity", PROPOSAL, (PROPOSAL,), PENDING),
    "reviews": SplitView(
        "Reviews",
        REVIEW,
        (REVIEW,),
        empty=(
            "No pending reviews",
            "Possible duplicates and contradictions, escalated censors and uncertain facts appear here.",
        ),
    ),
    "censors": SplitView(
        "Censors",
        "censors",
        (REVIEW,),
        kinds=(MemoryReview.Kind.ESCALATION.value,),
        empty=(
            "No pending censors",
            "A censor that escalates from a warning to a block automatically appears here. You can keep or reverse the "
            "escalation.",
        ),
    ),
    "mentioned": SplitView(
        "Mentions",
        "mentioned",
        scope="mentioned",
        empty=(
            "Nobody has mentioned you",
            "Items whose comments name you with an @ appear here until they are decided.",
        ),
    ),
    "opinions": SplitView(
        "Opinion requests",
        "opinions",
        scope="opinions",
        empty=(
            "No opinion requests",
            "Items appear here when somebody asks for your second opinion before they decide.",
        ),
    ),
    "snoozed": SplitView(
        "Snoozed",
        "snoozed",
        scope="snoozed",
        empty=("Nothing is snoozed", "Snoozed items appear here until they return to the inbox."),
    ),
    # What is in effect already waits for nobody, so that it is no part of all.
    "applied": SplitView(
        ChangeProposal.Status.APPLIED.label,
        "applied",
        (PROPOSAL,),
        (ChangeProposal.Status.APPLIED.value,),
        noun="applied without review",
        empty=(
            "No change was applied without review",
            "Changes that an agent makes to its preferences or protocols, within its guardrails, appear here.",
        ),
    ),
}
"""By name in the address."""


@dataclass(frozen=True)
class InboxFilter:
    """The filter of the inbox, in the address."""

    view: str = "all"
    status: str = "pending"
    agent: str = ""
    risk: str = ""
    assignee: str = ""
    kind: str = ""
    sort: str = "risk"
    alike: str = ""
    q: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "InboxFilter":
        """The filter of an address; invalid values are ignored."""
        known: dict[str, Sequence[str]] = {
            "view": list(VIEWS),
            "status": list(STATUSES),
            "risk": Risk.values,
            "assignee": list(ASSIGNEES),
            "kind": [*Section.values, *MemoryReview.Kind.values],
            "sort": list(SORTS),
        }
        values: dict[str, str] = {name: query.get(name, "") for name in known if query.get(name) in known[name]}
        alike = query.get("alike", "")
        values["alike"] = alike if len(alike) == 32 and alike.isalnum() and alike.isascii() else ""
        values["q"] = " ".join(query.get("q", "").split())[:MAX_WORDS]
        if query.get("view") == "mine":
            # As a filter that was saved before there was a choice of assignees names it.
            values["assignee"] = "me"
        if values.get("status") == "undecided":
            values["view"] = "reviews"
        return cls(agent=query.get("agent", "").replace("\x00", "")[:50], **values)

    def query(self, **extra: str) -> str:
        """The query of this filter's address, without default values."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return urlencode({name: value for name, (value, default) in values.items() if value != default} | extra)

    def url(self, **extra: str) -> str:
        """The address of the list that this filter is of."""
        return self.address(reverse("inbox"), **extra)

    def item_url(self, item_type: str, key: UUID, **extra: str) -> str:
        """The address of an item's page, from which one goes on in this part of the inbox."""
        return self.address(reverse(ITEM_PAGES[item_type], args=[key]), **extra)

    def of_proposal(self, proposal: ChangeProposal) -> "InboxFilter":
        """The part in which one goes on from this proposal: a change that is in effect is not among pending items."""
        is_beside = proposal.status == ChangeProposal.Status.APPLIED and self.view == "all" and not self.is_decided
        return replace(self, view="applied") if is_beside else self

    def address(self, page: str, **extra: str) -> str:
        """The address of a page that goes on in this part of the inbox."""
        query = self.query(**extra)
        return f"{page}?{query}" if query else page

    @property
    def split(self) -> SplitView:
        return VIEWS[self.view]

    @property
    def label(self) -> str:
        return self.split.label if self.status == "pending" else STATUSES[self.status]

    @property
    def is_decided(self) -> bool:
        return self.status == "decided"

    @property
    def is_held_back(self) -> bool:
        """Whether it has the reviews beyond the attention budget of their agents."""
        return self.status == "undecided"

    @property
    def is_filtered(self) -> bool:
        return bool(self.agent or self.risk or self.assignee or self.kind or self.alike or self.q)

    @property
    def cleared(self) -> str:
        """The address of the list without the choices of its form."""
        return InboxFilter(view=self.view, status=self.status).url()

    def require(self, by: Principal) -> None:
        """Raise NotAllowed for people who may not see any items of this part."""
        if not any(by.may(VIEW_RIGHTS[item_type]) for item_type in self.split.types):
            by.require(VIEW_RIGHTS[self.split.types[0]])

    def search(self, by: Principal) -> InboxQuery:
        """The inbox query of this filter for `by`."""
        view = self.split
        return InboxQuery(
            by,
            view.types,
            # Whose an item is does not end when it is applied.
            tuple(ChangeProposal.WAITING)
            if self.is_decided or (self.assignee and self.view == "all")
            else view.statuses,
            view.scope,
            self.agent,
            self.risk,
            self.assignee,
            (self.kind,) if self.kind else view.kinds,
            self.alike,
            "newest" if self.is_decided else self.sort,
            self.status,
            grouped=not (self.alike or self.is_decided or len(view.types) == 1),
            words=self.q,
        )

    def place(self, pk: UUID, by: Principal) -> dict[str, Any]:
        """The position of an item in this part of the inbox, the addresses of its neighbours and of it beside its
        rivals (`compare_url`), and the `following` one."""
        place = self.search(by).place(pk)
        place["following_url"] = place["following"]
        for name in ("previous", "next", "following_url"):
            place[name] = self.item_url(*place[name]) if place[name] else ""
        place["list_url"] = self.address(reverse("inbox_list", args=[pk]))
        if 0 < place["rivals"] < MAX_RIVALS:
            place["compare_url"] = self.address(reverse("inbox_compare", args=[place["type"], pk]))
            place["compare_label"] = f"Compare {place['rivals'] + 1}"
        return place

    def after(self, following: tuple[str, UUID] | None, **extra: str) -> str:
        """The address of the item that follows a decision, or of the list where none does."""
        return self.item_url(following[0], following[1], **extra) if following else self.url(**extra)

    def after_decision(self, pk: UUID, following: tuple[str, UUID] | None, by: Principal) -> str:
        """The address after the decision of an item: of the first one where that has settled the following one too."""
        if following and not (place := self.search(by).place(following[1]))["place"]:
            following = place["following"]
        return self.after(following, done=str(pk))


class InboxForm(forms.Form):
    """The choices of the inbox, which InboxFilter reads."""

    q = forms.CharField(required=False, label="Search", max_length=MAX_WORDS, widget=SEARCH)
    agent = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(required=False)
    risk = forms.ChoiceField(choices=[("", "Any risk"), *Risk.choices], required=False)
    assignee = forms.ChoiceField(
        choices=[("", "Any assignee"), ("me", "Assigned to me"), ("nobody", "Not assigned")],
        required=False,
        widget=forms.Select({"data-key": SHORTCUTS["mine"].key, "data-key-label": SHORTCUTS["mine"].meaning}),
    )
    sort = forms.ChoiceField(choices=list(SORT_LABELS.items()), required=False, label="Order")
    view = forms.CharField(widget=forms.HiddenInput, required=False)
    status = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, part: InboxFilter, by: Principal) -> None:
        super().__init__(initial={each.name: getattr(part, each.name) for each in fields(part)})
        # Lists, because a callable is called each time that the field is drawn.
        self.fields["agent"].choices = [("", "Any agent"), *agent_choices(by)]  # type: ignore[attr-defined]
        kinds = [_KINDS[item_type] for item_type in part.split.types]
        if part.is_decided:
            del self.fields["sort"]
        self.fields["kind"].choices = [("", "Any kind"), *kinds]  # type: ignore[attr-defined]


@dataclass(slots=True)
class InboxRow:
    """One item, or the first of a group, as the list shows it.

    `title`: what changes. `kind`: what it is. `times`: moments, each with the word before it. `meta`: further short
    texts. `badges`: what has to be looked at. `outcome`: how it was decided. `answers`: the decisions that can be made
    from the list, each with its place on the page of a review. `state`: what a resolution has seen. `opens_group`: it
    leads to the list of its group. `key`: the shortcut that chooses it among its rivals. `collides`: the rivals that
    change the same lines, each with these. `author`: who made it, of a token its agent. `is_everywhere`: every prompt
    has what it is about. `why`: what makes its risk.
    """

    entry: InboxEntry
    title: ItemTitle
    agent: str
    author: str = ""
    kind: str = ""
    answers: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    meta: list[str] = field(default_factory=list)
    outcome: str = ""
    badges: list[dict[str, str]] = field(default_factory=list)
    times: list[tuple[str, Any]] = field(default_factory=list)
    facts: Sequence[Fact] = ()
    diff: TextDiff | None = None
    proposal: Any = None
    state: str = ""
    url: str = ""
    group_url: str = ""
    opens_group: bool = False
    key: str = ""
    collides: Sequence[str] = ()
    is_open: bool = True
    is_everywhere: bool = False
    why: str = ""
    may_decide: bool = False
    may_undo: bool = False
    assignee: str = ""
    comments: int = 0
    snooze: ItemSnooze | None = None

    @property
    def when(self) -> tuple[str, Any]:
        """The moment that the line shows: when it began to wait, or else who decided it and when."""
        return ("", self.times[0][1]) if self.is_open else self.times[-1]

    @property
    def reach(self) -> str:
        """The prompts that have what it is about, in words."""
        number = self.entry.prompts if self.is_open else 0
        if number and self.is_everywhere:
            return "in every prompt"
        return f"in {number:,} prompt{'' if number == 1 else 's'} in 7 days" if number else ""

    @property
    def ends_soon(self) -> Any:
        """When it expires, if that is soon."""
        ends = dict(self.times).get("expires") if self.is_open else None
        return ends if ends and ends - clock.now() < SOON else None

    def placed(self, part: InboxFilter, by: Principal) -> None:
        """Add the addresses of the item and of its group, and whether `by` may decide it in this part of the inbox."""
        kind = self.entry.type
        applied = self.proposal is not None and self.proposal.proposal.status == ChangeProposal.Status.APPLIED
        view = "reviews" if kind == REVIEW else "applied" if applied else "identity"
        self.url = part.item_url(kind, self.entry.id)
        if self.entry.has_rivals:
            self.group_url = part.address(reverse("inbox_compare", args=[kind, self.entry.id]))
        elif self.entry.copies > 1:
            self.group_url = InboxFilter(view=view, alike=self.entry.alike).url()
            self.url = self.group_url if self.opens_group else self.url
        self.is_open = not part.is_decided
        self.may_decide = self.is_open and by.may(DECIDE_RIGHTS[kind])


def inbox_tabs(by: Principal, current: InboxFilter | None) -> list[dict[str, Any]]:
    """The tabs of the inbox, with how much is in each for `by`, without those that are empty; the last one is of what
    was decided without people, where no filter is `current`. Two queries."""
    counts = InboxQuery(by).counts()
    shown = "" if current is None else current.view if current.status == "pending" else current.status
    tabs: list[dict[str, Any]] = [
        {
            "label": view.label,
            "url": InboxFilter(view=name).url(),
            "active": shown == name,
            "count": counts[view.counted],
            "is_apart": name == "applied",
        }
        for name, view in VIEWS.items()
        if any(by.may(VIEW_RIGHTS[item_type]) for item_type in view.types)
        and (counts[view.counted] or name in ("all", shown))
    ]
    sees_reviews = by.may(VIEW_RIGHTS[REVIEW])
    # Beyond the attention budget of their agents, people are not asked.
    held_back = InboxQuery(by, (REVIEW,), state="undecided").count() if sees_reviews else 0
    for status, count in (("undecided", held_back), ("decided", None)):
        if count != 0 or status == shown:
            url = InboxFilter(status=status).url()
            tabs.append({"label": STATUSES[status], "url": url, "active": shown == status, "count": count})
    if sees_reviews:
        url = reverse("automatic_decisions")
        tabs.append({"label": "Decided automatically", "url": url, "active": current is None, "count": None})
    return tabs
