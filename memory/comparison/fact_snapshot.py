"""A fact as it is compared and shown to a judge, with what its sentence says of its subject and slots."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from uuid import UUID

from memory.comparison import lexicon as w
from memory.comparison.attribute_names import same_attribute, stated_name
from memory.comparison.clauses import clauses_of
from memory.comparison.sentence_normalization import canonical
from memory.comparison.slots import Slot, singular, slots_of
from memory.comparison.tokenizer import Token, base_form, number_free, tokens_of
from memory.policy.attributes import attribute_rule
from memory.subjects.name_lexicon import ARTICLES
from nousweb.lib.lookalikes import lookalike_fold

_PRONOUN = re.compile(
    r"\s*(?:(?:it|he|she|they)\b(?P<contracted>['’]s\b)?|(?P<owner>its|his|her|their)\b)", re.IGNORECASE
)

_LINE_MARK = re.compile(r"\s*\(as of \d{4}-\d\d-\d\d\)")
"""The mark of a prompt's line, which agents copy."""


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A subject of the registry, whatever it is called in a fact."""

    id: UUID
    name: str
    spellings: tuple[str, ...]


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


def subjects_clash(old: "FactSnapshot", new: "FactSnapshot") -> bool:
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


def names_subject(content: str, fact: "FactSnapshot") -> bool:
    """Whether a sentence names all of the subject of another fact, by any of its spellings."""
    said = set(_plain_subject(content))
    spellings = (fact.subject, *(fact.known_subject.spellings if fact.known_subject else ()))
    return any((named := set(_plain_subject(each))) and named <= said for each in spellings)


@lru_cache(maxsize=8_192)
def _plain_subject(text: str) -> tuple[str, ...]:
    plain = lookalike_fold(text).casefold().replace("’", "'")
    words = plain.replace("'s", " ").replace("_", " ").replace("-", " ").split()
    return tuple(word.strip(".,;:!?()\"'") for word in words if word not in ARTICLES)


_BORDERS = w.words("| , ; but")
_NOT_NOW = (
    w.NEGATIONS | w.PRIVATIVES | w.words("leave will would could might may plan intend want hope expect use+ed ?")
)
"""Before a value: it does not hold now."""


def stated_slot(
    attribute: str, value: str, subject: str, tokens: Sequence[Token], derived: Sequence[Slot]
) -> Slot | None:
    """The slot of a fact with these tokens, whose writer named `attribute`, `value` and `subject`.

    None without both names, or if the sentence denies the value, asks about it or only plans it. Without a subject, it
    is that of a derived slot of the same attribute, else the names in the sentence.
    """
    compared, name = _compared(tokens_of(value)), stated_name(attribute)
    if not name or not compared or _is_denied(tokens, compared):
        return None
    about: frozenset[str] = frozenset()
    if not subject:
        same = next((slot.subject for slot in derived if same_attribute(slot.attribute, name)), None)
        names = frozenset(token.text for token in tokens if token.name) - {*compared}
        about = names if same is None else same
    whole = len(clauses_of(tokens)) == 1
    return Slot(about, name, compared, value, attribute_rule(name)[0], whole, stated=True)


def _compared(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(text for text in number_free(token.text for token in tokens) if text not in w.ARTICLES | {",", "|"})


def _is_denied(tokens: Sequence[Token], value: Sequence[str]) -> bool:
    """Whether the sentence says that the value does not hold now, in the words before it."""
    texts = number_free(token.text for token in tokens)
    place = next((at for at, text in enumerate(texts) if text == value[0]), len(texts))
    begin = max((at + 1 for at in range(place) if texts[at] in _BORDERS), default=0)
    # In "since May" and "Will Berg" such a word is a name.
    before = [text for token, text in list(zip(tokens, texts, strict=True))[begin:place] if not token.name]
    return "?" in texts or not _NOT_NOW.isdisjoint({*before, *map(base_form, before)})


_ENDING = re.compile(r"\bno longer |\bnot (.*?) ?\bany more\b")
_SMALL_WORDS = w.PREPOSITIONS | w.CLAUSE_WORDS | {"be", "have", "'s", "not", "no", "now", "it", "its"}


@dataclass(frozen=True)
class FactSnapshot:
    """The data of a fact for comparisons and for a judge.

    `moment`: `began` (`valid_from`), else the recorded time. `known_subject`: the registered subject; its aliases in
    the content are read as its name. `attribute`, `value`: what its writer states of the subject. Tokens are computed
    once, for all comparisons.
    """

    content: str
    subject: str = ""
    category: str = ""
    moment: datetime | None = None
    known_subject: KnownSubject | None = None
    attribute: str = ""
    value: str = ""
    began: datetime | None = None
    recorded: datetime | None = None

    @cached_property
    def tokens(self) -> list[Token]:
        content = _LINE_MARK.sub("", self.content).strip()
        return tokens_of(named_by_subject(named_for_pronoun(content, self.subject_name), self.known_subject))

    @property
    def subject_name(self) -> str:
        """The name of the subject in the registry, else as its writer spelled it."""
        return self.known_subject.name if self.known_subject else self.subject

    def is_later_than(self, old: "FactSnapshot") -> bool:
        """Whether it certainly tells of a later time: by the beginnings of both valid times, else by when it was
        recorded."""
        if self.began is not None and old.began is not None and self.began != old.began:
            return self.began > old.began
        mine, theirs = self.recorded or self.moment, old.recorded or old.moment
        return mine is not None and theirs is not None and mine > theirs

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return canonical(tuple(token.text for token in self.tokens))

    @cached_property
    def indented(self) -> list[tuple[int, str]]:
        """The indented lines after the first one, each with its indentation, which in code can be all that differs."""
        lines = [(len(line) - len(line.lstrip()), line.strip()) for line in self.content.splitlines()[1:]]
        return [(indentation, line) for indentation, line in lines if indentation and line]

    @cached_property
    def singular(self) -> tuple[str, ...]:
        """`texts` with nouns and verbs in the form that goes with one."""
        return tuple(map(singular, self.number_free))

    @cached_property
    def number_free(self) -> tuple[str, ...]:
        return number_free(self.texts)

    @cached_property
    def ended(self) -> tuple[str, ...]:
        """The statement that the fact says is no longer true, as `number_free`; () without one."""
        rest, endings = _ENDING.subn(r"\1", " ".join(self.number_free))
        before = number_free(canonical(tuple(rest.split()))) if endings == 1 else ()
        return before if len(before) > 2 else ()

    @cached_property
    def counts(self) -> Counter[str]:
        """The count of each word."""
        return Counter(self.texts)

    @cached_property
    def content_words(self) -> frozenset[str]:
        return frozenset(map(base_form, self.texts)) - _SMALL_WORDS

    @cached_property
    def subject_words(self) -> frozenset[str]:
        """The content words of the subject's name."""
        return frozenset(base_form(token.text) for token in tokens_of(self.subject_name))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The slot that the writer states, followed by the slots of other attributes in the sentence."""
        derived = slots_of(self.tokens)
        stated = stated_slot(self.attribute, self.value, self.subject_name, self.tokens, derived)
        if stated is None:
            return derived
        return (stated, *(slot for slot in derived if not same_attribute(slot.attribute, stated.attribute)))
