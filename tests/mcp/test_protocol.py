"""The protocol itself: versions, envelopes, headers, errors."""

import json

import pytest
from django.test import Client

from nousweb.lib.errors import NotFound
from tests.mcp.conftest import ENVELOPE, HANDSHAKE, MODERN

pytestmark = pytest.mark.django_db

ERAS = (HANDSHAKE, MODERN)


def message(method="ping", **more):
    return {"jsonrpc": "2.0", "id": 1, "method": method, **more}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", HANDSHAKE])
def test_initialize_answers_the_version_asked_for(mcp, actor_token, version):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    result = mcp(actor_token).result("initialize", params)
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "nous-web"
    assert set(result["capabilities"]) == {"tools", "resources", "prompts"}


def test_initialize_offers_the_latest_handshake_version_for_an_unknown_one(mcp, actor_token):
    params = {"protocolVersion": "2031-01-01", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    assert mcp(actor_token).result("initialize", params)["protocolVersion"] == HANDSHAKE


def test_discover_says_versions_and_capabilities(mcp, actor_token):
    result = mcp(actor_token, MODERN).result("server/discover")
    assert result["supportedVersions"] == [MODERN]
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "nous-web"


def test_notification_is_accepted_without_an_answer(mcp, actor_token):
    answer = mcp(actor_token).send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (answer.status_code, answer.content) == (202, b"")


def test_malformed_message_is_refused(mcp, actor_token, subtests):
    for body, code in [
        (b"{", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', -32700),
        (b'"\xff"', -32700),
        ([], -32600),
        ([message()] * 51, -32600),
        ("ping", -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, -32600),
        ({"jsonrpc": "2.0"}, -32600),
    ]:
        with subtests.test(body=body, code=code):
            answer = mcp(actor_token).send(body)
            assert answer.status_code == 400
            assert json.loads(answer.content)["error"]["code"] == code
            assert json.loads(answer.content)["id"] is None


def test_request_that_cannot_be_served_is_an_error(mcp, actor_token, subtests):
    for method, params, code in [
        ("tools/nothing", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": 5}, -32602),
        ("tools/call", {"name": "drop_tables"}, -32602),
        ("tools/call", {"name": "recall", "arguments": "q"}, -32602),
        ("resources/read", {"uri": "nous://secrets"}, -32602),
        ("resources/read", {"uri": "nous://subjects/"}, -32602),
        ("prompts/get", {"name": "other"}, -32602),
        ("prompts/get", {"name": "context"}, -32602),
        ("subscriptions/listen", {}, -32601),
    ]:
        for version in ERAS:
            with subtests.test(method=method, params=params, code=code, version=version):
                assert mcp(actor_token, version).request(method, params)["error"]["code"] == code


def test_modern_errors_have_the_status_of_http(mcp, actor_token):
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "no/such"}
    answer = mcp(actor_token).send(message("no/such", params={"_meta": ENVELOPE}), **headers)
    assert answer.status_code == 404


def test_failure_of_the_server_is_told_as_one_whatever_its_own_status(mcp, actor_token, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise NotFound("This row is nobody's business.")

    monkeypatch.setattr("nousweb.mcp.streamable_http.answer", fails)
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/list"}
    answer = mcp(actor_token).send(message("tools/list", params={"_meta": ENVELOPE}), **headers)
    assert (answer.status_code, json.loads(answer.content)["error"]["code"]) == (200, -32603)
    assert "business" not in answer.content.decode()


def test_modern_headers_must_agree_with_the_body(mcp, actor_token, subtests):
    for headers, params, code in [
        ({"Mcp_Method": "tools/call"}, {"_meta": ENVELOPE}, -32020),
        ({}, {"_meta": ENVELOPE}, -32020),
        ({"Mcp_Method": "ping"}, {}, -32602),
        ({"Mcp_Method": "ping"}, {"_meta": {}}, -32602),
        ({"Mcp_Method": "ping"}, {"_meta": {**ENVELOPE, next(iter(ENVELOPE)): "2025-11-25"}}, -32020),
    ]:
        with subtests.test(headers=headers, params=params, code=code):
            answer = mcp(actor_token).send(message(params=params), MCP_Protocol_Version=MODERN, **headers)
            assert answer.status_code == 400
            assert json.loads(answer.content)["error"]["code"] == code


def test_modern_name_header_must_be_the_tool_and_may_be_base64(mcp, actor_token):
    call = {"name": "recall", "arguments": {"q": "tea"}}
    caller = mcp(actor_token, MODERN)
    assert caller.request("tools/call", call, Mcp_Name="learn_fact")["error"]["code"] == -32020
    assert caller.request("tools/call", call, Mcp_Name="=?base64?!?=")["error"]["code"] == -32020
    assert "result" in caller.request("tools/call", call, Mcp_Name="=?base64?cmVjYWxs?=")


def test_unknown_version_is_told_which_there_are(mcp, actor_token):
    later = {**ENVELOPE, next(iter(ENVELOPE)): "2031-01-01"}
    headers = {"MCP_Protocol_Version": "2031-01-01", "Mcp_Method": "ping"}
    answer = mcp(actor_token).send(message(params={"_meta": later}), **headers)
    assert json.loads(answer.content)["error"]["data"] == {"supported": [MODERN], "requested": "2031-01-01"}


@pytest.mark.parametrize("method", ["get", "delete", "put", "head"])
def test_other_methods_of_http_are_refused(method):
    answer = getattr(Client(), method)("/mcp")
    assert answer.status_code == 405
    assert answer["Allow"] == "POST"


def test_page_of_another_site_is_refused(mcp, actor_token):
    assert mcp(actor_token).send(message(), Origin="https://evil.example").status_code == 403
    assert mcp(actor_token).send(message(), Origin="http://testserver").status_code == 200


def test_body_that_is_too_large_is_refused(mcp, actor_token, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert mcp(actor_token).send(message(params={"a": "b" * 200})).status_code == 413


def test_fault_of_ours_says_nothing_of_itself(mcp, actor_token, monkeypatch):
    def broken(by, params):
        raise RuntimeError("secret")

    monkeypatch.setitem(__import__("nousweb.mcp.protocol", fromlist=["x"]).HANDLERS, "ping", broken)
    answer = mcp(actor_token).request("ping")
    assert answer["error"]["code"] == -32603
    assert "secret" not in json.dumps(answer)


def test_batch_is_answered_under_the_version_that_has_them(mcp, actor_token):
    caller = mcp(actor_token)
    batch = [
        {**message(), "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**message(), "id": "two", "method": "tools/call", "params": {"name": "working_memory", "arguments": {}}},
        {**message(), "id": 3, "method": "none"},
        {**message(), "id": 4, "method": "initialize"},
        "ping",
    ]
    for headers in ({}, {"MCP_Protocol_Version": "2025-03-26"}):
        answer = caller.send(batch, **headers)
        assert answer.status_code == 200
        found = json.loads(answer.content)
        assert [one["id"] for one in found] == [1, "two", 3, 4, None]
        assert [one.get("error", {}).get("code") for one in found] == [None, None, -32601, -32600, -32600]
        assert found[1]["result"]["isError"]
    only_notices = caller.send(batch[1:2] * 2)
    assert (only_notices.status_code, only_notices.content) == (202, b"")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", HANDSHAKE])
def test_batch_is_refused_under_other_versions(mcp, actor_token, version):
    answer = mcp(actor_token).send([message()], MCP_Protocol_Version=version)
    assert answer.status_code == 400
    error = json.loads(answer.content)["error"]
    assert (error["code"], "has no batches" in error["message"]) == (-32600, True)
