"""Snippets to connect an agent, by kind of agent, as in docs/quickstart.md. The tests run both."""

import json
from dataclasses import dataclass

from nousweb.lib.installation import CLIENT_ARCHIVE

PLACEHOLDER = "nous_…"
"""In place of the token until there is one."""

PYTHON = """\
from nous_client import Nous

nous = Nous()
nous.learn_fact("Tim drinks green tea.", subject="Tim", category="preference")
print(nous.context("What does Tim drink?", session_id="first").system_prompt)
"""
ANTHROPIC = """\
from anthropic import Anthropic
from nous_client import Nous

with Nous() as nous, nous.turn("first", "What do you remember of me?") as turn:
    turn.create(Anthropic(), model="claude-sonnet-5", max_tokens=1000)

print(turn.answer)
"""
LANGGRAPH = """\
from nous_client.langgraph import NousStore

store = NousStore()  # builder.compile(store=store)
store.put(("tim",), "tea", {"text": "Tim drinks green tea."})
print(store.search(("tim",), query="What does Tim drink?"))
"""
OPENAI = """\
from nous_client import Nous
from openai import OpenAI

with Nous() as nous, nous.turn("first", "What do you remember of me?") as turn:
    messages = [{"role": "system", "content": turn.system_prompt}, {"role": "user", "content": turn.input}]
    answer = OpenAI().chat.completions.create(model="gpt-5.2", messages=messages)
    turn.answer = answer.choices[0].message.content

print(turn.answer)
"""


@dataclass(frozen=True, slots=True)
class ConnectSnippet:
    """One way to connect. `language` is `json`, `python` or `sh`; `needs` names scopes without which it is refused."""

    key: str
    title: str
    where: str
    """Where to put the snippet, in a sentence."""
    language: str
    text: str
    needs: tuple[str, ...]
    install: str = ""
    """The command that installs the imported packages."""


def environment_lines(base_url: str, secret: str) -> str:
    """Shell lines with the address and the token for the Python client."""
    return f"export NOUS_URL={base_url}\nexport NOUS_TOKEN={secret or PLACEHOLDER}\n"


def _install(base_url: str, extra: str = "") -> str:
    return f'pip install "nous-client{extra} @ {base_url}/static/{CLIENT_ARCHIVE}"'


def connect_snippets(base_url: str, secret: str = "") -> list[ConnectSnippet]:
    """Each kind of agent's snippet with this server's address, which ends without a slash, and the token."""
    token = secret or PLACEHOLDER
    server = {"type": "http", "url": f"{base_url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    body = '{"session_id": "first", "input": "What do you remember of me?"}'
    curl = f"curl -s {base_url}/api/context -H 'Authorization: Bearer {token}' \\\n  -d '{body}'\n"
    return [
        ConnectSnippet(
            "mcp",
            "MCP client",
            "In the file in which the client keeps its servers. Then ask it what it remembers.",
            "json",
            json.dumps({"mcpServers": {"memory": server}}, indent=2, ensure_ascii=False) + "\n",
            ("context:read",),
        ),
        ConnectSnippet(
            "python",
            "Python",
            "Before your own call of a model, whichever it is.",
            "python",
            PYTHON,
            ("context:read", "memory:write"),
            _install(base_url),
        ),
        ConnectSnippet(
            "anthropic",
            "Anthropic SDK",
            "In place of your call of messages.create.",
            "python",
            ANTHROPIC,
            ("context:read", "memory:write"),
            _install(base_url, "[anthropic]"),
        ),
        ConnectSnippet(
            "langgraph",
            "LangGraph",
            "Where the graph is compiled: its store is the agent's memory.",
            "python",
            LANGGRAPH,
            ("memory:read", "memory:write"),
            _install(base_url, "[langgraph]"),
        ),
        ConnectSnippet(
            "openai",
            "OpenAI and compatible servers",
            "In place of your call of chat.completions.create.",
            "python",
            OPENAI,
            ("context:read", "memory:write"),
            _install(base_url, "[openai]"),
        ),
        ConnectSnippet("curl", "HTTP", "In a shell, or as a request of any language.", "sh", curl, ("context:read",)),
    ]
