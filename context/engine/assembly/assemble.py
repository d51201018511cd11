"""The whole of a prompt."""

from collections.abc import Sequence

from context.engine.assembly.fill import section_fill
from context.engine.assembly.filters import candidates_judge
from context.engine.assembly.parts import Assembly, Candidate, FixedSection, SearchedSection, Section
from context.engine.assembly.select import SECTION_BREAK, select
from context.engine.resolved_request import ResolvedRequest
from nousweb.lib.token_estimate import estimate_tokens


def assemble(
    fixed: Sequence[FixedSection],
    searched: Sequence[SearchedSection],
    candidates: Sequence[Candidate],
    resolved: ResolvedRequest,
) -> Assembly:
    """Fill the fixed sections in order, then the searched ones from the candidates, all within the total budget.

    A section's tokens count its heading. Sections of which nothing fits are left out. Equal inputs give equal
    prompts.
    """
    total_budget = resolved.budget.total
    sections: list[Section] = []
    prompt = ""
    for given in fixed:
        if given.error or not given.items:
            continue
        lead = prompt + SECTION_BREAK if prompt else ""
        section = section_fill(given, min(given.budget, total_budget - estimate_tokens(lead)))
        if section is None or estimate_tokens(lead + section.text) > total_budget:
            continue
        sections.append(section)
        prompt = lead + section.text
    passed, refused = candidates_judge(candidates, resolved)
    built, chosen, ratio = select(passed, searched, resolved, fixed_length=len(prompt))
    sections += built
    return Assembly(
        SECTION_BREAK.join(section.text for section in sections), tuple(sections), (*chosen, *refused), ratio
    )
