"""Recording events: what is stored, what is refused, and what a repeated call does."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.utils import timezone

from identity.models import AuditEvent
from identity.principal import Principal
from memory.layers.event_validation import MAX_EVENT_CHARACTERS
from memory.models import Event, EventKind, LongTermEntry, LoopSummary, SearchItem
from memory.services.events import events_record
from nousweb.lib.errors import Invalid, NotAllowed
from tests.api.problems import assert_problem
from tests.database import as_the_owner
from tests.factories import make_token


def post(api, token, *events):
    return api.as_token(token).post("/events", {"events": list(events)})


def counts():
    return {
        model.__name__: model._default_manager.count()
        for model in (Event, LongTermEntry, LoopSummary, SearchItem, AuditEvent)
    }


def test_event_is_recorded_word_for_word_with_everything_derived(api, actor_token, ada):
    said = "  Is the   deploy\n done?\t"
    event = {
        "kind": "user_input", "content": said, "loop_id": "L1", "ts": "2026-01-02T03:04:05.678901+02:00",
        "visibility": "internal", "metadata": {"speaker": "Zoë", "n": [1, 2.5, None]}, "key": "k1",
    }  # fmt: skip
    answer = post(api, actor_token, event)
    assert answer.status_code == 201, answer.content
    [recorded] = answer.json()["events"]
    assert recorded["repeated"] is False
    found = api.as_token(actor_token).get(f"/events/{recorded['id']}").json()
    assert found.pop("recorded_at")
    keys = {"project": "", "task": "", "user": "", "trust": "agent", "quarantined": False}
    assert found == event | keys | {
        "id": recorded["id"],
        "agent_id": "ada",
        "persona": "actor",
        "ts": "2026-01-02T01:04:05.678Z",
    }
    assert Event.objects.get().ts.microsecond == 678901
    entry = LongTermEntry.objects.get(event_id=recorded["id"])
    assert (entry.text, entry.agent, entry.persona, entry.loop_id) == ("Zoë: Is the deploy done?", ada, "actor", "L1")
    item = SearchItem.objects.get(item_type="event", item_id=str(recorded["id"]))
    assert (item.text, item.status, item.persona, item.subject) == (entry.text, "pending", "actor", "Zoë")
    loop = LoopSummary.objects.get(agent=ada, loop_id="L1")
    assert (loop.event_count, loop.covered_events, loop.summary, loop.closed_at) == (1, 0, "", None)


def test_event_defaults_are_now_public_and_one_loop_per_call(api, actor_token):
    before = timezone.now()
    answer = post(
        api, actor_token, {"kind": "user_input", "content": "a"}, {"kind": "tool_call", "content": "b"}
    ).json()["events"]
    first, second = (Event.objects.get(pk=event["id"]) for event in answer)
    assert first.loop_id == second.loop_id != ""
    assert before <= first.ts <= timezone.now()
    assert (first.visibility, first.metadata, first.key) == ("public", {}, None)
    third = post(api, actor_token, {"kind": "user_input", "content": "c"}).json()["events"][0]
    assert third["loop_id"] != first.loop_id


def test_events_of_a_call_share_one_audit_record(api, actor_token, ada):
    before = counts()
    events = [{"kind": "user_input", "content": f"turn {n}", "loop_id": f"s{n % 7}"} for n in range(1_000)]
    answer = post(api, actor_token, *events)
    assert answer.status_code == 201
    ids = [int(event["id"]) for event in answer.json()["events"]]
    assert ids == sorted(set(ids))
    assert [event.content for event in Event.objects.order_by("pk")] == [event["content"] for event in events]
    grown = {name: count - before[name] for name, count in counts().items()}
    assert grown == {
        "Event": 1_000, "LongTermEntry": 1_000, "SearchItem": 1_000, "LoopSummary": 7, "AuditEvent": 1,
    }  # fmt: skip
    record = AuditEvent.objects.get(action="events.record")
    assert (record.agent, record.after["count"], record.after["loop_count"]) == (ada, 1_000, 7)
    assert "turn" not in str(record.after) + record.object_label, "the trail holds no content of the log"


def test_events_of_a_call_take_a_fixed_number_of_queries(actor, ada, django_assert_max_num_queries):
    events = [{"kind": "user_input", "content": f"turn {n}", "key": f"k{n}"} for n in range(1_000)]
    with django_assert_max_num_queries(14):
        events_record(agent=ada, events=events, by=actor)


GOOD = {"kind": "user_input", "content": "fine"}


def test_events_with_one_bad_are_refused_by_its_place_as_a_whole(api, actor_token, subtests):
    for change, field in [
        ({"kind": "shout"}, "kind"),
        ({"kind": ""}, "kind"),
        ({"kind": "subconscious_prompt"}, "kind"),
        ({"kind": "subconscious_output"}, "kind"),
        ({"content": ""}, "content"),
        ({"content": " \n\t"}, "content"),
        ({"content": "a\x00b"}, "content"),
        ({"content": "\ud800"}, "content"),
        ({"content": "x" * (MAX_EVENT_CHARACTERS + 1)}, "content"),
        ({"loop_id": ""}, "loop_id"),
        ({"loop_id": "x" * 101}, "loop_id"),
        ({"loop_id": " x"}, "loop_id"),
        ({"loop_id": "a\nb"}, "loop_id"),
        ({"loop_id": "a\x00b"}, "loop_id"),
        ({"loop_id": "\udfff"}, "loop_id"),
        ({"key": ""}, "key"),
        ({"key": "x" * 201}, "key"),
        ({"key": "\x00"}, "key"),
        ({"visibility": "Public"}, "visibility"),
        ({"visibility": "two words"}, "visibility"),
        ({"visibility": "\x00"}, "visibility"),
        ({"ts": "1969-12-31T23:59:59Z"}, "ts"),
        ({"ts": "9999-12-31T23:59:59-12:00"}, "ts"),
        ({"ts": "0001-01-01T00:00:00+14:00"}, "ts"),
        ({"ts": (datetime.now(UTC) + timedelta(days=3)).isoformat()}, "ts"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"metadata": {"a": "\x00"}}, "metadata"),
        ({"metadata": {"\x00": 1}}, "metadata"),
        ({"metadata": {"a": ["\ud800"]}}, "metadata"),
        ({"metadata": {"a": float("nan")}}, "metadata"),
        ({"metadata": {"a": [float("-inf")]}}, "metadata"),
        ({"metadata": {"a": [[[[[[[[[[1]]]]]]]]]]}}, "metadata"),
    ]:
        with subtests.test(change=change, field=field):
            before = counts()
            refused = post(api, actor_token, GOOD, GOOD, GOOD | change)
            body = assert_problem(refused, 422, "invalid", field=f"events[2].{field}")
            assert f"events[2].{field}" in body["detail"] or "stored" in body["detail"] or "surrogate" in body["detail"]
            assert len(refused.content) < 2_000
            assert counts() == before


def test_event_field_of_another_type_or_unknown_is_refused_by_its_place(api, actor_token, subtests):
    for change, field in [
        ({"kind": None}, "kind"),
        ({"kind": 7}, "kind"),
        ({"content": 7}, "content"),
        ({"content": None}, "content"),
        ({"loop_id": 7}, "loop_id"),
        ({"ts": "yesterday"}, "ts"),
        ({"ts": "2026-01-01T00:00:00"}, "ts"),
        ({"metadata": []}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"persona": "subconscious"}, "persona"),
        ({"agent_id": 2}, "agent_id"),
        ({"id": 2}, "id"),
    ]:
        with subtests.test(change=change, field=field):
            before = counts()
            assert_problem(post(api, actor_token, GOOD, GOOD | change), 422, "invalid", field=f"events.1.{field}")
            assert counts() == before


@pytest.mark.parametrize("many", [0, 1_001])
def test_events_per_call_are_one_to_a_thousand(api, actor_token, many):
    before = counts()
    assert_problem(post(api, actor_token, *[GOOD] * many), 422, "invalid", field="events", detail="1 to 1,000")
    assert counts() == before


def test_event_content_of_the_maximum_size_is_stored(api, actor_token):
    answer = post(api, actor_token, GOOD | {"content": "x" * MAX_EVENT_CHARACTERS})
    assert answer.status_code == 201
    assert len(Event.objects.get().content) == MAX_EVENT_CHARACTERS


def test_event_repeated_call_answers_the_same_ids(api, actor_token):
    events = [GOOD | {"key": f"k{n}", "metadata": {"n": n, "big": 1e300, "x": 1.0}} for n in range(5)]
    first = post(api, actor_token, *events).json()["events"]
    before = counts()
    second = post(api, actor_token, *events)
    assert second.status_code == 201, second.content
    assert [event["id"] for event in second.json()["events"]] == [event["id"] for event in first]
    assert all(event["repeated"] for event in second.json()["events"])
    assert counts() == before
    more = post(api, actor_token, *events, GOOD | {"key": "new"}).json()["events"]
    assert [event["repeated"] for event in more] == [True] * 5 + [False]
    assert Event.objects.count() == LongTermEntry.objects.count() == SearchItem.objects.count() == 6


def test_event_key_twice_in_one_call_is_one_event(api, actor_token):
    answer = post(api, actor_token, GOOD | {"key": "k"}, GOOD, GOOD | {"key": "k"}).json()["events"]
    assert answer[0]["id"] == answer[2]["id"] != answer[1]["id"]
    assert Event.objects.count() == 2


@pytest.mark.parametrize(
    "change",
    [
        {"content": "other"},
        {"kind": "tool_call"},
        {"visibility": "private"},
        {"metadata": {"a": 2}},
        {"metadata": {"a": True}},
        {"loop_id": "elsewhere"},
        {"ts": "2026-01-01T00:00:00Z"},
    ],
)
@pytest.mark.parametrize("same_call", [True, False])
def test_event_key_conflict_is_named(api, actor_token, change, same_call):
    one = GOOD | {"key": "k", "loop_id": "here", "metadata": {"a": 1}}
    if same_call:
        before, place = counts(), 1
        refused = post(api, actor_token, one, one | change)
    else:
        post(api, actor_token, one)
        before, place = counts(), 2
        refused = post(api, actor_token, GOOD, GOOD, one | change)
    body = assert_problem(refused, 409, "key_taken", field=f"events[{place}].key", detail="'k'")
    assert body["key"] == "k"
    assert counts() == before


def test_event_keys_are_separate_by_agent_and_persona(api, actor_token, subconscious_token, other_token):
    for token in (actor_token, subconscious_token, other_token):
        [event] = post(api, token, GOOD | {"key": "same"}).json()["events"]
        assert event["repeated"] is False
    assert Event.objects.count() == 3


@pytest.mark.parametrize("persona", ["actor", "subconscious"])
def test_event_kinds_are_recorded_by_their_personas(api, actor_token, subconscious_token, persona):
    token = actor_token if persona == "actor" else subconscious_token
    for kind in EventKind.values:
        answer = post(api, token, {"kind": kind, "content": "x"})
        assert answer.status_code == (422 if persona == "actor" and kind.startswith("subconscious") else 201)
    assert set(Event.objects.values_list("persona", flat=True)) == {persona}


def test_event_metadata_never_becomes_a_trusted_field(api, actor_token, ada, bruno):
    forged = {
        "persona": "subconscious", "agent_id": bruno.pk, "agent": "bruno", "id": 1, "loop_id": "x", "key": "y",
        "visibility": "private", "recorded_at": "2000-01-01", "author": "root",
    }  # fmt: skip
    [event] = post(api, actor_token, GOOD | {"metadata": forged}).json()["events"]
    stored = Event.objects.get(pk=event["id"])
    assert (stored.agent, stored.persona, stored.visibility, stored.key) == (ada, "actor", "public", None)
    assert stored.loop_id != "x"
    assert stored.metadata == forged
    item = SearchItem.objects.get(item_id=str(event["id"]))
    assert (item.agent, item.persona) == (ada, "actor")


def test_event_recording_needs_the_write_scope(api, ada, alice, charlie, system):
    reader = make_token(ada, name="r", scopes=["memory:read"])
    assert_problem(post(api, reader, GOOD), 403, "not_allowed", detail="memory:write")
    for person in (alice, charlie):
        refused = api.as_person(person).post("/events", {"events": [GOOD]}, query={"agent": "ada"})
        assert_problem(refused, 403, "not_allowed")
    assert not Event.objects.exists()


def test_event_persona_is_named_by_the_product_only(actor, ada):
    with pytest.raises(NotAllowed):
        events_record(agent=ada, events=[GOOD], by=actor, persona="subconscious")
    with pytest.raises(Invalid):
        events_record(agent=ada, events=[GOOD], by=Principal.of_system("tests"), persona="nobody")
    [one] = events_record(agent=ada, events=[GOOD], by=Principal.of_system("tests"), persona="subconscious")
    assert one.event.persona == "subconscious"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE memory_event SET content = 'other'",
        "UPDATE memory_event SET persona = 'subconscious'",
        "UPDATE memory_event SET id = id + 1000",
        "DELETE FROM memory_event",
        "TRUNCATE memory_event CASCADE",
    ],
)
def test_event_changes_are_refused_by_the_database(actor, ada, statement):
    [one] = events_record(agent=ada, events=[GOOD], by=actor)
    with as_the_owner(), connection.cursor() as cursor:
        # So that TRUNCATE reaches the rule and not the checks that wait for the end of the transaction.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(statement)
    kept = Event.objects.get()
    assert (kept.pk, kept.content, kept.persona) == (one.event.pk, "fine", "actor")


@pytest.mark.django_db(transaction=True)
def test_event_concurrent_calls_with_the_same_keys_store_each_once(ada, actor):
    """Four writers at once, each with the same keys in another order."""
    start = threading.Barrier(4)
    answers, failures = [], []

    def write(turn):
        keys = [f"k{(n + turn * 5) % 20}" for n in range(20)]
        events = [GOOD | {"content": key, "key": key, "loop_id": key[-1]} for key in keys]
        try:
            start.wait()
            answers.append({one.event.key: one.event.pk for one in events_record(agent=ada, events=events, by=actor)})
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=write, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(answers) == 4
    assert all(answer == answers[0] for answer in answers)
    assert Event.objects.count() == LongTermEntry.objects.count() == SearchItem.objects.count() == 20
    assert sum(LoopSummary.objects.values_list("event_count", flat=True)) == 20
    assert AuditEvent.objects.filter(action="events.record").count() == 1


def test_event_failed_store_leaves_nothing_of_the_call(api, actor_token):
    """The index cannot be written: the call fails as a whole, and a second try succeeds."""
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memory_searchitem_actor ADD CONSTRAINT full_up CHECK (text <> 'fine')")
    before = counts()
    assert post(api, actor_token, GOOD | {"key": "k"}).status_code == 500
    assert counts() == before
    with as_the_owner(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memory_searchitem_actor DROP CONSTRAINT full_up")
    assert post(api, actor_token, GOOD | {"key": "k"}).status_code == 201
