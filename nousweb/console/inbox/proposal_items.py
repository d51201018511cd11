"""Proposals of identity changes as items of the inbox."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce
from django.shortcuts import get_object_or_404

from context.what_if.change_overrides import proposal_overrides
from context.what_if.identity_delivery import IdentityDelivery, IdentityShortfall
from identity.models import ChangeProposal, IdentityVersion
from identity.policy.sections import SECTION_POLICY, Risk, Section, assemble_prompt, change_risk, change_size
from identity.principal import Principal
from nousweb.console.common import author_words
from nousweb.console.inbox.filter import InboxRow
from nousweb.console.inbox.item_titles import ItemTitle, change_title
from nousweb.console.inbox.query import InboxEntry
from nousweb.lib import clock
from nousweb.lib.lookalikes import TextWarning, warnings_of
from nousweb.lib.textdiff import TextDiff, diff_texts, merge_texts

Status = ChangeProposal.Status

WARNING_WORDS = {
    "look_alike": "look-alike letters",
    "mixed_direction": "mixed directions",
    "hidden_character": "hidden characters",
}
BY_ITSELF = "An agent may change this itself once a day, where no person wrote it; people can revert it."
RISK_MEANING = {
    Section.CHARACTER: "Character says who the agent is. Only a person can approve it.",
    Section.VALUES: "Values say what comes first to the agent. Only a person can approve it.",
    Section.BOUNDARIES: "Boundaries say what the agent must never do. Only a person can approve it.",
    Section.ENVIRONMENT: "Environment says where the agent runs and what it can access. A person decides.",
    Section.PROTOCOLS: BY_ITSELF,
    Section.PREFERENCES: BY_ITSELF,
}
RAISED = (
    "It changes {size:,} characters, more than one takes in at a glance; else a change of {section} is of {own} risk."
)


def proposals_of(keys: Sequence[UUID]) -> list[ProposalItem]:
    """The proposals with these keys as a reviewer reads them, in this order; those that are gone are left out."""
    rows = with_texts(ChangeProposal.objects.filter(pk__in=keys))
    items = {proposal.pk: ProposalItem(proposal) for proposal in rows}
    return [items[key] for key in keys if key in items]


def with_texts(proposals: QuerySet[ChangeProposal]) -> QuerySet[ChangeProposal]:
    """Annotate the text that a proposal started from, or that its approval replaced, and the one that is current now,
    with its version."""
    versions = IdentityVersion.objects.filter(agent=OuterRef("agent"), section=OuterRef("section"))
    current = versions.filter(is_current=True)
    empty = Value("")
    return proposals.select_related("agent", "version").annotate(
        base_text=Coalesce(
            "version__previous__content",
            Subquery(versions.filter(version=OuterRef("base_version")).values("content")[:1]),
            empty,
            output_field=TextField(),
        ),
        current_text=Coalesce(Subquery(current.values("content")[:1]), empty, output_field=TextField()),
        current_version=Coalesce(Subquery(current.values("version")[:1]), 0),
    )


class ProposalItem:
    """A proposal as a reviewer reads it. Needs the annotations of `with_texts`."""

    shortfall: IdentityShortfall | None = None

    def __init__(self, proposal: ChangeProposal) -> None:
        self.proposal = proposal
        self.base_text: str = proposal.base_text  # type: ignore[attr-defined]
        self.current_text: str = proposal.current_text  # type: ignore[attr-defined]
        self.current_version: int = proposal.current_version  # type: ignore[attr-defined]

    @property
    def is_pending(self) -> bool:
        return self.proposal.status == Status.PENDING

    @property
    def holds(self) -> bool:
        """Whether its change is made, or can still be."""
        return self.proposal.status in (*ChangeProposal.WAITING, Status.APPROVED)

    @property
    def expired(self) -> bool:
        return self.is_pending and self.proposal.expires_at <= clock.now()

    @property
    def stale(self) -> bool:
        """Whether the section's text has moved on. A new version of the same text, as an undo makes, has not."""
        return (
            self.is_pending
            and self.proposal.base_version != self.current_version
            and self.base_text != self.current_text
        )

    @cached_property
    def merged(self) -> str | None:
        """The proposal merged into the current text, if the section has changed in other lines."""
        return merge_texts(self.base_text, self.current_text, self.proposal.content) if self.stale else None

    def clashes(self, other: ProposalItem) -> bool:
        """Whether it changes lines that the `other` proposal for the section changes, so that one alone can be
        approved as it is."""
        after = other.proposal.content if other.merged is None else other.merged
        return merge_texts(self.base_text, after, self.proposal.content) is None

    @property
    def lines_changed(self) -> set[int | None]:
        """The numbers of the present lines that it changes."""
        return {row.old_no for row in self.row_diff.lines if row.kind in ("changed", "removed")}

    @property
    def approvable(self) -> bool:
        """Whether a text can be shown that approving would make the current one."""
        return self.is_pending and not self.expired and (not self.stale or self.merged is not None)

    @property
    def read_version(self) -> int:
        """The version against which its text is shown, which a decision has to name."""
        return self.proposal.base_version if self.stale and self.merged is None else self.current_version

    @property
    def must_open(self) -> bool:
        """Whether its page has to be opened to approve it: at high risk, or where there is nothing to show in a row."""
        return self.proposal.risk == Risk.HIGH or (self.is_pending and not self.approvable)

    @cached_property
    def row_diff(self) -> TextDiff:
        """The difference that approving it from a row would make, with little context."""
        before, after = (self.current_text, self.merged) if self.merged is not None else (self.base_text, self.after)
        return diff_texts(before, after or "", context=1)

    @property
    def change(self) -> ItemTitle:
        """What changes, for a list; the name of the section where no line does."""
        return change_title(self.row_diff) or ItemTitle.plain(self.title)

    @property
    def sentence(self) -> str:
        """Its section, and what changes."""
        return ": ".join(dict.fromkeys((self.title, str(self.change))))

    @property
    def brief(self) -> str:
        """The same in a few words."""
        return ": ".join(dict.fromkeys((self.title, self.change.brief)))

    @property
    def undoable(self) -> bool:
        """Whether its decision can be taken back: an approval only while nothing came after it."""
        decided, version = self.proposal, self.proposal.version
        if decided.status == Status.REJECTED:
            return True
        untouched = decided.self_applied or (version is not None and version.is_current)
        return decided.status == Status.APPROVED and untouched

    @property
    def revertible(self) -> bool:
        """Whether a change that is in effect can be taken back: its text is the current one, also as restored."""
        version = self.proposal.version
        return version is not None and (version.is_current or version.content == self.current_text)

    @property
    def base_label(self) -> str:
        return f"version {self.proposal.base_version}" if self.proposal.base_version else "no text"

    @property
    def current_label(self) -> str:
        return f"version {self.current_version}" if self.current_version else "no text"

    @property
    def decision(self) -> str:
        """The decision in words: what, by whom, and whether the text was edited."""
        who = f" by {self.proposal.reviewer_name}" if self.proposal.reviewer_name else ""
        return f"{self.proposal.get_status_display()}{who}{', with an edited text' if self.proposal.edited else ''}"

    @property
    def after(self) -> str:
        """The text that the section got, when it was edited before it was approved; else the wished one."""
        version = self.proposal.version
        return version.content if version is not None and self.proposal.edited else self.proposal.content

    @property
    def wished(self) -> str:
        """The text that would become the current one: the merged text, else the proposed one."""
        return self.after if self.merged is None else self.merged

    @cached_property
    def diff(self) -> TextDiff:
        return diff_texts(self.base_text, self.after)

    @cached_property
    def warnings(self) -> list[TextWarning]:
        """Warnings about the text: lookalikes, mixed directions, hidden characters."""
        return warnings_of(self.wished)

    @property
    def in_prompt(self) -> str:
        """The text as prompts will include it, if that differs: with headings moved or escaped."""
        heading = f"### {self.proposal.get_section_display()}\n"
        text = assemble_prompt({self.proposal.section: self.wished}, level=3).removeprefix(heading)
        return "" if text == self.wished else text

    @property
    def risk_meaning(self) -> str:
        section = Section(self.proposal.section)
        own, sides = SECTION_POLICY[section].risk, (self.base_text, self.after)
        if own == self.proposal.risk:
            return RISK_MEANING[section]
        if change_risk(section, *sides) != self.proposal.risk:
            # Its size is not why: the guardrail tells what is.
            return self.proposal.guardrail
        return RAISED.format(section=section.label, own=own.value, size=change_size(*sides))

    @property
    def title(self) -> str:
        return proposal_name(self.proposal.section, self.proposal.agent.name)


