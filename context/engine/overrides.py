"""Hypothetical changes, applied to the loaded inputs of a prompt. Nothing is written."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from context.engine.analysis.agent_time import LineClock
from context.engine.assembly import Candidate, ContestedCandidate, FixedSection, Item, list_item
from context.engine.assembly.prompt_section import MEMORY, source_of
from context.engine.retrieval.candidates import kinds_of
from context.engine.retrieval.censors import censor_line
from context.engine.retrieval.fixed_sections import REPORTED_SECTION, profile_rank
from identity.models import Persona
from identity.policy.sections import SECTION_PRIORITY, Section, assemble_prompt
from memory.models import GLOBAL, ProjectScope, Trust, keys_of
from memory.policy import BINDING_CATEGORIES, PROFILE_CATEGORIES
from memory.search.invalidated_matches import InvalidatedFact

SEVERITIES = ("absolute", "block", "warn")
"""In the order in which a prompt shows censors."""
PROPOSED = "proposed"
"""The id of an item that does not exist yet."""


@dataclass(frozen=True, slots=True)
class CensorDraft:
    """A hypothetical censor. `id` is the id of the censor that it changes, if it changes one."""

    pattern: str
    severity: str
    reason: str = ""
    id: str = PROPOSED
    persona: str = Persona.ACTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class FactDraft:
    """A hypothetical fact: a copy that would be stored about another subject, with its metadata there."""

    persona: str
    subject_name: str
    content: str
    category: str
    kind: str
    scope: str
    project: str
    task: str
    user: str
    tags: frozenset[str]
    importance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataChange(FactDraft):
    """A fact with changed metadata; `moved` if its keys change.

    `after` are the ids of the facts that come before it in core memory; `choice_key` is that of its item there.
    """

    id: str
    was: str
    attribute: str
    began: datetime
    recorded: datetime
    after: frozenset[str] = frozenset()
    choice_key: tuple[float, ...] = ()
    moved: bool = False

    @property
    def is_core_memory(self) -> bool:
        """Whether it would always be included, and not searched."""
        return self.category in PROFILE_CATEGORIES


@dataclass(frozen=True, slots=True)
class Overrides:
    """A set of hypothetical changes to an agent's identity, memories and censors."""

    identity: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """New texts of identity sections, by section."""
    facts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    """New texts of facts by id, or None for a fact that would be gone. A new text is taken to be as relevant as the
    fact that it replaces: its own relevance is known only once it has been learned."""
    subjects: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Names of the subjects of `facts`, by the fact's id."""
    metadata: Mapping[str, MetadataChange] = field(default_factory=lambda: MappingProxyType({}))
    """Changed metadata of facts, by id."""
    removed_censors: frozenset[str] = frozenset()
    """Ids of censors that would be gone."""
    censors: tuple[CensorDraft, ...] = ()
    """Censors that would be added or changed."""
    resolved_pairs: frozenset[frozenset[str]] = frozenset()
    """Pairs of ids of facts that would no longer contest each other."""
    endorsed: frozenset[str] = frozenset()
    """Ids of facts that people would have verified."""
    added_facts: Mapping[str, FactDraft] = field(default_factory=lambda: MappingProxyType({}))
    """Copies of facts about another subject, by the id of the copied fact. A search that finds one finds the other."""
    merged: tuple[tuple[UUID, UUID], ...] = ()
    """Subjects, each with the one that it would be merged into. The registry determines which names find which facts,
    so the inputs after the change are loaded while the subjects are merged on trial
    (`memory.services.subjects.changes.subjects_merged_in_dry_run`)."""
    invalidated: tuple[InvalidatedFact, ...] = ()
    """Facts that people would have invalidated. Any memory that repeats one of them is left out too."""
    budgets: Mapping[str, int] | None = None
    """The budgets that the agent's settings would have; None for those that they have."""

    @classmethod
    def merge(cls, parts: Iterable["Overrides"]) -> "Overrides":
        """Combine changes into one. Where two change the same object, the first wins."""
        every = list(parts)
        first = list(reversed(every))
        return cls(
            identity={name: text for part in first for name, text in part.identity.items()},
            facts={key: text for part in first for key, text in part.facts.items()},
            subjects={key: subject for part in first for key, subject in part.subjects.items()},
            metadata={key: change for part in first for key, change in part.metadata.items()},
            removed_censors=frozenset(key for part in every for key in part.removed_censors),
            censors=tuple(draft for part in every for draft in part.censors),
            resolved_pairs=frozenset(pair for part in every for pair in part.resolved_pairs),
            endorsed=frozenset(key for part in every for key in part.endorsed),
            added_facts={key: fact for part in first for key, fact in part.added_facts.items()},
            merged=tuple(dict.fromkeys(pair for part in every for pair in part.merged)),
            invalidated=tuple(dict.fromkeys(one for part in every for one in part.invalidated)),
            budgets=next((part.budgets for part in every if part.budgets is not None), None),
        )

    def visible_to(self, personas: Collection[str]) -> "Overrides":
        """Only the changes that prompts of these personas may show."""
        return replace(
            self,
            metadata={key: change for key, change in self.metadata.items() if change.persona in personas},
            added_facts={key: fact for key, fact in self.added_facts.items() if fact.persona in personas},
            censors=tuple(draft for draft in self.censors if draft.persona in personas),
        )

    @property
    def newly_searched(self) -> list[str]:
        """Ids of facts that need a search of their own: they would leave core memory, or move to another project or
        task."""
        moved = {key: change for key, change in self.metadata.items() if not change.is_core_memory}
        return [key for key, change in moved.items() if change.moved or change.was in PROFILE_CATEGORIES]

    def sections(
        self,
        fixed: Sequence[FixedSection],
        clock: LineClock,
        excluded: Collection[str] = (),
        scope: ProjectScope = GLOBAL,
    ) -> list[FixedSection]:
        """The fixed sections after the changes; one that failed to load stays failed.

        Excluded kinds stay out, as do facts that `scope` does not show.
        """
        reported = [item for section in fixed if section.key == REPORTED_SECTION for item in section.items]
        # As they are told once people have verified them.
        rank = profile_rank(True, "")
        verified = [
            replace(item, priority=rank, screened_as="", source=MEMORY)
            for item in reported
            if item.id in self.facts or item.id in self.endorsed
        ]
        gone = {*self.facts, *self.endorsed, *self.metadata}
        change = {
            "identity": self._identity,
            "user_profile": lambda items: self._profile(
                [*(_told(item) if item.id in self.endorsed else item for item in items), *verified],
                clock,
                excluded,
                scope,
            ),
            REPORTED_SECTION: lambda items: [item for item in items if item.id not in gone],
            "censors": self._censors,
        }
        return [
            replace(section, items=change[section.key](section.items))
            if section.key in change and not section.error
            else section
            for section in fixed
        ]

    def candidates(self, found: Iterable[Candidate], clock: LineClock) -> list[Candidate]:
        """The candidates after the changes."""
        kept: list[Candidate] = []
        for candidate in found:
            hit = candidate.hit
            if hit.type == "fact" and (change := self.metadata.get(hit.id)):
                if not change.is_core_memory:
                    kept.append(_changed(candidate, change))
                continue
            if hit.type != "fact" or hit.id not in self.facts:
                kept.append(candidate)
                if (
                    hit.type == "fact"
                    and (again := self.added_facts.get(hit.id))
                    and again.category not in PROFILE_CATEGORIES
                ):
                    kept.append(_added_candidate(candidate, again, clock))
                continue
            text = self.facts[hit.id]
            if text is not None:
                kept.append(replace(candidate, hit=replace(hit, id=PROPOSED, content=text), told=clock.told_now))
        return kept

    def contested(self, facts: Iterable[ContestedCandidate], clock: LineClock) -> list[ContestedCandidate]:
        """The contested facts after the changes. A fact that is gone or has a new text contests nothing any more."""
        kept = []
        for fact in facts:
            partners = frozenset(
                key
                for key in fact.partners
                if key not in self.facts and frozenset({key, fact.id}) not in self.resolved_pairs
            )
            if fact.id not in self.facts and partners:
                (candidate,) = self.candidates([fact.candidate], clock) or [
                    _changed(fact.candidate, self.metadata[fact.id])
                ]
                # A person who changes the metadata verifies the fact.
                endorsed = fact.endorsed or fact.id in self.endorsed or fact.id in self.metadata
                rank = profile_rank(endorsed, candidate.hit.category) if endorsed else fact.core_priority
                kept.append(
                    replace(
                        fact,
                        candidate=candidate,
                        partners=partners,
                        opposed=fact.opposed & partners,
                        endorsed=endorsed,
                        core_priority=rank,
                    )
                )
        return kept

    def _identity(self, items: Sequence[Item]) -> list[Item]:
        order = list(Section.values)
        by_section = {item.id.split(":", 1)[0]: item for item in items}
        if any(self.identity.values()) and [item.id for item in items] == ["environment"]:
            # The prompt from the environment is used only while there is no identity.
            by_section = {}
        for section, content in self.identity.items():
            by_section.pop(section, None)
            if text := assemble_prompt({section: content}, level=3):
                item_id = f"{section}:{PROPOSED}"
                by_section[section] = Item("identity", item_id, text, SECTION_PRIORITY[Section(section)])
        return [by_section[section] for section in order if section in by_section]

    def _profile(
        self, items: Sequence[Item], clock: LineClock, excluded: Collection[str], scope: ProjectScope
    ) -> Sequence[Item]:
        if not (self.metadata or self.facts or self.added_facts):
            return items
        kept: list[Item] = []
        # A new fact comes last: it is recorded now.
        new: list[Item] = []
        for item in items:
            if item.id in self.metadata:
                continue
            if item.id not in self.facts:
                kept.append(item)
                again = self.added_facts.get(item.id)
                if again and again.category in PROFILE_CATEGORIES and scope.shows(again):
                    told = clock.fact_told(again.content, "", clock.now, clock.now, core=True)
                    line = list_item(again.content, again.subject_name, told=told)
                    rank = profile_rank(True, again.category)
                    source = source_of(Trust.PERSON, category=again.category)
                    copy = Item("fact", PROPOSED, line, rank, **keys_of(again), source=source)
                    new.append(replace(copy, choice_key=item.choice_key))
                continue
            text = self.facts[item.id]
            if text is not None:
                told = clock.fact_told(text, "", clock.now, clock.now, core=True)
                line = list_item(text, self.subjects.get(item.id, ""), told=told)
                new.append(replace(_told(item), id=PROPOSED, text=line))
        for change in self.metadata.values():
            left_out = {change.category, change.kind} & set(excluded) or not scope.shows(change)
            if change.is_core_memory and not left_out:
                before = [place for place, item in enumerate(kept) if item.id in change.after]
                # A person who changes the metadata verifies the fact.
                rank = profile_rank(True, change.category)
                told = clock.fact_told(change.content, change.attribute, change.began, change.recorded, core=True)
                text = list_item(change.content, change.subject_name, told=told)
                source = source_of(Trust.PERSON, category=change.category)
                item = Item("fact", change.id, text, rank, **keys_of(change), source=source)
                kept.insert(before[-1] + 1 if before else 0, replace(item, choice_key=change.choice_key))
        return [*kept, *new]

    def _censors(self, items: Sequence[Item]) -> Sequence[Item]:
        if not (self.removed_censors or self.censors):
            return items
        gone = self.removed_censors | {draft.id for draft in self.censors}
        kept = [item for item in items if item.id not in gone]
        for draft in self.censors:
            rank = SEVERITIES.index(draft.severity)
            # Censors of people come before those that only agents set.
            before = [n for n, other in enumerate(kept) if (other.priority, _rank(other.text)) <= (0, rank)]
            item = Item("censor", draft.id, censor_line(draft.severity, draft.pattern, draft.reason))
            kept.insert(before[-1] + 1 if before else 0, item)
        return kept


