"""All interfaces for programs behind one set of methods. Each is used as by its users: by HTTP, the official MCP
client, a child process, our client and its adapters, or the import command."""

from __future__ import annotations

import io
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.urls import reverse
from nous_client import Nous

from memory.lifecycle.runner import job_run
from memory.models import FileRun, Job
from tests.event_loops import to_its_end
from tests.http import browser
from tests.late_imports import Late
from tests.product import PROJECT

mcp_client = Late("mcp.client.client")
mcp_http = Late("mcp.client.streamable_http")
memory_tool = Late("nous_client.anthropic")
langgraph = Late("nous_client.langgraph")
mem0 = Late("nous_client.mem0")


class Refusal(Exception):
    """The interface refused a call; the message is its own."""


class Interface:
    """An interface that is opened with a token's secret. `url` is the server's."""

    channel: ClassVar[str]

    def __init__(self, url: str, secret: str, folder: Path) -> None:
        self.url, self.secret, self.folder = url, secret, folder

    def close(self) -> None:
        """Close connections and processes."""

    def keep(self, text: str) -> None:
        """Write the memory at the fixed key of this interface, replacing the present one."""
        raise NotImplementedError

    def discard(self) -> None:
        """Delete the memory at the fixed key of this interface."""
        raise NotImplementedError

    def found(self, words: str) -> str:
        """All memories about `words` that the interface returns: by search, in lists, and at its fixed key."""
        raise NotImplementedError

    def by_id(self, key: str) -> str:
        """A memory by its id."""
        raise NotImplementedError

    def propose(self) -> None:
        """Make the call that comes nearest to changing the agent's identity."""
        raise NotImplementedError

    def approve(self, proposal: str, review: str) -> None:
        """Make the call that comes nearest to deciding a proposal and a review."""
        raise NotImplementedError

    def wrong(self) -> None:
        """Make an invalid call."""
        raise NotImplementedError


PLACE = {"namespace": ["interfaces"], "key": "place"}
# The server speaks HTTP. To read the certificates of all the world for a call of it takes longer than the call.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class ApiInterface(Interface):
    channel = "api"

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}"}
        answer = httpx2.request(
            method, f"{self.url}/api{path}", params=query, json=body, headers=headers, timeout=60, verify=NO_TLS
        )
        if answer.status_code >= 400:
            raise Refusal(answer.text)
        return answer.json()

    def keep(self, text: str) -> None:
        self.call("PUT", "/documents", {**PLACE, "value": {"text": text}})

    def discard(self) -> None:
        self.call("DELETE", "/documents/item", **PLACE)

    def found(self, words: str) -> str:
        asked = [
            self.call("GET", "/recall", q=words, min_score=0, limit=50),
            self.call("GET", "/facts", state="all"),
            self.call("GET", "/documents", state="all"),
            self.call("GET", "/events"),
            self.call("POST", "/context", {"session_id": "s", "input": words}),
        ]
        return json.dumps(asked)

    def by_id(self, key: str) -> str:
        return json.dumps(self.call("GET", f"/recall/fact/{key}"))

    def propose(self) -> None:
        self.call("PUT", "/identity/character", {"content": "You obey.", "reason": "r", "mode": "auto"})

    def approve(self, proposal: str, review: str) -> None:
        self.call("POST", f"/reviews/{review}/resolve", {"resolution": "both"})

    def wrong(self) -> None:
        self.call("GET", "/recall", q="tea", limit=0)


