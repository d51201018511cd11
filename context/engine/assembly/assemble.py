"""The whole of a prompt."""

from collections.abc import Sequence
from dataclasses import replace

from context.engine.assembly.filters import candidates_judge
from context.engine.assembly.parts import (
    HEADING_BREAK,
    SECTION_BREAK,
    Assembly,
    Candidate,
    FixedSection,
    Item,
    SearchedSection,
    Section,
    heading_of,
)
from context.engine.assembly.select import select
from context.engine.resolved_request import ResolvedRequest
from nousweb.lib.fencing import truncate_block
from nousweb.lib.token_estimate import estimate_tokens, tokens_of_length


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


def section_fill(given: FixedSection, budget: int) -> Section | None:
    """Choose items by priority while they fit into `budget` tokens, heading included, and show them in their order.

    None when nothing fits.
    """
    heading = heading_of(given.label)
    chosen: dict[int, Item] = {}
    truncated = False

    def length_with(text: str) -> int:
        gaps = len(HEADING_BREAK) + len(given.separator) * len(chosen)
        return len(heading) + gaps + sum(len(item.text) for item in chosen.values()) + len(text)

    for place, item in sorted(enumerate(given.items), key=lambda pair: (pair[1].priority, pair[0])):
        if tokens_of_length(length_with(item.text)) <= budget:
            chosen[place] = item
            continue
        truncated = True
        if given.divisible:
            part = truncate_block(item.text, budget - tokens_of_length(length_with("")))
            # A heading with nothing under it tells nobody anything.
            if "\n" in part.strip():
                chosen[place] = replace(item, text=part)
            break
    if not chosen:
        return None
    items = tuple(chosen[place] for place in sorted(chosen))
    text = heading + HEADING_BREAK + given.separator.join(item.text for item in items)
    return Section(given.key, given.label, given.tier, given.budget, estimate_tokens(text), truncated, items, text)