def _told(item: Item) -> Item:
    """A fact of core memory as it is told once people have verified it: a rule stands in no block of data."""
    is_rule = item.priority == profile_rank(False, BINDING_CATEGORIES[0])
    return replace(item, source="") if is_rule else item


def _added_candidate(candidate: Candidate, fact: FactDraft, clock: LineClock) -> Candidate:
    """A copy of the candidate about the other subject."""
    hit = replace(candidate.hit, id=PROPOSED, subject=fact.subject_name, subject_name=fact.subject_name)
    copy = replace(candidate, hit=hit, label=fact.subject_name, pinned=False, contest=None, told=clock.told_now)
    return _changed(copy, fact)


def _changed(candidate: Candidate, draft: FactDraft) -> Candidate:
    """The candidate with the metadata of a draft."""
    hit = replace(
        candidate.hit,
        category=draft.category,
        kind=draft.kind,
        scope=draft.scope,
        **keys_of(draft),
        tags=sorted(draft.tags),
        importance=draft.importance,
    )
    return replace(candidate, hit=hit, kinds=kinds_of("fact", draft.kind, draft.category))


NO_OVERRIDES = Overrides()


def _rank(line: str) -> int:
    return next(place for place, name in enumerate(SEVERITIES) if line.startswith(f"- {name.upper()}:"))
