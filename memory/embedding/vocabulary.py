"""The vocabulary of common English words: the whole words of the default model's tokenizer, some twenty thousand."""

import json
from functools import cache

from memory.embedding import local
from memory.embedding.protocol import EmbeddingUnavailable

LEAST_LETTERS = 4


@cache
def known_words() -> frozenset[str]:
    """In lower case; none where the model is not installed."""
    try:
        held = json.loads(local.verified_file(*local.TOKENIZER_FILE, local.TOKENIZER_SHA256))
    except EmbeddingUnavailable:
        return frozenset()
    return frozenset(word for word in held["model"]["vocab"] if len(word) >= LEAST_LETTERS and word.isalpha())
