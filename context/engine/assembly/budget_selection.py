"""Choose among the candidates that passed the filters, within section budgets, shares of scopes and the total.

Contested facts of one group take the places of the group in the order of preference.

1. Limits by type apply, except to the head, the tail and pinned candidates.
2. Pinned candidates, then the head: the best few, whatever their scope.
3. The tail: the most recent few, even if they rank low; without weak ones, which only a large budget admits.
4. The rest by score per length, each scope within its share of the searched budget: a long item takes the
   place of several short ones, so its score is divided by the square root of its length. They are shown by score.
5. Unused room goes to items that their scope's share excluded.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from context.engine.analysis.request import ResolvedRequest
from context.engine.assembly.contested_pairs import contested_grouped
from context.engine.assembly.prompt_section import (
    HEADING_BREAK,
    SECTION_BREAK,
    BlockLengths,
    Item,
    LeftOut,
    SearchedSection,
    Section,
    heading_of,
    section_text,
)
from context.engine.assembly.text_compression import compress
from context.engine.assembly.verdicts import Candidate, Verdict, VerdictCode
from memory.models import keys_of
from memory.services.trust import screening_class
from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN, estimate_tokens, tokens_of_length

SEPARATOR = "\n"
MIN_COMPRESSED_TOKENS = 12
"""A shortened item with fewer tokens than this is not included."""


@dataclass(slots=True)
class BudgetTracker:
    """Counts the characters spent, with the blocks of data around lines, so that the whole prompt never exceeds its
    budget."""

    sections: Mapping[str, SearchedSection]
    total_budget: int
    fixed_length: int
    blocks: Mapping[str, BlockLengths]
    lengths: dict[str, int] = field(default_factory=dict)
    by_scope: Counter[str] = field(default_factory=Counter)

    def length_of(self, key: str) -> int:
        return self.lengths.get(key, 0)

    def _lengths_with(self, key: str, line: int) -> tuple[int, int]:
        """Characters of the section and of the whole prompt, were a line of `line` characters added."""
        section = self.length_of(key)
        if section:
            grown = section + len(SEPARATOR) + line
        else:
            grown = len(heading_of(self.sections[key].label)) + len(HEADING_BREAK) + line
        return grown, self._total_with(key, grown)

    def _total_with(self, key: str, grown: int) -> int:
        others = sum(self.lengths.values()) - self.length_of(key)
        parts = len(self.lengths) + (key not in self.lengths) + (1 if self.fixed_length else 0)
        return self.fixed_length + others + grown + len(SECTION_BREAK) * (parts - 1)

    def room(self, candidate: Candidate, share: int | None) -> int:
        """Tokens that a line of the candidate may use; negative if there are none."""
        key = candidate.section
        section, total = self._lengths_with(key, self.blocks[key].added(candidate.key))
        rooms = [
            self.sections[key].budget * CHARACTERS_PER_TOKEN - section,
            self.total_budget * CHARACTERS_PER_TOKEN - total,
        ]
        if share is not None:
            rooms.append(share * CHARACTERS_PER_TOKEN)
        return min(rooms) // CHARACTERS_PER_TOKEN

    def missing(self, candidate: Candidate, line: str) -> tuple[int, int]:
        """Tokens that the section and the whole prompt lack for the candidate's line; 0 if it fits."""
        key = candidate.section
        section, total = self._lengths_with(key, self.blocks[key].added(candidate.key) + len(line))
        return (
            max(0, tokens_of_length(section) - self.sections[key].budget),
            max(0, tokens_of_length(total) - self.total_budget),
        )

    def fits(self, candidate: Candidate, line: str, share: int | None) -> bool:
        return self.missing(candidate, line) == (0, 0) and (share is None or estimate_tokens(line) <= share)

    def spend(self, candidate: Candidate, line: str) -> None:
        key = candidate.section
        self.lengths[key], _ = self._lengths_with(key, self.blocks[key].added(candidate.key) + len(line))
        self.blocks[key].take(candidate.key)
        self.by_scope[candidate.hit.scope] += estimate_tokens(line)


Key = tuple[str, str]
Choices = dict[Key, tuple[Verdict, str]]
"""The included candidates, by type and id, each with its line."""


