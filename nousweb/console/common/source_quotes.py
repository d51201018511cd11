"""The words of its source from which a fact was learned."""

import re
from dataclasses import dataclass

from memory.models import Event, Fact
from nousweb.lib.word_overlap import share_within, words_of

AROUND = 160
"""Number of characters that are shown before and after the sentence."""
MAX_CHARACTERS_READ = 20_000
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """A quote of an event: the sentence that shares most words with the fact, and its surroundings."""

    event: Event
    before: str
    said: str
    after: str


def source_quote(fact: Fact) -> SourceQuote | None:
    """The quote of a fact's source event; None for a fact without one, or if no word is shared."""
    event = fact.source_event
    if event is None:
        return None
    text, words = event.content[:MAX_CHARACTERS_READ], words_of(fact.content)
    sentences = list(_SENTENCE.finditer(text))
    best = max(sentences, key=lambda found: share_within(words, words_of(found.group())), default=None)
    if best is None or not words & words_of(best.group()):
        return None
    start, end = max(best.start() - AROUND, 0), best.end() + AROUND
    before = ("…" if start else "") + text[start : best.start()]
    return SourceQuote(event, before, best.group(), text[best.end() : end] + ("…" if end < len(event.content) else ""))
