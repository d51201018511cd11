"""Two subjects that may be one, side by side: the facts about each, and what they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from django.utils.text import Truncator, get_text_list
from rapidfuzz import fuzz

from memory.models import Fact, Subject
from memory.subjects.name_similarity import likeness

FACTS_SHOWN, FACTS_READ = 4, 40
"""Of each subject, the latest."""
NAMES_SHOWN = 6
SIMILAR = 80
"""Percent of likeness from which two facts are called similar, without the names of their subjects."""
SIMILAR_SHOWN = 3
QUOTED = 80
"""Characters of a fact that is quoted."""


@dataclass(frozen=True, slots=True)
class Side:
    """A subject with its names, its latest facts, and how many there are."""

    subject: Subject
    names: list[str]
    read: list[Fact]
    count: int

    @property
    def other_names(self) -> list[str]:
        return [name for name in self.names if name != self.subject.name][:NAMES_SHOWN]

    @property
    def facts(self) -> list[Fact]:
        return self.read[:FACTS_SHOWN]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The subjects, and of two each thing that they share as a sentence."""

    sides: list[Side]
    shared: list[str]


def subjects_compare(subjects: Sequence[Subject]) -> Comparison:
    """Put subjects of one agent, which have their aliases prefetched, side by side."""
    sides = [_side(subject) for subject in subjects]
    shared = [*_names(*sides), *_attributes(*sides), *_similar(*sides)] if len(sides) == 2 else []
    return Comparison(sides, shared)


def _side(subject: Subject) -> Side:
    about = Fact.objects.active().filter(agent=subject.agent_id, subject_alias__subject=subject)
    facts = list(about.order_by("-recorded_at", "id")[:FACTS_READ])
    names = [alias.spelling for alias in subject.aliases.all()]
    return Side(subject, names[:FACTS_READ], facts, len(facts) if len(facts) < FACTS_READ else about.count())


def _names(one: Side, other: Side) -> list[str]:
    """Why their names may mean the same."""
    pairs = product(one.names, other.names)
    found = [(like.score, like.words, pair) for pair in pairs if (like := likeness(*pair))]
    return [f"Names “{name}” and “{like}”: {words}" for _, words, (name, like) in sorted(found, reverse=True)[:1]]


def _attributes(one: Side, other: Side) -> list[str]:
    """The attributes of which both have a value."""
    values, others = ({fact.attribute: fact.value for fact in side.read if fact.attribute} for side in (one, other))
    both = [name for name in values if name in others]
    told = [f"{name} ({', '.join(dict.fromkeys((values[name], others[name])))})" for name in both]
    return [f"Both have facts about: {get_text_list(told, 'and')}."] if told else []


def _similar(one: Side, other: Side) -> list[str]:
    """The pairs of facts that say nearly the same once the names are left out."""
    names = sorted((name.casefold() for name in one.names + other.names), key=len, reverse=True)

    def bare(fact: Fact) -> str:
        text = fact.content.casefold()
        for name in names:
            text = text.replace(name, " ")
        return text

    scored = (
        (fuzz.token_sort_ratio(bare(fact), bare(like), score_cutoff=SIMILAR), fact.content, like.content)
        for fact, like in product(one.read, other.read)
    )
    best = sorted((pair for pair in scored if pair[0]), reverse=True)[:SIMILAR_SHOWN]
    quoted = [[Truncator(text).chars(QUOTED) for text in pair] for _, *pair in best]
    return [f"Similar facts: “{fact}” and “{like}”" for fact, like in quoted]
