"""The part of an agent's identity that its prompts include, now or after a change. Writes nothing."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Self

from django.db.models import Q, Window
from django.db.models.functions import JSONObject, RowNumber

from context.engine.analysis.agent_time import LineClock, zone_of
from context.engine.analysis.frames import FRAMES, ContextBudget, budget_for
from context.engine.analysis.profiles import Profile, active_profiles
from context.engine.analysis.request import agent_budgets
from context.engine.assembly import FixedSection, Truncation
from context.engine.assembly.fixed_sections_fit import Need, first_section_fit, section_need, truncations_of
from context.engine.overrides import NO_OVERRIDES, Overrides
from context.engine.retrieval.censors import ActiveCensor, censor_section
from context.engine.retrieval.fixed_sections import (
    FACT_COLUMNS,
    PROFILE_FACTS_READ,
    REPORTED_SECTION,
    frame_section,
    identity_fixed_section,
    is_reported,
    pins_of_each,
    profile_fixed_section,
    reported_fixed_section,
)
from context.engine.retrieval.recent_conversations import RECENT_LABEL, RECENT_SECTION
from context.engine.retrieval.seeded_preferences import without_fact_copies
from context.models import VIEW_RUN, ContextRun
from identity.models import Agent, IdentityVersion
from identity.policy.sections import Section
from identity.principal import Principal
from memory.models import GLOBAL, HUMAN_VERIFIED_FIRST, Censor, Fact
from memory.persona import VIEWS, PersonaMemory
from nousweb.lib import clock
from nousweb.lib.token_estimate import CHARACTERS_PER_TOKEN

LAST_RUNS = 20
CORE_FIRST_READ = 300
"""Facts of core memory that fill the room of nearly every agent's prompts; more are read where they do not."""
SMALLEST_FRAME = min(FRAMES.values(), key=lambda frame: frame.total).id
IDENTITY = "identity"
_CONTENT, _CATEGORY = FACT_COLUMNS.index("content"), FACT_COLUMNS.index("category")
Rows = defaultdict[int, list[Any]]
Sizes = tuple[int | None, tuple[tuple[str, int], ...]]
"""The sizes of a request: the total, and budgets by section."""


@dataclass(frozen=True, slots=True)
class IdentityShortfall:
    """An identity that does not fit: `tokens_left_out` of `tokens_whole` are not sent in a prompt of `total` tokens.

    `sections` are the labels of the shortened or omitted sections, with their tokens left out and of the whole.
    `prompts` of the last `requests` requests had that size; 0 if it is the smallest size of a request without a budget.
    """

    tokens_left_out: int
    tokens_whole: int
    total: int
    sections: tuple[tuple[str, int, int], ...]
    prompts: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class IdentityDelivery:
    """The fixed prompt sections of an agent, loaded once, and the sizes of its recent requests."""

    fixed: Sequence[FixedSection]
    needs: Sequence[Need]
    budgets: Mapping[Sizes, ContextBudget]
    requests: Counter[Sizes]
    clock: LineClock = field(compare=False)

    @classmethod
    def load(cls, agent: Agent, by: Principal) -> Self:
        """Load the fixed sections of an actor's prompts, and the sizes of its last requests."""
        return cls.load_each([agent], by)[agent.pk]

    @classmethod
    def load_each(cls, agents: Sequence[Agent], by: Principal) -> dict[int, Self]:
        """By agent what `load` reads, in the same number of statements for any number of agents."""
        requests = _sizes_each(agents, by)
        budgets = {agent.pk: _budgets_of(agent, requests[agent.pk]) for agent in agents}
        # Characters of core memory beyond which more of it leaves no other section less.
        rooms = {
            key: CHARACTERS_PER_TOKEN * max(max(row.total, row.of("user_profile")) for row in rows.values())
            for key, rows in budgets.items()
        }
        clocks = {agent.pk: LineClock(clock.now(), zone_of(agent)) for agent in agents}
        fixed = _fixed_sections_each(agents, by, rooms, clocks)
        needs = {key: list(map(section_need, sections)) for key, sections in fixed.items()}
        return {key: cls(fixed[key], needs[key], budgets[key], requests[key], clocks[key]) for key in clocks}

    def shortfall(self, overrides: Overrides = NO_OVERRIDES) -> IdentityShortfall | None:
        """The largest part of the identity that a prompt of one of these sizes leaves out; None when all hold it.

        `overrides` change the identity alone.
        """
        fixed = [*overrides.sections(self.fixed[:1], self.clock), *self.fixed[1:]]
        needs = [section_need(fixed[0]), *self.needs[1:]]
        rows = [
            _shortfall(cut, budget.total, self.requests[size], self.requests.total())
            for size, budget in self.budgets.items()
            if (cut := _identity_cut(fixed, needs, budget))
        ]
        return max(rows, key=lambda row: (row.tokens_left_out, row.prompts), default=None)


