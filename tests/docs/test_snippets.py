"""Every snippet of the documentation runs, in the order in which a reader types it, against a demo that really runs."""

import json
import re
import shlex
import sys
import time
from typing import Any

import httpx2
import pytest
from django.core.management import get_commands, load_command_class

from identity.services.webhook_delivery import webhook_signature
from tests.docs.demo_server import DemoServer
from tests.docs.interpreters import Interpreter, python, shell
from tests.docs.snippets import DOCUMENTS, NOT_RUN, TEXT, Snippet, indented_blocks, snippets
from tests.event_loops import to_its_end
from tests.late_imports import Late

mcp_client = Late("mcp.client.client")
mcp_http = Late("mcp.client.streamable_http")
mcp_stdio = Late("mcp.client.stdio")

WITH_SNIPPETS = [name for name in DOCUMENTS if any(snippet.language not in TEXT for snippet in snippets(name))]
"""The documents with something to run; one that holds formulas alone, as that of the inbox does, has nothing."""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_snippet_says_what_it_is(document: str) -> None:
    assert indented_blocks(document) == [], "fence these blocks and name their language"
    for snippet in snippets(document):
        assert snippet.language, f"{snippet} names no language"
        if snippet.language in TEXT:
            continue
        assert not snippet.not_run or snippet.not_run in NOT_RUN, f"{snippet}: {snippet.note} is no reason of the list"
        if snippet.language not in ("sh", "python"):
            assert snippet.note, f"{snippet}: say whether it is an answer, a file, a configuration, or not run and why"


def test_reasons_are_all_needed() -> None:
    used = {snippet.not_run for document in DOCUMENTS for snippet in snippets(document)}
    assert used - {""} == set(NOT_RUN)


@pytest.mark.parametrize("document", WITH_SNIPPETS)
def test_snippets_run_in_order(document: str, demo: DemoServer) -> None:
    Reader(demo).read(document)


class Reader:
    """Somebody who types what a document says, with address, token and password put where they belong."""

    def __init__(self, demo: DemoServer) -> None:
        self.demo = demo
        self.shell: Interpreter = shell(demo.folder, demo.environment)
        self._python: Interpreter | None = None
        self.said = ""
        """What the last command of the shell printed."""

    def read(self, document: str) -> None:
        try:
            self.shell.run(self.filled("export NOUS=http://127.0.0.1:8000 TOKEN=nous_…\n"), "beginning.sh")
            if document != "docs/api.md":
                (signing_in,) = (s.text for s in snippets("docs/api.md") if "csrfmiddlewaretoken" in s.text)
                self.shell.run(self.filled(signing_in), "signing-in.sh")
            listed = [snippet for snippet in snippets(document) if snippet.language not in TEXT]
            for snippet, following in zip(listed, [*listed[1:], None], strict=True):
                try:
                    self.type(snippet, following)
                except AssertionError as problem:
                    raise AssertionError(f"{snippet} does not run:\n{problem}") from problem
        finally:
            self.shell.stop()
            if self._python is not None:
                self._python.stop()

    def type(self, snippet: Snippet, following: Snippet | None) -> None:
        name = f"{snippet.line}.{snippet.language}"
        if snippet.not_run:
            if snippet.language == "sh":
                commands_checked(snippet)
        elif snippet.language == "python":
            self.python.run(self.filled(snippet.text), name)
            if "def genuine" in snippet.text:
                self.python.run(genuine_checked(), "genuine.py")
        elif snippet.language == "sh":
            refused = following is not None and following.note == "answer, refused"
            before = self.shell.errors.stat().st_size
            self.said = self.shell.run(self.filled(snippet.text), name)
            statuses = re.findall(r"(?m)^HTTP (\d+)$", self.shell.errors.read_text()[before:])
            for status in statuses:
                assert (int(status) >= 400) == refused, f"{status}\n{self.said}"
        elif snippet.note.startswith("answer"):
            alike(pattern_of(snippet.text), last_json(self.said))
        elif snippet.note.startswith("file: "):
            (self.demo.folder / snippet.note.removeprefix("file: ")).write_text(snippet.text)
        else:
            assert snippet.note == "client configuration"
            for server in json.loads(self.filled(snippet.text))["mcpServers"].values():
                to_its_end(recalls(server, self.demo))

    def filled(self, text: str) -> str:
        """The snippet with what a reader puts in; nothing else may stand there as "…"."""
        text = text.replace("127.0.0.1:8000", self.demo.address.removeprefix("http://"))
        text = text.replace("nous_…", self.demo.token).replace("PASSWORD=…", f"PASSWORD={self.demo.passwords['admin']}")
        code = re.sub(r"#.*", "", text)
        assert "…" not in code, "what belongs in place of … ?"
        return text

    @property
    def python(self) -> Interpreter:
        """Python, started by the first snippet that needs it."""
        if self._python is None:
            told = {"NOUS_URL": self.demo.address, "NOUS_TOKEN": self.demo.token, "TOKEN": self.demo.token}
            self._python = python(self.demo.folder, self.demo.environment | told)
        return self._python


