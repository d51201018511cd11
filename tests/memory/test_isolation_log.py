"""Isolation: whatever is asked, an actor is never given a row of the subconscious. Properties of random logs.

Source: seed "Agentic Memory System", Access Rules and Isolation Enforcement.
"""

import json

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from identity.principal import Principal
from identity.services.tokens import token_create
from memory.models import Event, LongTermEntry, LoopSummary, SearchItem
from memory.services.events import events_record
from memory.services.loops import derived_backfill
from nousweb.lib.errors import NotAllowed
from tests.api.problems import assert_problem
from tests.factories import make_events

MARK = "subc0nsci0us"
LOOPS = ("shared", "other", "third")
KINDS = ("user_input", "actor_output", "tool_call", "tool_result", "system_event", "error")
FORGED = st.fixed_dictionaries(
    {},
    optional={
        "persona": st.sampled_from(["actor", "subconscious"]),
        "agent_id": st.integers(0, 9),
        "agent": st.sampled_from(["ada", "bruno"]),
        "speaker": st.sampled_from(["Ada", "subconscious", "actor"]),
        "visibility": st.just("public"),
        "id": st.integers(1, 50),
    },
)


def event(*kinds):
    return st.fixed_dictionaries(
        {
            "kind": st.sampled_from([*KINDS, *kinds]),
            "content": st.text("abc d", min_size=1).map(lambda text: f"x{text}"),
        },
        optional={
            "loop_id": st.sampled_from(LOOPS),
            "visibility": st.sampled_from(["public", "internal", "private"]),
            "metadata": FORGED,
            "key": st.sampled_from("klmn"),
        },
    )


LOG = st.lists(
    st.one_of(
        st.tuples(st.just("actor"), event()),
        st.tuples(st.just("subconscious"), event("subconscious_prompt", "subconscious_output")),
    ),
    min_size=1,
    max_size=8,
)
QUERY = st.fixed_dictionaries(
    {},
    optional={
        "persona": st.sampled_from(["", "actor", "subconscious"]),
        "kind": st.sampled_from([*KINDS, "subconscious_prompt", "subconscious_output"]),
        "loop_id": st.sampled_from(LOOPS),
        "q": st.sampled_from([MARK, "x", "a"]),
        "order": st.sampled_from(["latest", "earliest"]),
        "from": st.just("1980-01-01T00:00:00Z"),
        "limit": st.integers(1, 50),
        "state": st.sampled_from(["all", "open", "closed"]),
        "agent_id": st.integers(0, 9),
        "as": st.just("subconscious"),
    },
)


@pytest.fixture
def clients(api, ada, actor_token, subconscious_token):
    return {"actor": api.as_token(actor_token), "subconscious": api.as_token(subconscious_token)}


def tell(clients, log):
    """Record a log over HTTP; every word of the subconscious carries MARK."""
    for persona, one in log:
        said = dict(one, content=f"{one['content']} {MARK}" if persona == "subconscious" else one["content"])
        answer = clients[persona].post("/events", {"events": [said]})
        assert answer.status_code in (201, 409), answer.content
    derived_backfill()


def assert_of_the_actor(answer):
    """The answer gives nothing of the subconscious: neither a row of it nor a word."""
    if answer.status_code == 200:
        text = answer.content.decode()
        assert MARK not in text
        own = set(map(str, Event.objects.filter(persona="actor").values_list("pk", flat=True)))
        body = json.loads(text)
        rows = [item.get("loop", item) for item in body.get("items", [])]
        rows += [body["loop"], *body["events"]] if "events" in body else []
        rows += [body] if "persona" in body else []
        for row in rows:
            assert row["persona"] == "actor"
            assert set(row.get("long_term_ids", [row.get("id")])) <= own
    else:
        assert answer.status_code in (403, 404, 422), answer.content
        assert MARK not in answer.content.decode()


def reads(client, query):
    """Every way of reading the log and its layers."""
    yield client.get("/events", query)
    yield client.get("/loops", query)
    yield client.get("/stm", {**query, "q": query.get("q", MARK)})
    narrow = {name: query[name] for name in ("persona", "agent_id", "as") if name in query}
    for name in LOOPS:
        yield client.get(f"/loops/{name}", narrow)
    for pk in Event.objects.values_list("pk", flat=True):
        yield client.get(f"/events/{pk}", narrow)


