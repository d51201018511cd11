"""The active censors of a context: their section of the prompt, and the check of a text against them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.db import DatabaseError
from django.db.models import Q

from context.engine.analysis.agent_data_loader import CENSOR_COLUMNS, CENSORS, PreloadedRows
from context.engine.analysis.frames import ContextBudget
from context.engine.assembly import FixedSection, Item
from context.engine.assembly.prompt_section import source_of
from identity.models import AuditEvent, AuthorFields
from memory.censoring.censor_matching import (
    ALLOW,
    BLOCK,
    VERDICTS,
    CensorOutcome,
    CensorRule,
    match_censors,
    semantic_similarities,
)
from memory.models import Censor
from memory.persona import PersonaMemory
from memory.search.as_of import rows_as_of
from memory.services.trust import screening_class
from nousweb.lib.prompt_escaping import fence_line

logger = structlog.get_logger(__name__)

CENSORS_SHOWN = 100
"""Maximum number of censors in a prompt. All active ones are loaded, since all are checked; MAX_ACTIVE_CENSORS limits
them."""
PEOPLES_OWN, AGENTS_OWN = 0, 1
"""The priority of a censor: those that only agents made use the room that people's censors leave."""
NOT_LOADED = "It could not be loaded."
UNCHECKED = "unchecked"
"""The verdict on a text whose caller requested no check."""


class ActiveCensor(NamedTuple):
    """The fields of a censor that prompts and checks need."""

    id: UUID | str
    severity: str
    pattern: str
    reason: str
    author_kind: str
    endorsed: bool
    match: str
    similarity_threshold: float
    origin: str

    @property
    def binding(self) -> bool:
        """As `Censor.binding`."""
        return self.author_kind != AuthorFields.Kind.TOKEN or self.endorsed

    @property
    def rule(self) -> CensorRule:
        semantic = self.match == Censor.Match.SEMANTIC
        return CensorRule(str(self.id), self.pattern, self.severity, semantic, self.similarity_threshold, self.binding)


assert ActiveCensor._fields == CENSOR_COLUMNS  # noqa: S101


def active_censors(
    view: PersonaMemory, as_of: datetime | None = None, rows: PreloadedRows | None = None
) -> list[ActiveCensor] | None:
    """Load the active censors: those of people and the product first, stricter ones first. None if loading fails.

    `rows` are the rows of the agent that are loaded already.
    """
    try:
        if as_of:
            return _censors_as_of(view, as_of)
        return [
            ActiveCensor(*row)
            for row in (rows.censors if rows else CENSORS.bound(type(view), agent=view.agent.pk).rows())
        ]
    except (DatabaseError, ValueError, KeyError, TypeError, AttributeError):
        logger.exception("context.section_failed", section="censors")
        return None


def censor_section(censors: Sequence[ActiveCensor] | None, budget: ContextBudget) -> FixedSection:
    """The section of censors, tier 1."""
    if censors is None:
        return FixedSection("censors", "Active Censors", 1, 0, error=NOT_LOADED)
    items = [
        Item(
            "censor",
            str(censor.id),
            censor_line(censor.severity, censor.pattern, censor.reason),
            PEOPLES_OWN if censor.binding else AGENTS_OWN,
            screened_as="" if censor.binding else screening_class(censor.origin),
            source="" if censor.binding else source_of(censor.origin),
        )
        for censor in censors[:CENSORS_SHOWN]
    ]
    return FixedSection(
        "censors", "Active Censors", 1, budget.of("censors"), items, growth=PEOPLES_OWN, binding=PEOPLES_OWN
    )


def censor_line(severity: str, pattern: str, reason: str = "") -> str:
    """A censor as one line of a prompt."""
    return f"- {severity.upper()}: {fence_line(pattern)}" + (f" ({fence_line(reason)})" if reason else "")


def censors_check(text: str, censors: Sequence[ActiveCensor] | None) -> dict[str, Any]:
    """Check `text` against the censors. Returns the result as it is logged: verdict, reason and triggers.

    The text itself is not quoted: `spans` are positions of its characters. The text is blocked if a binding censor
    could not be checked, or if the censors could not be loaded. `triggers` that are neither `matched` nor `blocks` are
    an agent's own censors for which the time ran out.
    """
    if censors is None:
        return {"verdict": BLOCK, "reason": f"Active Censors: {NOT_LOADED}", "triggers": []}
    if not censors:
        return {"verdict": ALLOW, "reason": "", "triggers": []}
    outcome = match_censors(text, [censor.rule for censor in censors], similarities=semantic_similarities)
    reasons = {str(censor.id): censor.reason for censor in censors}
    return {"verdict": outcome.verdict, "reason": "", "triggers": _triggers(outcome, reasons)}


def check_blocks(check: Mapping[str, Any]) -> bool:
    """Whether a logged check blocks the text."""
    return bool(check["verdict"] == BLOCK)


def check_skipped() -> dict[str, Any]:
    """The logged result for a text whose caller requested no check."""
    return {"verdict": UNCHECKED, "reason": "", "triggers": []}


def effective_triggers(check: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The triggers of a logged check that clients get: those that matched or block."""
    return [trigger for trigger in check.get("triggers", ()) if trigger["matched"] or trigger["blocks"]]


def _triggers(outcome: CensorOutcome, reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    found = [
        {
            "id": match.rule.id,
            "severity": match.rule.severity,
            "pattern": match.rule.pattern,
            "reason": reasons[match.rule.id],
            "matched": True,
            "blocks": VERDICTS[match.rule.severity] == BLOCK,
            "spans": [[span.start, span.end] for span in match.spans],
        }
        for match in outcome.matches
    ]
    missed = [
        {
            "id": missed.rule.id,
            "severity": missed.rule.severity,
            "pattern": missed.rule.pattern,
            "reason": f"It could not be checked: {missed.why}",
            "matched": False,
            "blocks": missed.rule.binding,
            "spans": [],
        }
        for missed in outcome.timed_out
    ]
    return found + missed


def _censors_as_of(view: PersonaMemory, as_of: datetime) -> list[ActiveCensor]:
    """The censors that were active at `as_of`, as they were then."""
    perhaps = view.censors.filter(Q(active=True) | Q(retired_at__gt=as_of), created_at__lte=as_of)
    held = [censor for censor in rows_as_of(list(perhaps), as_of) if censor.active]
    rank = list(reversed(Censor.Severity.values))
    endorsed = _endorsed_as_of(held, as_of)
    for censor in held:
        censor.endorsed = str(censor.pk) in endorsed
    held.sort(
        key=lambda censor: (not censor.binding, rank.index(censor.severity), censor.created_at, censor.pk),
    )
    return [ActiveCensor(*(getattr(censor, name) for name in ActiveCensor._fields)) for censor in held]


def _endorsed_as_of(censors: Sequence[Censor], as_of: datetime) -> set[str]:
    """The ids of the censors that a person had changed or restored by then."""
    changes = AuditEvent.objects.filter(
        object_type="censor",
        object_id__in=[str(censor.pk) for censor in censors if censor.endorsed],
        author_kind=AuthorFields.Kind.PERSON,
        action__in=("censor.update", "censor.revive"),
        at__lte=as_of,
    )
    return set(changes.values_list("object_id", flat=True))
