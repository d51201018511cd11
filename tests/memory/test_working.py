"""Working memory: one mind a session, with room for the most relevant."""

import threading

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from identity.models import AuditEvent
from memory.models import WorkingMemory
from memory.services.working_memory import _evict, working_item_add, working_thread_open
from tests.api.problems import assert_problem


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


def test_working_memory_session_from_beginning_to_end(caller):
    put = caller.put("/working/s-1", {"task": "Fix the build.", "frame": "debug", "capacity": 2})
    assert put.status_code == 200, put.content
    assert put.json()["evicted"] == []
    item = caller.post("/working/s-1/items", {"text": "It fails on ARM.", "type": "fact", "relevance": 0.9})
    assert (item.status_code, item.json()["evicted"]) == (201, [])
    thread = caller.post("/working/s-1/threads", {"text": "Ask Tim."})
    assert thread.status_code == 201
    held = caller.get("/working/s-1").json()
    assert (held["task"], held["frame"], held["capacity"]) == ("Fix the build.", "debug", 2)
    assert held["items"] == [item.json()["item"]]
    assert held["open_threads"] == [thread.json()["thread"]]
    assert caller.request("DELETE", f"/working/s-1/threads/{thread.json()['thread']['id']}").status_code == 204
    assert caller.request("DELETE", f"/working/s-1/items/{item.json()['item']['id']}").status_code == 204
    held = caller.get("/working/s-1").json()
    assert (held["items"], held["open_threads"], held["task"]) == ([], [], "Fix the build.")
    assert caller.request("DELETE", "/working/s-1").status_code == 204
    assert caller.get("/working/s-1").json()["task"] == ""
    trail = AuditEvent.objects.filter(object_type="workingmemory").order_by("id")
    assert [row.action for row in trail] == [
        "working.set", "working.item_add", "working.thread_open", "working.thread_close", "working.item_remove",
        "working.clear",
    ]  # fmt: skip


def test_working_memory_drops_the_least_relevant_then_the_oldest(caller):
    caller.put("/working/s", {"capacity": 2})

    def add(text, relevance):
        noted = caller.post("/working/s/items", {"text": text, "relevance": relevance}).json()
        return [gone["text"] for gone in noted["evicted"]]

    assert [add("a", 0.5), add("b", 0.5), add("c", 0.5), add("d", 0.9), add("e", 0.1)] == [[], [], ["a"], ["b"], ["e"]]
    assert [item["text"] for item in caller.get("/working/s").json()["items"]] == ["c", "d"]
    less = caller.put("/working/s", {"capacity": 1}).json()
    assert [gone["text"] for gone in less["evicted"]] == ["c"]
    assert [item["text"] for item in less["working"]["items"]] == ["d"]


@given(st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0]), max_size=30), st.integers(1, 10))
def test_working_memory_keeps_nothing_less_relevant_than_it_drops(relevances, capacity):
    items = [{"id": str(place), "relevance": relevance} for place, relevance in enumerate(relevances)]
    working = WorkingMemory(items=items, capacity=capacity)
    gone = _evict(working)
    assert len(working.items) == min(len(items), capacity)
    assert sorted(gone + working.items, key=lambda item: int(item["id"])) == items
    for stays in working.items:
        for leaves in gone:
            assert (leaves["relevance"], int(leaves["id"])) < (stays["relevance"], int(stays["id"]))


def test_working_memory_invalid_change_changes_nothing(caller, subtests):
    for method, path, body in [
        ("PUT", "", {"capacity": 0}),
        ("PUT", "", {"capacity": 101}),
        ("PUT", "", {"capacity": 10**30}),
        ("PUT", "", {"task": "x" * 2_001}),
        ("PUT", "", {"frame": "Two Words"}),
        ("PUT", "", {"frame": "x" * 31}),
        ("PUT", "", {"items": []}),
        ("POST", "/items", {}),
        ("POST", "/items", {"text": " "}),
        ("POST", "/items", {"text": "x" * 2_001}),
        ("POST", "/items", {"text": "x", "relevance": 1.01}),
        ("POST", "/items", {"text": "x", "type": "Two Words"}),
        ("POST", "/items", {"text": "x", "id": "mine"}),
        ("POST", "/items", {"text": "a\x00b"}),
        ("POST", "/threads", {"text": ""}),
        ("POST", "/threads", {"text": "x" * 501}),
    ]:
        with subtests.test(method=method, path=path, body=body):
            assert_problem(caller.request(method, f"/working/s{path}", body=body), 422, "invalid")
            assert not WorkingMemory.objects.exists()


def test_working_memory_session_name_is_bounded(caller):
    assert caller.put(f"/working/{'s' * 200}", {}).status_code == 200
    assert_problem(caller.put(f"/working/{'s' * 201}", {}), 422, "invalid", field="session_id")
    assert_problem(caller.put("/working/%20", {}), 422, "invalid", field="session_id")


def test_working_memory_threads_are_limited(caller):
    for _ in range(50):
        assert caller.post("/working/s/threads", {"text": "later"}).status_code == 201
    assert_problem(caller.post("/working/s/threads", {"text": "later"}), 409, "conflict")


def test_working_memory_unknown_is_not_found(caller):
    assert_problem(caller.get("/working/s"), 404, "not_found")
    for path in ("", "/items/x", "/threads/x"):
        assert_problem(caller.request("DELETE", f"/working/s{path}"), 404, "not_found")
    caller.put("/working/s", {})
    for path in ("/items/x", "/threads/x"):
        assert_problem(caller.request("DELETE", f"/working/s{path}"), 404, "not_found")


def test_working_memory_is_separate_by_agent_and_persona(api, caller, other_token, subconscious_token, alice, bob):
    caller.put("/working/s", {"task": "Ada's"})
    for secret in (other_token, subconscious_token):
        stranger = api.as_token(secret)
        assert_problem(stranger.get("/working/s"), 404, "not_found")
        stranger.put("/working/s", {"task": "another's"})
    assert caller.get("/working/s").json()["task"] == "Ada's"
    assert WorkingMemory.objects.count() == 3
    assert api.as_person(alice).get("/working/s", {"agent": "ada"}).json()["task"] == "Ada's"
    for person in (alice, bob):
        assert_problem(api.as_person(person).put("/working/s", {}, {"agent": "ada"}), 403, "not_allowed")


@pytest.mark.django_db(transaction=True)
def test_working_memory_concurrent_changes_are_all_kept(ada, actor):
    ready, failed = threading.Barrier(4), []

    def think():
        try:
            ready.wait(10)
            for _ in range(4):
                working_item_add(agent=ada, session_id="s", text="thought", by=actor)
                working_thread_open(agent=ada, session_id="s", text="later", by=actor)
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=think) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    working = WorkingMemory.objects.get()
    assert (len(working.items), len(working.open_threads)) == (16, 16)
