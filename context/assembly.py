"""From loaded candidates to a prompt within its budget: pure, so that the API, the preview and a replay agree."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nousweb.lib.tokens import estimate_tokens, truncate_to_tokens

SECTION_BREAK = "\n\n"


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of a section, already safe to stand in a prompt (see nousweb.lib.fencing)."""

    type: str
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A section before its budget is applied; items come best first.

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
    text = f"## {candidate.label}"
    shown: list[Item] = []
    truncated = False
    for item in candidate.items:
        joint = candidate.separator if shown else "\n"
        if estimate_tokens(text + joint + item.text) <= budget:
            text += joint + item.text
            shown.append(item)
            continue
        truncated = True
        if candidate.divisible:
            part = truncate_to_tokens(item.text, budget - estimate_tokens(text + joint))
            # A heading with nothing under it tells nobody anything.
            if part and "\n" in part.strip():
                text += joint + part
                shown.append(Item(item.type, item.id, part))
            break
    if not shown:
        return None
    return Section(candidate.label, candidate.tier, estimate_tokens(text), truncated, tuple(shown), text)