def _budgets_of(agent: Agent, requests: Counter[Sizes]) -> dict[Sizes, ContextBudget]:
    own = agent_budgets(agent)
    return {
        (total, sections): budget_for(SMALLEST_FRAME, operator_overrides={**own, **dict(sections)}, total=total)
        for total, sections in {(None, ()), *requests}
    }


def _identity_cut(fixed: Sequence[FixedSection], needs: Sequence[Need], budget: ContextBudget) -> Truncation | None:
    sized = [
        replace(section, budget=budget.of(section.key) if section.items or section.key != REPORTED_SECTION else 0)
        for section in fixed
    ]
    cut = truncations_of(sized[:1], [first_section_fit(sized, needs, budget.total)])
    return cut[0] if cut else None


def _shortfall(cut: Truncation, total: int, prompts: int, requests: int) -> IdentityShortfall:
    sections = tuple(
        (identity_section_label(omitted.id), omitted.tokens_left_out, omitted.tokens) for omitted in cut.left_out
    )
    return IdentityShortfall(cut.tokens_left_out, cut.tokens_whole, total, sections, prompts, requests)


def identity_section_label(item_id: str) -> str:
    """The label of the section that a piece of an identity is of: its id is "section:version"."""
    name = item_id.split(":", 1)[0]
    return str(Section(name).label) if name in Section.values else name.title()


def _sizes_each(agents: Sequence[Agent], by: Principal) -> dict[int, Counter[Sizes]]:
    """By agent the sizes of its last requests, where `by` may see them."""
    requests: dict[int, Counter[Sizes]] = {agent.pk: Counter() for agent in agents}
    if not requests or not by.may(VIEW_RUN):
        return requests
    runs = ContextRun.objects.filter(persona=VIEWS[by.persona].persona, as_of=None)
    sizes = runs.values_list("agent", JSONObject(budget="request__budget", budgets="request__budgets"))
    first, *others = [sizes.filter(agent=key)[:LAST_RUNS] for key in requests]
    for key, request in first.union(*others, all=True) if others else first:
        requests[key][_sizes(request)] += 1
    return requests


def _sizes(request: Mapping[str, Any]) -> Sizes:
    budgets = request.get("budgets") or {}
    return request.get("budget"), tuple(sorted(budgets.items()))


def _fixed_sections_each(
    agents: Sequence[Agent], by: Principal, rooms: Mapping[int, int], clocks: Mapping[int, LineClock]
) -> dict[int, list[FixedSection]]:
    """By agent what its prompts always hold, in the order of a prompt; of core memory what fills its `rooms`."""
    view = VIEWS[by.persona]
    pins, profiles = pins_of_each(agents), active_profiles(agents)
    pinned = {key: [item_id for kind, item_id in rows if kind == "fact"] for key, rows in pins.items()}
    versions: Rows = defaultdict(list)
    texts = IdentityVersion.objects.filter(agent__in=agents).current().order_by()
    for key, *version in texts.values_list("agent", "section", "version", "content"):
        versions[key].append(tuple(version))
    censors: Rows = defaultdict(list)
    active = Censor.objects.filter(agent__in=agents, persona__in=view.personas).active().binding_first()
    for key, *censor in active.values_list("agent", *ActiveCensor._fields):
        censors[key].append(ActiveCensor(*censor))
    facts = _core_facts_each(agents, view, profiles, pinned, rooms)
    own = {key: [row for row in rows if not is_reported(row)] for key, rows in facts.items()}
    reported = {key: [row for row in rows if is_reported(row)] for key, rows in facts.items()}
    budget = budget_for(SMALLEST_FRAME)
    return {
        agent.pk: [
            identity_fixed_section(without_fact_copies(agent, versions[agent.pk]), budget),
            profile_fixed_section(own[agent.pk], pinned[agent.pk], budget, clocks[agent.pk]),
            censor_section(censors[agent.pk], budget),
            frame_section(FRAMES[SMALLEST_FRAME], budget),
            reported_fixed_section(reported[agent.pk], pinned[agent.pk], budget, clocks[agent.pk]),
            # Without items: what is guaranteed to them is room that the identity does not get.
            FixedSection("working_memory", "Working Memory", 2, 0),
            FixedSection(RECENT_SECTION, RECENT_LABEL, 2, 0),
            *[FixedSection("conversation", "Recent Conversation", 2, 0)] * profiles[agent.pk].show_conversation,
        ]
        for agent in agents
    }


