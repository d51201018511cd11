"""Assemble a prompt from its sections, within its budget."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from context.engine.analysis.request import ResolvedRequest
from context.engine.assembly.budget_selection import select
from context.engine.assembly.contested_pairs import (
    CORE_SECTION,
    ContestedCandidate,
    ContestedGroups,
    ContestedLayout,
    contested_layout,
)
from context.engine.assembly.fixed_sections_fit import (
    fixed_sections_fit,
    promised_length,
    section_need,
    sections_length,
    session_expand,
    truncations_of,
)
from context.engine.assembly.inclusion_filters import candidates_filter, unfound
from context.engine.assembly.prompt_section import (
    SECTION_BREAK,
    FixedSection,
    Item,
    SearchedSection,
    Section,
    Truncation,
)
from context.engine.assembly.verdicts import Candidate, Verdict, VerdictCode
from memory.models import (
    Scope,
    Trust,
    keys_of,
)
from memory.search.result import SearchHit
from nousweb.lib.injection.pieces import scan_pieces
from nousweb.lib.injection.scan import InjectionMatch
from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN, estimate_tokens

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
        happened_at=now, recorded_at=now, **keys_of(item), trust=item.screened_as or Trust.PERSON,
    )  # fmt: skip
    return refused(Verdict(Candidate(hit, section=section.key, threshold=0.0), 0.0), refusal)


@dataclass(frozen=True, slots=True)
class Assembly:
    """A prompt and its parts.

    `compression_ratio` is characters shown by characters of the originals, over the searched items; 1 without any.
    """

    system_prompt: str
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...]
    compression_ratio: float
    truncations: tuple[Truncation, ...] = ()

    @property
    def tokens(self) -> int:
        """Estimated tokens of the whole prompt, headings and breaks included."""
        return estimate_tokens(self.system_prompt)


def assemble(
    fixed: Sequence[FixedSection],
    searched: Sequence[SearchedSection],
    candidates: Sequence[Candidate],
    resolved: ResolvedRequest,
    contested: Sequence[ContestedCandidate] = (),
) -> Assembly:
    """Fill the fixed sections in order, then the searched ones from the candidates, all within the total budget.

    `contested` are the facts about which a question is open, found or not. A section's tokens count its heading.
    Sections of which nothing fits are left out. Equal inputs give equal prompts.
    """
    total = resolved.budget.total
    core_ids = {item.id for section in fixed if section.key == CORE_SECTION for item in section.items}
    groups = ContestedGroups(contested, resolved.contested, core_ids)
    passing, refused_ones = candidates_filter([groups.marked(candidate) for candidate in candidates], resolved)
    layout = contested_layout(fixed, passing, groups)
    fixed, screened_out = fixed_screened(layout.fixed, resolved.now)
    needs = list(map(section_need, fixed))
    filled = fixed_sections_fit(fixed, needs, total)
    taken = sections_length(filled)
    # Shares are of what the promises leave, so that what grows takes nothing from a scope while the total has room.
    promised = promised_length(fixed, needs, total, filled)
    passed, kept_out = [*layout.passed], []
    while True:
        built, chosen, ratio = select(passed, searched, resolved, fixed_length=taken, promised_length=promised)
        if not (found := searched_refused(built)):
            break
        kept_out += [refused(entry, found[entry.candidate.key]) for entry in passed if entry.candidate.key in found]
        passed = [entry for entry in passed if entry.candidate.key not in found]
    if any(section is None or section.truncated for section in filled):
        unused = total * CHARACTERS_PER_TOKEN - sections_length([*filled, *built])
        filled = session_expand(fixed, filled, unused)
    sections = (*(section for section in filled if section is not None), *built)
    truncations = (
        *truncations_of(fixed, filled),
        *(section.truncation() for section in built if section.truncated),
    )
    prompt = SECTION_BREAK.join(section.text for section in sections)
    judged = {verdict.candidate.key for verdict in chosen}
    others = (*kept_out, *screened_out, *layout.refused, *refused_ones)
    verdicts = [*chosen, *(verdict for verdict in others if verdict.candidate.key not in judged)]
    shown = {item.id for section in sections for item in section.items if item.type == "fact"}
    verdicts += _contesting_left_out(shown, verdicts, layout, groups, resolved)
    return Assembly(prompt, sections, tuple(verdicts), ratio, truncations)


def _contesting_left_out(
    shown: Collection[str],
    verdicts: Sequence[Verdict],
    layout: ContestedLayout,
    groups: ContestedGroups,
    resolved: ResolvedRequest,
) -> Iterator[Verdict]:
    """Why the prompt lacks facts that contest a shown one, of those that have no verdict."""
    judged = {verdict.candidate.hit.id for verdict in verdicts if verdict.candidate.hit.type == "fact"}
    contesting = {key for fact in groups.facts.values() if fact.id in shown for key in fact.partners}
    core_ids = {item.id for section in layout.fixed if section.key == CORE_SECTION for item in section.items}
    for key, one in groups.facts.items():
        if key in contesting and key not in judged and key not in shown:
            candidate = groups.marked(one.candidate)
            yield _without_room(Verdict(candidate, 0.0)) if key in core_ids else unfound(candidate, resolved)


def _without_room(entry: Verdict) -> Verdict:
    """The verdict on a fact of core memory for which the User Profile has no room."""
    return entry.refusal(
        VerdictCode.OVER_BUDGET, "The User Profile has no room for it.", "A larger budget of the User Profile."
    )
