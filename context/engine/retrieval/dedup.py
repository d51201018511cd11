"""Which memories the conversation, or the input itself, has said already. Source: seed 005.1, D4.

Words decide the clear cases; only where a message shares a good part of a memory's words are the two compared by
their vectors. A message that says the same in wholly other words is rare, and embedding every message of every
conversation would cost more than the repetition it saves.
"""

import re
from collections.abc import Mapping, Sequence
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
WORTH_READING = 0.6
"""Share of a memory's words in what the input states from which the two are compared in earnest."""
MAX_STATEMENTS = 200
MAX_READ = 20
"""Memories that are compared in earnest, those of which the input holds most: each takes about half a millisecond."""
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
    statements = [said for said in _sentences(text) if not is_question(said) and not _OPEN.search(said)]
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
            windows[size] = [(said, words_of(said)) for said in _in_a_row(statements[:MAX_STATEMENTS], size)]
        share, said = max((share_within(own, words), said) for said, words in windows[size])
        if share >= WORTH_READING:
            closest.append((share, place, said))
    closest.sort(reverse=True)
    return frozenset(place for share, place, said in closest[:MAX_READ] if _states(said, texts[place], share))


def _sentences(text: str) -> list[str]:
    return [found.group(0).strip() for found in _SENTENCE.finditer(text) if found.group(0).strip()]


def _in_a_row(statements: Sequence[str], size: int) -> list[str]:
    return [" ".join(statements[start : start + size]) for start in range(max(1, len(statements) - size + 1))]


def _states(said: str, text: str, share: float) -> bool:
    """Whether `said` states the memory `text`, of whose words it holds `share`; nothing that matters may differ."""
    codes = {reason.code for reason in compare_facts(FactSnapshot(text), FactSnapshot(said), 1.0, UNKNOWN).reasons}
    if share >= SAME_BY_WORDS:
        # Who decided something yesterday says so too; who only plans to does not.
        planned = MODALS & (words_of(said) - words_of(text))
        return codes <= (HARMLESS if planned else HARMLESS | {"time"})
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
