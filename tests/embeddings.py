"""The local model runs once a process for the same tokens: nine of ten batches of the tests come again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from memory.embedding import local, query_prefetch
from memory.embedding.protocol import Vectors
from memory.embedding.query_prefetch import RecentQueries

model_runs = local._mean_of_tokens
"""The function that really runs the model, for the tests of the model itself."""


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


def questions_forgotten() -> None:
    """As a minute later: no vector of a question is known."""
    query_prefetch._recent = RecentQueries(max_size=500, seconds=60)
