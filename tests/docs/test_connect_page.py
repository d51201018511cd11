"""Each snippet of the page Connect, with the token that the page has just made, runs as it stands there."""

import html
import json
import re

import httpx2
import pytest

from tests.docs.interpreters import python, shell
from tests.docs.test_snippets import recalls
from tests.event_loops import to_its_end


@pytest.fixture
def page(demo):
    """The page after an administrator has made a token, and the client with which it was made."""
    with httpx2.Client(base_url=demo.address, follow_redirects=True, timeout=60) as browser:
        browser.get("/login/")
        signing_in = {"username": "admin", "password": demo.passwords["admin"]}
        browser.post("/login/", data=signing_in | {"csrfmiddlewaretoken": browser.cookies["csrftoken"]})
        scopes = ["context:read", "memory:read", "memory:write"]
        form = {"name": "connected", "persona": "actor", "scopes": scopes}
        yield (
            browser,
            browser.post(
                "/agents/marlow/connect/", data=form | {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
            ).text,
        )


def test_snippets_of_the_connect_page_run(demo, page):
    browser, shown = page
    state = re.search(r'hx-get="(/agents/marlow/connect/\d+/)"', shown)[1]
    assert "Waiting for the first call" in browser.get(state).text
    terminal = shell(demo.folder, demo.environment)
    ran = []
    for kind, details in re.findall(r'(?s)<details[^>]*id="connect-(\w+)"(.*?)</details>', shown):
        texts = [html.unescape(text) for text in re.findall(r"(?s)<pre[^>]*>(.*?)</pre>", details)]
        if kind == "mcp":
            (server,) = json.loads(texts[0])["mcpServers"].values()
            to_its_end(recalls(server, demo))
        elif kind == "curl":
            assert "Marlow" in terminal.run(texts[0], "connect.sh")
        else:
            exports = dict(re.findall(r"export (\w+)=(\S+)", texts[0]))
            assert exports["NOUS_URL"] == demo.address
            agent = python(demo.folder, demo.environment | exports)
            assert agent.run(texts[-1], f"connect-{kind}.py").strip()
            agent.stop()
        ran.append(kind)
    terminal.stop()
    assert ran == ["curl", "mcp", "python", "anthropic", "langgraph", "openai"]
    assert "First call received" in browser.get(state).text
