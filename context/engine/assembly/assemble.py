"""The whole of a prompt."""

from collections.abc import Sequence

from context.engine.assembly.fill import section_fill
from context.engine.assembly.filters import judge
from context.engine.assembly.parts import Assembly, Candidate, FixedSection, Rules, SearchedSection, Section, Verdict
from context.engine.assembly.select import SECTION_BREAK, select
from nousweb.lib.tokens import estimate_tokens


def assemble(
    fixed: Sequence[FixedSection],
    *,
    total_budget: int,
    searched: Sequence[SearchedSection] = (),
    candidates: Sequence[Candidate] = (),
    rules: Rules | None = None,
    failed: Sequence[tuple[str, str]] = (),
) -> Assembly:
    """Fill the fixed sections in order, then the searched ones from the candidates, all within `total_budget` tokens.

    A section's tokens count its heading. Sections of which nothing fits are left out. Equal inputs give equal
    prompts. `rules` are needed when there are candidates.
    """
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
    verdicts: list[Verdict] = []
    ratio = 1.0
    if rules is not None:
        passed, refused = judge(candidates, rules)
        built, chosen, ratio = select(passed, searched, rules, total_budget=total_budget, fixed_length=len(prompt))
        sections += built
        verdicts = chosen + refused
        prompt = SECTION_BREAK.join(section.text for section in sections)
    return Assembly(
        prompt,
        estimate_tokens(prompt),
        tuple(sections),
        tuple(verdicts),
        (*((given.label, given.error) for given in fixed if given.error), *failed),
        ratio,
    )
