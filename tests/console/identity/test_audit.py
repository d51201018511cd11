"""The audit trail's page: by which way in a change came, and only those that came so."""

import pytest
from django.core.management import call_command

from tests.factories import make_events
from tests.http import browser

pytestmark = pytest.mark.django_db


def test_changes_are_found_by_their_way_in(api, ada, charlie, actor_token):
    proposal = {"content": "Truth.", "mode": "propose", "reason": "r"}
    api.as_token(actor_token).put("/identity/values", proposal)
    call_command("createtoken", "ada", persona="actor", name="of the shell")
    client = browser(charlie)
    client.post("/agents/ada/tokens/", {"name": "of the page", "persona": "actor", "scopes": ["memory:read"]})

    def shown(channel):
        page = client.get("/audit/", {"channel": channel, "agent": "ada"})
        assert page.status_code == 200
        return [(row.action, row.object_label.partition(" (")[0]) for row in page.context["rows"]]

    assert [action for action, _ in shown("api")] == ["proposal.create"]
    assert shown("command") == [("token.create", "of the shell")]
    assert ("token.create", "of the page") in shown("console")
    assert shown("mcp") == shown("import") == []
    assert "agent.create" in [action for action, _ in shown("itself")]
    assert b"through API" in client.get("/audit/", {"channel": "api"}).content
    assert client.get("/audit/", {"channel": "telepathy"}).context["form"].errors


def test_audit_joins_records_alike_that_the_system_made(ada, actor, system, bob):
    for by in (system, system, system, actor, actor):
        make_events(ada, by, "It rains.")
    page = browser(bob).get("/audit/")
    assert [(row.author_kind, len(getattr(row, "more", []))) for row in page.context["rows"]][:3] == [
        ("token", 0), ("token", 0), ("system", 2)
    ]  # fmt: skip
    assert "2 more like it" in page.content.decode()
