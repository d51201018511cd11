"""The local models run once a process for the same tokens: nine of ten batches to embed, and pairs of facts to read, of
the tests come again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from memory.comparison.cross_encoder import CrossEncoder, cross_encoder
from memory.embedding import local, query_prefetch
from memory.embedding.protocol import Vectors
from memory.embedding.recent_queries import RecentQueries

model_runs = local._mean_of_tokens
"""The function that really runs the model, for the tests of the model itself."""
pair_score = CrossEncoder.score
"""The function that really scores a pair of facts, for the tests of the cross-encoder itself."""


@contextmanager
def batches_run_once() -> Iterator[None]:
    """Cache the model's results of batches: the same tokens in the same batch give the same result."""
    known: dict[tuple[Any, tuple[tuple[int, ...], ...]], Vectors] = {}

    def once(session: Any, token_ids: Sequence[Sequence[int]]) -> Vectors:
        batch = session, tuple(map(tuple, token_ids))
        if batch not in known:
            known[batch] = model_runs(session, token_ids)
        return known[batch]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_mean_of_tokens", once)
        yield


@contextmanager
def pairs_read_once() -> Iterator[None]:
    """Cache the bundled cross-encoder's score of each pair of sentences: the same tokens give the same score."""
    known: dict[tuple[bytes, bytes], float] = {}

    def once(encoder: CrossEncoder, tokens: Any, segment: Any) -> float:
        if encoder is not cross_encoder():
            return pair_score(encoder, tokens, segment)
        pair = tokens.tobytes(), segment.tobytes()
        if pair not in known:
            known[pair] = pair_score(encoder, tokens, segment)
        return known[pair]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CrossEncoder, "score", once)
        yield


def questions_forgotten() -> None:
    """As a minute later: no vector of a question is known."""
    query_prefetch._recent = RecentQueries(max_size=500, seconds=60)
