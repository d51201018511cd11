"""Whether sentences name a subject, by any of its spellings, and whether two of them are about different ones."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from uuid import UUID

from memory.subjects.name_lexicon import ARTICLES
from nousweb.lib.lookalikes import lookalike_fold

_PRONOUN = re.compile(
    r"\s*(?:(?:it|he|she|they)\b(?P<contracted>['’]s\b)?|(?P<owner>its|his|her|their)\b)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A subject of the registry, whatever it is called in a fact."""

    id: UUID
    name: str
    spellings: tuple[str, ...]


class SubjectMention(Protocol):
    """A sentence with the subject that its writer gave it, and what that means where it is known."""

    @property
    def content(self) -> str: ...

    @property
    def subject(self) -> str: ...

    @property
    def known_subject(self) -> KnownSubject | None: ...


def named_by_subject(content: str, subject: KnownSubject | None) -> str:
    """A sentence with the subject's name wherever it has another spelling of it."""
    others = [] if subject is None else [each for each in subject.spellings if each != subject.name]
    if not others or subject is None:
        return content
    longest_first = sorted((subject.name, *others), key=len, reverse=True)
    spelled = "|".join(re.escape(each) for each in longest_first)
    name = subject.name
    return re.sub(rf"(?<!\w)(?:{spelled})(?!\w)", lambda match: name, content, flags=re.IGNORECASE)


def named_for_pronoun(content: str, subject: str) -> str:
    """A sentence with its subject's name for a pronoun at its beginning: of whom else it could speak is not said."""
    name = subject.strip()
    pronoun = _PRONOUN.match(content) if name and not _PRONOUN.fullmatch(name) else None
    if pronoun is None:
        return content
    follows = " is" if pronoun["contracted"] else "'s" if pronoun["owner"] else ""
    return name + follows + content[pronoun.end() :]


def subjects_clash(old: SubjectMention, new: SubjectMention) -> bool:
    """Whether the two may be about different things by their subjects: with different ones they are about the
    same only where their sentences name it themselves. What is known to be one thing has one subject."""
    known = bool(old.known_subject and new.known_subject)
    if old.known_subject and new.known_subject and old.known_subject.id == new.known_subject.id:
        return False
    one, other = _plain_subject(old.subject), _plain_subject(new.subject)
    if one == other:
        # People have told two things of one name apart.
        return known
    both = set(one) & set(other)
    if one and other and both not in (set(one), set(other)):
        return True
    return not all((both or {*one, *other}) <= set(_plain_subject(fact.content)) for fact in (old, new))


def names_subject(content: str, fact: SubjectMention) -> bool:
    """Whether a sentence names all of the subject of another fact, by any of its spellings."""
    said = set(_plain_subject(content))
    spellings = (fact.subject, *(fact.known_subject.spellings if fact.known_subject else ()))
    return any((named := set(_plain_subject(each))) and named <= said for each in spellings)


@lru_cache(maxsize=8_192)
def _plain_subject(text: str) -> tuple[str, ...]:
    plain = lookalike_fold(text).casefold().replace("’", "'")
    words = plain.replace("'s", " ").replace("_", " ").replace("-", " ").split()
    return tuple(word.strip(".,;:!?()\"'") for word in words if word not in ARTICLES)
