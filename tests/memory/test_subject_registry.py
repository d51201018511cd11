"""The registry itself: filled from older facts, cheap however large, and the same whoever comes first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import close_old_connections, connection
from django.test.utils import CaptureQueriesContext

from memory.lifecycle.runner import dream_queue, job_run
from memory.models import Fact, Job, MemoryReview, Subject, SubjectAlias
from memory.services.facts import fact_learn
from memory.subjects.registry_backfill import registry_fill
from tests.factories import make_copies


@pytest.mark.django_db
def test_registry_is_filled_from_older_facts(ada):
    for persona, subject in [
        ("actor", "Postgres"), ("actor", "POSTGRESQL"), ("actor", "user"), ("actor", "the user"), ("actor", ""),
        ("subconscious", "Postgres"), ("actor", "\u202ePostgres"), ("actor", "???"),
    ]:  # fmt: skip
        Fact.objects.create(agent=ada, persona=persona, content=f"About {subject}.", subject=subject)
    assert registry_fill(ada.pk) == 7
    assert registry_fill(ada.pk) == 0
    names = Subject.objects.filter(persona="actor").order_by("name").values_list("name", "is_user")
    assert [row for row in names if row[0] != "???"] == [("Postgres", False), ("user", True)]
    assert not Fact.objects.exclude(subject="").filter(subject_alias=None).exists()
    assert Subject.objects.filter(persona="subconscious").count() == 1


@pytest.mark.django_db
def test_naming_one_of_many_costs_the_same(ada, actor):
    """Thousands of subjects, of which many share words: a new one is compared with a few, in as many statements."""
    first = Fact.objects.create(agent=ada, content="It is there.", subject="Payments service 1")
    make_copies(first, 2_999, subject="'Payments service ' || (n + 2)", content="'It is there, ' || n || '.'")
    registry_fill(ada.pk)
    assert SubjectAlias.objects.count() == 3_000
    with CaptureQueriesContext(connection) as queries:
        fact_learn(agent=ada, content="A sentence of its own.", subject="Payments service 77777", by=actor)
    with CaptureQueriesContext(connection) as few:
        fact_learn(agent=ada, content="Another one, about bees.", subject="Beehive", by=actor)
    assert abs(len(queries) - len(few)) <= 2
    assert not MemoryReview.objects.exists()


@pytest.mark.django_db
def test_dreaming_asks_about_what_is_said_alike(ada, actor):
    for content in ("{} drinks green tea.", "{} owns two canoes on the lake."):
        fact_learn(agent=ada, content=content.format("The user"), subject="user", by=actor)
        fact_learn(agent=ada, content=content.format("Tim"), subject="Tim", by=actor)
    fact_learn(agent=ada, content="Zed is short for Zenobia.", subject="Zed", by=actor)
    fact_learn(agent=ada, content="Zenobia rows.", subject="Zenobia", by=actor)
    dream_queue()
    assert job_run(Job.objects.get(handler="subject_contexts", agent=ada).pk) == "done"
    names = {row.pk: row.name for row in Subject.objects.all()}
    asked = MemoryReview.objects.filter(kind="same_subject")
    pairs = sorted(sorted(names[key] for key in review.subjects) for review in asked)
    assert pairs == [["Tim", "user"], ["Zed", "Zenobia"]]


@pytest.mark.django_db(transaction=True)
def test_two_who_name_the_same_at_once_make_one_subject(ada, actor):
    start = threading.Barrier(2)

    def learn(place):
        close_old_connections()
        try:
            start.wait(30)
            spelling = ("k8s", "Kubernetes")[place]
            content = ("The cluster runs in a cellar.", "Ann wrote the runbook of last winter.")[place]
            return fact_learn(agent=ada, content=content, subject=spelling, by=actor).action
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(learn, range(2))) == ["stored", "stored"]
    assert Subject.objects.count() == 1
