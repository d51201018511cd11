"""Find memories that the conversation, or the input itself, already states. Source: seed 005.1, D4.

Words decide the clear cases. Vectors are compared only if a message shares a good part of a memory's words. A message
that states the same in wholly different words is rare, and embedding every message of every conversation would cost
more than the repetition that it saves.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from context.engine.analysis.intent import is_question
from context.engine.analysis.request import Message
from memory.comparison.compare_facts import compare_facts
from memory.comparison.fact_snapshot import FactSnapshot
from memory.comparison.lexicon import MODALS
from memory.embedding import EmbeddingFailed, embedder_named
from memory.embedding.registry import configured_name
from memory.embedding.thresholds import UNKNOWN
from nousweb.lib.word_overlap import share_within, words_of

SAME_BY_MEANING = 0.85
SAME_BY_WORDS = 0.9
"""Share of a memory's words in one message from which it is a repetition, whatever the vectors."""
SAME_BY_WORDS_ALONE = 0.75
"""The same, if the embedder fails."""
WORTH_COMPARING = 0.35
HARMLESS = frozenset({"wording", "detail"})
"""Differences that do not matter: the input still repeats the memory, if it contains the memory's words."""
WORTH_READING = 0.6
"""Share of a memory's words in the statements of the input from which the two are compared in detail."""
MAX_STATEMENTS = 200
MAX_READ = 20
"""Maximum number of memories that are compared in detail, the closest first: each takes about half a millisecond."""
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_OPEN = re.compile(r"\b(?:whether|if|unless|wonder\w*)\b", re.IGNORECASE)
"""A sentence with one of these words states nothing."""


def duplicates_of(texts: Sequence[str], conversation: Sequence[Message], window: int) -> Mapping[int, int]:
    """For each text (by place) that one of the last `window` turns repeats: the number of that message, from 1."""
    messages = list(enumerate(conversation, 1))[-window * 2 :]
    if not messages or not texts:
        return {}
    words = [(number, message.content, words_of(message.content)) for number, message in messages]
    found: dict[int, int] = {}
    for place, text in enumerate(texts):
        own = words_of(text)
        for number, content, statement in reversed(words):
            share = share_within(own, statement)
            if share >= SAME_BY_WORDS or (share >= WORTH_COMPARING and _same_meaning(text, content, share)):
                found[place] = number
                break
    return found


def repeated_by_input(texts: Sequence[str], text: str) -> frozenset[int]:
    """The places of the texts that the input states itself.

    Questions do not count, nor do sentences that leave something open. Nor do sentences that differ in a number, a
    name, a negation or anything else that matters: the memory may correct them.
    """
    statements = [one for one in _sentences(text) if not is_question(one) and not _OPEN.search(one)]
    if not statements or not texts:
        return frozenset()
    stated = words_of(" ".join(statements))
    windows: dict[int, list[tuple[str, frozenset[str]]]] = {}
    closest: list[tuple[float, int, str]] = []
    for place, each in enumerate(texts):
        own = words_of(each)
        if share_within(own, stated) < WORTH_READING:
            continue
        # As many statements in a row as the memory has sentences.
        size = min(max(1, len(_sentences(each))), len(statements))
        if size not in windows:
            windows[size] = [
                (statement, words_of(statement)) for statement in _in_a_row(statements[:MAX_STATEMENTS], size)
            ]
        share, statement = max((share_within(own, words), statement) for statement, words in windows[size])
        if share >= WORTH_READING:
            closest.append((share, place, statement))
    closest.sort(reverse=True)
    return frozenset(place for share, place, statement in closest[:MAX_READ] if _states(statement, texts[place], share))


def _sentences(text: str) -> list[str]:
    return [found.group(0).strip() for found in _SENTENCE.finditer(text) if found.group(0).strip()]


def _in_a_row(statements: Sequence[str], size: int) -> list[str]:
    return [" ".join(statements[start : start + size]) for start in range(max(1, len(statements) - size + 1))]


def _states(statement: str, text: str, share: float) -> bool:
    """Whether `statement`, with `share` of the words of the memory `text`, states it without a relevant difference."""
    codes = {reason.code for reason in compare_facts(FactSnapshot(text), FactSnapshot(statement), 1.0, UNKNOWN).reasons}
    if share >= SAME_BY_WORDS:
        # A different time does not matter ("decided yesterday"), but a plan is not a statement.
        planned = MODALS & (words_of(statement) - words_of(text))
        return codes <= (HARMLESS if planned else HARMLESS | {"time"})
    return codes <= {"wording"} and _same_meaning(text, statement, share)


def _same_meaning(text: str, message: str, share: float) -> bool:
    try:
        similarity = float(np.dot(_embedded(text), _embedded(message)))
    except EmbeddingFailed:
        return share >= SAME_BY_WORDS_ALONE
    return similarity > SAME_BY_MEANING


@lru_cache(maxsize=2_048)
def _embedded(text: str) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """The vector of a text, cached: messages are repeated in every turn of a conversation."""
    return embedder_named(configured_name()).embed_documents([text])[0]
