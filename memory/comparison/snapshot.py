"""A fact as it is compared and shown to a judge."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from memory.comparison import lexicon as w
from memory.comparison.canonical import canonical
from memory.comparison.statements import Statement, statements_of
from memory.comparison.tokenizer import Token, base_form, tokens_of

if TYPE_CHECKING:
    from memory.models import Fact

_SMALL_WORDS = w.PREPOSITIONS | w.CLAUSE_WORDS | {"be", "have", "'s", "not", "no", "now", "it", "its"}


@dataclass(frozen=True, slots=True)
class Thing:
    """What a fact is about, whatever it is called in it."""

    id: UUID
    name: str
    spellings: tuple[str, ...]


@dataclass(frozen=True)
class FactSnapshot:
    """What comparison and judge know of a fact. `moment`: since when it is true, else when it was learned.

    `thing` is what its subject means, where that is known: sentences that call it otherwise are read as if they had its
    name. Its words are read once, with however many others it is compared.
    """

    content: str
    subject: str = ""
    category: str = ""
    moment: datetime | None = None
    thing: Thing | None = None

    @classmethod
    def of(cls, fact: "Fact", thing: Thing | None = None) -> "FactSnapshot":
        """The snapshot of `fact`, stored or not."""
        return cls(fact.content, fact.subject, fact.category, fact.valid_from or fact.recorded_at, thing)

    @cached_property
    def named(self) -> str:
        """The sentence with the thing's name wherever it has another spelling of it."""
        others = [] if self.thing is None else [each for each in self.thing.spellings if each != self.thing.name]
        if not others or self.thing is None:
            return self.content
        longest_first = sorted((self.thing.name, *others), key=len, reverse=True)
        spelled = "|".join(re.escape(each) for each in longest_first)
        name = self.thing.name
        return re.sub(rf"(?<!\w)(?:{spelled})(?!\w)", lambda match: name, self.content, flags=re.IGNORECASE)

    @cached_property
    def tokens(self) -> list[Token]:
        return tokens_of(self.named)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return canonical(tuple(token.text for token in self.tokens))

    @cached_property
    def content_words(self) -> frozenset[str]:
        return frozenset(map(base_form, self.texts)) - _SMALL_WORDS

    @cached_property
    def statements(self) -> list[Statement]:
        return statements_of(self.tokens)
