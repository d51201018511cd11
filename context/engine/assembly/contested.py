"""Contested facts in a prompt: the newer above the older, both marked, and never one without what it is contested by.

Of two facts about which a question is open one leads: what people said before what only agents did, what is true now
before what is not, then the newer one. Which facts contest each other is known from
`context.engine.retrieval.contested_facts`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal, TypeVar

from context.engine.analysis.contested_policy import ContestedOrder
from context.engine.analysis.resolved_request import ResolvedRequest
from context.engine.assembly.candidate import Candidate
from context.engine.assembly.filters import shortened
from context.engine.assembly.item import Contest, Item
from context.engine.assembly.section import FixedSection
from context.engine.assembly.verdict import Verdict, VerdictCode
from memory.policy import PROFILE_CATEGORIES

Entry = TypeVar("Entry", Item, Verdict)
CORE_SECTION = "user_profile"
ALSO_WANTED = frozenset(
    {
        VerdictCode.NOT_PLANNED,
        VerdictCode.LOW_IMPORTANCE,
        VerdictCode.BELOW_THRESHOLD,
        VerdictCode.DUPLICATE_MESSAGE,
        VerdictCode.OVER_LIMIT,
    }
)
"""What keeps a fact out by itself, and not beside one that is included and contests it."""


@dataclass(frozen=True, slots=True)
class ContestedCandidate:
    """A contested fact as a prompt could show it, whether it was found or not.

    `partners` are the ids of those that contest it, `opposed` of those with which it can hardly be true. `since` is
    when it became true, or else was recorded; `core_priority` is its priority in core memory.
    """

    candidate: Candidate
    partners: frozenset[str]
    since: datetime
    until: datetime | None = None
    endorsed: bool = False
    opposed: frozenset[str] = frozenset()
    core_priority: int = 0

    @property
    def id(self) -> str:
        return self.candidate.hit.id

    @property
    def is_core_memory(self) -> bool:
        return self.candidate.hit.category in PROFILE_CATEGORIES

    @property
    def age_key(self) -> tuple[datetime, datetime, str]:
        """Of two facts the one with the greater key is newer."""
        return self.since, self.candidate.hit.recorded_at, self.id

    def in_force(self, moment: datetime) -> bool:
        """Whether it is true in the world at `moment`."""
        return self.since <= moment and (self.until is None or self.until > moment)


@dataclass(frozen=True, slots=True)
class Arranged:
    """The fixed sections, and the verdicts on what passed the filters and what did not, with contested facts in place.

    `core` are the verdicts on facts that were found and stand in core memory, beside what they contest; `core_shown`
    are the ids of all contested facts there.
    """

    fixed: Sequence[FixedSection]
    passed: Sequence[Verdict]
    refused: Sequence[Verdict]
    core: Sequence[Verdict] = ()
    core_shown: frozenset[str] = frozenset()


class Contests:
    """Which facts contest each other, in the order in which a prompt may tell of them."""

    def __init__(self, facts: Iterable[ContestedCandidate], resolved: ResolvedRequest) -> None:
        self._policy = resolved.contested
        self._now = resolved.now
        excluded = resolved.profile.excluded_kinds
        ranked = sorted(facts, key=self._rank, reverse=True)
        self.facts: Mapping[str, ContestedCandidate] = {one.id: one for one in ranked}
        self.excluded = {
            one.id
            for one in ranked
            if not one.candidate.kinds.isdisjoint(excluded)
            or not resolved.profile.trusts(one.candidate.hit.type, one.candidate.hit.trust)
        }
        core = {one.id for one in ranked if one.is_core_memory} - self.excluded
        core |= {key for key in self.facts if not core.isdisjoint(self.facts[key].partners)}
        # Whoever leads one of them stands above it: the last of all are asked first.
        for key in reversed(self.facts):
            if key in core:
                core |= {*self._leading(key)}
        self.core_groups = self._groups(core)
        self.searched_groups = self._groups(self.facts.keys() - core)
        self._group = {key: group for group in (*self.core_groups, *self.searched_groups) for key in group}

    def _rank(self, one: ContestedCandidate) -> tuple[object, ...]:
        return one.endorsed, one.in_force(self._now), *one.age_key

    def _groups(self, keys: Set[str]) -> list[list[str]]:
        """The facts of `keys` that contest each other, directly or through others, who leads first."""
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
        """The order of the group that a fact belongs to: that of the category of who leads it."""
        return self._policy.of(self.facts[self._group[key][0]].candidate.hit.category)

    def _leading(self, key: str) -> list[str]:
        """Those that contest a fact and lead it."""
        before = takewhile(lambda other: other != key, self.facts)
        return [other for other in before if other in self.facts[key].partners]

    def leader(self, key: str, among: Collection[str]) -> str:
        """Who of `among` stands above a fact: who contests and leads it, or who leads that; "" when nobody does."""
        leading = self._leading(key)
        found = next((other for other in leading if other in among), "")
        return found or (self.leader(leading[0], among) if leading else "")

    def wanted(self, found: Iterable[str], possible: Collection[str]) -> list[str]:
        """The facts that may be shown for those of a group that were `found`: with whoever of `possible` leads them."""
        wanted: dict[str, None] = {}
        waiting = list(found)
        while waiting:
            key = waiting.pop(0)
            if key in wanted:
                continue
            wanted[key] = None
            order = self._order(key)
            if order is ContestedOrder.BOTH:
                continue
            leaders = [self.leader(key, possible)]
            if order is ContestedOrder.NEWEST_ONLY:
                leaders += [other for other in self._leading(key) if other in self.facts[key].opposed & {*possible}][:1]
            waiting += filter(None, leaders)
        return list(wanted)

    def hidden(self, wanted: Collection[str], beside: Collection[str] = ()) -> set[str]:
        """Those that the policy leaves out for others, or for those `beside` them; what may be true too never is."""
        return {
            key
            for key in wanted
            if self._order(key) is ContestedOrder.NEWEST_ONLY
            and any(
                (other in wanted or other in beside) and other in self.facts[key].opposed
                for other in self._leading(key)
            )
        }

    def contest(self, key: str, shown: Collection[str] = ()) -> Contest:
        """What a prompt says of a contested fact beside those of its group that it may show."""
        one, group = self.facts[key], self._group[key]
        partners = [other for other in self.facts if other in one.partners]
        is_older = any(self.facts[other].age_key > one.age_key for other in partners)
        age: Literal["newer", "older"] = "older" if is_older else "newer"
        contest = Contest(age, tuple(partners), self._mark(one, age, partners))
        if self._order(key) is ContestedOrder.BOTH:
            return contest
        return replace(contest, beneath=self.leader(key, shown), group=group[0], rank=group.index(key))

    def _mark(self, one: ContestedCandidate, age: str, partners: Sequence[str]) -> str:
        by_people = {self.facts[key].endorsed for key in partners}
        date = f"{'from ' if one.since > self._now else ''}{one.since.astimezone(UTC):%Y-%m-%d}"
        if one.endorsed and True not in by_people:
            return f"contested by an agent, people's word, {date}"
        whose = ", an agent's word" if not one.endorsed and True in by_people else ""
        return f"contested{whose}, {age}, {date}"

    def marked(self, candidate: Candidate) -> Candidate:
        """A candidate that knows whether it is contested."""
        hit = candidate.hit
        if hit.type != "fact" or hit.id not in self.facts or hit.retirement:
            return candidate
        return replace(candidate, contest=self.contest(hit.id))


def contested_arrange(
    fixed: Sequence[FixedSection], passed: Sequence[Verdict], refused: Sequence[Verdict], contests: Contests
) -> Arranged:
    """Let each contested fact know who stands above it, and let those come along though no filter would let them in.

    Facts that core memory contests stand there with it.
    """
    arranged = Arranged(fixed, passed, refused)
    for group in contests.core_groups:
        arranged = _core_arranged(arranged, group, contests)
    for group in contests.searched_groups:
        arranged = _searched_arranged(arranged, group, contests)
    return arranged


def contested_together(entries: Iterable[Entry], contest_of: Callable[[Entry], Contest | None]) -> list[Entry]:
    """The entries in their order, but those of a group at the place of the first, who leads first."""
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


def _core_arranged(given: Arranged, group: Sequence[str], contests: Contests) -> Arranged:
    section = next((one for one in given.fixed if one.key == CORE_SECTION and not one.error), None)
    if section is None:
        return _searched_arranged(given, group, contests)
    own = {item.id: item for item in section.items if item.type == "fact" and item.id in group}
    found = _of_group(given.passed, group)
    wanted = contests.wanted([*own, *found], [key for key in group if key not in contests.excluded])
    if not wanted:
        return given
    hidden = contests.hidden(wanted)
    shown = [key for key in group if key in wanted and key not in hidden]
    items = _core_items(section.items, [*own, *found], shown, contests)
    beside = "It is included in the User Profile, with the facts that contest it."
    core = [
        entry.refusal(VerdictCode.CONTESTED, _hidden_reason(contests, key, shown) if key in hidden else beside, _HINT)
        for key, entry in found.items()
    ]
    return Arranged(
        [replace(one, items=items) if one is section else one for one in given.fixed],
        [entry for entry in given.passed if entry.candidate.hit.id not in found],
        given.refused,
        [*given.core, *core],
        given.core_shown | {*shown},
    )


def _core_items(items: Sequence[Item], found: Sequence[str], shown: Sequence[str], contests: Contests) -> list[Item]:
    """The items of core memory, who leads before those that it leads and with the room of the first of them."""
    own = {item.id: item for item in items}
    known = {key: contests.contest(key, shown) for key in shown}
    priority = {key: own[key].priority if key in own else contests.facts[key].core_priority for key in shown}
    for key in reversed(shown):
        if leader := known[key].beneath:
            priority[leader] = min(priority[leader], priority[key])
    placed: set[str] = set()
    arranged: list[Item] = []

    def place(key: str) -> None:
        if key in placed:
            return
        if leader := known[key].beneath:
            place(leader)
        candidate = contests.facts[key].candidate
        line, hit = replace(candidate, contest=known[key]).line(), candidate.hit
        placed.add(key)
        arranged.append(Item("fact", key, line, priority[key], known[key], hit.project, hit.task))

    for item in items:
        if item.id in known:
            place(item.id)
        elif item.id not in found:
            arranged.append(item)
    for key in found:
        if key in known:
            place(key)
    return arranged


def _searched_arranged(given: Arranged, group: Sequence[str], contests: Contests) -> Arranged:
    found = _of_group(given.passed, group)
    if not found:
        return given
    refused = _of_group(given.refused, group)
    possible = [
        key
        for key in group
        if key not in contests.excluded and (key not in refused or refused[key].code in ALSO_WANTED)
    ]
    wanted = contests.wanted(found, possible)
    hidden = contests.hidden(wanted, given.core_shown)
    shown = [key for key in wanted if key not in hidden]
    best = next(iter(found.values())).score
    brought = [_brought(key, refused.get(key), best, contests, shown) for key in shown if key not in found]
    passed = [
        replace(entry, candidate=replace(entry.candidate, contest=contests.contest(entry.candidate.hit.id, shown)))
        if entry.candidate.hit.id in found
        else entry
        for entry in given.passed
        if not (entry.candidate.hit.id in found and entry.candidate.hit.id in hidden)
    ]
    left_out = [
        found[key].refusal(VerdictCode.CONTESTED, _hidden_reason(contests, key, shown), _HINT)
        for key in found
        if key in hidden
    ]
    return replace(given, passed=[*passed, *brought], refused=[*given.refused, *left_out])


def _brought(key: str, refused: Verdict | None, score: float, contests: Contests, shown: Sequence[str]) -> Verdict:
    """Who leads a fact that was found, and was not found by itself: as relevant as the best of its group."""
    candidate = refused.candidate if refused else contests.facts[key].candidate
    contest = replace(contests.contest(key, shown), is_brought=True)
    return Verdict(replace(candidate, contest=contest), score, refused.factors if refused else ())


def _of_group(entries: Sequence[Verdict], group: Sequence[str]) -> dict[str, Verdict]:
    """The verdicts on facts of a group that are not retired, by their ids."""
    hits = ((entry, entry.candidate.hit) for entry in entries)
    return {hit.id: entry for entry, hit in hits if hit.type == "fact" and hit.id in group and not hit.retirement}


_HINT = "A resolution of the review of the two facts, or another policy for contested facts."


def _hidden_reason(contests: Contests, key: str, shown: Collection[str]) -> str:
    leader = contests.leader(key, shown)
    if not leader:
        return "Contested, and the policy includes only the newest fact, which is in the User Profile."
    text = contests.facts[leader].candidate.hit.content
    return f"Contested, and the policy includes only the newest fact: “{shortened(text)}”."
