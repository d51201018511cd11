"""An enemy of forgetting: clients that ask, learn, confirm, replace and answer without pause while facts are erased.

Against the real programs: PostgreSQL, web server, worker. What is erased is in no table afterwards, in no answer to a
question asked after the erasure was acknowledged, and no call was answered with 5xx. Then words that stand in nothing
but what is erased, each stored in another way, are looked for wherever they may be left.
"""

import http.client
import json
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode

import psycopg
import pytest

from tests.product import PATIENCE, Product, product_running, until
from tests.security.canaries import (
    ERASE,
    KINDS,
    answers_search,
    cluster_search,
    database_search,
    dump_search,
    files_search,
    story_tell,
    words_in,
)
from tests.security.scale import scaled

CLIENTS = 6
ERASURES = scaled(6, 50)
PAUSE_SECONDS = 0.1

PERSON = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
from django.middleware.csrf import _get_new_csrf_string
charlie = User.objects.create_user("charlie", password="correct horse battery staple")
charlie.groups.set([Group.objects.get(name="Administrator")])
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = str(charlie.pk), charlie.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
session.save()
print(session.session_key, _get_new_csrf_string())
"""
"""An administrator who has signed in: Charlie."""

HIDDEN = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from django.contrib.sessions.models import Session
from django_q.models import OrmQ, Task
print([each.get_decoded() for each in Session.objects.all()])
print([each.task for each in OrmQ.objects.all()])
print([(each.args, each.kwargs, each.result) for each in Task.objects.all()])
"""
"""What tables hold in a form that cannot be read as text: sessions with their messages, queued and finished tasks."""


METRICS_TOKEN = "metrics-of-the-tests"
CANARIES = scaled(2, 60) * len(KINDS)


@pytest.fixture(scope="module")
def product():
    """One for all tests here: each has agents of its own."""
    variables = {"NOUS_WEBHOOK_ALLOW_PRIVATE": "1", "NOUS_METRICS_TOKEN": METRICS_TOKEN}
    with product_running("erasing", **variables) as running:
        running.web()
        running.worker()
        until("the web server answers", lambda: running.call("GET", "/index")[0] == 200)
        yield running


class Attack:
    """`live` are the facts that are still to be erased, by their marker; `gone` says when each erasure was answered."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.live: dict[str, str] = {}
        self.gone: dict[str, float] = {}
        self.ids: dict[str, str] = {}
        self.answers: dict[str, dict[int, int]] = {}
        self.wrong: list[tuple[object, ...]] = []
        self.over = threading.Event()
        self.session, self.csrf = product.run("-c", PERSON).split()

    def learn(self, number: int) -> None:
        """A fact that says a marker of its own, with a session's mind and an answered question full of it."""
        marker = f"Zqx{number:03}vault"
        content = f"Person {number} keeps the key of house {number} in {marker} behind the tower."
        status, answer = self.product.call("POST", "/facts", {"content": content, "subject": f"Person {number}"})
        assert status == 201, answer
        self.ids[marker] = answer["fact"]["id"]
        item = {"text": content, "relevance": 0.9}
        status, answer = self.product.call("POST", f"/working/{marker[3:6]}/items", item)
        assert status in (200, 201), answer
        self.live[marker] = self.ids[marker]

    def call(self, kind: str, method: str, path: str, body: object = None) -> object:
        began = time.monotonic()
        gone = [marker for marker, at in self.gone.copy().items() if at < began]
        status, answer = self.product.call(method, path, body)
        counts = self.answers.setdefault(kind, {})
        counts[status] = counts.get(status, 0) + 1
        if status == 0 or status >= 500:
            self.wrong.append((kind, path, status, str(answer)[:300]))
        said = json.dumps(answer)
        self.wrong += [(kind, path, "tells of", marker) for marker in gone if marker in said]
        return answer if status < 300 else None

    def asked(self, times: int) -> bool:
        """Whether at least so many questions were answered."""
        return sum(self.answers.get("ask", {}).values()) >= times

    def client(self, seed: int) -> None:
        chance = random.Random(seed)
        shown: list[tuple[str, str]] = []
        step = 0
        while not self.over.is_set():
            step += 1
            live = list(self.live.items())
            if not live:
                return
            # The one that is erased next is the one that all are after.
            _, fact = live[0] if chance.random() < 0.7 else chance.choice(live)
            number = chance.randrange(ERASURES) if chance.random() < 0.3 else int(live[0][0][3:6])
            about = f"Where does Person {number} keep the key of house {number}?"
            what = chance.choice(("ask", "ask", "recall", "learn", "confirm", "supersede", "answer", "mind"))
            if what == "ask":
                answer = self.call(what, "POST", "/context", {"session_id": f"{number:03}", "input": about})
                if answer:
                    shown.append((answer["id"], answer["system_prompt"]))
            elif what == "recall":
                self.call(what, "GET", f"/recall?{urlencode({'q': about})}")
            elif what == "learn":
                where = chance.choice(("under the mat", "in the blue box", "at the neighbour's"))
                content = f"Person {number} keeps the key of house {number} {where} behind the tower."
                self.call(what, "POST", "/facts", {"content": content, "subject": f"Person {number}"})
            elif what == "confirm":
                self.call(what, "POST", f"/facts/{fact}/confirm", {})
            elif what == "supersede":
                content = f"Person {number} has lost key {seed}-{step}."
                self.call(what, "POST", f"/facts/{fact}/supersede", {"by": {"content": content}})
            elif what == "answer" and shown:
                run, prompt = shown.pop(chance.randrange(len(shown)))
                self.call(what, "POST", f"/context/{run}/response", {"response": prompt})
            elif what == "mind":
                self.call(what, "GET", f"/working/{number:03}")

    def erase(self, marker: str, *, subject: bool) -> None:
        """On the console's page, as a person does it."""
        number = int(marker[3:6])
        path = f"/agents/ada/facts/{self.ids[marker]}/erase/"
        form = {"reason": "They asked for it.", "name": "ada"}
        if subject:
            path = f"/agents/ada/erase/subject/?{urlencode({'subject': f'Person {number}'})}"
            form["name"] = f"Person {number}"
        connection = http.client.HTTPConnection("127.0.0.1", self.product.port, timeout=60)
        try:
            connection.request(
                "POST",
                path,
                urlencode(form),
                {
                    "Cookie": f"sessionid={self.session}; csrftoken={self.csrf}",
                    "X-CSRFToken": self.csrf,
                    "Content-Type": "application/x-www-form-urlencoded",
                },
            )
            response = connection.getresponse()
            said = response.read().decode()
        finally:
            connection.close()
        self.gone[marker] = time.monotonic()
        del self.live[marker]
        counts = self.answers.setdefault("erase", {})
        counts[response.status] = counts.get(response.status, 0) + 1
        if response.status != 302:
            self.wrong.append(("erase", path, response.status, said[:2000]))


