"""Many who learn at once: nothing twice, nothing lost, no contradiction confirmed."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from memory.models import Fact, MemoryReview
from memory.services.facts import fact_learn
from tests.security.scale import scaled

pytestmark = pytest.mark.django_db(transaction=True)

CLIENTS = 8
PEOPLE = scaled(20, 200)
SAYINGS = (
    "Keeps {} bees behind the old mill.",
    "Was born in the year 19{:02}.",
    "Plays chess in the club of street {}.",
    "Owes the library {} books.",
    "Never drinks coffee after {} o'clock.",
)


def at_once(work, items):
    """What `work` makes of each item, in so many threads with a connection each, as a server has them."""
    together = threading.Barrier(CLIENTS)

    def leave(_):
        # So that every thread does it once.
        together.wait(60)
        connection.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        results = list(pool.map(work, items))
        list(pool.map(leave, range(CLIENTS)))
        return results


def test_learning_the_same_in_two_transactions_at_once(ada, actor):
    start = threading.Barrier(2)

    def learn(_):
        start.wait(30)
        return fact_learn(agent=ada, content="Alice lives in Berlin.", by=actor).action

    assert sorted(at_once(learn, range(2))) == ["confirmed", "stored"]
    assert Fact.objects.get().confirmation_count == 1


def test_learning_many_facts_twice_from_eight_clients(ada, actor):
    # Each sentence is of one person alone: the same one about another is a question, and is not stored.
    facts = [(f"Person {place}", said.format(place + 5)) for place in range(PEOPLE) for said in SAYINGS]
    # Each contradicts one of the facts; some are learned before it, some between its two times, some after.
    against = [(f"Person {place}", f"Keeps {place + 400} bees behind the old mill.") for place in range(20)]
    work = facts + facts[::-1]
    for place, pair in enumerate(against):
        work.insert(place * 97 % len(work), pair)

    def learn(pair):
        subject, content = pair
        return content, fact_learn(agent=ada, content=content, subject=subject, by=actor)

    results = at_once(learn, work)
    learned = Counter(Fact.objects.values_list("subject", "content"))
    # What was replaced in between and is learned again has another row.
    contradicted = {(subject, said.format(place + 5)) for place, (subject, _) in enumerate(against) for said in SAYINGS}
    assert all(learned[pair] == 1 for pair in {*facts} - contradicted)
    assert all(learned[pair] in (1, 2) for pair in {*against, *contradicted})
    for subject, content in against:
        # Not lost, not taken for what it contradicts: a row of its own, and a question or the other's place.
        fact = Fact.objects.get(subject=subject, content=content)
        asked = MemoryReview.objects.filter(old=fact) | MemoryReview.objects.filter(new=fact)
        assert asked.exists() or fact.superseded_by_id or Fact.objects.filter(superseded_by=fact).exists(), content
    for content, result in results:
        assert result.action != "confirmed" or result.fact.content == content
