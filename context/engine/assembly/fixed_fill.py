"""Filling the sections that need no search (tiers 1 and 2).

A budget is what a section is promised, and no knife while the total has room:

1. Each section is promised what it needs, up to its budget. When the total is too small even for that, the sections
   have their room in the order of the prompt.
2. What people decided in tier 1 grows into the total that no promise takes: first what binds of each section (an
   identity's boundaries, people's rules, people's censors), then the rest of it, both in the order of the prompt.
3. The searched sections have what is left, within their own budgets.
4. Sections of tier 2 grow into what is then still unused.

What only agents wrote in tier 1 never has more than the budget, so that no token can fill a prompt. A section without a
budget is closed.
"""

from collections.abc import Sequence
from dataclasses import replace

from context.engine.assembly.contested import contested_together
from context.engine.assembly.item import Item
from context.engine.assembly.section import (
    HEADING_BREAK,
    SECTION_BREAK,
    FixedSection,
    LeftOut,
    Section,
    Truncation,
    heading_of,
)
from nousweb.lib.fencing import truncate_block
from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN, estimate_tokens, tokens_of_length

SESSION_TIER = 2


def fixed_fill(fixed: Sequence[FixedSection], total: int, *, grows: bool = True) -> list[Section | None]:
    """A section for each of `fixed`, None for one of which nothing fits, within `total` tokens together.

    Without `grows` none has more than its budget.
    """
    characters = max(0, total) * CHARACTERS_PER_TOKEN
    filled: list[Section | None] = []
    used = 0
    for given, room in zip(fixed, _rooms(fixed, characters, grows=grows), strict=True):
        lead = len(SECTION_BREAK) if used else 0
        section = section_fill(given, min(room, characters - used - lead))
        filled.append(section)
        if section is not None:
            used += lead + len(section.text)
    return filled


def first_fill(fixed: Sequence[FixedSection], total: int) -> Section | None:
    """The first of `fixed` as `fixed_fill` fills it, without the others."""
    characters = max(0, total) * CHARACTERS_PER_TOKEN
    return section_fill(fixed[0], min(_rooms(fixed, characters, grows=True)[0], characters))


def promised_length(fixed: Sequence[FixedSection], total: int, filled: Sequence[Section | None]) -> int:
    """Characters that the sections have within their budgets, of which those that are `filled` have more or as many."""
    characters = max(0, total) * CHARACTERS_PER_TOKEN
    taken = sections_length(filled)
    if _rooms(fixed, characters, grows=True) == _rooms(fixed, characters, grows=False):
        return taken
    return min(taken, sections_length(fixed_fill(fixed, total, grows=False)))


def sections_length(sections: Sequence[Section | None]) -> int:
    """Characters of these sections as a prompt."""
    texts = [len(section.text) for section in sections if section is not None]
    return sum(texts) + len(SECTION_BREAK) * max(0, len(texts) - 1)


def session_grow(fixed: Sequence[FixedSection], filled: Sequence[Section | None], unused: int) -> list[Section | None]:
    """The same sections, those of tier 2 grown into `unused` characters of the prompt, in its order."""
    grown: list[Section | None] = []
    for given, section in zip(fixed, filled, strict=True):
        if given.tier != SESSION_TIER or _closed(given) or (section is not None and not section.truncated):
            grown.append(section)
            continue
        taken = len(section.text) if section else -len(SECTION_BREAK)
        larger = section_fill(given, taken + unused)
        if larger is not None and len(larger.text) > taken:
            unused -= len(larger.text) - taken
            section = larger
        grown.append(section)
    return grown


def section_fill(given: FixedSection, room: int) -> Section | None:
    """Choose items by priority while they fit into `room` characters, heading included, and show them in their order.

    Items above the section's `growth` have to fit into its budget too. None when nothing fits.
    """
    heading = heading_of(given.label)
    promised = given.budget * CHARACTERS_PER_TOKEN
    chosen: dict[int, Item] = {}
    left_out: dict[int, LeftOut] = {}
    full = False
    # Where the next item would begin.
    used = len(heading) + len(HEADING_BREAK)
    for place, item in _by_priority(given):
        limit = room if item.priority <= given.growth else min(room, promised)
        beneath = item.contest.beneath if item.contest else ""
        if beneath and beneath not in [other.id for other in chosen.values()]:
            left_out[place] = LeftOut.of(item, "")
            continue
        if not full and used + len(item.text) <= limit:
            chosen[place] = item
            used += len(item.text) + len(given.separator)
            continue
        part = ""
        if given.divisible and not full:
            full = True
            part = truncate_block(item.text, limit // CHARACTERS_PER_TOKEN - tokens_of_length(used))
            # A heading with nothing under it tells nobody anything.
            if "\n" in part.strip():
                chosen[place] = replace(item, text=part)
            else:
                part = ""
        left_out[place] = LeftOut.of(item, part)
    if not chosen:
        return None
    items = tuple(contested_together([chosen[place] for place in sorted(chosen)], lambda item: item.contest))
    text = heading + HEADING_BREAK + given.separator.join(item.text for item in items)
    missing = tuple(left_out[place] for place in sorted(left_out))
    return Section(given.key, given.label, given.tier, given.budget, estimate_tokens(text), items, text, missing)


def truncations_of(fixed: Sequence[FixedSection], filled: Sequence[Section | None]) -> list[Truncation]:
    """What was left out of the fixed sections, those of which nothing fits included."""
    found: list[Truncation] = []
    for given, section in zip(fixed, filled, strict=True):
        if section is not None and section.truncated:
            found.append(section.truncation(tokens_of_length(_length(given))))
        elif section is None and given.items and not given.error:
            whole = tokens_of_length(_length(given))
            missing = tuple(LeftOut.of(item) for item in given.items)
            found.append(Truncation(given.key, given.label, given.tier, 0, whole, missing))
    return found


def _rooms(fixed: Sequence[FixedSection], characters: int, *, grows: bool) -> list[int]:
    """Characters that each section may use. They are within `characters` together, unless the promises are not."""
    rooms = [0 if _closed(given) else min(given.budget * CHARACTERS_PER_TOKEN, _length(given)) for given in fixed]
    if not grows:
        return rooms
    spare = characters - sum(room + len(SECTION_BREAK) for room in rooms if room)
    places = [place for place, room in enumerate(rooms) if room and fixed[place].tier < SESSION_TIER]
    claims = [(place, fixed[place].binding) for place in places]
    claims += [(place, fixed[place].growth) for place in places]
    for place, priority in claims:
        more = min(_length(fixed[place], priority) - rooms[place], spare)
        if more > 0:
            rooms[place] += more
            spare -= more
    return rooms


def _length(given: FixedSection, priority: int | None = None) -> int:
    """Characters of a section with all its items, or with those up to a priority."""
    texts = [item.text for item in given.items if priority is None or item.priority <= priority]
    return len(heading_of(given.label) + HEADING_BREAK + given.separator.join(texts)) if texts else 0


def _by_priority(given: FixedSection) -> list[tuple[int, Item]]:
    return sorted(enumerate(given.items), key=lambda pair: pair[1].priority)


def _closed(given: FixedSection) -> bool:
    return bool(given.error) or not given.items or given.budget <= 0
