"""Assemble a prompt from its sections, within its budget."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from context.engine.analysis.resolved_request import ResolvedRequest
from context.engine.assembly.candidate import Candidate
from context.engine.assembly.candidate_filters import candidates_filter, unfound
from context.engine.assembly.candidate_selection import select
from context.engine.assembly.candidate_verdict import Verdict, VerdictCode
from context.engine.assembly.contested_pairs import (
    CORE_SECTION,
    IN_CORE,
    ContestedCandidate,
    ContestedGroups,
    ContestedLayout,
    contested_layout,
)
from context.engine.assembly.delivery_screening import fixed_screened, refused, searched_refused
from context.engine.assembly.fixed_sections_fit import (
    fixed_sections_fit,
    promised_length,
    sections_length,
    session_expand,
    truncations_of,
)
from context.engine.assembly.prompt_section import SECTION_BREAK, FixedSection, SearchedSection, Section, Truncation
from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN, estimate_tokens


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
    passing, refused_ones = candidates_filter([groups.marked(one) for one in candidates], resolved)
    layout = contested_layout(fixed, passing, groups, resolved.limits.get("fact", 0))
    fixed, screened_out = fixed_screened(layout.fixed, resolved.now)
    filled = fixed_sections_fit(fixed, total)
    taken = sections_length(filled)
    # Shares are of what the promises leave, so that what grows takes nothing from a scope while the total has room.
    promised = promised_length(fixed, total, filled)
    passed, kept_out = [*layout.passed], []
    while True:
        built, chosen, ratio = select(passed, searched, resolved, fixed_length=taken, promised_length=promised)
        if not (found := searched_refused(built)):
            break
        kept_out += [refused(one, found[one.candidate.key]) for one in passed if one.candidate.key in found]
        passed = [one for one in passed if one.candidate.key not in found]
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
    others = (*layout.core, *kept_out, *screened_out, *layout.refused, *refused_ones)
    verdicts = [*chosen, *(verdict for verdict in others if verdict.candidate.key not in judged)]
    shown = {item.id for section in sections for item in section.items if item.type == "fact"}
    verdicts = [
        _without_room(one) if one.reason == IN_CORE and one.candidate.hit.id not in shown else one for one in verdicts
    ]
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
    contesting = {key for one in groups.facts.values() if one.id in shown for key in one.partners}
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