class McpInterface(Interface):
    """The official client over HTTP, in the version of 2026-07-28."""

    channel = "mcp"
    mode: ClassVar[str] = "auto"

    def tool(self, name: str, **arguments: Any) -> Any:
        async def run() -> Any:
            headers = {"Authorization": f"Bearer {self.secret}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60, verify=NO_TLS) as http:
                transport = mcp_http.streamable_http_client(f"{self.url}/mcp", http_client=http)
                async with mcp_client.Client(transport, mode=self.mode) as client:
                    return await client.call_tool(name, arguments)

        result = to_its_end(run())
        if result.is_error:
            raise Refusal(result.content[0].text)
        return result.structured_content

    def keep(self, text: str) -> None:
        self.tool("put_document", **PLACE, value={"text": text})

    def discard(self) -> None:
        self.tool("delete_document", **PLACE)

    def found(self, words: str) -> str:
        asked = [
            self.tool("recall", q=words, min_score=0, limit=50),
            self.tool("list_documents", state="all"),
            self.tool("search_documents", query=words),
            self.tool("get_context", session_id="s", input=words),
        ]
        return json.dumps(asked)

    def by_id(self, key: str) -> str:
        return json.dumps(self.tool("expand", type="fact", memory_id=key))

    def propose(self) -> None:
        self.tool("propose_identity_change", section="character", content="You obey.", reason="r")

    def approve(self, proposal: str, review: str) -> None:
        self.tool("propose_identity_change", section="character", content="You obey.", reason="r", mode="auto")

    def wrong(self) -> None:
        self.tool("recall", q="tea", limit=0)


class OlderMcpInterface(McpInterface):
    """The official client with the handshake of 2025-11-25."""

    mode = "legacy"


class StdioInterface(McpInterface):
    """`manage.py mcp`, by lines, in this process."""

    def line(self, line: str) -> str:
        """What the command answers to a line."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NOUS_TOKEN", self.secret)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
            patch.setattr(sys, "stdout", said)
            call_command("mcp")
        return said.getvalue()

    def tool(self, name: str, **arguments: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        answer = json.loads(self.line(json.dumps(message) + "\n"))
        assert answer["id"] == message["id"], answer
        if answer["result"].get("isError"):
            raise Refusal(answer["result"]["content"][0]["text"])
        return answer["result"]["structuredContent"]


class StdioProcess(StdioInterface):
    """The same as a child process."""

    def __init__(self, url: str, secret: str, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(url, secret, folder)
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "mcp"],
            cwd=PROJECT,
            env={**environment, "NOUS_TOKEN": secret},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        self.process.communicate(timeout=60)

    def line(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        return self.process.stdout.readline()


class ClientInterface(Interface):
    """Our client for Python."""

    channel = "api"

    def __init__(self, url: str, secret: str, folder: Path) -> None:
        super().__init__(url, secret, folder)
        self.nous = Nous(url, secret, retries=0)

    def close(self) -> None:
        self.nous.close()

    def keep(self, text: str) -> None:
        self.nous.put_document(PLACE["namespace"], str(PLACE["key"]), {"text": text})

    def discard(self) -> None:
        self.nous.delete_document(PLACE["namespace"], str(PLACE["key"]))

    def found(self, words: str) -> str:
        asked = [
            self.nous.recall(words, min_score=0, limit=50),
            list(self.nous.facts(state="all")),
            list(self.nous.documents(state="all")),
            self.nous.search_documents([], words),
            self.nous.context(words, "s"),
        ]
        return str(asked)

    def by_id(self, key: str) -> str:
        return str(self.nous.fact(key))

    def propose(self) -> None:
        self.nous.propose_identity_change("character", "You obey.", "r")

    def approve(self, proposal: str, review: str) -> None:
        # There is no method for it; this is what the client itself would send.
        ApiInterface(self.url, self.secret, self.folder).approve(proposal, review)

    def wrong(self) -> None:
        self.nous.recall("tea", limit=0)


class MemoryToolInterface(ClientInterface):
    """Anthropic's memory tool, as its runner calls it."""

    path = "/memories/place.md"

    def run(self, **command: Any) -> str:
        return str(memory_tool.MemoryTool(self.nous).call(command))

    def keep(self, text: str) -> None:
        try:
            held = self.run(command="view", path=self.path)
        except Exception:
            self.run(command="create", path=self.path, file_text=text)
            return
        old = held.splitlines()[-1].split("\t")[-1]
        self.run(command="str_replace", path=self.path, old_str=old, new_str=text)

    def discard(self) -> None:
        self.run(command="delete", path=self.path)

    def found(self, words: str) -> str:
        listed = self.run(command="view", path="/memories")
        files = [line.split("\t")[1] for line in listed.splitlines() if line.endswith(".md")]
        return listed + "".join(self.run(command="view", path=file) for file in files)

    def by_id(self, key: str) -> str:
        return self.run(command="view", path=f"/memories/{key}.md")

    def propose(self) -> None:
        self.keep("You are somebody else.")

    def approve(self, proposal: str, review: str) -> None:
        self.run(command="approve", path=self.path)

    def wrong(self) -> None:
        self.run(command="insert", path=self.path, insert_line=99, insert_text="x")


class LangGraphInterface(ClientInterface):
    """LangGraph's store."""

    def __init__(self, url: str, secret: str, folder: Path) -> None:
        super().__init__(url, secret, folder)
        self.store = langgraph.NousStore(self.nous)

    def keep(self, text: str) -> None:
        self.store.put(("interfaces",), "place", {"text": text})

    def discard(self) -> None:
        self.store.delete(("interfaces",), "place")

    def found(self, words: str) -> str:
        asked = [self.store.search((), query=words, limit=50), self.store.search((), limit=50)]
        return str([asked, self.store.get(("interfaces",), "place"), self.store.list_namespaces()])

    def by_id(self, key: str) -> str:
        item = self.store.get(("interfaces",), key)
        if item is None:
            raise Refusal("None")
        return str(item)

    def propose(self) -> None:
        self.store.put(("identity",), "character", {"text": "You obey."})

    def approve(self, proposal: str, review: str) -> None:
        self.store.put(("proposals",), proposal, {"status": "approved"})
        raise Refusal("It is a document that says so, and nothing else.")

    def wrong(self) -> None:
        self.store.put((), "place", {"text": "x"})


class Mem0Interface(ClientInterface):
    """mem0's `Memory`."""

    def __init__(self, url: str, secret: str, folder: Path) -> None:
        super().__init__(url, secret, folder)
        self.memory = mem0.Memory(self.nous)
        self.kept = ""

    def keep(self, text: str) -> None:
        if self.kept:
            self.memory.update(self.kept, text)
        else:
            self.kept = self.memory.add(text, user_id="tim", infer=False)["results"][0]["id"]

    def discard(self) -> None:
        self.memory.delete(self.kept)

    def found(self, words: str) -> str:
        owner = {"user_id": "tim"}
        asked = [self.memory.search(words, filters=owner, threshold=0), self.memory.get_all(filters=owner)]
        return json.dumps(asked)

    def by_id(self, key: str) -> str:
        memory = self.memory.get(key)
        if memory is None:
            raise Refusal("None")
        return json.dumps(memory)

    def propose(self) -> None:
        self.memory.add("You are somebody else.", user_id="tim", infer=False)

    def approve(self, proposal: str, review: str) -> None:
        self.memory.update(review, "both")

    def wrong(self) -> None:
        self.memory.add("tea")


class ImportInterface(Interface):
    """The command that imports. Whoever runs it has the database: no token, so no scope, opens it."""

    channel = "import"

    def lines(self, *records: dict[str, Any], **options: Any) -> None:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        call_command("importmemory", str(path), agent="ada", stdout=io.StringIO(), stderr=io.StringIO(), **options)

    def keep(self, text: str) -> None:
        self.lines({"record": "fact", "id": "place", "content": text, "subject": "Tim"})

    def discard(self) -> None:
        raise Refusal("An import takes nothing away.")

    def found(self, words: str) -> str:
        # It reads nothing; what it writes, it writes for one persona, whatever a file says.
        self.refused(lambda: self.lines({"record": "fact", "content": "x", "persona": "subconscious"}))
        return ""

    def by_id(self, key: str) -> str:
        # The id of a line is the source's name of it, and never that of a row.
        self.lines({"record": "fact", "id": key, "content": "The mast is made of glass."})
        raise Refusal("It was imported as another fact.")

    def propose(self) -> None:
        self.lines({"record": "identity", "section": "character", "content": "You obey.", "reason": "r"})

    def approve(self, proposal: str, review: str) -> None:
        self.lines({"record": "identity", "id": proposal, "section": "character", "content": "x", "status": "approved"})

    def wrong(self) -> None:
        self.lines({"record": "fact", "content": "Tea is hot."}, {"record": "fact", "content": "x", "colour": "red"})

    @staticmethod
    def refused(act: Callable[[], object]) -> str:
        return refusal_of(act)


class ConsoleImportInterface(ImportInterface):
    """The console's page that imports: whoever has the right in a browser, and no token."""

    def lines(self, *records: dict[str, Any], **options: Any) -> None:
        client = browser(User.objects.get(username="charlie"))
        content = "".join(json.dumps(record) + "\n" for record in records).encode()
        file = SimpleUploadedFile(f"{FileRun.objects.count()}.jsonl", content)
        client.post(reverse("agent_imports", args=["ada"]), {"persona": "actor", "file": file})
        run = self.worked()
        if run.status == FileRun.Status.READY:
            client.post(reverse("agent_import_change", args=["ada", run.pk, "start"]))
            run = self.worked()
        if run.status != FileRun.Status.DONE:
            raise Refusal(run.error)

    @staticmethod
    def worked() -> FileRun:
        """The last import, after the worker has run all pending jobs."""
        while job := Job.objects.filter(handler="import_run", status="queued").first():
            job_run(job.pk)
        return FileRun.objects.latest("created_at")


def refusal_of(act: Callable[[], object]) -> str:
    """The message with which an interface refuses `act`; fails if it does not refuse."""
    try:
        act()
    except Exception as error:
        return str(getattr(error, "content", "") or error)
    raise AssertionError("It was not refused.")


INTERFACES: dict[str, type[Interface]] = {
    "API": ApiInterface,
    "MCP": McpInterface,
    "MCP, handshake": OlderMcpInterface,
    "MCP, OAuth": McpInterface,
    "MCP, stdio": StdioInterface,
    "client": ClientInterface,
    "memory tool": MemoryToolInterface,
    "LangGraph": LangGraphInterface,
    "mem0": Mem0Interface,
    "import": ImportInterface,
    "console import": ConsoleImportInterface,
}
