"""The official client of the protocol against the real server, over HTTP in both eras and over standard input."""

import os
import sys

import httpx2
import pytest

from tests.event_loops import to_its_end
from tests.factories import database_address, make_token
from tests.late_imports import Late
from tests.product import PROJECT

mcp_client = Late("mcp.client.client")
mcp_http = Late("mcp.client.streamable_http")
mcp_stdio = Late("mcp.client.stdio")

pytestmark = pytest.mark.django_db(transaction=True)


async def a_turn(client):
    """What an agent does: learns, gets its context, answers; returns the negotiated version and the prompt."""
    tools = await client.list_tools()
    assert "get_context" in [tool.name for tool in tools.tools]
    learned = await client.call_tool("learn_fact", {"content": "Tim lives in Lisbon.", "category": "person"})
    assert not learned.is_error, learned
    context = await client.call_tool("get_context", {"input": "Where does Tim live?", "session_id": "s"})
    run = context.structured_content["id"]
    answer = await client.call_tool("report_answer", {"run_id": run, "response": "Tim lives in Lisbon."})
    assert answer.structured_content["items"][0]["referenced"]
    place = {"namespace": ["notes"], "key": "tim"}
    kept = await client.call_tool("put_document", {**place, "value": {"text": "Tim moved to Lisbon in May."}})
    assert kept.structured_content["action"] == "created"
    found = await client.call_tool("search_documents", {"query": "When did Tim move?"})
    assert found.structured_content["items"][0]["document"]["key"] == "tim"
    read = await client.call_tool("get_document", place)
    assert read.structured_content["value"] == {"text": "Tim moved to Lisbon in May."}
    listed = await client.call_tool("list_documents", {"namespace": ["notes"]})
    assert len(listed.structured_content["items"]) == 1
    assert not (await client.call_tool("delete_document", place)).is_error
    wrong = await client.call_tool("report_answer", {"run_id": "x", "response": ""})
    assert wrong.is_error
    identity = await client.read_resource("nous://identity")
    assert "Bruno" in identity.contents[0].text
    prompt = await client.get_prompt("context", {"input": "Where does Tim live?"})
    assert prompt.messages[0].content.text.endswith("Where does Tim live?")
    return client.protocol_version, context.structured_content["system_prompt"]


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_turn_over_http(live_server, other_token, mode, version):
    async def run():
        headers = {"Authorization": f"Bearer {other_token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = mcp_http.streamable_http_client(f"{live_server.url}/mcp", http_client=http)
            async with mcp_client.Client(transport, mode=mode) as client:
                return await a_turn(client)

    negotiated, prompt = to_its_end(run())
    assert negotiated == version
    assert "Tim lives in Lisbon." in prompt


def test_turn_over_standard_input(bruno):
    environment = {**os.environ, "DATABASE_URL": database_address(), "NOUS_TOKEN": make_token(bruno)}
    server = mcp_stdio.StdioServerParameters(
        command=sys.executable, args=["manage.py", "mcp"], env=environment, cwd=str(PROJECT)
    )

    async def run():
        async with mcp_client.Client(mcp_stdio.stdio_client(server, errlog=sys.__stderr__)) as client:
            return await a_turn(client)

    assert "Tim lives in Lisbon." in to_its_end(run())[1]