def test_erasure_under_load_leaves_no_trace(product, capsys):
    attack = Attack(product)
    for number in range(ERASURES):
        attack.learn(number)
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(attack.client, seed) for seed in range(CLIENTS)]
        try:
            for place, marker in enumerate(list(attack.live)):
                time.sleep(PAUSE_SECONDS)
                asked = partial(attack.asked, place + 2)
                until("another question is answered", asked)
                attack.erase(marker, subject=bool(place % 3 == 2))
        finally:
            attack.over.set()
        for client in clients:
            client.result()
    took = time.monotonic() - began
    worker_done(product)
    deadlocks = product.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0]
    with capsys.disabled():
        sys.stdout.write(f"\n{ERASURES} erasures in {took:.1f} s, {deadlocks} deadlocks, answers: {attack.answers}\n")
    assert attack.wrong == []
    assert traces(product, [*attack.ids, *attack.ids.values()]) == []
    assert attack.asked(ERASURES + 1)


def worker_done(product: Product) -> None:
    """Wait until nothing is queued. A task that failed, as at a lock that an erasure held too long, stays in the queue
    until it is run again after some seconds."""
    left = partial(
        product.rows,
        "SELECT 'message', lock::text, '' FROM django_q_ormq"
        " UNION ALL SELECT handler, status, error FROM memory_job WHERE status IN ('queued', 'running')",
    )
    until("the worker is done", lambda: left() == [], state=left)


class Receiver:
    """Takes what a webhook sends it."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.taken.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


def test_nothing_finds_a_word_that_was_erased(product, capsys):
    receiver = Receiver()
    story, words = story_tell(product, receiver.url, CANARIES)
    worker_done(product)
    # As autovacuum does in its time.
    with psycopg.connect(product.server.owner_url) as connection:
        connection.execute("ANALYZE")
    with psycopg.connect(product.url) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute(f"SELECT length('{words[0]}') / 0")
    # What cannot find them before would find nothing after.
    assert dump_search(product) == set(words)
    before = database_search(product)
    assert set().union(*before.values()) == set(words)
    began = time.monotonic()
    still = product.run("-c", ERASE, json.dumps(list(story.targets)), patience=scaled(PATIENCE, 20 * PATIENCE))
    erased = time.monotonic() - began
    # What was sent before cannot be called back.
    sent = len(receiver.taken)
    worker_done(product)
    waiting = "SELECT count(*) FROM identity_webhookdelivery WHERE status = 'waiting'"
    until("webhooks are told", lambda: product.rows(waiting) == [(0,)])
    left = {
        "tables": database_search(product),
        "dump": dump_search(product),
        "files": files_search(product.folder, but=product.server.paths.cluster),
        "webhook": words_in("".join(receiver.taken[sent:])),
        "quoted": json.loads(still),
        **{path: words for path, words in answers_search(story, METRICS_TOKEN) if words},
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{len(words)} words, {len(story.targets)} erasures in {erased:.1f} s; {sorted(before)}\n")
    assert {place: found for place, found in left.items() if found} == {}
    if scaled(0, 1):
        raw = cluster_search(product)
        with capsys.disabled():
            sys.stdout.write(f"words in the files of the tables: {raw}\n")
        assert raw["VACUUM FULL"] == 0
        assert words_in(product.run("-c", HIDDEN)) == set()
        assert "All records match their seals." in product.manage("verify")


def traces(product: Product, words: list[str]) -> list[tuple[str, str]]:
    """Rows of any table that hold one of the words. Audit trail and change feed name what they are about by its id,
    in one column."""
    found = []
    with psycopg.connect(product.url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchall()
        assert len(tables) > 30
        for (table,) in tables:
            row = (
                "to_jsonb(t) - 'object_id'"
                if table.endswith(("identity_auditevent", "identity_change"))
                else "to_jsonb(t)"
            )
            found += connection.execute(
                f"SELECT %s, left(({row})::text, 1000) FROM {table} t"  # noqa: S608
                f" WHERE EXISTS (SELECT 1 FROM unnest(%s::text[]) w WHERE strpos(({row})::text, w) > 0) LIMIT 3",
                [table, words],
            ).fetchall()
    hidden = product.run("-c", HIDDEN)
    found += [("sessions and tasks", word) for word in words if word in hidden]
    return found
