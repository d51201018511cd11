"""The official client connects by OAuth: a person consents in Chromium, and the client calls its first tool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from identity.models import Agent, ApiToken, AuditEvent, OAuthClient
from identity.principal import Principal
from identity.services.oauth import oauth_client_create
from tests.e2e.conftest import OpenPage, assert_accessible
from tests.event_loops import to_its_end
from tests.factories import PASSWORD, make_fact
from tests.late_imports import Late

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

mcp_auth = Late("mcp.client.auth")
mcp_client = Late("mcp.client.client")
mcp_http = Late("mcp.client.streamable_http")
mcp_metadata = Late("mcp.shared.auth")

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WAIT = 120


class Storage:
    """What a desktop program keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Desk:
    """A desktop program: the official client with a web server on this machine to which the browser comes back.

    That server sends the browser on to another address of its own, as programs do.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.storage = Storage()
        self.asked: Future[str] = Future()
        self.came_back: Future[dict[str, str]] = Future()
        desk = self

        class Callback(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/callback":
                    desk.came_back.set_result({name: one[0] for name, one in parse_qs(parts.query).items()})
                    self.send_response(302)
                    self.send_header("Location", f"http://localhost:{desk.port}/done")
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><html lang=en><title>Desk</title><h1>Back at the desk</h1>")

            def log_message(self, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Callback)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop waiting for a browser, too: the process of the tests would wait for that thread at its end."""
        if not self.came_back.done():
            self.came_back.set_exception(TimeoutError("No browser came back."))
        self.server.shutdown()
        self.server.server_close()

    def call(self, mode: str, name: str, **arguments: Any) -> Future[Any]:
        """Call a tool, from a thread of its own, with whatever consent that takes."""
        result: Future[Any] = Future()

        def run() -> None:
            try:
                result.set_result(to_its_end(self._call(mode, name, arguments)))
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return result

    async def _call(self, mode: str, name: str, arguments: dict[str, Any]) -> Any:
        import asyncio

        async def open_browser(url: str) -> None:
            self.asked.set_result(url)

        async def wait_for_browser() -> AuthorizationCodeResult:
            back = await asyncio.wrap_future(self.came_back)
            return mcp_metadata.AuthorizationCodeResult(  # type: ignore[no-any-return]
                code=back.get("code", ""), state=back.get("state"), iss=back.get("iss")
            )

        metadata = mcp_metadata.OAuthClientMetadata.model_validate(
            {"client_name": "Desk", "redirect_uris": [f"http://127.0.0.1:{self.port}/callback"]}
        )
        provider = mcp_auth.OAuthClientProvider(
            f"{self.url}/mcp", metadata, self.storage, redirect_handler=open_browser, callback_handler=wait_for_browser
        )
        async with httpx2.AsyncClient(auth=provider, timeout=60) as http:
            transport = mcp_http.streamable_http_client(f"{self.url}/mcp", http_client=http)
            async with mcp_client.Client(transport, mode=mode) as client:
                assert "recall" in [tool.name for tool in (await client.list_tools()).tools]
                return await client.call_tool(name, arguments)


@pytest.fixture
def desk(live_server: LiveServer) -> Iterator[Desk]:
    found = Desk(live_server.url)
    yield found
    found.close()


