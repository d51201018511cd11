"""Fit the sections that need no search (tiers 1 and 2) into the total budget.

The budget of a section is a guaranteed minimum. A section may exceed it while the total has room:

1. Each section gets the room that it needs, up to its budget. If the total is too small for that, sections get their
   room in the order of the prompt.
2. People's decisions in tier 1 grow into the part of the total that no section is guaranteed: first the binding items
   of each section (an identity's boundaries, people's rules, people's censors), then the others, both in the order of
   the prompt. Tier 2 keeps its whole guarantee, used or not, so that tier 1 is the same for every question.
3. The searched sections use the rest, within their own budgets.
4. Sections of tier 2 grow into the room that is still unused.

Items of tier 1 that only agents wrote never exceed the budget, so that no token can fill a prompt. A section without a
budget is left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from context.engine.assembly.contested_pairs import contested_grouped
from context.engine.assembly.prompt_section import (
    HEADING_BREAK,
    SECTION_BREAK,
    BlockLengths,
    FixedSection,
    Item,
    LeftOut,
    Section,
    Truncation,
    heading_of,
    section_text,
)
from nousweb.lib.prompt_escaping import truncate_block
from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN, estimate_tokens, tokens_of_length

SESSION_TIER = 2


class Need(NamedTuple):
    """Characters that a section takes as a whole, with its binding items alone, and with those that may grow."""

    whole: int
    binding: int
    growth: int


def fixed_sections_fit(
    fixed: Sequence[FixedSection], needs: Sequence[Need], total: int, *, grows: bool = True
) -> list[Section | None]:
    """Fit all sections into `total` tokens. The result has None for a section of which nothing fits.

    Without `grows`, no section exceeds its budget.
    """
    characters = max(0, total) * CHARACTERS_PER_TOKEN
    filled: list[Section | None] = []
    used = 0
    rooms = _rooms(fixed, needs, characters) if grows else _promised(fixed, needs)
    for section, room in zip(fixed, rooms, strict=True):
        lead = len(SECTION_BREAK) if used else 0
        fitted = section_fit(section, min(room, characters - used - lead))
        filled.append(fitted)
        if fitted is not None:
            used += lead + len(fitted.text)
    return filled


def first_section_fit(fixed: Sequence[FixedSection], needs: Sequence[Need], total: int) -> Section | None:
    """The first section of `fixed_sections_fit`, without fitting the others, of which `needs` says enough."""
    characters = max(0, total) * CHARACTERS_PER_TOKEN
    return section_fit(fixed[0], min(_rooms(fixed, needs, characters)[0], characters))


def promised_length(
    fixed: Sequence[FixedSection], needs: Sequence[Need], total: int, filled: Sequence[Section | None]
) -> int:
    """Characters that the sections take within their budgets: at most as many as the `filled` sections."""
    characters = max(0, total) * CHARACTERS_PER_TOKEN
    taken = sections_length(filled)
    if _rooms(fixed, needs, characters) == _promised(fixed, needs):
        return taken
    return min(taken, sections_length(fixed_sections_fit(fixed, needs, total, grows=False)))


def sections_length(sections: Sequence[Section | None]) -> int:
    """Characters of these sections as a prompt."""
    texts = [len(fitted.text) for fitted in sections if fitted is not None]
    return sum(texts) + len(SECTION_BREAK) * max(0, len(texts) - 1)


def session_expand(
    fixed: Sequence[FixedSection], filled: Sequence[Section | None], unused: int
) -> list[Section | None]:
    """Expand the sections of tier 2 into `unused` characters of the prompt, in its order."""
    grown: list[Section | None] = []
    for section, fitted in zip(fixed, filled, strict=True):
        if section.tier != SESSION_TIER or _closed(section) or (fitted is not None and not fitted.truncated):
            grown.append(fitted)
            continue
        taken = len(fitted.text) if fitted else -len(SECTION_BREAK)
        larger = section_fit(section, taken + unused)
        if larger is not None and len(larger.text) > taken:
            unused -= len(larger.text) - taken
            fitted = larger
        grown.append(fitted)
    return grown


def section_fit(section: FixedSection, room: int) -> Section | None:
    """Choose items by priority while they fit into `room` characters, heading included; show them in their own order.

    Items of a priority above the section's `growth` must fit into its budget too. None if nothing fits.
    """
    heading = heading_of(section.label)
    promised = section.budget * CHARACTERS_PER_TOKEN
    chosen: dict[int, Item] = {}
    left_out: dict[int, LeftOut] = {}
    full = False
    blocks = _blocks(section)
    # Where the next item would begin.
    used = len(heading) + len(HEADING_BREAK)
    for place, item in sorted(enumerate(section.items), key=lambda pair: (pair[1].priority, pair[1].choice_key)):
        limit = room if item.priority <= section.growth else min(room, promised)
        if not full and used + blocks.added(place) + len(item.text) <= limit:
            chosen[place] = item
            used += blocks.added(place) + len(item.text) + len(section.separator)
            blocks.take(place)
            continue
        part = ""
        if section.divisible and not full:
            full = True
            part = truncate_block(item.text, limit // CHARACTERS_PER_TOKEN - tokens_of_length(used))
            # A heading with nothing under it is useless.
            if "\n" in part.strip():
                chosen[place] = replace(item, text=part)
            else:
                part = ""
        left_out[place] = LeftOut.of(item, part)
    if not chosen:
        return None
    items = tuple(contested_grouped([chosen[place] for place in sorted(chosen)], lambda item: item.contest))
    text = section_text(section.label, ((item.text, item.source) for item in items), section.separator)
    missing = tuple(left_out[place] for place in sorted(left_out))
    return Section(
        section.key, section.label, section.tier, section.budget, estimate_tokens(text), items, text, missing
    )


def truncations_of(fixed: Sequence[FixedSection], filled: Sequence[Section | None]) -> list[Truncation]:
    """Truncations of the fixed sections, including sections of which nothing fits."""
    found: list[Truncation] = []
    for section, fitted in zip(fixed, filled, strict=True):
        if fitted is not None and fitted.truncated:
            found.append(fitted.truncation(tokens_of_length(_length(section))))
        elif fitted is None and section.items and not section.error:
            whole = tokens_of_length(_length(section))
            missing = tuple(LeftOut.of(item) for item in section.items)
            found.append(Truncation(section.key, section.label, section.tier, 0, whole, missing))
    return found


def section_need(section: FixedSection) -> Need:
    """What the room of a section depends on besides its budget."""
    if section.tier >= SESSION_TIER:
        return Need(_length(section), 0, 0)
    return Need(*(_length(section, priority) for priority in (None, section.binding, section.growth)))


def _promised(fixed: Sequence[FixedSection], needs: Sequence[Need]) -> list[int]:
    """Characters that each section gets whatever the others need."""
    return [
        0 if _closed(section) else min(section.budget * CHARACTERS_PER_TOKEN, need.whole)
        for section, need in zip(fixed, needs, strict=True)
    ]


def _rooms(fixed: Sequence[FixedSection], needs: Sequence[Need], characters: int) -> list[int]:
    """Characters that each section may use. Their sum exceeds `characters` only if the guaranteed minimums do."""
    rooms = _promised(fixed, needs)
    places = [place for place, room in enumerate(rooms) if room and fixed[place].tier < SESSION_TIER]
    session = [section.budget * CHARACTERS_PER_TOKEN for section in fixed if section.tier == SESSION_TIER]
    promised = [*(rooms[place] for place in places), *(room for room in session if room > 0)]
    spare = characters - sum(promised) - len(SECTION_BREAK) * len(promised)
    claims = [(place, needs[place].binding) for place in places]
    claims += [(place, needs[place].growth) for place in places]
    for place, length in claims:
        more = min(length - rooms[place], spare)
        if more > 0:
            rooms[place] += more
            spare -= more
    return rooms


def _length(section: FixedSection, priority: int | None = None) -> int:
    """Characters that a section with all its items needs, or with only those up to a priority."""
    blocks, length, heading = _blocks(section), -len(section.separator), heading_of(section.label) + HEADING_BREAK
    for place, item in enumerate(section.items):
        if priority is None or item.priority <= priority:
            length += len(section.separator) + blocks.added(place) + len(item.text)
            blocks.take(place)
    return len(heading) + length if length >= 0 else 0


def _blocks(section: FixedSection) -> BlockLengths:
    items = enumerate(section.items)
    return BlockLengths((place, item.source, bool(item.contest and item.contest.group)) for place, item in items)


def _closed(section: FixedSection) -> bool:
    return bool(section.error) or not section.items or section.budget <= 0
