"""Mixed load: python -m benchmarks.mixed_load [--minutes 10]

Agents write events, facts and decisions, ask for contexts and report answers, while people look at pages of the
console, against a web server of two processes and a worker. Every answer of 400 or more is an error; memory is that
of all processes of the web server and of the worker, taken every few seconds. Growth compares the medians of the
second and the last quarter of the time: in the first, caches and pools fill.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.latency import queries_made, texts_made
from benchmarks.system import RESULTS, Client, System, system

AGENTS = 2
CALLERS_PER_AGENT = 2
MEMORIES_BEFORE = 1_000
SAMPLE_SECONDS = 5.0
PAUSE_SECONDS = 0.05
"""Between the calls of one caller: the load is mixed and steady, not as much as fits."""
MAX_MINUTES = 60.0
PAGES = (
    "/",
    "/agents/",
    "/audit/",
    "/review/",
    "/agents/{agent}/events/",
    "/agents/{agent}/facts/",
    "/agents/{agent}/decisions/",
    "/agents/{agent}/episodes/",
    "/agents/{agent}/search/?q=library",
    "/agents/{agent}/index/",
    "/agents/{agent}/context/?input=Who+helped+with+the+library",
    "/agents/{agent}/context/runs/",
)


@dataclass(slots=True)
class Tally:
    """What was done, how long it took (seconds by kind), what failed."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, seconds: float, error: str = "") -> None:
        with self.lock:
            self.seconds.setdefault(kind, []).append(seconds)
            if error:
                self.errors[f"{kind}: {error[:160]}"] += 1


def call(client: Client, tally: Tally, dice: random.Random, texts: list[str], queries: list[str]) -> None:
    """One step of an agent's day."""
    kind = dice.choices(("context", "events", "fact", "decision", "recall"), (5, 3, 1, 1, 1))[0]
    began = time.perf_counter()
    error = ""
    try:
        if kind == "context":
            answer = client.post("/context", {"session_id": f"s-{dice.randrange(50)}", "input": dice.choice(queries)})
            if dice.random() < 0.3:
                client.post(f"/context/{answer['id']}/response", {"response": answer["system_prompt"][-400:]})
        elif kind == "events":
            said = [{"kind": "user_input", "content": dice.choice(texts), "loop_id": f"l-{dice.randrange(200)}"}] * 2
            client.post("/events", {"events": said})
        elif kind == "fact":
            client.post("/facts", {"content": f"{dice.choice(texts)} ({dice.random():.6f})", "category": "technical"})
        elif kind == "decision":
            client.post("/decisions", {"description": dice.choice(texts), "confidence": 0.7})
        else:
            client.get("/recall", q=dice.choice(queries))
    except (RuntimeError, OSError, http.client.HTTPException) as failure:
        error = f"{type(failure).__name__} {failure}"
    tally.note(kind, time.perf_counter() - began, error)


def look(port: int, cookie: str, path: str, tally: Tally) -> None:
    """One page, as a person with a session."""
    began = time.perf_counter()
    error = ""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Cookie": cookie})
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            error = f"{path} answered {response.status}: {body[:100]!r}"
    except (OSError, http.client.HTTPException) as failure:
        error = f"{path}: {type(failure).__name__} {failure}"
    finally:
        connection.close()
    tally.note("page", time.perf_counter() - began, error)


def cookie_of_a_person() -> str:
    """A session of somebody with every right."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
    from django.contrib.sessions.backends.db import SessionStore

    person = get_user_model().objects.create_superuser("bench", password=None)
    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = "nousweb.access.log_in.PersonBackend"
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.save()
    return f"sessionid={session.session_key}"


def growth(samples: list[tuple[float, int, int]], column: int, minutes: float) -> dict[str, float]:
    """Megabytes in the second and the last quarter of the time."""
    ends = minutes * 60
    second = [sample[column] for sample in samples if ends / 4 <= sample[0] < ends / 2]
    last = [sample[column] for sample in samples if sample[0] >= ends * 3 / 4]
    before, after = (statistics.median(part) / 2**20 for part in (second, last))
    return {
        "second_quarter_mb": round(before, 1),
        "last_quarter_mb": round(after, 1),
        "grown_mb": round(after - before, 1),
    }


def measured(running: System, minutes: float) -> dict[str, Any]:
    texts = texts_made(2_000, 1)
    queries = queries_made()
    tally = Tally()
    agents = [f"mixed-{number}" for number in range(AGENTS)]
    clients = [running.agent(agent) for agent in agents]
    for client in clients:
        client.post(
            "/events", {"events": [{"kind": "user_input", "content": text} for text in texts[:MEMORIES_BEFORE]]}
        )
    running.embed_all()
    cookie = cookie_of_a_person()
    began = time.monotonic()
    ends = began + minutes * 60
    load_before = os.getloadavg()[0]

    def agent_day(number: int) -> None:
        dice = random.Random(number)
        client = clients[number % AGENTS].again()
        while time.monotonic() < ends:
            call(client, tally, dice, texts, queries)
            time.sleep(PAUSE_SECONDS)

    def person_day() -> None:
        dice = random.Random(99)
        while time.monotonic() < ends:
            look(running.port, cookie, dice.choice(PAGES).format(agent=dice.choice(agents)), tally)
            time.sleep(PAUSE_SECONDS)

    # Daemons, so that who is told to end does not wait for them.
    callers = range(AGENTS * CALLERS_PER_AGENT)
    threads = [threading.Thread(target=agent_day, args=(number,), daemon=True) for number in callers]
    threads.append(threading.Thread(target=person_day, daemon=True))
    for thread in threads:
        thread.start()
    samples: list[tuple[float, int, int]] = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(SAMPLE_SECONDS, max(0.1, ends - time.monotonic())))
        samples.append((time.monotonic() - began, running.memory_of_web(), running.memory_of_worker()))
    for thread in threads:
        thread.join()
    state = clients[0].get("/index")
    return {
        "minutes": minutes,
        "requests": {kind: len(found) for kind, found in sorted(tally.seconds.items())},
        "median_ms": {kind: round(statistics.median(v) * 1000, 1) for kind, v in sorted(tally.seconds.items())},
        "errors": dict(tally.errors),
        "web": growth(samples, 1, minutes),
        "worker": growth(samples, 2, minutes),
        "worker_alive": running.worker is not None and running.worker.poll() is None,
        "index": state,
        "load": [load_before, os.getloadavg()[0]],
        "samples": [(round(at), round(web / 2**20, 1), round(worker / 2**20, 1)) for at, web, worker in samples],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    if not 0.5 <= options.minutes <= MAX_MINUTES:
        parser.error(f"minutes lie between 0.5 and {MAX_MINUTES:.0f}")
    with system(web_workers=2, threads=8, log_level="INFO", worker=True) as running:
        found = measured(running, options.minutes)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "mixed-load.json").write_text(json.dumps(found, indent=1))
    print(json.dumps({name: value for name, value in found.items() if name != "samples"}, indent=1))
    return 1 if found["errors"] or not found["worker_alive"] else 0


if __name__ == "__main__":
    sys.exit(main())
