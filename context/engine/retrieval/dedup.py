"""Which memories the conversation, or the input itself, has said already. Source: seed 005.1, D4.

Words decide the clear cases; only where a message shares a good part of a memory's words are the two compared by
their vectors. A message that says the same in wholly other words is rare, and embedding every message of every
conversation would cost more than the repetition it saves.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from context.engine.analysis.intent import is_question
from context.engine.analysis.request import Message
from memory.comparison.compare import compare_facts
from memory.comparison.lexicon import MODALS
from memory.comparison.snapshot import FactSnapshot
from memory.embedding import EmbeddingFailed, embedder_named
from memory.embedding.registry import configured_name
from memory.embedding.thresholds import UNKNOWN
from nousweb.lib.word_overlap import share_within, words_of

SAME_BY_MEANING = 0.85
SAME_BY_WORDS = 0.9
"""Share of a memory's words in one message at which it repeats it, whatever the vectors say."""
SAME_BY_WORDS_ALONE = 0.75
"""The same, when there is no embedder to ask."""
WORTH_COMPARING = 0.35
HARMLESS = frozenset({"wording", "detail"})
"""Differences between a memory and what the input states that leave it a repetition, if it holds the memory's words."""
MAX_STATEMENTS = 500
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_OPEN = re.compile(r"\b(?:whether|if|unless|wonder\w*)\b", re.IGNORECASE)
"""A sentence with one of these leaves open what it is about."""


def duplicates_of(texts: Sequence[str], conversation: Sequence[Message], window: int) -> Mapping[int, int]:
    """For each text (by place) that one of the last `window` turns repeats: the number of that message, from 1."""
    messages = list(enumerate(conversation, 1))[-window * 2 :]
    if not messages or not texts:
        return {}
    words = [(number, message.content, words_of(message.content)) for number, message in messages]
    found: dict[int, int] = {}
    for place, text in enumerate(texts):
        own = words_of(text)
        for number, content, said in reversed(words):
            share = share_within(own, said)
            if share >= SAME_BY_WORDS or (share >= WORTH_COMPARING and _same_meaning(text, content, share)):
                found[place] = number
                break
    return found


def repeated_by_input(texts: Sequence[str], text: str) -> frozenset[int]:
    """The places of the texts that the input states itself.

    Asking is not stating: questions do not count, nor does a sentence that leaves something open. Nor does one that
    differs in a number, a name, a negation or anything else that matters: the memory may be what corrects it.
    """
    stated = words_of(text)
    own = {place: words_of(each) for place, each in enumerate(texts)}
    near = {place: words for place, words in own.items() if share_within(words, stated) >= WORTH_COMPARING}
    if not near:
        return frozenset()
    statements = [sentence for sentence in _sentences(text) if not is_question(sentence) and not _OPEN.search(sentence)]
    return frozenset(
        place
        for place, words in near.items()
        if any(_stated(texts[place], words, said) for said in _windows(statements[:MAX_STATEMENTS], texts[place]))
    )


def _sentences(text: str) -> list[str]:
    return [found.group(0).strip() for found in _SENTENCE.finditer(text) if found.group(0).strip()]


def _windows(statements: Sequence[str], text: str) -> Iterator[str]:
    """As many statements in a row as the text has sentences."""
    size = min(max(1, len(_sentences(text))), len(statements))
    return (" ".join(statements[start : start + size]) for start in range(len(statements) - size + 1) if size)


def _stated(text: str, words: frozenset[str], said: str) -> bool:
    more = words_of(said)
    share = share_within(words, more)
    if share < WORTH_COMPARING:
        return False
    codes = {reason.code for reason in compare_facts(FactSnapshot(text), FactSnapshot(said), 1.0, UNKNOWN).reasons}
    if share >= SAME_BY_WORDS:
        # Who decided something yesterday says so too; who only plans to does not.
        return codes <= (HARMLESS if MODALS & (more - words) else HARMLESS | {"time"})
    return codes <= {"wording"} and _same_meaning(text, said, share)


def _same_meaning(text: str, message: str, share: float) -> bool:
    try:
        similarity = float(np.dot(_embedded(text), _embedded(message)))
    except EmbeddingFailed:
        return share >= SAME_BY_WORDS_ALONE
    return similarity > SAME_BY_MEANING


@lru_cache(maxsize=2_048)
def _embedded(text: str) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """The vector of a text; messages come again with every turn of a conversation, so they are remembered."""
    return embedder_named(configured_name()).embed_documents([text])[0]