def select(
    passed: Sequence[Verdict],
    sections: Sequence[SearchedSection],
    resolved: ResolvedRequest,
    *,
    fixed_length: int,
    promised_length: int,
) -> tuple[list[Section], list[Verdict], float]:
    """Choose from `passed` (best first) beside fixed sections of `fixed_length` characters.

    Shares of scopes are fractions of the total less `promised_length`, the length of the fixed sections within their
    budgets. Returns the sections, a verdict on each candidate, and the compression ratio.
    """
    total_budget = resolved.budget.total
    searched_budget = max(0, total_budget - tokens_of_length(promised_length))
    shares = {scope: int(weight * searched_budget) for scope, weight in resolved.weights.items()}
    passed = _preferred_first(passed)
    blocks = {section.key: _blocks(passed, section.key) for section in sections}
    budget = BudgetTracker({section.key: section for section in sections}, total_budget, fixed_length, blocks)
    places = _places(passed, resolved)
    limited, over_limit = _limited(passed, places, resolved)

    lines = {entry.candidate.key: entry.candidate.line() for entry in limited}
    order = sorted(
        limited,
        key=lambda entry: (
            _ORDER[places[entry.candidate.key]],
            -entry.score / math.sqrt(len(lines[entry.candidate.key])),
        ),
    )
    choice = _Choice(budget, resolved, {entry.candidate.key: entry for entry in limited}, places, lines)
    waiting: list[Verdict] = []
    for entry in order:
        kept = places[entry.candidate.key]
        scope = entry.candidate.hit.scope
        share = None if kept else max(0, shares.get(scope, 0) - budget.by_scope[scope])
        choice.take(entry, share, compressible=False)
        if entry.candidate.key not in choice.chosen:
            waiting.append(entry)
    for entry in waiting:
        choice.take(entry, None, compressible=True)
    refused = [entry for entry in waiting if entry.candidate.key not in choice.chosen]
    verdicts = [*over_limit, *(_over_budget(entry, budget, choice) for entry in refused)]
    built, included, ratio = _build(passed, sections, choice, refused)
    return built, included + verdicts, ratio


_ORDER = {"pinned": 0, "head": 1, "tail": 2, "": 3}


@dataclass(slots=True)
class _Choice:
    """The choice so far. A fact that is preferred to a contested fact has its turn before it.

    `limited` are the candidates that may be taken, `lines` their whole lines.
    """

    budget: BudgetTracker
    resolved: ResolvedRequest
    limited: Mapping[Key, Verdict]
    places: Mapping[Key, str]
    lines: Mapping[Key, str]
    chosen: Choices = field(default_factory=dict)

    def take(self, entry: Verdict, share: int | None, *, compressible: bool) -> None:
        """Include the entry if it fits, and before it the facts that are preferred to it."""
        for leader in self._above(entry):
            self._take_one(leader, None, compressible=compressible)
        self._take_one(entry, share, compressible=compressible)

    def _above(self, entry: Verdict) -> list[Verdict]:
        """The facts that must stand above the entry and are not chosen yet, topmost first."""
        above: list[Verdict] = []
        while entry.candidate.contest and (leader := self.limited.get(("fact", entry.candidate.contest.preferred_id))):
            if leader.candidate.key in self.chosen:
                break
            above.insert(0, leader)
            entry = leader
        return above

    def _take_one(self, entry: Verdict, share: int | None, *, compressible: bool) -> None:
        """Include the entry itself if it fits, whole or shortened."""
        candidate, budget = entry.candidate, self.budget
        if candidate.key in self.chosen:
            return
        place = self.places[candidate.key]
        line, compressed = self.lines[candidate.key], False
        if not budget.fits(candidate, line, share):
            room = budget.room(candidate, share)
            min_share = 1.0 - self.resolved.compression
            if not compressible or min_share >= 1.0 or room < MIN_COMPRESSED_TOKENS:
                return
            # What the item needs beside its own words: its label, escapes, and the indentation of its lines.
            added = estimate_tokens(line) - estimate_tokens(candidate.hit.content)
            most = room - max(estimate_tokens(candidate.line("")), added)
            short = compress(candidate.hit.content, self.resolved.request.input, max_tokens=most, min_share=min_share)
            if short is None and candidate.hit.excerpt:
                # Its best sentences are too small a share of it: use its excerpt about the input.
                short = f"… {candidate.hit.excerpt} …"
            if short is None or not budget.fits(candidate, line := candidate.line(short), share):
                return
            compressed = True
        budget.spend(candidate, line)
        verdict = replace(
            entry,
            reason=_REASONS[place] + (" Shortened to fit." if compressed else "") + _contested(entry),
            tokens=estimate_tokens(line),
            compressed=compressed,
            place=place,
        )
        self.chosen[candidate.key] = (verdict, line)


def _preferred_first(passed: Sequence[Verdict]) -> list[Verdict]:
    """The entries in their order, but contested facts of one group by preference at the places that these have.

    So a limit that admits one of a group admits the preferred one.
    """
    groups: dict[str, list[tuple[int, int]]] = {}
    for place, entry in enumerate(passed):
        contest = entry.candidate.contest
        if contest is not None and contest.group and not entry.candidate.pinned:
            groups.setdefault(contest.group, []).append((contest.rank, place))
    order = [*passed]
    for ranked in groups.values():
        for place, (_, of) in zip(sorted(place for _, place in ranked), sorted(ranked), strict=True):
            order[place] = passed[of]
    return order


def _blocks(passed: Sequence[Verdict], section: str) -> BlockLengths:
    candidates = [entry.candidate for entry in passed if entry.candidate.section == section]
    return BlockLengths((one.key, one.source, bool(one.contest and one.contest.group)) for one in candidates)


