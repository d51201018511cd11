"""A whole turn through each interface of a running demo: context, answer, response, event, fact, the next context.

All interfaces return the same prompt for the same input, before the turns and after them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from nous_client import Nous

from tests.docs.demo_server import DemoServer
from tests.interfaces.interfaces import (
    ApiInterface,
    McpInterface,
    OlderMcpInterface,
    StdioProcess,
    langgraph,
    mem0,
    memory_tool,
)
from tests.product import until

INPUT = "Which colour has the spare buoy of the regatta?"
FACT = "The spare buoy of the regatta is orange."
NOTE = "The keeper of the regatta's buoys is called Quillon."


@dataclass
class Turns:
    """A turn in the words of one interface: a context and its id, an answer, events, a fact."""

    context: Callable[[str, str], tuple[str, str]]
    answer: Callable[[str, str], int]
    record: Callable[[list[dict[str, Any]]], object]
    learn: Callable[[str], object]


def over_http(interface: ApiInterface) -> Turns:
    def context(text: str, session: str) -> tuple[str, str]:
        made = interface.call("POST", "/context", {"input": text, "session_id": session})
        return made["system_prompt"], made["id"]

    def answer(run: str, text: str) -> int:
        items = interface.call("POST", f"/context/{run}/response", {"response": text})["items"]
        return sum(item["referenced"] for item in items)

    return Turns(
        context,
        answer,
        lambda events: interface.call("POST", "/events", {"events": events}),
        lambda text: interface.call("POST", "/facts", {"content": text}),
    )


def over_mcp(interface: McpInterface) -> Turns:
    def context(text: str, session: str) -> tuple[str, str]:
        made = interface.tool("get_context", input=text, session_id=session)
        return made["system_prompt"], made["id"]

    def answer(run: str, text: str) -> int:
        items = interface.tool("report_answer", run_id=run, response=text)["items"]
        return sum(item["referenced"] for item in items)

    return Turns(
        context,
        answer,
        lambda events: interface.tool("log_events", events=events),
        lambda text: interface.tool("learn_fact", content=text),
    )


def over_client(nous: Nous) -> Turns:
    def context(text: str, session: str) -> tuple[str, str]:
        made = nous.context(text, session)
        return made.system_prompt, str(made.id)

    def answer(run: str, text: str) -> int:
        return sum(item.referenced for item in nous.report_answer(run, text).items)

    return Turns(context, answer, nous.log_events, nous.learn_fact)


def test_whole_turn_through_each_interface_with_the_same_prompt(demo: DemoServer, tmp_path: Any) -> None:
    with ExitStack() as open_interfaces:
        nous = open_interfaces.enter_context(Nous(demo.address, demo.token, retries=0))
        api = ApiInterface(demo.address, demo.token, tmp_path)
        stdio = StdioProcess(demo.address, demo.token, tmp_path, environment=demo.environment)
        open_interfaces.callback(stdio.close)
        interfaces = {
            "API": over_http(api),
            "MCP": over_mcp(McpInterface(demo.address, demo.token, tmp_path)),
            "MCP, handshake": over_mcp(OlderMcpInterface(demo.address, demo.token, tmp_path)),
            "MCP, stdio": over_mcp(stdio),
            "client": over_client(nous),
        }
        first = {name: turns.context(INPUT, f"before {name}") for name, turns in interfaces.items()}
        prompts = {prompt for prompt, _ in first.values()}
        assert len(prompts) == 1
        assert "orange" not in prompts.pop()
        for name, turns in interfaces.items():
            turns.answer(first[name][1], "I do not know yet.")
            said = [{"kind": "user_input", "content": INPUT, "loop_id": f"loop {name}", "key": f"turn {name}"}]
            turns.record(said)
            turns.learn(FACT)
        # Prompts of two moments are alike once the worker has caught up.
        until("derived", lambda: api.call("GET", "/index")["pending"] == 0)
        after = {name: turns.context(INPUT, f"after {name}") for name, turns in interfaces.items()}
        prompts = {prompt for prompt, _ in after.values()}
        assert len(prompts) == 1
        assert FACT in prompts.pop()
        for name, turns in interfaces.items():
            assert turns.answer(after[name][1], f"{FACT} It lies in the shed.") >= 1, name
        events = api.call("GET", "/events", limit=100)["items"]
        assert sum(event["content"] == INPUT for event in events) == len(interfaces)


@pytest.mark.parametrize("adapter", ["memory tool", "LangGraph", "mem0"])
def test_memory_of_an_adapter_is_in_the_next_context(demo: DemoServer, adapter: str) -> None:
    note = f"{NOTE} So says the {adapter}."
    with Nous(demo.address, demo.token, retries=0) as nous:
        if adapter == "memory tool":
            memory_tool.MemoryTool(nous).call({"command": "create", "path": "/memories/buoys.md", "file_text": note})
        elif adapter == "LangGraph":
            langgraph.NousStore(nous).put(("buoys",), "keeper", {"text": note})
        else:
            mem0.Memory(nous).add(note, user_id="quillon", infer=False)
        keys = {"user": "quillon"} if adapter == "mem0" else {}
        with nous.turn(f"turn {adapter}", "Who is the keeper of the regatta's buoys?", **keys) as turn:
            assert f"So says the {adapter}." in turn.system_prompt
            turn.answer = note
        assert turn.report is not None
        assert any(item.referenced for item in turn.report.items)
