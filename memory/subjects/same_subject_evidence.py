"""Evidence in facts that two subjects are the same, whatever their names. Pure.

Two kinds of evidence: a sentence that names both ("The user's name is Tim", "Postgres, also known as …"), and several
sentences that are told of either in the same words. Sentences are looked up by their words, so the cost grows with the
number of facts and not with the number of pairs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from uuid import UUID

from memory.subjects.name_lexicon import ALSO_KNOWN_AS, ARTICLES
from memory.subjects.name_similarity import key_of, tokens_of

LEAST_SHARED = 2
"""So many sentences have to be said of two subjects in the same words."""
MOST_SHARING = 4
"""What is said of more subjects than this says nothing about any two of them."""
LEAST_WORDS = 2
NAMING_SCORE, SHARING_SCORE = 0.8, 0.6


@dataclass(frozen=True, slots=True)
class SubjectSentence:
    """One sentence about a subject, and the keys of all its spellings."""

    subject: UUID
    content: str


@dataclass(frozen=True, slots=True)
class SubjectEvidence:
    """Two subjects that may be the same: `code` is "named" or "shared", `quote` the sentence that tells it."""

    one: UUID
    other: UUID
    code: str
    quote: str

    @property
    def score(self) -> float:
        return NAMING_SCORE if self.code == "named" else SHARING_SCORE


WORDS: Mapping[str, str] = {
    "named": "A fact says that one is called like the other one.",
    "shared": "The same is said of both in the same words.",
}


def shared_contexts(sentences: Sequence[SubjectSentence], keys: Mapping[str, UUID]) -> list[SubjectEvidence]:
    """Pairs of subjects that what is said of them makes alike, each once; `keys` are those of all spellings."""
    found = {(each.one, each.other): each for each in [*_shared(sentences, keys), *_named(sentences, keys)]}
    return list(found.values())


def _named(sentences: Iterable[SubjectSentence], keys: Mapping[str, UUID]) -> Iterator[SubjectEvidence]:
    for each in sentences:
        match = ALSO_KNOWN_AS.match(each.content)
        if match is None:
            continue
        one = keys.get(key_of(match["one"]), each.subject)
        other = keys.get(key_of(match["other"]))
        if other is not None and other != one:
            yield _pair(one, other, "named", each.content)


def _shared(sentences: Iterable[SubjectSentence], keys: Mapping[str, UUID]) -> Iterator[SubjectEvidence]:
    names: dict[UUID, set[str]] = defaultdict(set)
    for key, subject in keys.items():
        names[subject].update(key.split())
    holders: dict[tuple[str, ...], dict[UUID, str]] = defaultdict(dict)
    for each in sentences:
        own = names[each.subject] | ARTICLES
        words = tuple(word for word in (part.removesuffix("'s") for part in tokens_of(each.content)) if word not in own)
        if len(words) >= LEAST_WORDS:
            holders[words].setdefault(each.subject, each.content)
    counts: dict[tuple[UUID, UUID], list[str]] = defaultdict(list)
    for subjects in holders.values():
        if 2 <= len(subjects) <= MOST_SHARING:
            for one, other in combinations(sorted(subjects), 2):
                counts[one, other].append(subjects[one])
    for (one, other), quotes in counts.items():
        if len(quotes) >= LEAST_SHARED:
            yield _pair(one, other, "shared", quotes[0])


def _pair(one: UUID, other: UUID, code: str, quote: str) -> SubjectEvidence:
    first, second = sorted((one, other))
    return SubjectEvidence(first, second, code, quote[:200])