each_in_its_own_transaction = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@each_in_its_own_transaction
@given(LOG, QUERY)
def test_persona_actor_never_receives_the_subconscious(clients, log, query):
    with transaction.atomic():
        tell(clients, log)
        for answer in reads(clients["actor"], query):
            assert_of_the_actor(answer)
        transaction.set_rollback(True)


@each_in_its_own_transaction
@given(LOG)
def test_persona_subconscious_receives_both(clients, log):
    with transaction.atomic():
        tell(clients, log)
        client = clients["subconscious"]
        given_ids = {item["id"] for item in client.get("/events", {"limit": 200}).json()["items"]}
        assert given_ids == set(map(str, Event.objects.values_list("pk", flat=True)))
        loops = {(item["persona"], item["loop_id"]) for item in client.get("/loops").json()["items"]}
        assert loops == set(LoopSummary.objects.values_list("persona", "loop_id"))
        for pk in given_ids:
            assert client.get(f"/events/{pk}").status_code == 200
        for persona in ("actor", "subconscious"):
            is_filtered = client.get("/events", {"persona": persona, "limit": 200}).json()["items"]
            assert {item["persona"] for item in is_filtered} <= {persona}
        transaction.set_rollback(True)


@each_in_its_own_transaction
@given(LOG)
def test_persona_of_derived_rows_is_that_of_the_event(clients, log):
    with transaction.atomic():
        tell(clients, log)
        events = {event.pk: event for event in Event.objects.all()}
        for event in events.values():
            assert (MARK in event.content) == (event.persona == "subconscious")
        entries = list(LongTermEntry.objects.all())
        assert len(entries) == len(events)
        for entry in entries:
            held = events[entry.pk]
            assert (entry.persona, entry.agent_id, entry.loop_id) == (held.persona, held.agent_id, held.loop_id)
        for item in SearchItem.objects.filter(item_type="event"):
            assert item.persona == events[int(item.item_id)].persona
        for loop in LoopSummary.objects.all():
            assert {events[pk].persona for pk in loop.long_term_ids} <= {loop.persona}
            assert loop.persona == "subconscious" or MARK not in loop.summary
        transaction.set_rollback(True)


@pytest.fixture
def both(ada, actor, system):
    """A loop of the same name in each persona."""
    token = token_create(agent=ada, persona="subconscious", name="s", by=system)[0]
    for by, word in ((actor, "open"), (Principal.of_token(token), MARK)):
        said = [{"kind": kind, "content": word, "loop_id": "L"} for kind in ("user_input", "actor_output")]
        events_record(agent=ada, events=said, by=by)
    derived_backfill()
    return ada


def test_persona_subconscious_named_by_an_actor_is_refused(both, clients):
    for path in ("/events", "/loops", "/loops/L", "/stm?q=x", f"/events/{Event.objects.first().pk}"):
        sign = "&" if "?" in path else "?"
        refused = clients["actor"].get(f"{path}{sign}persona=subconscious")
        assert_problem(refused, 403, "not_allowed")


def test_persona_loops_of_the_same_name_are_separate(both, clients):
    assert MARK not in clients["actor"].get("/loops/L").content.decode()
    assert MARK in clients["subconscious"].get("/loops/L").content.decode()
    assert MARK not in clients["subconscious"].get("/loops/L", {"persona": "actor"}).content.decode()


def test_persona_subconscious_needs_a_permission_of_people(both, api, alice, bob, charlie):
    hidden = Event.objects.filter(persona="subconscious").first()
    paths = ("/events", "/loops", "/loops/L", "/stm", f"/events/{hidden.pk}")
    for person in (alice, bob, charlie):
        client = api.as_person(person)
        for path in paths:
            query = {"agent": "ada", **({"q": "x"} if path == "/stm" else {})}
            answer = client.get(path, query)
            assert answer.status_code == (404 if path.startswith("/events/") else 200)
            assert MARK not in answer.content.decode()
            asked = client.get(path, query | {"persona": "subconscious"})
            if person is charlie:
                assert asked.status_code == 200
                assert MARK in asked.content.decode()
            else:
                assert_problem(asked, 403, "not_allowed")
    by = Principal.of_user(bob)
    with pytest.raises(NotAllowed):
        make_events(both, by, "x", kind="error")