def _places(passed: Sequence[Verdict], resolved: ResolvedRequest) -> dict[Key, str]:
    """The place of each candidate: "pinned", "head", "tail" or ""."""
    places = {entry.candidate.key: "pinned" if entry.candidate.pinned else "" for entry in passed}
    passed = [entry for entry in passed if not entry.candidate.pinned]
    head = passed[: resolved.profile.preserve_head]
    places.update({entry.candidate.key: "head" for entry in head})
    rest = sorted(
        (entry for entry in passed[resolved.profile.preserve_head :] if not entry.candidate.weak),
        key=lambda entry: (-entry.candidate.hit.happened_at.timestamp(), *entry.candidate.key),
    )
    places.update({entry.candidate.key: "tail" for entry in rest[: resolved.profile.preserve_tail]})
    return places


def _limited(
    passed: Sequence[Verdict], places: Mapping[Key, str], resolved: ResolvedRequest
) -> tuple[list[Verdict], list[Verdict]]:
    counts: Counter[str] = Counter()
    kept: list[Verdict] = []
    over: list[Verdict] = []
    for entry in passed:
        if places[entry.candidate.key] == "pinned":
            kept.append(entry)
            continue
        counts[entry.candidate.hit.type] += 1
        limit = resolved.limits.get(entry.candidate.hit.type, 0)
        if counts[entry.candidate.hit.type] <= limit or places[entry.candidate.key] == "tail":
            kept.append(entry)
        else:
            over.append(
                entry.refusal(
                    VerdictCode.OVER_LIMIT,
                    f"Number {counts[entry.candidate.hit.type]} of its type; the plan allows {limit}.",
                    f"A limit of {counts[entry.candidate.hit.type]}.",
                )
            )
    return kept, over


def _over_budget(entry: Verdict, budget: BudgetTracker, choice: _Choice) -> Verdict:
    candidate, line = entry.candidate, choice.lines[entry.candidate.key]
    lacking = budget.missing(candidate, line)
    names = (budget.sections[candidate.section].label, "the whole prompt")
    over = [f"the budget of {name} by {_tokens(n)}" for name, n in zip(names, lacking, strict=True) if n]
    more = [f"{_tokens(n)} more for {name}" for name, n in zip(names, lacking, strict=True) if n]
    return entry.refusal(
        VerdictCode.OVER_BUDGET,
        f"Over {' and '.join(over)}.",
        f"{' and '.join(more)}.",
        tokens=estimate_tokens(line),
    )


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _build(
    passed: Sequence[Verdict],
    sections: Sequence[SearchedSection],
    choice: _Choice,
    refused: Sequence[Verdict],
) -> tuple[list[Section], list[Verdict], float]:
    chosen, lines = choice.chosen, choice.lines
    built: list[Section] = []
    verdicts: list[Verdict] = []
    length_shown = original = 0
    missing: dict[str, list[LeftOut]] = {}
    for entry in refused:
        missing.setdefault(entry.candidate.section, []).append(_left_out(entry, lines))
    included = [entry for entry in passed if entry.candidate.key in chosen]
    for section in sections:
        shown = [entry for entry in included if entry.candidate.section == section.key]
        kept = [
            chosen[entry.candidate.key] for entry in contested_grouped(shown, lambda entry: entry.candidate.contest)
        ]
        if not kept:
            continue
        items = tuple(_item(verdict, line) for verdict, line in kept)
        text = section_text(section.label, ((item.text, item.source) for item in items), SEPARATOR)
        left_out = [_left_out(verdict, lines, line) for verdict, line in kept if verdict.compressed]
        left_out += missing.get(section.key, [])
        built.append(
            Section(
                section.key,
                section.label,
                section.tier,
                section.budget,
                estimate_tokens(text),
                items,
                text,
                tuple(left_out),
            )
        )
        for verdict, line in kept:
            length_shown += len(line)
            original += len(lines[verdict.candidate.key])
            verdicts.append(verdict)
    return built, verdicts, length_shown / original if original else 1.0


def _item(entry: Verdict, line: str) -> Item:
    hit = entry.candidate.hit
    return Item(
        hit.type,
        hit.id,
        line,
        contest=entry.candidate.contest,
        **keys_of(hit),
        screened_as=screening_class(hit.trust, hit.type),
        source=entry.candidate.source,
    )


def _left_out(entry: Verdict, lines: Mapping[Key, str], part: str = "") -> LeftOut:
    return LeftOut.of(Item(*entry.candidate.key, lines[entry.candidate.key]), part)


_REASONS = {
    "pinned": "Pinned by a person.",
    "head": "Among the best: kept first.",
    "tail": "Kept as one of the most recent.",
    "": "Relevant, and within the budget.",
}


def _contested(entry: Verdict) -> str:
    contest = entry.candidate.contest
    if contest is None or not contest.contested:
        is_older = contest is not None and contest.mark.startswith("older")
        return " The older of two facts about which nobody has decided." if is_older else ""
    return f" Contradicted, the {contest.contested}: its review is not resolved yet."
