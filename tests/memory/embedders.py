"""Embedders for tests: an endpoint that speaks OpenAI's protocol over HTTP, and rows to put in the index."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIMENSION = 32


@lru_cache(maxsize=10_000)
def _of_word(word: str, dimension: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).normal(size=dimension)


def vector_of(text: str, dimension: int = DIMENSION) -> list[float]:
    """Word hashing: the same text gives the same vector, and common words make vectors alike."""
    vector = np.zeros(dimension)
    for word in text.lower().split():
        vector += _of_word(word, dimension)
    return [float(number) for number in vector] if vector.any() else [1.0] * dimension


class Endpoint:
    """A running endpoint. `answers` are used up first: a status, bytes, seconds of delay, or a callable.

    `requests` holds the bodies that came, `headers` those of the last one; `broken` lets every request fail.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.answers: list[int | bytes | float | tuple[int, dict[str, str]] | Callable[[dict[str, Any]], Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.broken = False
        self.dimension = DIMENSION

    def reply(self, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(body)
        answer = self.answers.pop(0) if self.answers else None
        if self.broken:
            answer = 503
        if isinstance(answer, float):
            time.sleep(answer)
        if isinstance(answer, int):
            return answer, {}, b'{"error": {"message": "secret inner words"}}'
        if isinstance(answer, tuple):
            return answer[0], answer[1], b"{}"
        if isinstance(answer, bytes):
            return 200, {}, answer
        if callable(answer):
            return 200, {}, json.dumps(answer(body)).encode()
        return 200, {}, json.dumps(self.good(body)).encode()

    def good(self, body: dict[str, Any]) -> dict[str, Any]:
        dimension = body.get("dimensions", self.dimension)
        rows = [
            {"object": "embedding", "index": place, "embedding": vector_of(text, dimension)}
            for place, text in enumerate(body["input"])
        ]
        # In no order: the index says which is which.
        return {"object": "list", "data": rows[::-1], "model": body["model"]}


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.headers = dict(self.headers) | {"path": self.path}
            status, headers, answer = served.reply(body)
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                # The caller has given up waiting.
                return

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Endpoint(server.server_address[1])
    # It looks so often for whether it shall end, and whoever ends it waits for that.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
