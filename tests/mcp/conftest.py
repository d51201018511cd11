"""MCP as its clients reach it: over the whole middleware stack, in both eras of the protocol."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class McpCaller:
    """Sends messages with a token; `version` decides the era."""

    token: str
    version: str = HANDSHAKE

    def send(self, body: Any, **headers: str) -> HttpResponse:
        """The answer to `body`, sent as JSON or, where it is bytes, as it is."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        client = Client(enforce_csrf_checks=True, raise_request_exception=False)
        return client.generic("POST", "/mcp", data, content_type="application/json", headers=named)

    def request(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """The whole answer to a request, as JSON."""
        params = params or {}
        headers = {"MCP_Protocol_Version": self.version, **headers}
        if self.version == MODERN:
            params = {**params, "_meta": ENVELOPE}
            headers = {"Mcp_Method": method, **headers}
            if name := params.get("uri" if method == "resources/read" else "name"):
                headers = {"Mcp_Name": str(name), **headers}
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = json.loads(self.send(message, **headers).content)
        assert answer.get("id") == 7, answer
        return answer

    def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a request that goes well."""
        answer = self.request(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool call, which may be a refusal."""
        return self.result("tools/call", {"name": name, "arguments": arguments})

    def answered(self, name: str, **arguments: Any) -> Any:
        """What a tool answers that is not refused."""
        result = self.tool(name, **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def refused(self, name: str, **arguments: Any) -> str:
        """Why a tool call is refused."""
        result = self.tool(name, **arguments)
        assert result["isError"], result
        assert "structuredContent" not in result
        return result["content"][0]["text"]


@pytest.fixture
def mcp() -> Callable[..., McpCaller]:
    """`mcp(token)` calls with that token."""
    return McpCaller
