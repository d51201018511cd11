"""The page Connect: from no token to the sign that the agent's first call has come."""

import httpx2
import pytest
from django.urls import reverse
from playwright.sync_api import expect

from identity.models import ApiToken, AuditEvent
from tests.factories import make_token

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_connect_makes_a_token_once_and_sees_its_first_call(log_in, live_server, ada, charlie):
    make_token(ada, name="charlie's computer")
    page = log_in(charlie)
    page.goto(reverse("agent_connect", args=["ada"]))
    expect(page.get_by_role("textbox", name="Name")).to_have_value("charlie's computer 2")
    page.get_by_role("button", name="Create token").click()
    secret = page.locator("#secret").inner_text()
    assert secret in page.locator("#connect-mcp pre").text_content()
    expect(page.locator("#connect-state")).to_contain_text("Waiting for the first call")
    made = ApiToken.objects.get(name="charlie's computer 2")
    assert AuditEvent.objects.get(action="token.create", object_id=str(made.pk)).author_name == "charlie"
    page.locator("#connect-python summary").click()
    expect(page.locator("#connect-python pre").last).to_be_visible()
    page.get_by_text("curl", exact=True).click()
    expect(page.locator("#connect-curl pre")).to_be_in_viewport()
    expect(page.locator("#connect-state")).to_be_in_viewport()
    expect(page.locator("#connect-mcp pre")).to_be_hidden()

    asked = httpx2.post(
        f"{live_server.url}/api/context",
        headers={"Authorization": f"Bearer {secret}"},
        json={"session_id": "first", "input": "Hello"},
        timeout=60,
    )
    expect(page.locator("#connect-state")).to_contain_text("First call received")
    expect(page.locator("#connect-state")).to_be_in_viewport()
    page.get_by_role("link", name="See the prompt that was sent").click()
    page.wait_for_url("**" + reverse("agent_context_run", args=["ada", asked.json()["id"]]))
    page.goto(reverse("agent_connect", args=["ada"]))
    assert secret not in page.content()


def test_connect_says_which_scopes_a_snippet_lacks(log_in, ada, charlie):
    page = log_in(charlie)
    page.goto(reverse("agent_connect", args=["ada"]))
    page.get_by_text("Persona and permissions").click()
    page.get_by_label("context:read").uncheck()
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#connect-mcp")).to_contain_text("It lacks the scope context:read.")


def test_connect_keeps_what_was_typed(log_in, ada, charlie):
    make_token(ada, name="taken")
    page = log_in(charlie)
    page.goto(reverse("agent_connect", args=["ada"]))
    page.get_by_role("textbox", name="Name").fill("taken")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_text("An active token has this name.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Name")).to_have_value("taken")
    assert ApiToken.objects.count() == 1


def test_connect_of_a_reader_has_snippets_and_no_form(log_in, ada, alice):
    page = log_in(alice)
    page.goto(reverse("agent_connect", args=["ada"]))
    expect(page.get_by_text("Your role cannot create tokens.")).to_be_visible()
    expect(page.get_by_role("button", name="Create token")).to_have_count(0)
    assert "nous_…" in page.locator("#connect-mcp pre").text_content()