def proposal_name(section: str, agent: str) -> str:
    """The title of a proposal: "Values of Ada"."""
    return f"{Section(section).label} of {agent}"


def item_get(pk: UUID, by: Principal) -> ProposalItem:
    """The proposal as a reviewer reads it. Raises NotFound."""
    return ProposalItem(get_object_or_404(with_texts(ChangeProposal.objects.visible_to(by)), pk=pk))


def with_shortfalls(items: list[ProposalItem], by: Principal) -> list[ProposalItem]:
    """The parts of the identity that prompts would leave out if each pending proposal were approved; loaded together
    for all agents."""
    waiting = [item for item in items if item.is_pending]
    agents = {item.proposal.agent_id: item.proposal.agent for item in waiting}
    deliveries = IdentityDelivery.load_each(list(agents.values()), by) if agents else {}
    for item in waiting:
        item.shortfall = deliveries[item.proposal.agent_id].shortfall(proposal_overrides(item.proposal, item.wished))
    return items


def proposal_row(entry: InboxEntry, item: ProposalItem) -> InboxRow:
    """The row of a proposal."""
    proposal, badges = item.proposal, []
    if item.merged is not None:
        title = "The section has changed since then, in other lines"
        badges.append({"kind": "accent", "text": "merges cleanly", "title": title})
    elif item.stale:
        badges.append({"kind": "warn", "text": "stale", "title": "The section has changed since this was written"})
    if item.expired:
        badges.append({"kind": "removed", "text": "expired"})
    if item.shortfall:
        share = item.shortfall.tokens_left_out / item.shortfall.tokens_whole
        text = f"{share:.0%} left out of prompts"
        title = "Prompts would leave out a part of the identity: see its page"
        badges.append({"kind": "warn", "text": text, "title": title})
    check = "Check carefully: the proposal's page shows where"
    words = dict.fromkeys(WARNING_WORDS[warning.code] for warning in item.warnings)
    badges += [{"kind": "warn", "text": word, "title": check} for word in words]
    times = [("proposed", proposal.created_at)]
    if item.is_pending:
        times.append(("expires", proposal.expires_at))
    elif proposal.decided_at:
        times.append((f"{proposal.reviewer_name}," if proposal.reviewer_name else "decided", proposal.decided_at))
    return InboxRow(
        entry=entry,
        title=item.change if item.holds else item.change.refused,
        agent=proposal.agent.name,
        author=author_words(proposal),
        kind=proposal.get_section_display(),
        answers=dict.fromkeys(
            ["keep"] if not item.is_pending else ["reject"] if item.must_open else ["approve", "reject"], 0
        ),
        reason=proposal.reason,
        outcome="" if proposal.status in ChangeProposal.WAITING else proposal.get_status_display(),
        meta=[f"+{item.row_diff.added} −{item.row_diff.removed} lines"],
        badges=badges,
        times=times,
        diff=item.row_diff,
        proposal=item,
        is_everywhere=True,
        why=item.risk_meaning,
    )
