"""A local server that speaks Anthropic's Messages API or OpenAI's Chat Completions API, for tests of everything that
asks a judge or counts tokens.

It answers with the queued replies in their order and keeps what it was sent. Over real HTTP, so that the SDK, its
timeouts and its errors are the real ones.

    with JudgeServer() as server, server.configured():
        server.reply(relation="update", confidence=0.9, reason="Moved.")
"""

import contextlib
import json
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.test import override_settings

KEY = "key-of-the-test-judge"
_FACT = re.compile(r'<memory which="(?:old|new)"[^>]*>\n(.*?)\n</memory>', re.DOTALL)


@dataclass
class Reply:
    """One HTTP answer. `tool` None takes the tool that was asked for; `hold` is waited for before the answer."""

    status: int = 200
    input: Any = None
    tool: str | None = None
    stop_reason: str = "tool_use"
    tokens_in: int = 100
    tokens_out: int = 20
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    content: list[dict[str, Any]] | None = None
    hold: threading.Event | None = None


class JudgeServer:
    """Serves on a free port of this machine until the end of the `with` block."""

    def __init__(self, provider: str = "anthropic") -> None:
        self.provider = provider
        self.forms: set[str] | None = None
        """Parameters that the server takes beside model and messages, None for all; others get a 400."""
        self.requests: list[dict[str, Any]] = []
        """Bodies as they were sent, in the order of arrival."""
        self.headers: list[dict[str, str]] = []
        self.counts: list[dict[str, Any]] = []
        """Bodies of requests to count tokens: a word is a token, and every request takes seven more."""
        self.confirms = True
        """Whether it says the same of two facts when it is asked about them again, exchanged."""
        self.confirmations: list[dict[str, Any]] = []
        """Bodies of those requests, which are not among `requests`."""
        self._said: dict[tuple[str, str], dict[str, Any]] = {}
        self.count_replies: deque[Reply] = deque()
        """Answers to counts, in place of the number."""
        self._replies: deque[Reply] = deque()
        self._always: Reply | None = None
        self._held: list[threading.Event] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1" if self.provider == "openai" else self.url

    def __enter__(self) -> "JudgeServer":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for held in self._held:
            held.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @contextlib.contextmanager
    def configured(self, **changed: Any) -> Iterator["JudgeServer"]:
        """Let the settings ask this server; `changed` overrides further settings."""
        settings = {
            "JUDGE": self.provider,
            f"{self.provider.upper()}_API_KEY": KEY,
            "JUDGE_BASE_URL": self.base_url,
            "JUDGE_MODEL": "claude-of-the-tests",
            "JUDGE_TIMEOUT_SECONDS": 10,
            "JUDGE_RETRIES": 0,
            "JUDGE_DAILY_TOKENS": 0,
        }
        with override_settings(**(settings | changed)):
            yield self

    def reply(self, **answer: Any) -> "JudgeServer":
        """Queue a good answer: the input of the tool that will be asked for."""
        return self.queue(Reply(input=answer))

    def queue(self, *replies: Reply) -> "JudgeServer":
        with self._lock:
            self._replies.extend(replies)
        return self

    def always(self, reply: Reply) -> "JudgeServer":
        """Answer so whenever no reply is queued."""
        self._always = reply
        return self

    def fail(self, status: int, *, retry_after: str = "", kind: str = "api_error") -> "JudgeServer":
        """Queue an error in the API's form: 429, 500, 529 (overloaded), 401 …"""
        body = {"type": "error", "error": {"type": kind, "message": "An error that was asked for."}}
        headers = {"retry-after": retry_after} if retry_after else {}
        return self.queue(Reply(status=status, raw=json.dumps(body).encode(), headers=headers))

    def hang(self) -> threading.Event:
        """Queue an answer that does not come until the returned event is set, or the server ends."""
        event = threading.Event()
        self._held.append(event)
        self.queue(Reply(input={}, hold=event))
        return event

    @property
    def prompts(self) -> list[str]:
        """The user message of each request."""
        return [request["messages"][-1]["content"] for request in self.requests]

    @property
    def systems(self) -> list[str]:
        """The system prompt of each request."""
        if self.provider == "anthropic":
            return [request["system"] for request in self.requests]
        return [request["messages"][0]["content"] for request in self.requests]

    def _take(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        pairs = _pairs(body)
        with self._lock:
            if self.confirms and pairs and all(pair[::-1] in self._said for pair in pairs):
                self.confirmations.append(body)
                said = [self._said[pair[::-1]] for pair in pairs]
                numbered = [{"pair": number, **each} for number, each in enumerate(said, 1)]
                return Reply(input={"verdicts": numbered} if len(said) > 1 else said[0])
            self.requests.append(body)
            self.headers.append(headers)
            if self.forms is not None and (others := {*body} - {"model", "messages"} - self.forms):
                wanted = "max_completion_tokens" if "max_tokens" in others else "something else"
                message = f"Unsupported parameter: {sorted(others)}. Use {wanted} instead."
                return Reply(status=400, raw=json.dumps({"error": {"message": message}}).encode())
            if self._replies:
                return self._remembered(pairs, self._replies.popleft())
        missing = {"type": "error", "error": {"type": "invalid_request_error", "message": "No reply is queued."}}
        if self._always:
            return self._remembered(pairs, self._always)
        return Reply(status=400, raw=json.dumps(missing).encode())

    def _remembered(self, pairs: list[tuple[str, str]], reply: Reply) -> Reply:
        answer = reply.input if isinstance(reply.input, dict) else {}
        for number, said in enumerate(answer.get("verdicts", [answer]), 1):
            place = said.get("pair", number) if isinstance(said, dict) else 0
            if isinstance(place, int) and 0 < place <= len(pairs) and "relation" in said:
                self._said[pairs[place - 1]] = {name: value for name, value in said.items() if name != "pair"}
        return reply

    def _counted(self, body: dict[str, Any]) -> Reply:
        with self._lock:
            self.counts.append(body)
            if self.count_replies:
                return self.count_replies.popleft()
        words = [*body.get("system", "").split(), *body["messages"][0]["content"].split()]
        return Reply(raw=json.dumps({"input_tokens": len(words) + 7}).encode())


def _pairs(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The old and the new fact of each pair that a request asks about."""
    facts = _FACT.findall(str(body["messages"][-1]["content"]))
    return list(zip(facts[::2], facts[1::2], strict=True)) if len(facts) % 2 == 0 else []


def _handler(judge: JudgeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
            counting = self.path == "/v1/messages/count_tokens"
            asked = self.path == ("/v1/messages" if judge.provider == "anthropic" else "/v1/chat/completions")
            made = _message if judge.provider == "anthropic" else _completion
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = judge._counted(body) if counting else judge._take(body, headers)
            if reply.hold is not None:
                reply.hold.wait(60)
            content = reply.raw if reply.raw is not None else json.dumps(made(body, reply)).encode()
            # Who has stopped waiting has closed the connection.
            with contextlib.suppress(OSError):
                self.send_response(reply.status if counting or asked else 404)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _message(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    tool = reply.tool or body.get("tool_choice", {}).get("name", "none")
    called = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": reply.input}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": reply.content if reply.content is not None else [called],
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens_in, "output_tokens": reply.tokens_out},
    }


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    stops = {"tool_use": "stop", "end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}
    text = json.dumps(reply.input) if reply.content is None else "".join(part["text"] for part in reply.content)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model"),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": stops.get(reply.stop_reason, reply.stop_reason),
            }
        ],
        "usage": {
            "prompt_tokens": reply.tokens_in,
            "completion_tokens": reply.tokens_out,
            "total_tokens": reply.tokens_in + reply.tokens_out,
        },
    }
