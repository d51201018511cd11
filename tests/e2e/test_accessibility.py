"""Every page of the console, light and dark: axe finds nothing serious, nothing is wider than a phone."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import get_resolver, reverse
from playwright.sync_api import Page

from context.models import ContextRun
from context.services.context import context_assemble
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.services.facts import fact_learn
from tests.e2e.conftest import assert_accessible

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Arguments = Callable[[], list[Any]]


def proposals(**fields: Any) -> Arguments:
    return lambda: [ChangeProposal.objects.filter(**fields).earliest("created_at").pk]


def none() -> list[Any]:
    return []


def of_ada(*more: Any) -> Arguments:
    return lambda: ["ada", *more]


PAGES: dict[str, tuple[str, Arguments, str]] = {
    "login": ("login", none, ""),
    "home": ("home", none, ""),
    "queue": ("review", none, ""),
    "queue, applied": ("review", none, "?status=applied"),
    "queue, decided": ("review", none, "?status=decided"),
    "queue, empty": ("review", none, "?agent=nobody"),
    "proposal": ("proposal", proposals(status="pending", section="boundaries"), ""),
    "proposal, unified": ("proposal", proposals(status="pending", section="boundaries"), "?layout=unified"),
    "proposal, stale": ("proposal", proposals(status="pending", section="values"), ""),
    "proposal, applied": ("proposal", proposals(status="applied"), "?status=applied"),
    "proposal, decided": ("proposal", proposals(status="approved"), "?status=decided"),
    "audit": ("audit", none, ""),
    "audit, nothing found": ("audit", none, "?q=nothing+of+the+kind"),
    "record": ("audit_event", lambda: [AuditEvent.objects.filter(action="proposal.create").latest("pk").pk], ""),
    "agents": ("agents", none, ""),
    "new agent": ("agent_new", none, ""),
    "agent's settings": ("agent_settings", of_ada(), ""),
    "initiate": ("agent_initiate", of_ada(), ""),
    "identity": ("agent_identity", of_ada(), ""),
    "history": ("section_history", of_ada("values"), ""),
    "compare": ("section_compare", of_ada("values"), "?from=1&to=2"),
    "propose": ("section_propose", of_ada("values"), ""),
    "roll back": ("section_rollback", of_ada("values", 1), ""),
    "tokens": ("agent_tokens", of_ada(), ""),
    "revoke": ("agent_token_revoke", lambda: ["ada", ApiToken.objects.latest("pk").pk], ""),
    "facts": ("agent_facts", of_ada(), ""),
    "facts, nothing found": ("agent_facts", of_ada(), "?q=nothing"),
    "add fact": ("agent_fact_add", of_ada(), ""),
    "context": ("agent_context", of_ada(), "?input=Hello"),
    "run": ("agent_context_run", lambda: ["ada", ContextRun.objects.latest("created_at").pk], ""),
    "refused": ("proposal", lambda: ["00000000-0000-4000-8000-000000000000"], ""),
}
NO_PAGES = {
    "logout",
    "review_bulk",
    "review_batch_undo",
    "proposal_decide",
    "proposal_preview",
    "proposal_undo",
    "section_preview",
}
"""Addresses that answer a form or a part of a page."""


def test_every_page_is_in_the_table() -> None:
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    assert names - NO_PAGES == {name for name, _, _ in PAGES.values()}


@pytest.fixture
def story(ada: Agent, actor: Principal, bob: User) -> None:
    """Something of everything."""
    by = Principal.of_user(bob)
    identity_propose(agent=ada, section="values", content="One.\nTwo.", by=by)
    identity_propose(agent=ada, section="values", content="One.\n\n## Three.", by=actor)
    identity_propose(agent=ada, section="values", content="One.\nTwo, and more.", by=by)
    identity_propose(agent=ada, section="boundaries", content="Never lie.\nAsk.", reason="Learned.", by=actor)
    identity_propose(agent=ada, section="preferences", content="Tables.", by=actor)
    for category in ("person", "preference", "tool"):
        fact_learn(agent=ada, content=f"A {category}.", category=category, subject="Ms Lind", by=actor)
    context_assemble(agent=ada, session_id="s", input="Hello", by=actor, request={})


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_serious_violation(
    name: str, theme: str, story: None, open_page: Callable[..., Page], live_server: Any, client: Any, charlie: User
) -> None:
    url_name, arguments, query = PAGES[name]
    page = open_page()
    page.emulate_media(color_scheme=theme)
    if url_name != "login":
        client.force_login(charlie)
        page.context.add_cookies(
            [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}]
        )
    page.goto(reverse(url_name, args=arguments()) + query)
    assert_accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
