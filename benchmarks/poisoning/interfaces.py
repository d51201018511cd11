"""Every door through which a token's text comes in, and whether the text is quarantined there.

Each door takes a caller and a text, writes the text in a place of its own, and returns whether it was quarantined, or
None for a text that the door does not take (too long for a name, for example).
"""

import io
import json
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from benchmarks.system import PROJECT, Client

MAX_NAME, MAX_TITLE, MAX_TAG = 100, 200, 50
MARK = "quarantined"
"""What answers call a memory, and the result of learning a fact, that the screening keeps back."""
Door = Callable[["Caller", str], bool | None]
_numbers = count(1)


class Caller:
    """A token of an agent, as all interfaces use it."""

    def __init__(self, port: int, token_make: Callable[[], str]) -> None:
        sys.path.append(str(PROJECT / "clients" / "python" / "src"))
        from nous_client import Nous

        token = token_make()
        self.port, self.token_make = port, token_make
        self.url = f"http://127.0.0.1:{port}"
        self.token = token
        self.api = Client(port, token)
        self.nous = Nous(self.url, token, retries=0)

    @property
    def new(self) -> str:
        """A name that was not used before."""
        return f"n{next(_numbers)}"

    def tool(self, name: str, **arguments: Any) -> Any:
        """The structured result of a tool of MCP."""
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Authorization": f"Bearer {self.token}", "Content-Type": "application/json",
            "Accept": "application/json", "MCP-Protocol-Version": "2025-11-25",
        }  # fmt: skip
        asked = urllib.request.Request(f"{self.url}/mcp", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=120) as answer:
            result = json.loads(answer.read())["result"]
        if result.get("isError"):
            raise RuntimeError(result["content"][0]["text"])
        return result["structuredContent"]

    def event(self, content: str, metadata: Any = None, kind: str = "user_input") -> bool:
        """Whether an event with these texts is quarantined."""
        loop = self.new
        event = {"kind": kind, "content": content, "loop_id": loop, "metadata": metadata or {}}
        self.api.post("/events", {"events": [event]})
        return not self.api.get("/events", loop_id=loop)["items"]

    def document(self, value: Any, **more: Any) -> bool:
        """Whether a document with this value is quarantined."""
        body = {"namespace": ["doors"], "key": self.new, "value": value, **more}
        return bool(self.api.put("/documents", body)["document"][MARK])

    def session(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether a text of a session's working memory is quarantined."""
        name = self.new
        if path:
            self.api.post(f"/working/{name}/{path}", body)
        else:
            self.api.put(f"/working/{name}", body)
        return bool(self.api.get(f"/working/{name}")[MARK])

    def stored(self, key: str) -> bool:
        """Whether the document with this key, the latest, is quarantined: then a token does not find it."""
        return not any(one["key"] == key for one in self.api.get("/documents", limit=100)["items"])


def verdict(caller: Caller, door: str, text: str) -> bool | None:
    """Whether the door quarantines the text; None also for a text that it refuses, such as hidden letters in a name."""
    try:
        return DOORS[door](caller, text)
    except RuntimeError as error:
        if "answered 422" not in str(error):
            raise
        return None


def _fact(caller: Caller, **fields: Any) -> bool:
    return bool(caller.api.post("/facts", fields)["action"] == MARK)


def _memory_tool(caller: Caller, text: str) -> bool:
    from nous_client.anthropic import MemoryTool

    path = f"/memories/{caller.new}.md"
    MemoryTool(caller.nous).call({"command": "create", "path": path, "file_text": text})
    return caller.stored(path)


def _langgraph(caller: Caller, text: str) -> bool:
    from nous_client.langgraph import NousStore

    key = caller.new
    NousStore(caller.nous).put(("doors",), key, {"text": text})
    return caller.stored(key)


def _mem0(caller: Caller, text: str) -> bool:
    from nous_client.mem0 import Memory

    [made] = Memory(caller.nous).add(text, user_id="tim", infer=False)["results"]
    return caller.stored(made["id"])


def _import(caller: Caller, text: str) -> bool:
    """By the command, for an agent of its own: the other doors have told this one the text already."""
    from django.core.management import call_command

    from identity.models import Agent
    from identity.principal import Principal
    from identity.services.agents import agent_create
    from memory.models import Fact

    if not Agent.objects.filter(slug="imported").exists():
        agent_create(slug="imported", name="imported", prompt="You read.", by=Principal.of_system("benchmark"))
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(json.dumps({"record": "fact", "id": caller.new, "content": text}))
        file.flush()
        call_command("importmemory", file.name, agent="imported", stdout=io.StringIO(), stderr=io.StringIO())
    return Fact.objects.filter(agent__slug="imported").latest("recorded_at").quarantined


def _identity(caller: Caller, text: str, section: str = "protocols") -> bool:
    # A token may propose only so often.
    answer = Client(caller.port, caller.token_make()).put(f"/identity/{section}", {"content": text, "mode": "propose"})
    return answer["action"] == "proposed" and "Quarantined" in answer["proposal"]["guardrail"]


def _short(limit: int, door: Door) -> Door:
    """The door of a name: nothing for a text over `limit` characters, or of several lines."""
    return lambda caller, text: door(caller, text) if len(text) <= limit and "\n" not in text else None


DOORS: Mapping[str, Door] = {
    "facts": lambda caller, text: _fact(caller, content=text),
    "facts, subject": _short(MAX_TITLE, lambda caller, text: _fact(caller, content="It is known.", subject=text)),
    "facts, tags": _short(MAX_TAG, lambda caller, text: _fact(caller, content=f"Known {caller.new}.", tags=[text])),
    "facts, source": _short(MAX_TITLE, lambda caller, text: _fact(caller, content=f"Is {caller.new}.", source=text)),
    "events": lambda caller, text: caller.event(text),
    "event metadata": lambda caller, text: caller.event("A page.", {"page": [{"title": text}]}),
    "event metadata, name": lambda caller, text: caller.event("A page.", {"page": {text: None}}),
    "episodes": lambda caller, text: bool(caller.api.post("/episodes", {"title": "A day", "detail": text})[MARK]),
    "episodes, title": _short(
        MAX_TITLE, lambda caller, text: bool(caller.api.post("/episodes", {"title": text})[MARK])
    ),
    "procedures": lambda caller, text: bool(
        caller.api.post("/procedures", {"name": caller.new, "steps": [text]})[MARK]
    ),
    "procedures, name": _short(
        MAX_TITLE, lambda caller, text: bool(caller.api.post("/procedures", {"name": text, "steps": ["Go."]})[MARK])
    ),
    "decisions": lambda caller, text: bool(caller.api.post("/decisions", {"description": text})[MARK]),
    "decisions, reasons": lambda caller, text: bool(
        caller.api.post("/decisions", {"description": "We go.", "reasons": [text]})[MARK]
    ),
    "documents": lambda caller, text: caller.document({"text": text}),
    "documents, name": lambda caller, text: caller.document({"a": {text: None}}),
    "documents, late field": lambda caller, text: caller.document(
        {"a" * 90: ["x"] * 1_500, "zz": text}, index=["zz"]
    ),
    "documents, key": _short(MAX_TITLE, lambda caller, text: bool(
        caller.api.put("/documents", {"namespace": ["doors"], "key": text, "value": {"a": 1}})["document"][MARK]
    )),
    "working memory, item": lambda caller, text: caller.session("items", {"text": text}),
    "working memory, thread": lambda caller, text: (
        caller.session("threads", {"text": text}) if len(text) <= 500 else None
    ),
    "working memory, task": lambda caller, text: caller.session("", {"task": text}),
    "identity": _identity,
    "identity, preferences": lambda caller, text: _identity(caller, text, "preferences"),
    "MCP, fact": lambda caller, text: caller.tool("learn_fact", content=text)["action"] == MARK,
    "MCP, document": lambda caller, text: bool(
        caller.tool("put_document", namespace=["doors"], key=caller.new, value={"text": text})["document"][MARK]
    ),
    "memory tool": _memory_tool,
    "LangGraph": _langgraph,
    "mem0": _mem0,
    "import": _import,
}  # fmt: skip
