"""Everything works behind pgbouncer in transaction mode, which gives each transaction another connection."""

import json
import sys
import threading
import time

import psycopg
import pytest

from tests.drills.callers import Callers
from tests.drills.programs import pooler_running
from tests.product import product_running, until
from tests.security.canaries import ERASE, KINDS, answers_search, database_search, story_tell
from tests.security.scale import scaled
from tests.security.test_erasure_under_load import METRICS_TOKEN, Receiver, worker_done

CONNECTIONS, CALLERS, SECONDS = 3, 6, scaled(8, 30)
TURNS = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
django.setup()
from django.core.management import call_command
from memory.search.query_word_counts import statistics_refresh
from memory.services.search_index.reembedding import words_reread
from nousweb.lib.transactions import advisory_lock
for _ in range(5):
    with advisory_lock("drill") as mine:
        assert mine
        with advisory_lock("drill") as other:
            assert not other
statistics_refresh()
words_reread()
for command in ("reindex", "verify", "screen", "backfill"):
    call_command(command)
"""
"""Work of one process at a time, and commands that read much: twice at once."""
STATE = (
    "SELECT name, setting, reset_val FROM pg_settings WHERE source = 'session' AND setting IS DISTINCT FROM reset_val"
)


@pytest.fixture(scope="module")
def product():
    variables = {"NOUS_WEBHOOK_ALLOW_PRIVATE": "1", "NOUS_METRICS_TOKEN": METRICS_TOKEN, "NOUS_DB_PREPARE": "0",
                 "NOUS_DB_KEEP_SECONDS": "600"}  # fmt: skip
    with product_running("pooler", **variables) as running, pooler_running(running, connections=CONNECTIONS) as address:
        running.environment["DATABASE_URL"] = address
        running.pooled = address
        running.web()
        running.worker()
        until("the web server answers", lambda: running.call("GET", "/index")[0] == 200)
        yield running


def leaks(product) -> list[tuple[object, ...]]:
    """What is set on the pooler's connections, each looked at while the others are kept busy, and locks of sessions."""
    found, kept = [], [psycopg.connect(product.pooled) for _ in range(CONNECTIONS)]
    for one in kept:
        found += one.execute(STATE).fetchall()
    for one in kept:
        one.rollback()
        one.close()
    with psycopg.connect(product.server._url_of("postgres")) as direct:
        found += direct.execute("SELECT locktype, mode, pid FROM pg_locks WHERE locktype = 'advisory'").fetchall()
    return [one for one in found if one[0] not in ("client_encoding", "TimeZone", "application_name", "DateStyle")]


def test_callers_at_once_get_every_answer(product, capsys):
    callers = Callers(product.port, product.token)
    with callers.calling(CALLERS):
        time.sleep(SECONDS)
    worker_done(product)
    slow = sorted(callers.seconds)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{sum(callers.answers.values())} requests by {CALLERS} callers over {CONNECTIONS} connections in"
            f" {SECONDS} s,"
            f" {len(callers.failures)} failed; p50 {1_000 * slow[len(slow) // 2]:.0f} ms,"
            f" p95 {1_000 * slow[len(slow) * 95 // 100]:.0f} ms\n"
        )
    assert callers.failures == []
    assert callers.unread == []
    until("no lock is left", lambda: leaks(product) == [])


def test_all_that_an_agent_tells_is_kept_told_and_erased(product):
    receiver = Receiver()
    story, words = story_tell(product, receiver.url, len(KINDS))
    worker_done(product)
    assert set().union(*database_search(product).values()) == set(words)
    told = {path for path, found in answers_search(story, METRICS_TOKEN) if found}
    assert told >= {"/changes", "/facts?state=all&limit=200", "/context"}
    until("the webhook is told", lambda: any(words[0] in body for body in receiver.taken))
    # The program that erases is given the owner's address past the pooler, as commands are; it uses the pooler's.
    product.run("-c", ERASE, json.dumps(list(story.targets)))
    worker_done(product)
    assert database_search(product) == {}
    until("no lock is left", lambda: leaks(product) == [])


def test_work_of_one_process_at_a_time_and_commands(product):
    failed = []

    def work() -> None:
        try:
            product.run("-c", TURNS.replace('"drill"', f'"drill {threading.get_ident()}"'))
        except AssertionError as error:
            failed.append(error)

    programs = [threading.Thread(target=work) for _ in range(2)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    assert failed == []
    until("no lock is left", lambda: leaks(product) == [])
