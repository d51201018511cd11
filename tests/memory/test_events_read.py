"""Reading the log over HTTP: by id, by range, by loop, page by page."""

from datetime import UTC, datetime, timedelta

import pytest

from memory.services.events import events_record
from tests.api.problems import assert_problem
from tests.factories import make_events

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def log(ada, actor):
    """Twenty events, five to a moment, in two loops, handed over in an order of its own."""
    events = [
        {
            "kind": "user_input" if n % 2 else "tool_call",
            "content": f"event {n:02}" + (" Größe 100%" if n == 7 else ""),
            "loop_id": f"loop {n % 2}",
            "ts": START + timedelta(hours=n // 5),
        }
        for n in range(20)
    ]
    recorded = events_record(agent=ada, events=[*events[10:], *events[:10]], by=actor)
    return sorted((one.event for one in recorded), key=lambda event: (event.ts, event.pk))


@pytest.fixture
def read(api, actor_token):
    return lambda **query: api.as_token(actor_token).get("/events", query)


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [int(event["id"]) for event in answer.json()["items"]]


@pytest.mark.parametrize("order", ["latest", "earliest"])
@pytest.mark.parametrize("limit", [1, 3, 20])
def test_events_pages_give_every_event_once_in_order(log, read, order, limit):
    found, cursor = [], ""
    while cursor is not None:
        page = read(limit=limit, order=order, cursor=cursor)
        found += ids(page)
        cursor = page.json()["next"]
    assert found == [event.pk for event in (reversed(log) if order == "latest" else log)]


def test_events_pages_are_stable_while_events_arrive(log, read, ada, actor):
    first = read(limit=10)
    make_events(ada, actor, "late")
    second = read(limit=10, cursor=first.json()["next"])
    assert ids(first) + ids(second) == [event.pk for event in reversed(log)]


def test_events_range_includes_its_start_and_not_its_end(log, read):
    found = read(**{"from": START.isoformat(), "to": (START + timedelta(hours=2)).isoformat(), "order": "earliest"})
    assert ids(found) == [event.pk for event in log if event.ts < START + timedelta(hours=2)]
    assert ids(read(**{"from": (START + timedelta(hours=3)).isoformat()})) == [e.pk for e in reversed(log[15:])]


def test_events_filters(log, read, subtests):
    for query, chosen in [
        ({"kind": "tool_call"}, lambda event: event.kind == "tool_call"),
        ({"kind": ["tool_call", "user_input"]}, lambda event: True),
        ({"kind": "error"}, lambda event: False),
        ({"loop_id": "loop 1"}, lambda event: event.loop_id == "loop 1"),
        ({"q": "EVENT 1"}, lambda event: "event 1" in event.content),
        ({"q": "größe 100%"}, lambda event: "Größe" in event.content),
        ({"q": "event_0"}, lambda event: False),
        ({"loop_id": "loop 1", "kind": "tool_call"}, lambda event: False),
        ({"persona": "actor"}, lambda event: True),
    ]:
        with subtests.test(query=query, chosen=chosen):
            assert ids(read(**query)) == [event.pk for event in reversed(log) if chosen(event)]


def test_events_bad_filter_is_refused_by_name(log, read, subtests):
    for query, field in [
        ({"kind": "shout"}, "kind"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-01-01T00:00:00"}, "from"),
        ({"to": "9999-12-31T23:59:59-12:00"}, "to"),
        ({"from": "0001-01-01T00:00:00+14:00"}, "from"),
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": 10**30}, "limit"),
        ({"order": "random"}, "order"),
        ({"q": "x" * 201}, "q"),
        ({"persona": "both"}, "persona"),
        ({"cursor": "nonsense"}, "cursor"),
    ]:
        with subtests.test(query=query, field=field):
            assert_problem(read(**query), 422, "invalid", field=field)


@pytest.mark.parametrize("event_id", ["0", "-1", "9" * 30])
def test_event_unknown_id_is_not_found(log, api, actor_token, event_id):
    assert_problem(api.as_token(actor_token).get(f"/events/{event_id}"), 404, "not_found")


def test_event_of_another_agent_is_not_found(log, api, other_token):
    assert_problem(api.as_token(other_token).get(f"/events/{log[0].pk}"), 404, "not_found")
    assert ids(api.as_token(other_token).get("/events")) == []
    assert_problem(api.as_token(other_token).get("/events", {"agent": "ada"}), 404, "not_found")


def test_events_are_read_by_people_for_the_named_agent(log, api, alice):
    assert len(ids(api.as_person(alice).get("/events", {"agent": "ada"}))) == 20
    assert_problem(api.as_person(alice).get("/events"), 422, "invalid", field="agent")
