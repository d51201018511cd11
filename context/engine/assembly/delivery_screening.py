"""Screen the exact texts of a prompt once more: what a write let pass must not be sent in another form.

Texts of people and of the request itself are not screened.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from context.engine.assembly.candidate import Candidate
from context.engine.assembly.candidate_verdict import Verdict, VerdictCode
from context.engine.assembly.prompt_line import Item
from context.engine.assembly.prompt_section import FixedSection, Section
from memory.models import Scope, Trust
from memory.search.result import SearchHit
from nousweb.lib.injection.pieces import scan_pieces
from nousweb.lib.injection.scan import InjectionMatch

_HINT = "A person who allows it, by confirming or editing it."


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an item is not sent: what was found, in it or in it together with `others` items."""

    match: InjectionMatch
    others: int = 0

    @property
    def reason(self) -> str:
        together = (
            f" together with {self.others} other {'item' if self.others == 1 else 'items'}" if self.others else ""
        )
        return f"Quarantined: it reads like an instruction or a secret{together}. {' '.join(self.match.words)}"


def items_refused(items: Sequence[Item]) -> dict[int, Refusal]:
    """The positions of the items that must not be sent, each with the reason."""
    found = scan_pieces([item.text for item in items], [item.screened_as for item in items])
    return {place: Refusal(one.match, len(one.places) - 1) for one in found for place in one.places}


def fixed_screened(fixed: Sequence[FixedSection], now: datetime) -> tuple[list[FixedSection], list[Verdict]]:
    """The fixed sections without the items that must not be sent, and the verdicts on these."""
    sections, verdicts = [], []
    for section in fixed:
        refused = items_refused(section.items)
        if refused:
            verdicts += [_verdict(section, section.items[place], refusal, now) for place, refusal in refused.items()]
            kept = [item for place, item in enumerate(section.items) if place not in refused]
            section = replace(section, items=kept)
        sections.append(section)
    return sections, verdicts


def searched_refused(built: Iterable[Section]) -> dict[tuple[str, str], Refusal]:
    """The items of the built sections that must not be sent, by type and id."""
    return {
        (section.items[place].type, section.items[place].id): refusal
        for section in built
        for place, refusal in items_refused(section.items).items()
    }


def refused(entry: Verdict, refusal: Refusal) -> Verdict:
    """The candidate, left out for what the screening found."""
    return entry.refusal(VerdictCode.QUARANTINED, refusal.reason, _HINT)


def _verdict(section: FixedSection, item: Item, refusal: Refusal, now: datetime) -> Verdict:
    hit = SearchHit(
        type=item.type, id=item.id, content=item.text, metadata={}, score=0.0, cosine=None, lexical=0.0, persona="",
        kind=item.type, category="", scope=Scope.GLOBAL, subject="", loop_id="", tags=(), importance=0.0,
        happened_at=now, recorded_at=now, project=item.project, task=item.task, trust=item.screened_as or Trust.PERSON,
    )  # fmt: skip
    return refused(Verdict(Candidate(hit, section=section.key, threshold=0.0), 0.0), refusal)