LogIn = Callable[..., Page]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_client_connects_and_recalls(
    open_page: OpenPage, desk: Desk, ada: Agent, bruno: Agent, actor: Principal, charlie: User, mode: str
) -> None:
    make_fact(ada, "Tim lives in Lisbon.", actor)
    result = desk.call(mode, "recall", q="Where does Tim live?")
    page = open_page()
    page.goto(desk.asked.result(WAIT))
    page.get_by_label("Username").fill(charlie.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Connect “Desk”?")).to_be_visible()
    expect(page.get_by_text(f"this computer (127.0.0.1:{desk.port})")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Connect").click()
    assert not desk.came_back.done()
    page.get_by_label("Agent").select_option("ada")
    page.get_by_label("memory:write").uncheck()
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("heading", name="Back at the desk")).to_be_visible()
    found = result.result(WAIT)
    assert "Tim lives in Lisbon." in found.content[0].text
    token = ApiToken.objects.get(client__name="Desk")
    assert token.agent == ada
    assert "memory:write" not in token.scopes
    refused = desk.call(mode, "learn_fact", content="Tea is hot.").result(WAIT)
    assert refused.is_error
    assert AuditEvent.objects.filter(action="token.create", author_name=charlie.username).count() == 1
    page.goto("/agents/ada/tokens/")
    expect(page.get_by_text("connected over MCP")).to_be_visible()
    page.get_by_role("link", name="Revoke Desk").click()
    page.get_by_role("button", name="Revoke token").click()
    expect(page.get_by_text("It no longer gives access.")).to_be_visible()


def test_expired_secret_is_renewed_without_a_person(
    log_in: LogIn, desk: Desk, ada: Agent, actor: Principal, charlie: User
) -> None:
    make_fact(ada, "Tim lives in Lisbon.", actor)
    result = desk.call("auto", "recall", q="Where does Tim live?")
    page = log_in(charlie)
    page.goto(desk.asked.result(WAIT))
    page.get_by_role("button", name="Connect").click()
    assert not result.result(WAIT).is_error
    first = desk.storage.tokens
    assert first is not None
    ApiToken.objects.update(secret_expires_at=ApiToken.objects.get(client__name="Desk").created_at)
    again = _renewed(desk, first)
    assert again.access_token != first.access_token
    desk.storage.tokens = again
    assert not desk.call("auto", "recall", q="Where does Tim live?").result(WAIT).is_error


def _renewed(desk: Desk, first: OAuthToken) -> OAuthToken:
    """What the token endpoint gives for the refresh token, as the client asks for it."""
    assert desk.storage.client is not None
    form = {
        "grant_type": "refresh_token",
        "refresh_token": first.refresh_token,
        "client_id": desk.storage.client.client_id,
        "resource": f"{desk.url}/mcp",
    }
    answer = httpx2.post(f"{desk.url}/oauth/token", data=form, timeout=60)
    return mcp_metadata.OAuthToken.model_validate_json(answer.content)  # type: ignore[no-any-return]


def test_client_made_by_a_person_connects_without_registering(
    log_in: LogIn, desk: Desk, ada: Agent, charlie: User
) -> None:
    uri = f"http://127.0.0.1:{desk.port}/callback"
    made = oauth_client_create(name="Agent desk", redirect_uris=[uri], by=Principal.of_user(charlie))
    desk.storage.client = mcp_metadata.OAuthClientInformationFull.model_validate(
        {"client_id": made.client_id, "redirect_uris": [uri], "token_endpoint_auth_method": "none"}
    )
    result = desk.call("auto", "learn_fact", content="Tea is hot.")
    page = log_in(charlie)
    page.goto(desk.asked.result(WAIT))
    expect(page.get_by_role("heading", name="Connect “Agent desk”?")).to_be_visible()
    page.get_by_role("button", name="Connect").click()
    assert not result.result(WAIT).is_error
    assert OAuthClient.objects.count() == 1


def test_refusal_reaches_the_client(log_in: LogIn, desk: Desk, ada: Agent, charlie: User) -> None:
    result = desk.call("auto", "recall", q="tea")
    page = log_in(charlie)
    page.goto(desk.asked.result(WAIT))
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("heading", name="Back at the desk")).to_be_visible()
    assert desk.came_back.result(WAIT)["error"] == "access_denied"
    assert result.exception(WAIT) is not None
    assert not ApiToken.objects.filter(client__isnull=False).exists()


def test_consent_in_a_frame_is_not_shown(log_in: LogIn, desk: Desk, ada: Agent, charlie: User) -> None:
    desk.call("auto", "recall", q="tea")
    page = log_in(charlie)
    address = desk.asked.result(WAIT)
    stranger = page.context.new_page()
    stranger.goto(f"http://localhost:{desk.port}/done")
    with stranger.expect_event("framenavigated", lambda one: one.parent_frame and one.url != "about:blank") as shown:
        stranger.evaluate(
            "url => { const f = document.createElement('iframe'); f.src = url; document.body.append(f); }", address
        )
    frame = shown.value
    assert "Connect “Desk”?" not in frame.content()