def _filling(rows: Sequence[tuple[Any, ...]], pinned: Sequence[str], room: int) -> list[tuple[Any, ...]]:
    """The first of these facts that fill as many characters, in their order of priority, and the pinned ones; reported
    ones by themselves.

    A large core memory is not formatted into lines that no prompt could include.
    """
    kept = []
    for group in ([row for row in rows if not is_reported(row)], [row for row in rows if is_reported(row)]):
        before = accumulate((len(row[_CONTENT]) for row in group), initial=0)
        kept += [row for row, used in zip(group, before, strict=False) if used < room or str(row[0]) in pinned]
    return kept


def _core_facts_each(
    agents: Sequence[Agent],
    view: type[PersonaMemory],
    profiles: Mapping[int, Profile],
    pinned: Mapping[int, Sequence[str]],
    rooms: Mapping[int, int],
) -> dict[int, list[tuple[Any, ...]]]:
    """The core memory that fills the `rooms` of each agent, rows of FACT_COLUMNS: facts verified by people first, and
    pinned ones.

    One statement, and a second one for agents whose facts are so short that more of them fit.
    """
    rows: dict[int, list[tuple[Any, ...]]] = {}
    wanted = list(agents)
    for limit in (CORE_FIRST_READ, PROFILE_FACTS_READ):
        read = _core_read(wanted, view, pinned, limit)
        for agent in wanted:
            excluded = set(profiles[agent.pk].excluded_kinds)
            rows[agent.pk] = [tuple(row) for kind, *row in read[agent.pk] if not {kind, row[_CATEGORY]} & excluded]
        wanted = [
            agent
            for agent in wanted
            if len(read[agent.pk]) >= limit
            # Pinned facts are loaded separately.
            and rooms[agent.pk]
            > sum(
                len(row[_CONTENT])
                for row in rows[agent.pk]
                if str(row[0]) not in pinned[agent.pk] and not is_reported(row)
            )
        ]
        if not wanted:
            break
    return {agent.pk: _filling(rows[agent.pk], pinned[agent.pk], rooms[agent.pk]) for agent in agents}


def _core_read(
    agents: Sequence[Agent], view: type[PersonaMemory], pinned: Mapping[int, Sequence[str]], limit: int
) -> Rows:
    """The first `limit` facts of each agent's core memory and its pinned facts: kind and FACT_COLUMNS."""
    core = Fact.objects.filter(GLOBAL.q, agent__in=agents, persona__in=view.personas).current().profile()
    if len(agents) == 1:
        # The first of many are found without all being put in order.
        first = core.human_verified_first().values("pk")[:limit]
    else:
        place = Window(RowNumber(), partition_by="agent", order_by=HUMAN_VERIFIED_FIRST)
        first = core.annotate(place=place).filter(place__lte=limit).order_by().values("pk")
    ids = [key for agent in agents for key in pinned[agent.pk]]
    # The names of subjects are read for those alone that are chosen.
    chosen = core.filter(Q(pk__in=first) | Q(pk__in=ids)).with_subject_name().human_verified_first()
    rows: Rows = defaultdict(list)
    for key, *row in chosen.values_list("agent", "kind", *FACT_COLUMNS):
        rows[key].append(row)
    return rows
