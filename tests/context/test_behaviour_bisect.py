"""Behaviour bisect names the changes that made a prompt otherwise, and no others."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest

from context.engine.analysis.request import ContextRequest
from context.history import behaviour_bisect as module
from context.history.behaviour_bisect import behaviour_bisect, context_bisect
from context.models import ContextRun
from identity.models import Agent
from identity.principal import Principal
from identity.services.agents import agent_create
from identity.services.proposals import identity_propose, proposal_approve
from memory.persona import ActorMemory
from memory.services.facts import fact_supersede
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.working_memory import working_set
from nousweb.console.context.views import compare_runs as pages
from nousweb.lib import clock
from nousweb.lib.errors import Invalid, NotAllowed
from tests.factories import SYSTEM, make_fact, make_person, make_principal, make_run
from tests.http import browser

NOW = clock.now().replace(microsecond=0)
ASKED = "How did the ledger export go?"


def ago(hours):
    return NOW - timedelta(hours=hours)


def bisect(agent, since, until, **more):
    return behaviour_bisect(ActorMemory(agent), ContextRequest("s", ASKED, **more), since=ago(since), until=ago(until))


def named(found):
    return [[(event.kind, event.object_id) for event in one.events] for one in found.differences]


@pytest.fixture(scope="module")
def history(module_db):
    """Ada with thirty unrelated facts, among them three changes that an answer about the ledger shows; made once."""
    system = SYSTEM
    ada = agent_create(slug="ada", name="Ada", kind="knight", prompt="You are Ada, calm and exact.", by=system)
    actor, reviewer = make_principal(ada, name="earlier"), Principal.of_user(make_person("rita", "Reviewer"))
    with clock.at(ago(90)):
        old = make_fact(ada, "The ledger export runs at noon.", system, subject="Ledger")
    for hour in range(80, 50, -1):
        with clock.at(ago(hour)):
            make_fact(ada, f"Boat number {hour} is painted blue.", system, subject=f"Boat {hour}")
    with clock.at(ago(70.5)):
        new = make_fact(ada, "The nightly ledger export has its place after the backup.", system, subject="Backup")
        old, new = fact_supersede(old=old, new=new, reason="Moved.", by=reviewer)
    with clock.at(ago(60.5)):
        proposal = identity_propose(
            agent=ada, section="values", content="Short answers are kind.", reason="Asked for.", by=actor
        ).proposal
        version = proposal_approve(proposal=proposal, by=reviewer)
    with clock.at(ago(55.5)):
        third = make_fact(ada, "The ledger export failed on Friday.", system, subject="Ledger failure")
    embed_pending_rows()
    return old, new, version, third


@pytest.fixture
def ada(db, history):
    return Agent.objects.get(slug="ada")


def test_bisect_names_the_changes_that_made_the_difference(ada, history):
    old, new, version, third = history
    found = bisect(ada, 85, 1)
    assert found.changes >= 34
    assert all(one.is_narrowed for one in found.differences)
    assert len(found.differences) == 3, found.differences
    first, second, last = found.differences
    assert {event.object_id for event in first.events} == {str(old.pk), str(new.pk)}
    assert {(item.id, item.change) for item in first.items} == {(str(old.pk), "removed"), (str(new.pk), "added")}
    assert [(event.kind, event.object_id) for event in second.events] == [("identity.changed", str(version.pk))]
    assert [event.object_id for event in last.events] == [str(third.pk)]
    assert second.events[0].author_name
    assert {(item.id, item.change) for item in found.items} >= {(str(old.pk), "removed"), (str(new.pk), "added")}
    assert found.prompts < found.changes


def test_bisect_takes_the_date_of_a_question_about_a_time_for_no_change(ada, history):
    asked = ContextRequest("s", "How did the ledger export go yesterday?")
    found = behaviour_bisect(ActorMemory(ada), asked, since=ago(85), until=ago(1))
    assert "frame" not in {item.type for one in found.differences for item in one.items}


def test_bisect_of_a_quiet_span_finds_nothing(ada, history):
    found = bisect(ada, 54, 51)
    assert found.differences == []
    assert found.items == []


def test_bisect_that_runs_out_says_what_is_not_narrowed(ada, history, monkeypatch):
    monkeypatch.setattr(module, "MAX_PROMPTS", 3)
    found = bisect(ada, 85, 1)
    assert not all(one.is_narrowed for one in found.differences)
    assert sum(one.among for one in found.differences if not one.is_narrowed) > 1


def test_bisect_says_what_the_past_cannot_tell(ada, system):
    agent = make_principal(ada)
    with clock.at(ago(3)):
        working_set(agent=ada, session_id="s", task="Look at the ledger first.", by=agent)
    assert bisect(ada, 5, 1).unknown
    assert not bisect(ada, 5, 1, project="other").differences


def test_bisect_of_a_span_that_is_none_is_refused(ada):
    for since, until in ((1, 1), (1, 2), (1, -5)):
        with pytest.raises(Invalid):
            bisect(ada, since, until)


def test_bisect_of_the_subconscious_is_for_those_with_the_right(ada, actor, alice):
    run = make_run(ada, actor, ASKED)
    ContextRun.objects.filter(pk=run.pk).update(persona="subconscious")
    run.refresh_from_db()
    with pytest.raises(NotAllowed):
        context_bisect(run=run, by=Principal.of_user(alice), since=ago(2), until=ago(1))
    assert browser(alice).get(f"/agents/ada/context/{run.pk}/bisect/").status_code == 404


def test_bisect_page_names_each_change_with_its_page(ada, actor, bob, history):
    run = make_run(ada, actor, ASKED)
    client = browser(bob)
    address = f"/agents/ada/context/{run.pk}/bisect/"
    assert "Which change made the difference?" in client.get(address).content.decode()
    page = client.get(address, {"since": f"{ago(85):%Y-%m-%dT%H:%M}"}).content.decode()
    _old, new, *_ = history
    for words in ("Fact replaced", "Identity changed", "after the backup", "failed on Friday", "approved by"):
        assert words in page
    assert f"/agents/ada/facts/{new.pk}/" in page
    assert "Boat number" not in page
    wrong = client.get(address, {"since": "yesterday"})
    assert wrong.status_code == 422
    assert client.get(address, {"since": "2026-01-02T00:00", "until": "2026-01-01T00:00"}).status_code == 422


def test_bisect_page_shows_what_it_tried_while_it_searches_the_newest_first(
    ada, actor, bob, alice, history, monkeypatch
):
    monkeypatch.setattr(pages, "STEP_SECONDS", 0)
    run, client, htmx = make_run(ada, actor, ASKED), browser(bob), {"hx-request": "true"}
    address = f"/agents/ada/context/{run.pk}/bisect/"
    span = {"since": f"{ago(85):%Y-%m-%dT%H:%M}", "until": f"{ago(1):%Y-%m-%dT%H:%M}"}
    parts, query = [], f"?{urlencode(span)}"
    while query:
        answer = client.get(address + query, headers=htmx)
        assert answer.status_code == 200
        parts.append(answer.content.decode())
        query = answer.context["following"]
    assert len(parts) > 5, "a request tries one span and shows it"
    assert "looking closer" in parts[0]
    assert all("<html" not in part for part in parts[1:])
    places = [number for words in ("failed on Friday", "Identity changed", "Fact replaced")
              for number, part in enumerate(parts[:-1]) if words in part]  # fmt: skip
    assert len(set(places)) == len(places) == 3
    assert places == sorted(places)
    at_once = client.get(address, span).context["result"]
    result = answer.context["result"]
    assert result["found"] == at_once["found"] == 3
    assert result["bisect"].changes == at_once["bisect"].changes
    tampered = {**span, "search": "eyJzcGFucyI6W119:x:y"}
    assert client.get(address, tampered, headers=htmx).status_code == 422
