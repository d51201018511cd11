"""The censors in force for a context: what the prompt says of them, and what a text triggers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.db import DatabaseError
from django.db.models import Q

from context.engine.analysis.agent_rows import CENSOR_COLUMNS, AgentRows, censors_query
from context.engine.analysis.plan import ContextBudget
from context.engine.assembly import FixedSection, Item
from identity.models import AuditEvent, AuthorFields
from memory.censoring.matching import ALLOW, BLOCK, VERDICTS, CensorOutcome, CensorRule, match_censors
from memory.censoring.semantic_matching import semantic_similarities
from memory.models import Censor
from memory.persona import PersonaMemory
from memory.search.as_of import rows_as_of
from nousweb.lib.fencing import fence_line

logger = structlog.get_logger(__name__)

CENSORS_SHOWN = 100
"""So many at most in a prompt. All that are in force are read, since all are checked; MAX_ACTIVE_CENSORS bounds
them."""
PEOPLES_OWN, AGENTS_OWN = 0, 1
"""The priority of a censor: one that only an agent made has the room that people's leave."""
NOT_LOADED = "It could not be loaded."
UNCHECKED = "unchecked"
"""The verdict on a text whose writer wants no check."""


class CensorInForce(NamedTuple):
    """What a prompt and a check need of a censor."""

    id: UUID | str
    severity: str
    pattern: str
    reason: str
    author_kind: str
    endorsed: bool
    match: str
    similarity_threshold: float

    @property
    def binding(self) -> bool:
        """As `Censor.binding`."""
        return self.author_kind != AuthorFields.Kind.TOKEN or self.endorsed

    @property
    def rule(self) -> CensorRule:
        semantic = self.match == Censor.Match.SEMANTIC
        return CensorRule(str(self.id), self.pattern, self.severity, semantic, self.similarity_threshold, self.binding)


assert CensorInForce._fields == CENSOR_COLUMNS  # noqa: S101


def censors_in_force(
    view: PersonaMemory, as_of: datetime | None = None, rows: AgentRows | None = None
) -> list[CensorInForce] | None:
    """People's and the product's first, the strictest of each first; None when they cannot be loaded.

    `rows` are what has been read of the agent already.
    """
    try:
        if as_of:
            return _censors_as_of(view, as_of)
        return [CensorInForce(*row) for row in (rows.censors if rows else censors_query(view).rows())]
    except (DatabaseError, ValueError, KeyError, TypeError, AttributeError):
        logger.exception("context.section_failed", section="censors")
        return None


def censor_section(censors: Sequence[CensorInForce] | None, budget: ContextBudget) -> FixedSection:
    """Tier 1: what the agent must not do."""
    if censors is None:
        return FixedSection("censors", "Active Censors", 1, 0, error=NOT_LOADED)
    items = [
        Item(
            "censor",
            str(censor.id),
            censor_line(censor.severity, censor.pattern, censor.reason),
            PEOPLES_OWN if censor.binding else AGENTS_OWN,
        )
        for censor in censors[:CENSORS_SHOWN]
    ]
    return FixedSection(
        "censors", "Active Censors", 1, budget.of("censors"), items, growth=PEOPLES_OWN, binding=PEOPLES_OWN
    )


def censor_line(severity: str, pattern: str, reason: str = "") -> str:
    """A censor as one line of a prompt."""
    return f"- {severity.upper()}: {fence_line(pattern)}" + (f" ({fence_line(reason)})" if reason else "")


def text_check(text: str, censors: Sequence[CensorInForce] | None) -> dict[str, Any]:
    """What the censors say of `text`, as it is logged: the verdict, why where nothing matched, and who says so.

    Nothing of the text itself is quoted: `spans` are the places of its characters. A binding censor that could not be
    checked blocks the text, and so does it that they could not be loaded at all. Of `triggers` those that are neither
    `matched` nor `blocks` are an agent's own that there was no time for.
    """
    if censors is None:
        return {"verdict": BLOCK, "reason": f"Active Censors: {NOT_LOADED}", "triggers": []}
    if not censors:
        return {"verdict": ALLOW, "reason": "", "triggers": []}
    outcome = match_censors(text, [censor.rule for censor in censors], similarities=semantic_similarities)
    reasons = {str(censor.id): censor.reason for censor in censors}
    return {"verdict": outcome.verdict, "reason": "", "triggers": _triggers(outcome, reasons)}


def check_blocks(check: Mapping[str, Any]) -> bool:
    """Whether a check as it is logged keeps the text back."""
    return bool(check["verdict"] == BLOCK)


def text_unchecked() -> dict[str, Any]:
    """What is logged of a text whose writer wants no check."""
    return {"verdict": UNCHECKED, "reason": "", "triggers": []}


def effective_triggers(check: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a check as it was logged the censors that matched or block, which is what a client hears of."""
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


def _censors_as_of(view: PersonaMemory, as_of: datetime) -> list[CensorInForce]:
    """Those that were in force then, with what they said then."""
    perhaps = view.censors.filter(Q(active=True) | Q(retired_at__gt=as_of), created_at__lte=as_of)
    held = [censor for censor in rows_as_of(list(perhaps), as_of) if censor.active]
    rank = list(reversed(Censor.Severity.values))
    endorsed = _endorsed_as_of(held, as_of)
    for censor in held:
        censor.endorsed = str(censor.pk) in endorsed
    held.sort(
        key=lambda censor: (not censor.binding, rank.index(censor.severity), censor.created_at, censor.pk),
    )
    return [CensorInForce(*(getattr(censor, name) for name in CensorInForce._fields)) for censor in held]


def _endorsed_as_of(censors: Sequence[Censor], as_of: datetime) -> set[str]:
    """The ids of those that a person had changed or brought back by then."""
    changes = AuditEvent.objects.filter(
        object_type="censor",
        object_id__in=[str(censor.pk) for censor in censors if censor.endorsed],
        author_kind=AuthorFields.Kind.PERSON,
        action__in=("censor.update", "censor.revive"),
        at__lte=as_of,
    )
    return set(changes.values_list("object_id", flat=True))
