"""Expanding a memory that was found: the whole of it, its neighbours, nothing of others."""

import pytest

from tests.factories import make_events, make_fact, make_principal, make_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada_api(api, actor_token):
    return api.as_token(actor_token)


def relations(body):
    return [(one["relation"], one["content"]) for one in body["related"]]


def test_event_with_its_neighbours_and_its_episode(ada_api, ada, actor):
    events = make_events(ada, actor, *(f"Line {number}." for number in range(9)), loop_id="talk")
    make_events(ada, actor, "Elsewhere.", loop_id="other")
    episode = ada_api.post("/episodes", {"title": "The talk"}).json()
    ada_api.post(f"/episodes/{episode['id']}/events", {"event_ids": [str(events[4].pk)]})
    body = ada_api.get(f"/recall/event/{events[4].pk}", {"around": 2}).json()
    assert body["item"]["content"] == "Line 4."
    assert relations(body) == [
        ("before", "Line 2."),
        ("before", "Line 3."),
        ("after", "Line 5."),
        ("after", "Line 6."),
        ("episode", "The talk"),
    ]
    assert body["more"]
    whole = ada_api.get(f"/recall/event/{events[4].pk}", {"around": 50}).json()
    assert len(whole["related"]) == 9
    assert not whole["more"]
    assert relations(ada_api.get(f"/recall/event/{events[0].pk}", {"around": 0}).json()) == []


def test_episode_with_its_detail_and_events(ada_api, ada, actor):
    episode = ada_api.post("/episodes", {"title": "Release", "detail": "We shipped at noon."}).json()
    events = make_events(ada, actor, "Tagged.", "Pushed.")
    ada_api.post(f"/episodes/{episode['id']}/events", {"event_ids": [str(one.pk) for one in events]})
    ada_api.post(f"/episodes/{episode['id']}/close", {"summary": "2.0 is out.", "outcome": "success"})
    body = ada_api.get(f"/recall/episode/{episode['id']}").json()
    assert body["item"]["content"] == "Release\n2.0 is out.\n\nWe shipped at noon."
    assert body["item"]["metadata"]["outcome"] == "success"
    assert relations(body) == [("part", "Tagged."), ("part", "Pushed.")]


def test_fact_with_what_it_replaced(ada_api, api, charlie, ada, actor):
    old, new = make_fact(ada, "The office is in Porto.", actor), make_fact(ada, "Lunch is at one.", actor)
    assert ada_api.post(f"/facts/{old.pk}/supersede", {"fact_id": str(new.pk)}).status_code == 200
    assert relations(ada_api.get(f"/recall/fact/{new.pk}").json()) == [("replaces", "The office is in Porto.")]
    body = ada_api.get(f"/recall/fact/{old.pk}").json()
    assert relations(body) == [("replaced_by", "Lunch is at one.")]
    assert not body["item"]["active"]


def test_neighbours_are_of_no_other_project_and_no_other_persona(ada_api, api, ada, actor):
    shared = {"loop_id": "talk"}
    (mine,) = make_events(ada, actor, "Ours.", project="ours", **shared)
    make_events(ada, actor, "Theirs.", project="theirs", loop_id="other")
    make_events(ada, actor, "Ours too.", project="ours", **shared)
    make_events(ada, make_principal(ada, "subconscious"), "Hidden.", kind="subconscious_output", **shared)
    assert relations(ada_api.get(f"/recall/event/{mine.pk}").json()) == [("after", "Ours too.")]
    limited = api.as_token(make_token(ada, name="limited", projects=["theirs"]))
    assert limited.get(f"/recall/event/{mine.pk}").status_code == 404


def test_what_is_not_there_is_not_found(ada_api, subtests):
    for path, status in [
        ("/recall/event/99", 404),
        ("/recall/event/-1", 404),
        ("/recall/event/99999999999999999999999999", 404),
        ("/recall/event/x", 404),
        ("/recall/fact/x", 404),
        ("/recall/fact/0b1e2f3a-0000-4000-8000-000000000000", 404),
        ("/recall/soul/1", 422),
        ("/recall/event/1?around=51", 422),
    ]:
        with subtests.test(path=path, status=status):
            assert ada_api.get(path).status_code == status


def test_other_agents_and_personas_do_not_exist(api, ada, actor, other_token, actor_token):
    fact = make_fact(ada, "Ada keeps bees.", actor)
    assert api.as_token(other_token).get(f"/recall/fact/{fact.pk}").status_code == 404
    hidden = make_fact(ada, "The actor repeats itself.", make_principal(ada, "subconscious"))
    assert api.as_token(actor_token).get(f"/recall/fact/{hidden.pk}").status_code == 404
    assert (
        api.as_token(make_token(ada, name="few", scopes=["context:read"])).get(f"/recall/fact/{fact.pk}").status_code
        == 403
    )
