"""Loops: opened by their first event, closed in one of three ways, and summarised exactly once."""

import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone
from django_q.models import OrmQ

from identity.models import AuditEvent
from memory.layers.event_validation import (
    MAX_SUMMARY_CHARACTERS,
    LoopDigest,
    loop_kind,
    loop_text,
    loop_visibility,
    tool_name,
)
from memory.models import Event, LongTermEntry, LoopSummary, SearchItem
from memory.services.events import events_record
from memory.services.loops import derived_backfill, loops_summarise
from memory.tasks import close_idle_loops, derive_from_events
from nousweb.lib import clock
from tests.api.problems import assert_problem


def event(kind, content, loop_id="L", **more):
    return {"kind": kind, "content": content, "loop_id": loop_id, **more}


TURN = [
    event("user_input", "Which day is the release?"),
    event("tool_call", "search(calendar)", metadata={"tool": "search"}),
    event("tool_result", "2 hits"),
    event("tool_call", "search(release)", metadata={"tool": "search"}),
    event("tool_call", "read_page {}", metadata={}),
    event("error", "read_page: timed out"),
    event("actor_output", "On Friday."),
]


def run_tasks():
    """Run what the writes so far have queued, as the worker does."""
    for queued in OrmQ.objects.order_by("pk"):
        task = queued.task
        {"memory.tasks.derive_from_events": derive_from_events}.get(task["func"], lambda *args: None)(*task["args"])
        queued.delete()


@pytest.fixture
def record(ada, actor):
    return lambda *events, by=actor: [one.event for one in events_record(agent=ada, events=events, by=by)]


def test_loop_closed_by_a_final_output_is_summarised(record):
    made = record(*TURN)
    loop = LoopSummary.objects.get()
    assert (loop.closed_by, loop.summary, loop.event_count, loop.covered_events) == ("output", "", 7, 0)
    run_tasks()
    loop.refresh_from_db()
    assert loop.summary == (
        "Input: Which day is the release?\nOutput: On Friday.\nTools: search ×2, read_page\n"
        "Errors: read_page: timed out"
    )
    assert loop.long_term_ids == [one.pk for one in made]
    assert (loop.covered_events, loop.kind, loop.visibility) == (7, "actor_output", "public")


def test_loop_closing_queues_one_task_per_call(record):
    record(*[event("actor_output", "done", f"loop {n}") for n in range(9)], event("user_input", "x", "open"))
    queued = [one.task for one in OrmQ.objects.all() if one.task["func"] == "memory.tasks.derive_from_events"]
    closed = LoopSummary.objects.filter(closed_at__isnull=False).values_list("pk", flat=True)
    assert [sorted(task["args"][0]) for task in queued] == [sorted(closed)]
    assert len(closed) == 9


def test_loop_open_has_no_summary(record):
    record(*TURN[:3])
    run_tasks()
    loop = LoopSummary.objects.get()
    assert (loop.closed_at, loop.summary) == (None, "")


def test_loop_late_events_update_the_one_summary(record):
    record(*TURN)
    run_tasks()
    closed_at = LoopSummary.objects.get().closed_at
    late = record(event("tool_result", "oh"), event("actor_output", "On Monday, sorry.", visibility="private"))
    run_tasks()
    loop = LoopSummary.objects.get()
    assert "Output: On Monday, sorry." in loop.summary
    assert (loop.event_count, loop.covered_events, loop.closed_at) == (9, 9, closed_at)
    assert loop.long_term_ids[-2:] == [one.pk for one in late]
    assert loop.visibility == "private"


def test_loop_retries_keep_one_equal_entry(record):
    record(*TURN)
    loop = LoopSummary.objects.get()
    assert derive_from_events([loop.pk]) == 1
    first = LoopSummary.objects.values().get()
    assert derive_from_events([loop.pk, loop.pk]) == 0
    assert close_idle_loops() == 0
    assert LoopSummary.objects.values().get() == first


