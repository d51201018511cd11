"""The review queue of the console: the proposals, their order, and the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from context.what_if.identity_delivery import IdentityShortfall
from identity.models import ChangeProposal, ChangeProposalQuerySet, IdentityVersion
from identity.policy.identity_prompt import assemble_prompt
from identity.policy.sections import Risk
from identity.principal import Principal
from nousweb.console.common.inbox_filter import InboxFilter, place_among
from nousweb.console.common.inbox_query import PROPOSAL, QUEUE_LIMIT, InboxPlace
from nousweb.console.common.review_pace import LATELY
from nousweb.console.common.undo_offer import proposal_name
from nousweb.lib import clock
from nousweb.lib.lookalikes import TextWarning, warnings_of
from nousweb.lib.textdiff import TextDiff, diff_texts
from nousweb.lib.textmerge import merge_texts

Status = ChangeProposal.Status

STATUSES = {
    "pending": "Pending",
    "applied": "Applied, to look over",
    "decided": "Decided",
}
RISK_KINDS = {Risk.LOW: "neutral", Risk.MEDIUM: "warn", Risk.HIGH: "block"}
WARNING_WORDS = {
    "look_alike": "look-alike letters",
    "mixed_direction": "mixed directions",
    "hidden_character": "hidden characters",
}
RISK_MEANING = {
    Risk.LOW: "An agent may change this itself once a day; people look the change over afterwards.",
    Risk.MEDIUM: "It changes the agent's way of working; a person decides.",
    Risk.HIGH: "It changes who the agent is or what it must never do; only a person can approve it.",
}


@dataclass(frozen=True)
class QueueFilter(InboxFilter):
    """The filter of the inbox for pages about proposals: those of identities, by default."""

    view: str = "identity"

    @property
    def is_decided(self) -> bool:
        return self.view == "identity" and self.status == "decided"

    def with_status(self, status: str) -> QueueFilter:
        return replace(self, status=status)

    def decided(self, by: Principal) -> ChangeProposalQuerySet:
        """The proposals that were decided, the latest first."""
        found = self._narrow(by).exclude(status__in=ChangeProposal.WAITING)
        return found.order_by("-decided_at", "id")

    def keys(self, by: Principal) -> list[tuple[str, UUID]]:
        if not self.is_decided:
            return InboxFilter.keys(self, by)
        return [(PROPOSAL, key) for key in self.decided(by).values_list("pk", flat=True)[:QUEUE_LIMIT]]

    def position(self, pk: UUID, by: Principal) -> InboxPlace:
        return place_among(self.keys(by), pk) if self.is_decided else InboxFilter.position(self, pk, by)

    def _narrow(self, by: Principal) -> ChangeProposalQuerySet:
        found = ChangeProposal.objects.visible_to(by)
        if self.agent:
            found = found.filter(agent__slug=self.agent)
        if self.risk:
            found = found.filter(risk=self.risk)
        return found.filter(section=self.section) if self.section else found

    def counts(self, by: Principal) -> dict[str, Any]:
        """The number of this person's decisions today, and the times of recent ones (`moments`). One query."""
        today = timezone.localtime(clock.now()).replace(hour=0, minute=0, second=0, microsecond=0)
        return self._narrow(by).aggregate(
            today=Count("pk", filter=Q(reviewer_id=by.id, decided_at__gte=today)),
            moments=ArrayAgg(
                "decided_at",
                filter=Q(reviewer_id=by.id, decided_at__gte=clock.now() - LATELY),
                order_by="-decided_at",
                default=Value([]),
            ),
        )


def proposals_of(keys: Sequence[UUID]) -> list[ReviewItem]:
    """The proposals with these keys as a reviewer reads them, in this order; those that are gone are left out."""
    found = {proposal.pk: ReviewItem(proposal) for proposal in with_texts(ChangeProposal.objects.filter(pk__in=keys))}
    return [found[key] for key in keys if key in found]


def with_texts(proposals: QuerySet[ChangeProposal]) -> QuerySet[ChangeProposal]:
    """Annotate the texts that a proposal started from and that is current now, and their versions."""
    versions = IdentityVersion.objects.filter(agent=OuterRef("agent"), section=OuterRef("section"))
    current = versions.filter(is_current=True)
    empty = Value("")
    return proposals.select_related("agent", "version").annotate(
        base_text=Coalesce(
            Subquery(versions.filter(version=OuterRef("base_version")).values("content")[:1]),
            empty,
            output_field=TextField(),
        ),
        current_text=Coalesce(Subquery(current.values("content")[:1]), empty, output_field=TextField()),
        current_version=Coalesce(Subquery(current.values("version")[:1]), 0),
    )


class ReviewItem:
    """A proposal as a reviewer reads it. Needs the annotations of `with_texts`."""

    base_text: str
    current_text: str
    current_version: int
    shortfall: IdentityShortfall | None = None

    def __init__(self, proposal: ChangeProposal) -> None:
        self.proposal = proposal
        self.base_text = proposal.base_text  # type: ignore[attr-defined]
        self.current_text = proposal.current_text  # type: ignore[attr-defined]
        self.current_version = proposal.current_version  # type: ignore[attr-defined]

    @property
    def is_pending(self) -> bool:
        return self.proposal.status == Status.PENDING

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
        before, after = (self.current_text, self.merged) if self.merged is not None else (self.before, self.after)
        return diff_texts(before, after or "", context=1)

    @property
    def undoable(self) -> bool:
        """Whether its decision can be taken back: an approval only while nothing came after it."""
        decided, version = self.proposal, self.proposal.version
        if decided.status == Status.REJECTED:
            return True
        untouched = decided.self_applied or (version is not None and version.is_current)
        return decided.status == Status.APPROVED and untouched

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
    def before(self) -> str:
        return self.base_text

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
        return diff_texts(self.before, self.after)

    @cached_property
    def warnings(self) -> list[TextWarning]:
        """Warnings about the text: lookalikes, mixed directions, hidden characters."""
        return warnings_of(self.wished)

    @property
    def warning_words(self) -> list[str]:
        """Each sort of warning once, for a row of the queue."""
        return list(dict.fromkeys(WARNING_WORDS[warning.code] for warning in self.warnings))

    @property
    def in_prompt(self) -> str:
        """The text as prompts will include it, if that differs: with headings moved or escaped."""
        heading = f"### {self.proposal.get_section_display()}\n"
        text = assemble_prompt({self.proposal.section: self.wished}, level=3).removeprefix(heading)
        return "" if text == self.wished else text

    @property
    def risk_kind(self) -> str:
        return RISK_KINDS[Risk(self.proposal.risk)]

    @property
    def risk_meaning(self) -> str:
        return RISK_MEANING[Risk(self.proposal.risk)]

    @property
    def title(self) -> str:
        return proposal_title(self.proposal)


def proposal_title(proposal: ChangeProposal) -> str:
    """The title of a proposal: "Values of Ada"."""
    return proposal_name(proposal.section, proposal.agent.name)
