"""Which memories the conversation has said already. Source: seed 005.1, D4.

Words decide the clear cases; only where a message shares a good part of a memory's words are the two compared by
their vectors. A message that says the same in wholly other words is rare, and embedding every message of every
conversation would cost more than the repetition it saves.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from context.engine.analysis.request import Message
from memory.embedding import EmbeddingFailed, embedder_named
from memory.embedding.registry import configured_name
from nousweb.lib.word_overlap import share_within, words_of

SAME_BY_MEANING = 0.85
SAME_BY_WORDS = 0.9
"""Share of a memory's words in one message at which it repeats it, whatever the vectors say."""
SAME_BY_WORDS_ALONE = 0.75
"""The same, when there is no embedder to ask."""
WORTH_COMPARING = 0.35


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
