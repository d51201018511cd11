"""A machine that fails: PostgreSQL, the web server and the worker are killed at random beside twenty clients.

What was acknowledged is there afterwards, once: events, facts, episodes, logged contexts, reported answers. What was
not acknowledged is there once or not at all.
"""

import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.product import Product, kill, product_running, until
from tests.security.scale import scaled

SEED = 10
CLIENTS = 20
KILLS = scaled(3, 40)
VICTIMS = ("database", "web", "worker")
UP_SECONDS = (0.3, 1.5)


@pytest.fixture
def product():
    with product_running("kills") as running:
        yield running


class Clients:
    """What each of them was told: by kind, the name of what was written, with what was answered."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.over = threading.Event()
        self.told: dict[str, dict[str, object]] = {kind: {} for kind in KINDS}
        self.tried: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.failed: Counter[int] = Counter()
        self.wrong: list[tuple[object, ...]] = []

    def call(self, path: str, body: object, *, again: bool = False) -> object:
        """The answer, or None where there was none; with `again` the call is repeated until there is one."""
        while True:
            status, answer = self.product.call("POST", path, body)
            if status in (200, 201):
                return answer
            if status == 409 and again:
                return {"done": "before"}
            if status and status < 500:
                self.wrong.append((path, status, str(answer)[:300]))
                return None
            self.failed[status] += 1
            time.sleep(0.2)
            if not again or self.over.is_set():
                return None

    def client(self, number: int) -> None:
        chance = random.Random(f"{SEED}-{number}")
        contexts: list[str] = []
        step = 0
        while not self.over.is_set():
            step += 1
            name = f"{number}-{step}"
            kind = chance.choice(KINDS)
            if kind == "answer":
                if not contexts:
                    continue
                name = contexts.pop()
            self.tried[kind].add(name)
            answer = getattr(self, kind)(name)
            if answer is None:
                continue
            self.told[kind][name] = answer
            if kind == "context":
                contexts.append(answer["id"])

    def event(self, name: str) -> object:
        event = {"kind": "user_input", "content": f"Reading {name} was taken.", "loop_id": "readings", "key": name}
        return self.call("/events", {"events": [event]}, again=True)

    def fact(self, name: str) -> object:
        client, step = name.split("-")
        content = f"Gauge {step} of hall {client} shows {int(client) * 7919 + int(step) * 31} bar."
        return self.call("/facts", {"content": content, "subject": f"Gauge {name}", "source": name}, again=True)

    def episode(self, name: str) -> object:
        return self.call("/episodes", {"title": name, "detail": f"Hall {name} was swept."})

    def context(self, name: str) -> object:
        return self.call("/context", {"session_id": name, "input": f"What does gauge {name} show?"})

    def answer(self, name: str) -> object:
        return self.call(f"/context/{name}/response", {"response": "It shows so many bar."}, again=True)


KINDS = ("event", "fact", "episode", "context", "answer")


def killing(product: Product, chance: random.Random) -> Counter[str]:
    """Kill one program after another, and start each again as an operator's supervisor would."""
    programs = {"web": product.web(), "worker": product.worker()}
    until("the web server answers", lambda: product.call("GET", "/index")[0] == 200)
    killed: Counter[str] = Counter()
    for place in range(KILLS):
        time.sleep(chance.uniform(*UP_SECONDS))
        victim = VICTIMS[place] if place < len(VICTIMS) else chance.choice(VICTIMS)
        killed[victim] += 1
        if victim == "database":
            product.kill_database()
            time.sleep(chance.uniform(0, 0.3))
            product.server.start()
        else:
            kill(programs[victim])
            programs[victim] = getattr(product, victim)()
        until("the web server answers", lambda: product.call("GET", "/index")[0] == 200)
    return killed


def test_acknowledged_writes_are_there_once_after_random_kills(product, capsys):
    clients = Clients(product)
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(clients.client, number) for number in range(CLIENTS)]
        try:
            killed = killing(product, random.Random(SEED))
            # So that what was under way can still be told.
            time.sleep(1)
        finally:
            clients.over.set()
        for client in running:
            client.result()
    told, tried = clients.told, clients.tried
    counts = {kind: len(told[kind]) for kind in KINDS}
    with capsys.disabled():
        sys.stdout.write(f"\n{dict(killed)}: acknowledged {counts}, not answered {dict(clients.failed)}\n")
    assert clients.wrong == []
    assert all(counts.values())

    # The subconscious writes down what it does by the clock.
    events = Counter(row[0] for row in product.rows("SELECT key FROM memory_event WHERE persona = 'actor'"))
    compare(events, told["event"], tried["event"])
    assert product.rows(
        "SELECT count(*) FROM memory_event e WHERE"
        " (SELECT count(*) FROM memory_longtermentry WHERE event_id = e.id) <> 1"
        " OR (SELECT count(*) FROM memory_searchitem WHERE item_type = 'event' AND item_id = e.id::text) <> 1"
    ) == [(0,)]  # fmt: skip

    facts = Counter(row[0] for row in product.rows("SELECT source FROM memory_fact"))
    compare(facts, told["fact"], tried["fact"])
    assert all(answer["fact"]["source"] == name for name, answer in told["fact"].items())
    assert product.rows(
        "SELECT count(*) FROM memory_fact f WHERE"
        " (SELECT count(*) FROM memory_factchange WHERE fact_id = f.id AND action = 'stored') <> 1"
        " OR (SELECT count(*) FROM identity_auditevent WHERE object_id = f.id::text AND action = 'fact.store') <> 1"
    ) == [(0,)]  # fmt: skip

    episodes = Counter(row[0] for row in product.rows("SELECT title FROM memory_episode"))
    compare(episodes, told["episode"], tried["episode"])

    runs = Counter(row[0] for row in product.rows("SELECT session_id FROM context_contextrun"))
    compare(runs, told["context"], tried["context"])
    ids = {str(row[0]) for row in product.rows("SELECT id FROM context_contextrun")}
    assert {answer["id"] for answer in told["context"].values()} <= ids

    answered = {str(row[0]) for row in product.rows("SELECT id FROM context_contextrun WHERE responded_at IS NOT NULL")}
    assert set(told["answer"]) <= answered <= tried["answer"]
    used = Counter(str(row[0]) for row in product.rows("SELECT run_id FROM context_memoryusage"))
    assert all(used[name] == len(answer["items"]) for name, answer in told["answer"].items() if "items" in answer)


def compare(found: Counter[str], told: dict[str, object], tried: set[str]) -> None:
    """Whatever was told is found, nothing twice, and nothing that nobody asked for."""
    assert [name for name in told if found[name] != 1] == []
    assert [name for name, count in found.items() if count > 1] == []
    assert set(found) <= tried


def test_acknowledged_context_outlives_a_crash_right_after_its_answer(product):
    product.web()
    until("the web server answers", lambda: product.call("GET", "/index")[0] == 200)
    told = []
    for number in range(3):
        status, answer = product.call("POST", "/context", {"session_id": f"{number}", "input": "What is known?"})
        product.kill_database()
        assert status == 200, answer
        told.append(answer["id"])
        product.server.start()
        until("the web server answers", lambda: product.call("GET", "/index")[0] == 200)
    assert {str(row[0]) for row in product.rows("SELECT id FROM context_contextrun")} == set(told)
