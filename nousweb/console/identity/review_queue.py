"""The review queue as the console shows it: which proposals, in which order, and what comes next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce
from django.http import QueryDict
from django.utils import timezone

from context.what_if.identity_delivery import IdentityShortfall
from identity.models import ChangeProposal, ChangeProposalQuerySet, IdentityVersion
from identity.policy.sections import Risk, Section
from identity.principal import Principal
from identity.prompt import assemble_prompt
from identity.selectors.filters import SORTS
from nousweb.console.common.review_pace import LATELY
from nousweb.lib import clock
from nousweb.lib.lookalikes import TextWarning, warnings_of
from nousweb.lib.textdiff import TextDiff, diff_texts
from nousweb.lib.textmerge import merge_texts

Status = ChangeProposal.Status

STATUSES = {
    "pending": "Pending",
    "applied": "Applied, look it over",
    "decided": "Decided",
}
# Positions and neighbours are found among this many; more than that is not worked through in one sitting.
QUEUE_LIMIT = 1_000
RISK_KINDS = {Risk.LOW: "neutral", Risk.MEDIUM: "warn", Risk.HIGH: "block"}
WARNING_WORDS = {
    "look_alike": "look-alike letters",
    "mixed_direction": "mixed directions",
    "hidden_character": "hidden characters",
}
RISK_MEANING = {
    Risk.LOW: "An agent may change this itself once a day; it is looked over afterwards.",
    Risk.MEDIUM: "It changes what the agent works with; a person decides.",
    Risk.HIGH: "It changes who the agent is or what it must never do; only a person may let it pass.",
}


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """What part of the queue is worked through; it lives in the address."""

    status: str = "pending"
    agent: str = ""
    risk: str = ""
    section: str = ""
    sort: str = "risk"

    @classmethod
    def of(cls, query: QueryDict) -> QueueFilter:
        """The filter that an address names; what it cannot mean is ignored."""

        def one_of(name: str, choices: Iterable[str], default: str) -> str:
            value = query.get(name, default)
            return value if value in choices else default

        return cls(
            status=one_of("status", STATUSES, "pending"),
            agent=query.get("agent", "").replace("\x00", "")[:50],
            risk=one_of("risk", Risk.values, ""),
            section=one_of("section", Section.values, ""),
            sort=one_of("sort", SORTS, "risk"),
        )

    def query(self, **extra: str) -> str:
        """The address of this filter, without what is as ever."""
        default = QueueFilter()
        values = {name: getattr(self, name) for name in self.__slots__}
        return urlencode({k: v for k, v in values.items() if v != getattr(default, k)} | extra)

    def with_status(self, status: str) -> QueueFilter:
        return replace(self, status=status)

    @property
    def is_filtered(self) -> bool:
        return bool(self.agent or self.risk or self.section)

    def _narrow(self, by: Principal) -> ChangeProposalQuerySet:
        found = ChangeProposal.objects.seen_by(by)
        if self.agent:
            found = found.filter(agent__slug=self.agent)
        if self.risk:
            found = found.filter(risk=self.risk)
        return found.filter(section=self.section) if self.section else found

    def proposals(self, by: Principal) -> ChangeProposalQuerySet:
        """The part of this queue that `by` may see, in its order."""
        found = self._narrow(by)
        if self.status == "decided":
            return found.exclude(status__in=ChangeProposal.WAITING).order_by("-decided_at", "id")
        found = found.filter(status=self.status)
        if self.sort == "risk":
            return found.riskiest_first()
        return found.order_by("created_at" if self.sort == "oldest" else "-created_at", "id")

    def counts(self, by: Principal) -> dict[str, Any]:
        """How many wait, how many are to be looked over, how many this person has decided today; `moments` is when they
        decided lately. One query."""
        today = timezone.localtime(clock.now()).replace(hour=0, minute=0, second=0, microsecond=0)
        return self._narrow(by).aggregate(
            pending=Count("pk", filter=Q(status=Status.PENDING)),
            applied=Count("pk", filter=Q(status=Status.APPLIED)),
            today=Count("pk", filter=Q(reviewer_id=by.id, decided_at__gte=today)),
            moments=ArrayAgg(
                "decided_at",
                filter=Q(reviewer_id=by.id, decided_at__gte=clock.now() - LATELY),
                order_by="-decided_at",
                default=Value([]),
            ),
        )

    def neighbours(self, pk: UUID, by: Principal) -> Neighbours:
        """Where a proposal stands in this queue, and what comes before and after it."""
        ids = list(self.proposals(by).values_list("pk", flat=True)[:QUEUE_LIMIT])
        if pk not in ids:
            return Neighbours(None, len(ids), None, ids[0] if ids else None)
        at = ids.index(pk)
        return Neighbours(
            at + 1, len(ids), ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None, ids[0]
        )


@dataclass(frozen=True, slots=True)
class Neighbours:
    place: int | None
    total: int
    previous: UUID | None
    next: UUID | None
    first: UUID | None = None


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
        """The current text with what this changes, where the section has moved on and both changed other lines."""
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
        """What approving it from a row would change, with little around it."""
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
    def before(self) -> str:
        return self.base_text

    @property
    def after(self) -> str:
        """The text that the section got, when it was edited before it was approved; else the wished one."""
        version = self.proposal.version
        return version.content if version is not None and self.proposal.edited else self.proposal.content

    @property
    def wished(self) -> str:
        """The text that would be the current one: what was merged, else what it asks for."""
        return self.after if self.merged is None else self.merged

    @cached_property
    def diff(self) -> TextDiff:
        return diff_texts(self.before, self.after)

    @cached_property
    def warnings(self) -> list[TextWarning]:
        """What a reader of the text has to look at twice: look-alikes, mixed directions, hidden characters."""
        return warnings_of(self.wished)

    @property
    def warning_words(self) -> list[str]:
        """Each sort of warning once, for a row of the queue."""
        return list(dict.fromkeys(WARNING_WORDS[warning.code] for warning in self.warnings))

    @property
    def in_prompt(self) -> str:
        """The text as prompts will hold it, when that is not what it is here: with headings moved or escaped."""
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
        return review_title(self.proposal)


def review_title(proposal: ChangeProposal) -> str:
    """What a proposal is about, as people name it: "Values of Ada"."""
    return f"{proposal.get_section_display()} of {proposal.agent.name}"
