"""What a prompt would be if something were otherwise: changes laid over what was loaded, so that nothing is written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from context.assembly import Candidate, FixedSection, Item, list_item
from context.sections import IDENTITY_PRIORITY, censor_line
from identity.policy import Section
from identity.prompt import assemble_prompt

SEVERITIES = ("absolute", "block", "warn")
"""In the order in which a prompt shows censors."""
PROPOSED = "proposed"
"""The id of what is not there yet."""


@dataclass(frozen=True, slots=True)
class CensorDraft:
    """A censor that would be there. `id` is that of the one it changes, if it changes one."""

    pattern: str
    severity: str
    reason: str = ""
    id: str = PROPOSED


@dataclass(frozen=True, slots=True)
class Overrides:
    """Identity texts by section, facts by id, and censors, as they would be.

    A fact maps to its new text, or to None when it would be gone. A text in a fact's place is taken to be as relevant
    as what it replaces: its own relevance is known once it has been learned.
    """

    identity: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    facts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    subjects: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    censors_gone: frozenset[str] = frozenset()
    censors: tuple[CensorDraft, ...] = ()

    def sections(self, fixed: Sequence[FixedSection]) -> list[FixedSection]:
        """The fixed sections as they would be; one that failed to load stays failed."""
        change = {"identity": self._identity, "user_profile": self._profile, "censors": self._censors}
        return [
            replace(section, items=change[section.key](section.items))
            if section.key in change and not section.error
            else section
            for section in fixed
        ]

    def candidates(self, found: Iterable[Candidate]) -> list[Candidate]:
        """The candidates as they would be."""
        kept: list[Candidate] = []
        for candidate in found:
            if candidate.type != "fact" or candidate.id not in self.facts:
                kept.append(candidate)
                continue
            text = self.facts[candidate.id]
            if text is not None:
                kept.append(replace(candidate, id=PROPOSED, text=text))
        return kept

    def _identity(self, items: Sequence[Item]) -> list[Item]:
        order = list(Section.values)
        by_section = {item.id.split(":", 1)[0]: item for item in items}
        if any(self.identity.values()) and [item.id for item in items] == ["environment"]:
            # The prompt of the environment stands in only while there is no identity.
            by_section = {}
        for section, content in self.identity.items():
            by_section.pop(section, None)
            if text := assemble_prompt({section: content}, level=3):
                item_id = f"{section}:{PROPOSED}"
                by_section[section] = Item("identity", item_id, text, IDENTITY_PRIORITY[Section(section)])
        return [by_section[section] for section in order if section in by_section]

    def _profile(self, items: Sequence[Item]) -> list[Item]:
        kept: list[Item] = []
        for item in items:
            if item.id not in self.facts:
                kept.append(item)
                continue
            text = self.facts[item.id]
            if text is not None:
                kept.append(replace(item, id=PROPOSED, text=list_item(text, self.subjects.get(item.id, ""))))
        return kept

    def _censors(self, items: Sequence[Item]) -> list[Item]:
        gone = self.censors_gone | {draft.id for draft in self.censors}
        kept = [item for item in items if item.id not in gone]
        for draft in self.censors:
            rank = SEVERITIES.index(draft.severity)
            before = [place for place, other in enumerate(kept) if _rank(other.text) <= rank]
            item = Item("censor", draft.id, censor_line(draft.severity, draft.pattern, draft.reason))
            kept.insert(before[-1] + 1 if before else 0, item)
        return kept


NO_OVERRIDES = Overrides()


def _rank(line: str) -> int:
    return next(place for place, name in enumerate(SEVERITIES) if line.startswith(f"- {name.upper()}:"))