def test_loop_order_is_that_of_what_happened(record):
    now = timezone.now()
    record(event("actor_output", "second answer", ts=now), event("user_input", "second", ts=now - timedelta(hours=1)))
    record(event("user_input", "first", ts=now - timedelta(hours=2)))
    run_tasks()
    loop = LoopSummary.objects.get()
    ids = {content: pk for pk, content in Event.objects.values_list("pk", "content")}
    assert loop.long_term_ids == [ids["first"], ids["second"], ids["second answer"]]
    assert loop.summary == "Input: first\nOutput: second answer"
    assert (loop.first_event_at, loop.last_event_at) == (now - timedelta(hours=2), now)


@pytest.mark.django_db(transaction=True)
def test_loop_concurrent_writers_and_workers_end_with_one_summary(ada, actor):
    """Six threads write to one loop and summarise it at the same time."""
    start, failures = threading.Barrier(6), []

    def work(number):
        try:
            start.wait()
            for turn in range(4):
                events_record(agent=ada, events=[event("actor_output", f"{number} {turn}")], by=actor)
                loops_summarise(LoopSummary.objects.values_list("pk", flat=True))
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    loop = LoopSummary.objects.get()
    assert (loop.event_count, loop.covered_events) == (24, 24)
    assert sorted(loop.long_term_ids) == sorted(Event.objects.values_list("pk", flat=True))


def test_loop_is_closed_once_by_request(api, actor_token, record):
    record(*TURN[:2])
    client = api.as_token(actor_token)
    closed = client.post("/loops/L/close")
    assert closed.status_code == 200, closed.content
    assert closed.json()["closed_by"] == "request"
    assert client.post("/loops/L/close").json()["closed_at"] == closed.json()["closed_at"]
    assert AuditEvent.objects.filter(action="loop.close").count() == 1
    run_tasks()
    assert client.get("/loops/L").json()["loop"]["summary"].startswith("Input: Which day is the release?")
    assert_problem(client.post("/loops/none/close"), 404, "not_found")


def test_loop_closing_needs_the_permission_and_the_persona(api, alice, other_token, subconscious_token, record):
    record(*TURN[:2])
    assert_problem(api.as_person(alice).post("/loops/L/close", query={"agent": "ada"}), 403, "not_allowed")
    assert_problem(api.as_token(other_token).post("/loops/L/close"), 404, "not_found")
    assert_problem(api.as_token(subconscious_token).post("/loops/L/close"), 404, "not_found")
    assert LoopSummary.objects.get().closed_at is None


def test_loop_idle_is_closed_and_summarised(record, settings):
    settings.LOOP_IDLE_MINUTES = 30
    now = timezone.now()
    record(event("user_input", "old", "old", ts=now - timedelta(minutes=31)))
    record(event("user_input", "new", "new", ts=now - timedelta(minutes=29)))
    assert close_idle_loops() == 1
    assert dict(LoopSummary.objects.values_list("loop_id", "closed_by")) == {"old": "idle", "new": ""}
    assert LoopSummary.objects.get(loop_id="old").summary == "Input: old"
    settings.LOOP_IDLE_MINUTES = 28
    assert close_idle_loops() == 1


def test_loop_idle_closing_takes_more_than_one_batch(record, monkeypatch):
    monkeypatch.setattr("memory.services.loops.BATCH", 3)
    then = timezone.now() - timedelta(days=1)
    record(*[event("user_input", f"n {n}", f"loop {n}", ts=then) for n in range(10)])
    assert close_idle_loops() == 10
    assert not LoopSummary.objects.filter(summary="").exists()


