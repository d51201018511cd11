"""A fact as it is compared and shown to a judge."""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.comparison import lexicon as w
from memory.comparison.canonical import canonical
from memory.comparison.statements import Statement, statements_of
from memory.comparison.tokenizer import VERBS, Token, base_form, number_free, tokens_of
from memory.subjects.mentions import KnownSubject, named_by_subject, named_for_pronoun

STEM = 5
_ENDING = re.compile(r"\bno longer |\bnot (.*?) ?\bany more\b")
_SMALL_WORDS = w.PREPOSITIONS | w.CLAUSE_WORDS | {"be", "have", "'s", "not", "no", "now", "it", "its"}


@dataclass(frozen=True)
class FactSnapshot:
    """What comparison and judge know of a fact. `moment`: since when it is true, else when it was learned. What calls
    the `known_subject` otherwise is read as its name. `vector`: its embedding, if it is known and of the local model.
    Words are read once, with however many they are compared; `memo` is for what a rule reads of this fact alone."""

    content: str
    subject: str = ""
    category: str = ""
    moment: datetime | None = None
    known_subject: KnownSubject | None = None
    vector: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def tokens(self) -> list[Token]:
        name = self.known_subject.name if self.known_subject else self.subject
        return tokens_of(named_by_subject(named_for_pronoun(self.content, name), self.known_subject))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return canonical(tuple(token.text for token in self.tokens))

    @cached_property
    def number_free(self) -> tuple[str, ...]:
        return number_free(self.texts)

    @cached_property
    def ended(self) -> tuple[str, ...]:
        """What it says is true no longer, as `number_free`; () where it says nothing of the kind."""
        rest, endings = _ENDING.subn(r"\1", " ".join(self.number_free))
        before = number_free(canonical(tuple(rest.split()))) if endings == 1 else ()
        return before if len(before) > 2 else ()

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each word stands there."""
        return Counter(self.texts)

    @cached_property
    def content_words(self) -> frozenset[str]:
        return frozenset(map(base_form, self.texts)) - _SMALL_WORDS

    @cached_property
    def stems(self) -> frozenset[str]:
        """How the words for things begin, by which "insured" and "insurance" are one."""
        return frozenset(text[:STEM] for text in {*map(base_form, self.texts[:1]), *self.content_words} - VERBS)

    @cached_property
    def statements(self) -> list[Statement]:
        return statements_of(self.tokens)
