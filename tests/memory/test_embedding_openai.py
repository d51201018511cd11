"""An endpoint that speaks OpenAI's protocol, over real HTTP: good answers, bad ones, late ones and none."""

import base64
import json
import socket

import numpy as np
import pytest

from memory.embedding import EmbeddingRefused, EmbeddingUnavailable
from memory.embedding import openai as protocol
from memory.embedding.openai import OpenAIEmbedder
from tests.memory.embedders import DIMENSION, endpoint, vector_of


@pytest.fixture
def served():
    with endpoint() as running:
        yield running


@pytest.fixture
def embedder(served, monkeypatch):
    monkeypatch.setattr(protocol, "MAX_RETRY_AFTER_SECONDS", 0.01)
    return OpenAIEmbedder("some-model", base_url=served.url + "/", key="sesame", timeout=5, query_timeout=5)


def test_embedding_answer_is_put_in_order_and_normalised(served, embedder):
    vectors = embedder.embed_documents(["one", "two", "three"])
    assert vectors.shape == (3, DIMENSION)
    for text, vector in zip(["one", "two", "three"], vectors, strict=True):
        plain = np.array(vector_of(text))
        assert np.allclose(vector, plain / np.linalg.norm(plain), atol=1e-5)
    assert served.headers["path"] == "/v1/embeddings"
    assert served.headers["Authorization"] == "Bearer sesame"
    assert served.requests == [{"model": "some-model", "input": ["one", "two", "three"]}]
    assert embedder.dimension == DIMENSION


def test_embedding_many_texts_go_in_several_requests(served, embedder):
    texts = [f"text {n}" for n in range(protocol.BATCH + 5)]
    assert embedder.embed_documents(texts).shape == (len(texts), DIMENSION)
    assert [len(body["input"]) for body in served.requests] == [protocol.BATCH, 5]


def test_embedding_shorter_vector_can_be_requested(served):
    embedder = OpenAIEmbedder("m", base_url=served.url, dimension=8)
    assert embedder.embed_query("x").shape == (8,)
    assert served.requests[0]["dimensions"] == 8
    assert "Authorization" not in served.headers


def test_embedding_base64_vectors_are_read(served, embedder):
    raw = np.array([3, 4], np.float32).tobytes()
    served.answers = [lambda body: {"data": [{"index": 0, "embedding": base64.b64encode(raw).decode()}]}]
    assert np.allclose(embedder.embed_query("x"), [0.6, 0.8])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_embedding_busy_endpoint_is_asked_again(served, embedder, status):
    served.answers = [status, (status, {"Retry-After": "0"})]
    assert embedder.embed_documents(["x"]).shape == (1, DIMENSION)
    assert len(served.requests) == 3


def test_embedding_retries_end(served, embedder):
    served.broken = True
    with pytest.raises(EmbeddingUnavailable, match="answered 503") as caught:
        embedder.embed_documents(["x"])
    assert len(served.requests) == 3
    assert "secret inner words" not in str(caught.value)


def test_embedding_query_is_asked_once(served, embedder):
    served.broken = True
    with pytest.raises(EmbeddingUnavailable):
        embedder.embed_query("x")
    assert len(served.requests) == 1


def test_embedding_refusal_is_final(served, embedder):
    served.answers = [400]
    with pytest.raises(EmbeddingRefused, match="answered 400"):
        embedder.embed_documents(["x"])
    assert len(served.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_embedding_wrong_key_or_address_is_recoverable(served, embedder, status):
    served.answers = [status]
    with pytest.raises(EmbeddingUnavailable, match=str(status)):
        embedder.embed_documents(["x"])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"data": 5}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": ["x"]}]}',
        b'{"data": [{"index": 1, "embedding": [1.0]}]}',
        b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]}',
        b'{"data": [{"index": 0, "embedding": "!!!"}]}',
    ],
)
def test_embedding_malformed_vector_is_refused(served, embedder, answer):
    served.answers = [answer]
    with pytest.raises(EmbeddingUnavailable, match="something else than vectors"):
        embedder.embed_documents(["x"])


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_embedding_zero_vector_is_refused(served, embedder, vector):
    served.answers = [json.dumps({"data": [{"index": 0, "embedding": vector}]}).encode()]
    with pytest.raises(EmbeddingRefused):
        embedder.embed_documents(["x"])


def test_embedding_vector_of_another_length_is_refused(served):
    embedder = OpenAIEmbedder("m", base_url=served.url, dimension=8)
    served.answers = [lambda body: {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}]
    with pytest.raises(EmbeddingRefused, match="2 numbers instead of 8"):
        embedder.embed_query("x")


def test_embedding_late_answer_is_not_waited_for(served):
    embedder = OpenAIEmbedder("m", base_url=served.url, query_timeout=0.2)
    served.answers = [1.0]
    with pytest.raises(EmbeddingUnavailable, match="cannot be reached"):
        embedder.embed_query("x")


def test_embedding_endpoint_away():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        embedder = OpenAIEmbedder("m", base_url=f"http://127.0.0.1:{taken.getsockname()[1]}", key="sesame")
        with pytest.raises(EmbeddingUnavailable, match="cannot be reached") as caught:
            embedder.embed_query("x")
    assert "sesame" not in str(caught.value)


def test_embedding_address_must_be_http():
    with pytest.raises(ValueError, match="http://"):
        OpenAIEmbedder("m", base_url="file:///etc")