def test_loop_shows_its_events_and_is_listed(api, actor_token, record):
    made = record(*TURN, event("user_input", "x", "with/slash and space"))
    run_tasks()
    client = api.as_token(actor_token)
    shown = client.get("/loops/L").json()
    assert [one["id"] for one in shown["events"]] == [str(one.pk) for one in made[:-1]]
    assert shown["loop"]["event_count"] == 7
    assert client.get("/loops/with/slash and space").json()["loop"]["event_count"] == 1
    assert client.post("/loops/with/slash and space/close").json()["loop_id"] == "with/slash and space"
    names = {
        state: [one["loop_id"] for one in client.get("/loops", {"state": state}).json()["items"]]
        for state in ("open", "closed", "all")
    }
    assert names["open"] == []
    assert names["closed"] == names["all"] == ["with/slash and space", "L"]
    assert_problem(client.get("/loops/none"), 404, "not_found")
    assert_problem(client.get("/loops", {"limit": 0}), 422, "invalid", field="limit")


def test_loop_backfill_heals_and_then_finds_nothing(record, monkeypatch):
    monkeypatch.setattr("memory.services.loops.BATCH", 4)
    record(*TURN, *[event("user_input", f"n {n}", f"loop {n}") for n in range(6)])
    run_tasks()
    entries = list(LongTermEntry.objects.order_by("pk").values("event_id", "text", "importance", "persona", "loop_id"))
    items = list(SearchItem.objects.order_by("item_id").values("item_id", "text", "kind", "loop_id", "position"))
    summary = LoopSummary.objects.get(loop_id="L").summary
    with clock.at(timezone.now()):
        LoopSummary.objects.all().delete()
        lost = list(LongTermEntry.objects.order_by("pk").values_list("pk", flat=True))[::2]
        LongTermEntry.objects.filter(pk__in=lost).delete()
        SearchItem.objects.filter(item_id__in=[str(pk) for pk in lost[:5]]).delete()
        SearchItem.objects.filter(item_id=str(entries[1]["event_id"])).delete()
    healed = derived_backfill()
    assert healed == {"long_term": 7, "index": 1, "loops": 7, "summaries": 1}
    assert (
        list(LongTermEntry.objects.order_by("pk").values("event_id", "text", "importance", "persona", "loop_id"))
        == entries
    )
    assert (
        list(SearchItem.objects.order_by("item_id").values("item_id", "text", "kind", "loop_id", "position")) == items
    )
    assert LoopSummary.objects.get(loop_id="L").summary == summary
    assert derived_backfill() == {"long_term": 0, "index": 0, "loops": 0, "summaries": 0}


def test_loop_backfill_summarises_after_a_lost_task(record):
    record(*TURN)
    OrmQ.objects.all().delete()
    assert derived_backfill()["summaries"] == 1
    assert LoopSummary.objects.get().covered_events == 7


def test_loop_summary_is_bounded_and_names_tools_and_failures():
    digest = LoopDigest(
        opening="o" * 9_000,
        output="word. " * 3_000,
        tools=[f"tool{'x' * 60}{n}"[:40] + str(n) for n in range(30)],
        errors=["e " * 5_000],
        error_count=12,
    )
    text = loop_text(digest)
    assert len(text) <= MAX_SUMMARY_CHARACTERS
    assert [line.split(":")[0] for line in text.splitlines()] == ["Input", "Output", "Tools", "Errors"]
    assert "20 more" in text
    assert "12 in all; the last: e e" in text
    assert loop_text(LoopDigest(opening="same", output="same")) == "Input: same"


@pytest.mark.parametrize(
    ("content", "metadata", "name"),
    [
        ("search(x)", {"tool": "web search"}, "web search"),
        ("search(x)", {"name": 7}, "search"),
        ("read_file: a.txt", {}, "read_file"),
        ('{"a": 1}', {}, '"a"'),
        ("( (", {}, ""),
    ],
)
def test_loop_tool_name_of_a_call(content, metadata, name):
    assert tool_name(content, metadata) == name


def test_loop_boost_factors():
    assert loop_kind(["user_input", "error", "tool_result"]) == "error"
    assert loop_kind(["user_input", "error", "actor_output"]) == "actor_output"
    assert loop_kind(["system_event", "tool_call"]) == "system_event"
    assert loop_visibility(["public", "private", "internal"]) == "private"
    assert loop_visibility(["public", "zebra", "apple"]) == "apple"
