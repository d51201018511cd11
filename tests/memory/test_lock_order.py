"""Transactions that lock each other up: the product's own do not, and one that somebody else causes is tried again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, close_old_connections, connection, transaction

from memory.models import Fact, MemoryReview
from memory.services.facts import fact_learn, fact_supersede
from memory.services.facts.changes import facts_lock

pytestmark = pytest.mark.django_db(transaction=True)


def on_a_connection_of_its_own(work):
    close_old_connections()
    try:
        return work()
    finally:
        connection.close()


def deadlocks():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return cursor.fetchone()[0]


# Sentences that nothing links: a question about two of them would hold the replacement back.
PAIRS = [
    ("Ann rows on the lake.", "The sea is cold in winter."),
    ("Bread comes out of the oven at six.", "Our office has a green door."),
    ("Invoices go to the accountant.", "The violin needs new strings."),
    ("Maps of the region hang upstairs.", "Chess club meets on Thursdays."),
    ("The tram stops beside the museum.", "Penguins cannot fly."),
    ("Granite is harder than chalk.", "A parcel arrived from Lisbon."),
]


def locked_up(ada, actor, texts):
    """A service and another transaction wait for each other; returns whether the service was the one that was ended."""
    facts = sorted(
        (fact_learn(agent=ada, content=text, by=actor).fact for text in texts),
        key=lambda fact: fact.pk,
    )
    with ThreadPoolExecutor(1) as pool:
        try:
            with transaction.atomic():
                facts_lock(facts[1].agent_id, [facts[1].pk])
                answer = pool.submit(
                    on_a_connection_of_its_own, lambda: fact_supersede(old=facts[0], new=facts[1], by=actor)
                )
                waits = 0
                while not waits:
                    with connection.cursor() as cursor:
                        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
                        (waits,) = cursor.fetchone()
                # Against the order: the database ends the one that waited first.
                facts_lock(facts[0].agent_id, [facts[0].pk])
            service_ended = True
        except OperationalError:
            # On a slow machine that may be this one.
            service_ended = False
        answer.result(60)
    assert Fact.objects.get(pk=facts[0].pk).superseded_by_id == facts[1].pk
    return service_ended


def test_deadlock_is_retried(ada, actor):
    before = deadlocks()
    tries = next(number for number, texts in enumerate(PAIRS, 1) if locked_up(ada, actor, texts))
    assert deadlocks() == before + tries


def test_deadlock_between_resolution_learning_and_replacement(ada, actor, charlie, api, actor_token):
    """Learning, confirming, superseding and answering the same few facts from six clients: no deadlock, no 500."""
    before = deadlocks()
    start = threading.Barrier(6)
    caller, person = api.as_token(actor_token), api.as_person(charlie)
    seen = []

    def learns(step):
        text = f"The twin of pump {step % 3} is {'Graz' if step % 2 else 'Linz'}."
        return caller.post("/facts", {"content": text, "subject": "pump"})

    def confirms(step):
        fact = Fact.objects.order_by("?").first()
        return caller.post(f"/facts/{fact.pk}/confirm", {}) if fact else None

    def supersedes(step):
        pair = list(Fact.objects.active().order_by("?")[:2])
        return caller.post(f"/facts/{pair[0].pk}/supersede", {"fact_id": str(pair[1].pk)}) if pair[1:] else None

    def answers(step):
        review = MemoryReview.objects.filter(status="pending").order_by("?").first()
        body = {"resolution": ("same", "replace", "merge")[step % 3], "content": "The pump may leak."}
        return person.post(f"/reviews/{review.pk}/resolve?agent=ada", body) if review else None

    def run(work):
        start.wait(30)
        for step in range(12):
            answer = work(step)
            if answer is not None:
                seen.append((work.__name__, answer.status_code, answer.content[:200]))

    with ThreadPoolExecutor(6) as pool:
        for done in [
            pool.submit(on_a_connection_of_its_own, lambda work=work: run(work))
            for work in (learns, learns, confirms, supersedes, answers, answers)
        ]:
            done.result(120)
    assert [one for one in seen if one[1] >= 500] == []
    assert deadlocks() == before
