"""Filling one section of known items within its budget."""

from dataclasses import replace

from context.engine.assembly.parts import FixedSection, Item, Section
from nousweb.lib.fencing import truncate_block
from nousweb.lib.token_estimate import estimate_tokens, tokens_of_length

HEADING_BREAK = "\n"


def heading_of(label: str) -> str:
    return f"## {label}"


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
