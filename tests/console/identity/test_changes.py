"""The page of an agent's change feed."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from identity.principal import Principal
from identity.services.change_feed import feed_change_draft, feed_changes_record
from memory.services.censors import censor_create
from memory.services.episodes import episode_open
from memory.services.erasure import fact_erase
from memory.services.facts import fact_learn
from nousweb.console.common import change_details
from tests.factories import make_principal
from tests.http import signed_in


@pytest.fixture
def viewer(alice):
    return signed_in(alice)


@pytest.fixture
def administrator(charlie):
    return signed_in(charlie)


def shown(browser, slug="ada", **query):
    answer = browser.get(reverse("agent_changes", args=[slug]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def titles(page):
    return re.findall(r'<span class="nowrap" title="([a-z.]+)">', page)


def test_latest_first_with_links(viewer, ada, actor, system):
    first = fact_learn(agent=ada, content="Tim sails.", by=actor).fact
    gone = fact_learn(agent=ada, content="Alice keeps bees.", by=actor).fact
    fact_erase(fact=gone, by=system, reason="Asked.")
    page = shown(viewer)
    assert titles(page)[:3] == ["fact.erased", "fact.learned", "fact.learned"]
    assert f'href="{first.get_absolute_url()}"' in page
    assert "Tim sails." in page
    assert "bees" not in page
    assert page.count(f"{str(gone.pk)[:30]}") == 2


def test_filters_of_kind(viewer, ada, actor):
    fact_learn(agent=ada, content="Tim sails.", by=actor)
    episode_open(agent=ada, title="A regatta", by=actor)
    assert titles(shown(viewer, kind="fact.*")) == ["fact.learned"]
    assert titles(shown(viewer, kind="episode.opened")) == ["episode.opened"]
    assert "No change matches" in shown(viewer, kind="loop.closed")
    assert "Nothing shown" in shown(viewer, kind="nothing")


def test_the_agent_of_the_filter_has_a_page_of_its_own(viewer, ada, bruno, actor):
    fact_learn(agent=ada, content="Tim sails.", by=actor)
    answer = viewer.get(reverse("agent_changes", args=["ada"]), {"agent": "bruno", "kind": "fact.*"})
    assert (answer.status_code, answer.url) == (302, reverse("agent_changes", args=["bruno"]) + "?kind=fact.%2A")
    assert "Tim sails." not in shown(viewer, "bruno")


def test_the_subconscious_for_those_with_the_right(viewer, administrator, ada):
    fact = fact_learn(agent=ada, content="Tim dreams.", by=make_principal(ada, "subconscious")).fact
    for query in ({}, {"persona": "subconscious"}):
        page = shown(viewer, **query)
        assert "dreams" not in page
        assert "subconscious" not in page.lower()
    assert f"{fact.get_absolute_url()}?persona=subconscious" in shown(administrator, persona="both")
    assert "fact.learned" not in titles(shown(administrator)), "the actor's, first"
    assert titles(shown(administrator, persona="subconscious")) == ["fact.learned"]


def test_pages_lead_through_both_streams(administrator, ada):
    for number in range(130):
        persona = "subconscious" if number % 3 == 0 else "actor"
        feed_changes_record([feed_change_draft("loop.closed", ada, persona, "loopsummary", f"loop-{number:03}")])
    seen, query = [], {"kind": "loop.closed", "persona": "both"}
    while True:
        page = shown(administrator, **query)
        seen += re.findall(r"loop-\d\d\d", page)
        found = re.search(r"after=([a-z0-9.]+)", page)
        if found is None:
            break
        query["after"] = found[1]
    assert seen == [f"loop-{number:03}" for number in reversed(range(130))]


def test_a_foreign_place_is_the_first_page(viewer, ada, subtests):
    for place in ["x", "a", "a-1", "a1.b2", "a" + "9" * 40, "a²", "."]:
        with subtests.test(place=place):
            assert titles(shown(viewer, after=place))


def test_the_number_of_statements_stays(administrator, ada, actor, actor_token, api, bob):
    caller, by = api.as_token(actor_token), Principal.of_user(bob)

    def more(number):
        fact_learn(agent=ada, content=f"Reading {number} was {number * 7}.", by=actor)
        censor_create(agent=ada, pattern=f"storm {number}", by=by)
        caller.post("/episodes", {"title": f"Episode {number}"})
        caller.post("/decisions", {"description": f"Decision {number}"})
        caller.post("/procedures", {"name": f"Procedure {number}", "description": "Do."})
        caller.put("/identity/values", {"content": f"Calm {number}."})
        caller.put("/identity/protocols", {"content": f"Check {number} times."})
        caller.post("/events", {"events": [{"kind": "user_input", "content": "Go.", "loop_id": f"l{number}"}]})
        caller.post(f"/loops/l{number}/close")
        caller.put(f"/working/s{number}", {"task": "Sail."})
        caller.post("/context", {"session_id": "s", "input": "Who?"})

    def statements():
        with CaptureQueriesContext(connection) as captured:
            page = shown(administrator)
        return len(captured), page

    more(0)
    statements()
    few, page = statements()
    assert "gone" not in page
    assert "User input: Go." in page
    for number in range(1, 4):
        more(number)
    statements()
    assert statements()[0] == few


@pytest.mark.parametrize(
    ("kind", "details", "words"),
    [
        ("events.recorded", {"count": 1, "first_id": 7, "last_id": 7}, ""),
        ("events.recorded", {"count": 3, "first_id": 7, "last_id": 9}, "3 events"),
        ("loop.closed", {"closed_by": "idle"}, "closed by: idle"),
        ("fact.superseded", {"superseded_by": "0b1e0d0c-6a35-4c8e-9a4b-3f1f3c0a7d11"}, ""),
        ("review.resolved", {"resolution": "old_wrong"}, "resolution: old wrong"),
        ("identity.changed", {"section": "values", "version": 4}, "section: values, version: 4"),
    ],
)
def test_details_in_words(kind, details, words):
    assert change_details(kind, details) == words
