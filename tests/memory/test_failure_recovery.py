"""Killing the worker and the database in the middle of an import: what was acknowledged is there, once.

A whole product of its own: PostgreSQL with its crash safety on, the web server, the worker, and an endpoint for
embeddings that fails for a while.
"""

import time

import psycopg
import pytest

from tests.judge_server import KEY, JudgeServer, Reply
from tests.product import PATIENCE, kill, product_running, until

BATCHES, SIZE, LOOPS = 24, 20, 6


@pytest.fixture
def product():
    with JudgeServer() as judge:
        settings = {"NOUS_ANTHROPIC_API_KEY": KEY, "NOUS_JUDGE_BASE_URL": judge.url, "NOUS_JUDGE_RETRIES": "0"}
        with product_running("failure", **settings) as running:
            yield running, running.embeddings, judge


def batch(number: int) -> dict[str, object]:
    """Some events of every loop; the last batch closes them all. Keys make a repeated call harmless."""
    events = [
        {
            "kind": "user_input",
            "content": f"Entry {number}-{place} is about topic {place % 7}.",
            "loop_id": f"loop-{place % LOOPS}",
            "key": f"{number}-{place}",
        }
        for place in range(SIZE)
    ]
    if number == BATCHES - 1:
        events += [
            {"kind": "actor_output", "content": "Done.", "loop_id": f"loop-{n}", "key": f"end-{n}"}
            for n in range(LOOPS)
        ]
    return {"events": events}


def test_acknowledged_events_are_stored_once_through_failures(product):
    running, served, _ = product
    running.web()
    worker = running.worker()
    until("the web server answers", lambda: running.call("GET", "/index")[0] == 200)
    acknowledged: dict[str, int] = {}
    for number in range(BATCHES):
        if number == 4:
            kill(worker)
        if number == 6:
            served.broken = True
            worker = running.worker()
        if number == 10:
            running.kill_database()
        if number == 12:
            running.server.start()
        if number == 18:
            kill(worker)
        deadline = time.monotonic() + PATIENCE
        while True:
            status, answer = running.call("POST", "/events", batch(number))
            if status == 201:
                break
            # While the database is down there is no acknowledgement, and the import tries again.
            assert status in (0, 500, 503), (status, answer)
            assert time.monotonic() < deadline
            if number >= 10 and not running.server.running():
                running.server.start()
            time.sleep(0.2)
        for posted, stored in zip(batch(number)["events"], answer["events"], strict=True):
            acknowledged[posted["key"]] = stored["id"]
    served.broken = False
    running.worker()
    until("every loop has its summary", lambda: running.rows(
        "SELECT count(*) FROM memory_loopsummary WHERE closed_at IS NOT NULL AND covered_events = event_count"
    ) == [(LOOPS,)])  # fmt: skip
    # Back-off is minutes long; an operator does not wait for it.
    with psycopg.connect(running.url) as connection:
        connection.execute("UPDATE memory_searchitem SET due_at = NULL WHERE status = 'pending'")
    running.manage("backfill")
    running.manage("backfill")
    total = len(acknowledged)
    assert total == BATCHES * SIZE + LOOPS
    assert dict(running.rows("SELECT key, id::text FROM memory_event")) == acknowledged
    assert running.rows("SELECT count(*), count(DISTINCT event_id) FROM memory_longtermentry") == [(total, total)]
    assert running.rows("SELECT status, count(*) FROM memory_searchitem GROUP BY 1") == [("ready", total)]
    assert running.rows(
        "SELECT count(*) FROM memory_event AS e JOIN memory_searchitem AS i ON i.item_id = e.id::text"
        " AND i.item_type = 'event' AND i.embedding IS NOT NULL"
    ) == [(total,)]
    loops = running.rows(
        "SELECT loop_id, event_count, covered_events, summary <> '' FROM memory_loopsummary ORDER BY 1"
    )
    assert [row[0] for row in loops] == [f"loop-{n}" for n in range(LOOPS)]
    assert sum(row[1] for row in loops) == total
    assert all(row[1] == row[2] and row[3] for row in loops)
    status, found = running.call("GET", "/recall?q=Entry%2011-3&type=event&min_score=0&limit=5")
    assert status == 200
    assert any(item["content"].startswith("Entry 11-3 ") for item in found["items"])
    assert running.call("GET", "/index") == (200, {"ready": total, "pending": 0, "failed": 0, "language": "en"})


MACHINES = 6


def test_jobs_survive_a_restart_of_the_database_while_the_judge_is_down(product):
    """The database goes while a handler waits for the judge; what was acknowledged is reacted to, once."""
    running, _, judge = product
    judge.always(Reply(status=529, raw=b"{}"))
    running.web()
    until("the web server answers", lambda: running.call("GET", "/index")[0] == 200)

    def learn(number: int, how: str) -> None:
        fact = {"content": f"Machine {number}'s twin is in {how}.", "subject": f"machine {number}"}
        until("the fact is learned", lambda: running.call("POST", "/facts", fact)[0] == 201)

    def close(number: int) -> None:
        opened: list[object] = []

        def done() -> bool:
            if not opened:
                status, episode = running.call("POST", "/episodes", {"detail": f"Machine {number} was repaired."})
                opened.extend([episode["id"]] if status == 201 else [])
            # One that was closed although the answer was lost is a conflict.
            return bool(opened) and running.call("POST", f"/episodes/{opened[0]}/close", {})[0] in (200, 409)

        until("the episode is closed", done)

    for number in range(MACHINES):
        learn(number, "Graz")
    hanging = judge.hang()
    asked = len(judge.requests)
    close(0)
    worker = running.worker()
    until("the worker waits for the judge", lambda: len(judge.requests) > asked)
    running.restart_database()
    hanging.set()
    for number in range(MACHINES):
        learn(number, "Linz")
        close(number + 1)
    until("every episode is looked after, and every question waits for the judge", lambda: set(running.rows(
        "SELECT handler, status, result->>'judge' FROM memory_job"
        " WHERE handler IN ('episode_close', 'fact_judge')"
    )) == {("episode_close", "done", "pending"), ("fact_judge", "failed", None)})  # fmt: skip
    described = "SELECT count(*) FROM memory_episode WHERE title <> '' AND summary_kind = 'extractive'"
    assert running.rows(described) == [(MACHINES + 1,)]
    assert running.rows("SELECT count(*) FROM memory_memoryreview WHERE status = 'joined'") == [(MACHINES,)]
    assert running.rows("SELECT kind FROM memory_memoryreview WHERE status = 'pending'") == [("attribute",)]
    judge.always(Reply(input={"relation": "update", "confidence": 0.9, "reason": "It changed."}))
    # Back-off is minutes long; an operator does not wait for it, and starts the worker anew.
    with psycopg.connect(running.url) as connection:
        connection.execute("UPDATE memory_job SET next_attempt_at = now() WHERE status = 'failed'")
    kill(worker)
    running.worker()
    until("every question is answered", lambda: running.rows(
        "SELECT count(*) FROM memory_job WHERE status <> 'done'"
    ) == [(0,)])  # fmt: skip
    assert running.rows("SELECT count(*) FROM memory_fact") == [(2 * MACHINES,)]
    superseded = "SELECT count(*), count(DISTINCT fact_id) FROM memory_factchange WHERE action = 'superseded'"
    assert running.rows(superseded) == [(MACHINES, MACHINES)]
    resolved = "SELECT kind, resolution, count(*) FROM memory_memoryreview GROUP BY 1, 2 ORDER BY 1"
    assert running.rows(resolved) == [("attribute", "moot", 1), ("contradiction", "replace", MACHINES)]
