"""From loaded candidates to a prompt within its budget: pure, so that the API, the preview and a replay agree."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nousweb.lib.fencing import truncate_block
from nousweb.lib.tokens import estimate_tokens, tokens_of_length

SECTION_BREAK = "\n\n"
HEADING_BREAK = "\n"


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a section, already safe to stand in a prompt (see nousweb.lib.fencing).

    When a budget is short, items of a lower `priority` are chosen first; they are shown in their own order.
    """

    type: str
    id: str
    text: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A section before its budget is applied; items of equal priority come best first.

    `divisible` items may be cut at a sentence; the others are shown whole or not at all.
    """

    label: str
    tier: int
    budget: int
    items: Sequence[Item]
    divisible: bool = False
    separator: str = "\n"


@dataclass(frozen=True, slots=True)
class Section:
    label: str
    tier: int
    tokens: int
    truncated: bool
    items: tuple[Item, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """The prompt and its parts. `tokens` counts the whole prompt, headings and breaks included."""

    system_prompt: str
    tokens: int
    sections: tuple[Section, ...] = field(default=())


def assemble(candidates: Sequence[Candidate], *, total_budget: int) -> Assembly:
    """Fill sections in order, each within its own budget and all within `total_budget` tokens.

    A section's tokens count its heading. Sections of which nothing fits are left out.
    """
    sections: list[Section] = []
    prompt = ""
    for candidate in candidates:
        lead = prompt + SECTION_BREAK if prompt else ""
        room = min(candidate.budget, total_budget - estimate_tokens(lead))
        section = _fill(candidate, room)
        if section is None or estimate_tokens(lead + section.text) > total_budget:
            continue
        sections.append(section)
        prompt = lead + section.text
    return Assembly(prompt, estimate_tokens(prompt), tuple(sections))


def _fill(candidate: Candidate, budget: int) -> Section | None:
    """Choose items by priority while they fit, and show the chosen in their own order."""
    heading = f"## {candidate.label}"
    chosen: dict[int, Item] = {}
    truncated = False

    def length_with(text: str) -> int:
        gaps = len(HEADING_BREAK) + len(candidate.separator) * len(chosen)
        return len(heading) + gaps + sum(len(item.text) for item in chosen.values()) + len(text)

    for place, item in sorted(enumerate(candidate.items), key=lambda pair: (pair[1].priority, pair[0])):
        if tokens_of_length(length_with(item.text)) <= budget:
            chosen[place] = item
            continue
        truncated = True
        if candidate.divisible:
            part = truncate_block(item.text, budget - tokens_of_length(length_with("")))
            # A heading with nothing under it tells nobody anything.
            if "\n" in part.strip():
                chosen[place] = replace(item, text=part)
            break
    if not chosen:
        return None
    items = tuple(chosen[place] for place in sorted(chosen))
    text = heading + HEADING_BREAK + candidate.separator.join(item.text for item in items)
    return Section(candidate.label, candidate.tier, estimate_tokens(text), truncated, items, text)
