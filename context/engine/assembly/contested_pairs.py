"""Contested facts in a prompt: the newer above the older, each marked. A mark brings no fact into a prompt.

A pending review makes two facts contest each other, and one of them is preferred: a fact verified by people over one
of agents, then a fact that is true now over one that is not, then the newer one. Each fact is included only if it
passes the filters and budgets by itself; a fact whose preferred counterpart is left out says so in its mark.
`context.engine.pipeline` loads which facts contest each other.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, TypeVar

from context.engine.analysis.profiles import ContestedOrder, ContestedPolicy
from context.engine.assembly.inclusion_filters import shortened
from context.engine.assembly.prompt_section import ContestAnnotation, FixedSection, Item
from context.engine.assembly.verdicts import Candidate, Verdict, VerdictCode
from memory.models import keys_of
from memory.services.trust import screening_class

Entry = TypeVar("Entry", Item, Verdict)
CORE_SECTION, REPORTED_SECTION = "user_profile", "reported"


@dataclass(frozen=True, slots=True)
class ContestedCandidate:
    """A contested fact, whether the search found it or not.

    `partners` are the ids of the facts that contest it, `opposed` of those with which it can hardly be true,
    `undecided` of those about which nobody was asked. `since` is when it became true, or else was recorded;
    `core_priority` is its priority in core memory.
    """

    candidate: Candidate
    partners: frozenset[str]
    since: datetime
    endorsed: bool = False
    opposed: frozenset[str] = frozenset()
    undecided: frozenset[str] = frozenset()
    core_priority: int = 0

    @property
    def id(self) -> str:
        return self.candidate.hit.id

    @property
    def date(self) -> str:
        """Its date in a mark."""
        zone = self.candidate.told.zone if self.candidate.told else UTC
        return f"{self.since.astimezone(zone):%Y-%m-%d}"

    @property
    def age_key(self) -> tuple[datetime, datetime, str]:
        """Sort key: a newer fact has a greater key."""
        return self.since, self.candidate.hit.recorded_at, self.id


@dataclass(frozen=True, slots=True)
class ContestedLayout:
    """Fixed sections and verdicts, in which contested facts have their places.

    `passed` are the verdicts of the filters, `refused` those on facts that the policy leaves out. `core_ids` are the
    contested facts of core memory.
    """

    fixed: Sequence[FixedSection]
    passed: Sequence[Verdict]
    refused: Sequence[Verdict] = ()
    core_ids: frozenset[str] = frozenset()


class ContestedGroups:
    """Groups of facts that contest each other, each in the order of preference."""

    def __init__(
        self, facts: Iterable[ContestedCandidate], policy: ContestedPolicy, core_ids: Collection[str] = ()
    ) -> None:
        """`core_ids` are the facts that core memory shows by itself."""
        self._policy = policy
        ranked = sorted(facts, key=lambda fact: (fact.endorsed, *fact.age_key), reverse=True)
        self.facts: Mapping[str, ContestedCandidate] = {candidate.id: candidate for candidate in ranked}
        self._core = {key for key in self.facts if key in core_ids}
        self.core_groups = self._groups(self._core)
        self.searched_groups = self._groups(self.facts.keys() - self._core)
        self._group = {key: group for group in (*self.core_groups, *self.searched_groups) for key in group}

    def _groups(self, keys: Set[str]) -> list[list[str]]:
        """The facts of `keys` that contest each other, directly or through others, the preferred first."""
        place = {key: number for number, key in enumerate(self.facts)}
        seen: set[str] = set()
        groups = []
        for key in self.facts:
            if key in seen or key not in keys:
                continue
            group, waiting = {key}, [key]
            while waiting:
                new = (self.facts[waiting.pop()].partners & keys) - group
                group |= new
                waiting += new
            seen |= group
            groups.append(sorted(group, key=place.__getitem__))
        return groups

    def _order(self, key: str) -> ContestedOrder:
        """The policy for the group of a fact: that of the category of its preferred fact."""
        return self._policy.of(self.facts[self._group[key][0]].candidate.hit.category)

    def _preferred_over(self, key: str) -> list[str]:
        """The facts that contest a fact and are preferred to it."""
        before = takewhile(lambda other: other != key, self.facts)
        return [other for other in before if other in self.facts[key].partners]

    def preferred(self, key: str, among: Collection[str]) -> str:
        """The fact of `among` that is preferred to `key`, directly or through others; "" if there is none."""
        above = self._preferred_over(key)
        direct = next((other for other in above if other in among), "")
        return direct or (self.preferred(above[0], among) if above else "")

    def suppressed(self, keys: Collection[str], beside: Collection[str] = ()) -> set[str]:
        """The facts of `keys` that the policy drops for a preferred fact of `keys` or `beside`.

        Facts that may both be true are never dropped.
        """
        return {
            key
            for key in keys
            if self._order(key) is ContestedOrder.NEWEST_ONLY
            and any(
                (other in keys or other in beside) and other in self.facts[key].opposed
                for other in self._preferred_over(key)
            )
        }

    def annotation(self, key: str, shown: Collection[str] = ()) -> ContestAnnotation:
        """The annotation of a contested fact in a prompt that may show the `shown` facts of its group."""
        one, group = self.facts[key], self._group[key]
        others = [other for other in self.facts if other in one.partners]
        partners = [other for other in others if other not in one.undecided]
        is_older = any(self.facts[other].age_key > one.age_key for other in partners or others)
        if partners:
            age: Literal["newer", "older"] = "older" if is_older else "newer"
            contest = ContestAnnotation(age, tuple(partners), self._mark(one, age, partners, shown))
        else:
            contest = ContestAnnotation("", (), f"older, undecided, {one.date}" if is_older else f"as of {one.date}")
        if self._order(key) is ContestedOrder.BOTH:
            return contest
        return replace(contest, preferred_id=self.preferred(key, shown), group=group[0], rank=group.index(key))

    def _mark(self, fact: ContestedCandidate, age: str, partners: Sequence[str], shown: Collection[str]) -> str:
        by_people = [key for key in partners if self.facts[key].endorsed]
        newer = [key for key in partners if self.facts[key].age_key > fact.age_key]
        if fact.endorsed and not by_people:
            return f"contested by an agent, people's word, {fact.date}"
        if not fact.endorsed and by_people:
            # What a search finds never changes core memory.
            apart = ", people say otherwise" if fact.id in self._core else ", people's word is left out"
            alone = "" if {*by_people} & {*shown} else apart
            return f"contested, an agent's word, {age}, {fact.date}{alone}"
        alone = ", a newer value is under review" if newer and not {*newer} & {*shown} else ""
        return f"contested, {age}, {fact.date}{alone}"

    def marked(self, candidate: Candidate) -> Candidate:
        """The candidate, annotated if it is contested."""
        hit = candidate.hit
        if hit.type != "fact" or hit.id not in self.facts or hit.retirement:
            return candidate
        return replace(candidate, contest=self.annotation(hit.id))


def contested_layout(
    fixed: Sequence[FixedSection], passed: Sequence[Verdict], groups: ContestedGroups
) -> ContestedLayout:
    """Annotate each contested fact among the fixed sections and those that `passed` the filters.

    Facts that contest core memory stay among the searched ones, so that core memory is the same for every question.
    """
    layout = ContestedLayout(fixed, passed)
    for group in groups.core_groups:
        layout = _core_layout(layout, group, groups)
    for group in groups.searched_groups:
        layout = _searched_layout(layout, group, groups)
    return replace(layout, fixed=[_reported_marked(section, groups) for section in layout.fixed])


def _reported_marked(section: FixedSection, groups: ContestedGroups) -> FixedSection:
    """The section; contested facts that only tools, imports or the web report are marked where they stand."""
    contested = [item.id for item in section.items if item.type == "fact" and item.id in groups.facts]
    if section.key != REPORTED_SECTION or not contested:
        return section
    marked = {key: groups.marked(groups.facts[key].candidate) for key in contested}
    items = [
        replace(item, text=marked[item.id].line(), contest=marked[item.id].contest) if item.id in marked else item
        for item in section.items
    ]
    return replace(section, items=items)


def contested_grouped(entries: Iterable[Entry], contest_of: Callable[[Entry], ContestAnnotation | None]) -> list[Entry]:
    """The entries in their order, but all of a group at the place of its first, the preferred first."""
    groups: dict[str, list[tuple[int, Entry]]] = {}
    order: list[Entry | str] = []
    entries = list(entries)
    for entry in entries:
        contest = contest_of(entry)
        if contest is None or not contest.group:
            order.append(entry)
            continue
        if contest.group not in groups:
            order.append(contest.group)
        groups.setdefault(contest.group, []).append((contest.rank, entry))
    together: list[Entry] = []
    for one in order:
        if isinstance(one, str):
            together += [entry for _, entry in sorted(groups[one], key=lambda pair: pair[0])]
        else:
            together.append(one)
    return together


def _core_layout(layout: ContestedLayout, group: Sequence[str], groups: ContestedGroups) -> ContestedLayout:
    section = next(section for section in layout.fixed if section.key == CORE_SECTION)
    suppressed = groups.suppressed(group)
    shown = [key for key in group if key not in suppressed]
    items = _core_items(section.items, suppressed, shown, groups)
    fixed = [replace(one, items=items) if one is section else one for one in layout.fixed]
    return replace(layout, fixed=fixed, core_ids=layout.core_ids | {*shown})


def _core_items(
    items: Sequence[Item], suppressed: Collection[str], shown: Sequence[str], groups: ContestedGroups
) -> list[Item]:
    """The items of core memory. A preferred fact comes before the facts that it contests, with the best priority of
    them."""
    own = {item.id: item for item in items}
    known = {key: groups.annotation(key, shown) for key in shown}
    choice = {key: (own[key].priority, own[key].choice_key) for key in shown}
    for key in reversed(shown):
        if preferred := known[key].preferred_id:
            choice[preferred] = min(choice[preferred], choice[key])
    placed: set[str] = set()
    layout: list[Item] = []

    def place(key: str) -> None:
        if key in placed:
            return
        if preferred := known[key].preferred_id:
            place(preferred)
        candidate = groups.facts[key].candidate
        line, hit = replace(candidate, contest=known[key]).line(), candidate.hit
        placed.add(key)
        keys = {**keys_of(hit), "screened_as": screening_class(hit.trust)}
        priority, choice_key = choice[key]
        layout.append(Item("fact", key, line, priority, known[key], choice_key=choice_key, **keys))

    for item in items:
        if item.id in known:
            place(item.id)
        elif item.id not in suppressed:
            layout.append(item)
    return layout


def _searched_layout(layout: ContestedLayout, group: Sequence[str], groups: ContestedGroups) -> ContestedLayout:
    found = _of_group(layout.passed, group)
    suppressed = groups.suppressed(found, layout.core_ids)
    shown = [key for key in group if key in found and key not in suppressed]
    beside = [*shown, *layout.core_ids]
    passed = [
        replace(entry, candidate=replace(entry.candidate, contest=groups.annotation(key, beside)))
        if found.get(key := entry.candidate.hit.id) is entry
        else entry
        for entry in layout.passed
        if not (found.get(entry.candidate.hit.id) is entry and entry.candidate.hit.id in suppressed)
    ]
    left_out = [
        found[key].refusal(VerdictCode.CONTESTED, _suppressed_reason(groups, key, shown), _HINT)
        for key in found
        if key in suppressed
    ]
    return replace(layout, passed=passed, refused=[*layout.refused, *left_out])


def _of_group(entries: Sequence[Verdict], group: Sequence[str]) -> dict[str, Verdict]:
    """The verdicts on facts of a group that are not retired, by their ids."""
    hits = ((entry, entry.candidate.hit) for entry in entries)
    return {hit.id: entry for entry, hit in hits if hit.type == "fact" and hit.id in group and not hit.retirement}


_HINT = "A resolution of the review of the two facts, or another policy for contradicted facts."


def _suppressed_reason(groups: ContestedGroups, key: str, shown: Collection[str]) -> str:
    preferred = groups.preferred(key, shown)
    if not preferred:
        return "Contradicted, and the policy includes only the newest fact, which is in the User Profile."
    text = groups.facts[preferred].candidate.hit.content
    return f"Contradicted, and the policy includes only the newest fact: “{shortened(text)}”."
