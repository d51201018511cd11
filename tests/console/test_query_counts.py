"""Every page of the console has a bound for its queries, asks no more of them for sixty rows than for ten, and has one
primary action at most."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from context.models import ContextRun, Expectation
from identity.models import Agent, ApiToken, ChangeProposal, OAuthClient, Webhook
from identity.principal import Principal
from memory.models import Censor, Decision, Document, Episode, Event, Fact, MemoryReview, Procedure, Subject
from tests.cluster import not_on_a_cluster
from tests.console.test_primary_buttons import PrimaryButtons
from tests.console_pages import PAGES, story_told
from tests.factories import make_copies
from tests.http import browser

USUAL = 16
MORE = {
    "event": 19,
    "fact": 17,
    "changes": 25,
    "context, bisect": 150,
    "context, impact": 38,
    "context, impact of proposals": 39,
    "erase agent": 17,
    "integrity": 22,
    "playground, on questions": 30,
    "proposal": 20,
    "proposal, stale": 20,
    "proposal, unified": 20,
    "question": 18,
    "search, everything": 49,
}
"""Queries of the pages, by what they show, that need more than the `USUAL` number."""
ALLOWED = {"context, bisect": 40, "context, impact": 10, "context, impact of proposals": 10}
"""Queries that more rows may add: one, by which a list longer than a page counts its rows; impact makes the prompts of
the last twenty runs again, one by one, and a search for changes takes as many steps as it finds causes and time for."""
COPIED: dict[type[models.Model], dict[str, str]] = {
    Fact: {"content": "'Copy ' || n || random()"},
    Event: {"content": "'Copy ' || n || random()"},
    Episode: {"title": "'Copy ' || n"},
    Decision: {"description": "'Copy ' || n"},
    Document: {"key": "'/copy/' || n || random()", "address": "md5(n || random()::text) || md5(n::text)"},
    Procedure: {"name": "'Copy ' || n || random()"},
    Censor: {"pattern": "'copy ' || n || random()"},
    Subject: {"name": "'Copy ' || n || random()"},
    ChangeProposal: {"content": "'Copy ' || n || random()"},
    MemoryReview: {"about": "'copy ' || n || random()"},
    ContextRun: {},
    Expectation: {},
    ApiToken: {"digest": "md5(n || random()::text) || md5(n::text)"},
    OAuthClient: {"client_id": "'copy ' || n || random()"},
    Webhook: {},
}


def _walked(client: Client, pages: dict[str, str]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Queries and primary buttons of each page."""
    counts, buttons = {}, {}
    for name, address in pages.items():
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(address)
        assert answer.status_code < 500, (name, answer.status_code)
        counts[name] = len(queries)
        buttons[name] = PrimaryButtons(answer.content.decode()).found
    return counts, buttons


# Copies are made on all servers at once, which Citus refuses in a transaction that has read rows of its own.
@not_on_a_cluster
@pytest.mark.django_db
def test_query_counts_are_bounded_and_each_page_has_one_primary_button_at_most(
    ada: Agent, actor: Principal, bob: User, charlie: User
) -> None:
    story_told(ada, actor, bob, charlie)
    owner = browser(User.objects.create_superuser("owner"))
    originals: list[tuple[Any, dict[str, str]]] = [(model.objects.first(), more) for model, more in COPIED.items()]
    for row, changed in originals:
        make_copies(row, 9, **changed)
    pages = {
        name: reverse(url_name, args=arguments()) + (query if isinstance(query, str) else query())
        for name, (url_name, arguments, query) in PAGES.items()
    }
    few, _ = _walked(owner, pages)
    for row, changed in originals:
        make_copies(row, 50, **changed)
    many, buttons = _walked(owner, pages)
    assert {
        name: (few[name], number) for name, number in many.items() if number > few[name] + ALLOWED.get(name, 1)
    } == {}
    assert {name: number for name, number in many.items() if number > MORE.get(name, USUAL)} == {}
    assert {name: found for name, found in buttons.items() if len(found) > 1} == {}
