"""Any endpoint that speaks OpenAI's embeddings protocol: POST {base URL}/embeddings."""

import base64
import http.client
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory.embedding.protocol import Embedder, EmbeddingRefused, EmbeddingUnavailable, Vectors, normalised
from nousweb.lib.http_exchange import BadAnswer, BusyServer, http_exchange, retry_after_seconds

BATCH = 64
"""Texts in one request."""
MAX_CHARACTERS = 24_000
"""Of one text: models of this kind read about 8,000 tokens and refuse more."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_RETRY_AFTER_SECONDS = 5.0
MAX_DIMENSION = 16_000
"""What a column of half-precision vectors stores."""


class OpenAIEmbedder(Embedder):
    """`timeout` and `query_timeout` are seconds of one try, however they are spent; `retries` come after the first one.

    A query is asked once and briefly: somebody waits for it, and words alone can answer.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key: str = "",
        dimension: int = 0,
        timeout: float = 30.0,
        query_timeout: float = 5.0,
        retries: int = 2,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError("the base URL of the embeddings endpoint starts with http:// or https://")
        self.model = model
        self.name = f"openai:{model}"
        self._address = base_url.rstrip("/") + "/embeddings"
        self._key = key
        self._asked_dimension = dimension
        self._dimension = dimension
        self._timeout = timeout
        self._query_timeout = query_timeout
        self._retries = retries

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        parts = [
            self._ask(texts[begin : begin + BATCH], self._timeout, self._retries)
            for begin in range(0, len(texts), BATCH)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> Vectors:
        return self._ask([text], self._query_timeout, 0)[0]

    def _ask(self, texts: Sequence[str], timeout: float, retries: int) -> Vectors:
        """One request, with retries if the endpoint is busy, failing or unreachable."""
        body: dict[str, Any] = {"model": self.model, "input": [text[:MAX_CHARACTERS] or " " for text in texts]}
        if self._asked_dimension:
            body["dimensions"] = self._asked_dimension
        for attempt in range(retries + 1):
            try:
                return self._vectors(self._post(json.dumps(body).encode(), timeout), len(texts))
            except BusyServer as busy:
                if attempt == retries:
                    raise EmbeddingUnavailable(str(busy)) from busy
                time.sleep(min(busy.retry_after or 0.2 * 2**attempt, MAX_RETRY_AFTER_SECONDS))
        raise AssertionError("unreachable")

    def _post(self, body: bytes, timeout: float) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            answer = http_exchange(self._address, body, headers, seconds=timeout, max_bytes=MAX_ANSWER_BYTES)
        except BadAnswer as error:
            raise EmbeddingUnavailable("The embeddings endpoint answered with more than is plausible.") from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or type(error).__name__
            raise BusyServer(f"The embeddings endpoint cannot be reached ({why}).") from error
        if answer.status < 300:
            return answer.body
        said = f"The embeddings endpoint answered {answer.status}."
        if answer.status in (408, 409, 425, 429) or answer.status >= 500:
            raise BusyServer(said, retry_after_seconds(answer.header("Retry-After")))
        # The same request would be refused again; the operator must correct a wrong key or address.
        wrong_setting = answer.status in (401, 403, 404)
        raise (EmbeddingUnavailable if wrong_setting else EmbeddingRefused)(said)

    def _vectors(self, answer: bytes, count: int) -> Vectors:
        try:
            items = sorted(json.loads(answer)["data"], key=lambda item: item["index"])
            if [item["index"] for item in items] != list(range(count)):
                raise ValueError("not one vector for each text")
            # A number that is too large is infinite then, and refused as such.
            with np.errstate(over="ignore"):
                vectors = np.array([_vector(item["embedding"]) for item in items], np.float32)
            if vectors.ndim != 2 or not 0 < vectors.shape[1] <= MAX_DIMENSION:
                raise ValueError("not one vector for each text")
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            raise EmbeddingUnavailable("The embeddings endpoint answered with something else than vectors.") from error
        if self._dimension and vectors.shape[1] != self._dimension:
            raise EmbeddingRefused(
                f"The embeddings endpoint gave vectors of {vectors.shape[1]} numbers instead of {self._dimension}."
            )
        return normalised(vectors)


def _vector(raw: Any) -> Any:
    return np.frombuffer(base64.b64decode(raw), np.float32) if isinstance(raw, str) else raw