def genuine_checked() -> str:
    """A program that has the receiver's check of signatures judge what the product really signs."""
    secret, moment, body = "s" * 16, int(time.time()), b"{}"
    header = f"t={moment},v1={webhook_signature('another', moment, body)},v1={webhook_signature(secret, moment, body)}"
    return f"assert genuine({header!r}, {body!r}, {secret!r})\nassert not genuine({header!r}, b'[]', {secret!r})\n"


def commands_checked(snippet: Snippet) -> None:
    """Assert that each command of ours in a snippet that is not run exists, with every option that is shown."""
    for line in snippet.text.replace("\\\n", " ").splitlines():
        words = [word.strip("[]") for word in shlex.split(line, comments=True)]
        program = next((word for word in words if word in ("nous", "manage.py")), None)
        if program is None:
            continue
        typed = words[words.index(program) + 1 :]
        parser = load_command_class(get_commands()[typed[0]], typed[0]).create_parser("manage.py", typed[0])
        accepted = parser.format_help()
        for action in parser._actions:
            if isinstance(action.choices, dict) and typed[1:] and typed[1] in action.choices:
                accepted += action.choices[typed[1]].format_help()
        for option in (word.split("=")[0] for word in typed if word.startswith("--")):
            assert option in accepted, f"{snippet}: {' '.join(typed[:2])} has no {option}"


def pattern_of(text: str) -> Any:
    """The JSON of an answer that is shown, without the "…" that stand for more of the same."""
    return json.loads(re.sub(r",\s*…|…\s*(?=[\]}])", "", text))


def last_json(said: str) -> Any:
    return json.loads(said[said.index("{") :])


def alike(shown: Any, real: Any, path: str = "$") -> None:
    """Assert that `real` has every member that is shown, of the same type; of a list each that is shown."""
    if isinstance(shown, dict):
        assert isinstance(real, dict), f"{path} is {real!r}"
        for key, value in shown.items():
            assert key in real, f"{path} has no {key}: {sorted(real)}"
            alike(value, real[key], f"{path}.{key}")
    elif isinstance(shown, list):
        assert isinstance(real, list), f"{path} is {real!r}"
        for value in shown:
            problems = []
            for candidate in real:
                try:
                    alike(value, candidate, f"{path}[]")
                    break
                except AssertionError as problem:
                    problems.append(str(problem))
            else:
                raise AssertionError(f"{path} has nothing like {value!r}: {problems[:3]}")
    else:
        assert shown is None or real is None or type(shown) is type(real), f"{path} is {real!r}"


async def recalls(server: dict[str, Any], demo: DemoServer) -> None:
    """Start what the configuration of an MCP client says, and call a tool."""
    question = {"input": "Checkout is slow.", "session_id": "first"}
    if "url" in server:
        http = httpx2.AsyncClient(headers=server["headers"], timeout=60)
        async with http, mcp_client.Client(mcp_http.streamable_http_client(server["url"], http_client=http)) as client:
            answer = await client.call_tool("get_context", question)
    else:
        environment = demo.environment | server["env"]
        local = mcp_stdio.StdioServerParameters(command=server["command"], args=server["args"], env=environment)
        async with mcp_client.Client(mcp_stdio.stdio_client(local, errlog=sys.__stderr__)) as client:
            answer = await client.call_tool("get_context", question)
    assert "Marlow" in answer.structured_content["system_prompt"]
