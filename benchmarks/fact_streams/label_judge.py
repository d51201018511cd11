"""A judge for measurements: a local server with OpenAI's protocol that answers by the labels of the streams.

A fixed share of its verdicts is wrong, always the same ones.
"""

import hashlib
import html
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.fact_streams.rows import REPLACED, Row

WRONG_SHARE = 0.05
SURE = 0.95
_MEMORY = re.compile(r'<memory which="(old|new)"[^>]*>\n(.*?)\n</memory>', re.DOTALL)
RELATIONS = {**dict.fromkeys(REPLACED, "update"), "paraphrases": "duplicate", "refinements": "refinement"}

Labels = Mapping[tuple[str, str], str]


def labels_of(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """The relation of the pairs of the rows; all other pairs are unrelated."""
    return {
        (old.content, new.content): relation
        for row in rows
        for old, new in zip(row.steps, row.steps[1:], strict=False)
        if not old.counts and (relation := RELATIONS.get(new.kind))
    }


@contextmanager
def label_judge(labels: Labels) -> Iterator[tuple[dict[str, str], list[int]]]:
    """The settings with which a server asks this judge, and the number of pairs of each call."""
    calls: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = "\n".join(message["content"] for message in asked["messages"])
            told = [(which, html.unescape(words)) for which, words in _MEMORY.findall(text)]
            pairs = [(old, new) for (_, old), (_, new) in zip(told[::2], told[1::2], strict=True)]
            if not pairs:
                # It merges and summarises nothing.
                self.send_error(400)
                return
            calls.append(len(pairs))
            verdicts = [verdict(labels, pair) for pair in pairs]
            numbered = {"verdicts": [{"pair": number, **each} for number, each in enumerate(verdicts, 1)]}
            answer = numbered if "<pair number=" in text else verdicts[0]
            self._answer(asked["model"], json.dumps(answer))

        def _answer(self, model: str, content: str) -> None:
            message = {"role": "assistant", "content": content}
            body = json.dumps(
                {
                    "id": "labels", "object": "chat.completion", "created": 0, "model": model,
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340},
                }
            ).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield {"NOUS_JUDGE": "openai", "NOUS_JUDGE_BASE_URL": url, "NOUS_JUDGE_MODEL": "labels"}, calls
    finally:
        server.shutdown()
        server.server_close()


def verdict(labels: Labels, pair: tuple[str, str]) -> dict[str, Any]:
    """The verdict on a pair; one in twenty says "unrelated" of a change, or "update" of what holds beside it."""
    # Exchanged, the two facts of a pair are what they were.
    relation = labels.get(pair) or labels.get(pair[::-1], "unrelated")
    chance = int.from_bytes(hashlib.sha256("\n".join(pair).encode()).digest()[:4]) / 2**32
    if chance < WRONG_SHARE:
        relation = "unrelated" if relation in ("update", "duplicate") else "update"
    return {"reason": "So it is labelled.", "relation": relation, "confidence": SURE}
