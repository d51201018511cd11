"""Giving rows of the index their vectors: claims, failures, healing, rebuilding."""

import threading
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django_q.models import OrmQ

from identity.principal import Principal
from memory.embedding import embedder_named
from memory.jobs import EMBEDDING_LEASE
from memory.models import EmbeddingModel, Fact, SearchItem, SearchPassage
from memory.services.facts import Precheck, fact_learn
from memory.services.search_index import row_embedding
from memory.services.search_index.reembedding import index_rebuild
from memory.services.search_index.row_embedding import embed_pending_rows, index_retry
from nousweb.lib.errors import NotAllowed
from tests.factories import make_facts
from tests.memory.embedders import endpoint


@pytest.fixture
def served(db, settings):
    """The index's model is behind an endpoint that a test can break."""
    with endpoint() as running:
        settings.EMBED_BASE_URL = running.url
        # A name of its own: embedders are made once a process.
        name = f"openai:test-{running.url.rpartition(':')[2]}"
        EmbeddingModel.objects.create(name=name, dimension=running.dimension, state="active")
        yield running


@pytest.fixture
def learn(ada, actor):
    """Facts that come without their vectors."""
    return lambda *texts: [fact_learn(agent=ada, content=text, by=actor, precheck=Precheck()).fact for text in texts]


def states():
    return sorted(SearchItem.objects.values_list("text", "status"))


def later(monkeypatch, wait):
    """Stand `wait` further on."""
    now = row_embedding.clock.now() + wait
    monkeypatch.setattr(row_embedding.clock, "now", lambda: now)


def test_index_pending_rows_become_ready(served, learn):
    learn("alpha", "beta")
    assert states() == [("alpha", "pending"), ("beta", "pending")]
    assert embed_pending_rows() == 2
    assert states() == [("alpha", "ready"), ("beta", "ready")]
    item = SearchItem.objects.get(text="alpha")
    assert (item.error, item.due_at, len(item.embedding)) == ("", None, served.dimension)
    assert embed_pending_rows() == 0


def test_index_passages_follow_when_every_whole_text_has_its_vector(served, learn, ada):
    older, newer = (" ".join(f"The {name} note {n} is about pump {n}." for n in range(20)) for name in ("old", "new"))
    learn(older, "short", newer)
    assert embed_pending_rows(seconds=0) == 3
    assert [body["input"] for body in served.requests] == [[older, "short", newer]]
    assert dict(SearchItem.objects.values_list("text", "status")) == {
        older: "pending",
        "short": "ready",
        newer: "pending",
    }
    assert SearchItem.objects.filter(text=older, embedding__isnull=False, attempts=0, due_at=None).exists()
    learn("late")
    assert embed_pending_rows(seconds=0) == 1, "a new text does not wait for passages"
    assert served.requests[-1]["input"] == ["late"]
    assert embed_pending_rows() == 2
    (parts,) = (body["input"] for body in served.requests[2:])
    assert "".join(parts) == older + newer
    assert set(SearchItem.objects.values_list("status", flat=True)) == {"ready"}
    found = SearchPassage.objects.filter(row_id=SearchItem.objects.get(text=newer).pk)
    assert [newer[one.begins : one.ends] for one in found.order_by("place")] == parts[len(parts) // 2 :]
    SearchItem.objects.filter(text=older).update(status="pending", passages=None)
    assert embed_pending_rows() == 1
    assert served.requests[-1]["input"] == parts[: len(parts) // 2], "the vector of the whole text is kept"


def test_index_many_writes_queue_one_task(served, learn):
    OrmQ.objects.all().delete()
    learn("one", "two", "three")
    assert sum(task.func() == "memory.tasks.embed_pending" for task in OrmQ.objects.all()) == 1
    embed_pending_rows()
    OrmQ.objects.all().delete()
    learn("four")
    assert sum(task.func() == "memory.tasks.embed_pending" for task in OrmQ.objects.all()) == 1


def test_index_embedder_failure_fails_no_write_and_loses_nothing(served, learn, monkeypatch):
    served.broken = True
    learn("alpha")
    assert embed_pending_rows() == 0
    item = SearchItem.objects.get()
    assert (item.status, item.attempts) == ("pending", 1)
    assert "503" in item.error
    asked = len(served.requests)
    assert embed_pending_rows() == 0
    assert len(served.requests) == asked, "not due yet"
    served.broken = False
    later(monkeypatch, EMBEDDING_LEASE.backoff(1) + timedelta(seconds=1))
    assert embed_pending_rows() == 1
    assert states() == [("alpha", "ready")]


def test_index_row_fails_after_the_last_attempt_until_retried(served, learn, ada, bob, alice, monkeypatch):
    served.broken = True
    learn("alpha")
    for _ in range(EMBEDDING_LEASE.max_attempts):
        embed_pending_rows()
        later(monkeypatch, timedelta(hours=1))
    assert states() == [("alpha", "failed")]
    assert embed_pending_rows() == 0
    with pytest.raises(NotAllowed):
        index_retry(agent=ada, by=Principal.of_user(alice))
    served.broken = False
    assert index_retry(agent=ada, by=Principal.of_user(bob)) == 1
    assert embed_pending_rows() == 1
    assert SearchItem.objects.get().attempts == 1


def test_index_row_refused_by_the_model_fails_alone(served, learn):
    learn("good", "poison", "fine")
    ordinary = served.reply

    def picky(body):
        return (400, {}, b"{}") if "poison" in body["input"] else ordinary(body)

    served.reply = picky
    assert embed_pending_rows() == 2
    assert states() == [("fine", "ready"), ("good", "ready"), ("poison", "failed")]


def test_index_row_changed_meanwhile_keeps_no_old_vector(served, learn, monkeypatch):
    learn("before")

    class Changing:
        """An embedder that takes so long that somebody else changes the row."""

        name = EmbeddingModel.objects.get().name

        def embed_documents(self, texts):
            SearchItem.objects.update(text="after")
            return embedder_named(self.name).embed_documents(texts)

    monkeypatch.setattr(row_embedding, "embedder_named", lambda name: Changing())
    assert embed_pending_rows() == 0
    assert SearchItem.objects.get().embedding is None


def test_index_claim_of_a_killed_worker_is_taken_over(served, learn, monkeypatch):
    learn("alpha")
    assert len(row_embedding._claim("actor")) == 1
    assert embed_pending_rows() == 0, "still leased"
    later(monkeypatch, EMBEDDING_LEASE.lease + timedelta(seconds=1))
    assert embed_pending_rows() == 1


def test_index_row_that_kills_every_worker_is_given_up(served, learn, monkeypatch):
    learn("alpha")
    for _ in range(EMBEDDING_LEASE.max_attempts):
        assert len(row_embedding._claim("actor")) == 1
        later(monkeypatch, EMBEDDING_LEASE.lease + timedelta(seconds=1))
    assert embed_pending_rows() == 0
    assert states() == [("alpha", "failed")]
    assert "Given up" in SearchItem.objects.get().error


def test_index_backoff_grows_and_ends():
    pauses = [EMBEDDING_LEASE.backoff(n) for n in range(1, 40)]
    assert pauses == sorted(pauses)
    assert pauses[0] == timedelta(seconds=15)
    assert pauses[-1] == timedelta(minutes=15)


@pytest.mark.django_db(transaction=True)
def test_index_lease_is_renewed_while_the_model_works(ada, actor, settings, monkeypatch):
    with endpoint() as running:
        settings.EMBED_BASE_URL = running.url
        name = f"openai:slow-{running.url.rpartition(':')[2]}"
        EmbeddingModel.objects.create(name=name, dimension=running.dimension, state="active")
        fact_learn(agent=ada, content="alpha", by=actor, precheck=Precheck())
        monkeypatch.setattr(
            row_embedding, "EMBEDDING_LEASE", replace(EMBEDDING_LEASE, renew_every=timedelta(milliseconds=20))
        )
        seen = []

        class Slow:
            """An embedder that works until its claim has been renewed twice."""

            name = EmbeddingModel.objects.get().name

            def embed_documents(self, texts):
                while len(seen) < 3:
                    due = SearchItem.objects.get().due_at
                    if due not in seen:
                        seen.append(due)
                return embedder_named(self.name).embed_documents(texts)

        monkeypatch.setattr(row_embedding, "embedder_named", lambda name: Slow())
        assert embed_pending_rows() == 1
    assert seen == sorted(seen)


@pytest.mark.django_db(transaction=True)
def test_index_two_workers_embed_every_row_once(settings, ada, actor):
    with endpoint() as running:
        settings.EMBED_BASE_URL = running.url
        name = f"openai:two-{running.url.rpartition(':')[2]}"
        EmbeddingModel.objects.create(name=name, dimension=running.dimension, state="active")
        make_facts(ada, [f"fact number {number}" for number in range(150)], actor)
        made = []

        def work():
            try:
                made.append(embed_pending_rows())
            finally:
                connections.close_all()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = [text for body in running.requests for text in body["input"]]
        assert sum(made) == len(asked) == len(set(asked)) == 150
        assert not SearchItem.objects.exclude(status="ready").exists()


def test_index_rebuild_adds_what_is_lost_and_keeps_what_is_right(served, learn, ada):
    _, changed, lost = learn("kept", "changed", "lost")
    embed_pending_rows()
    SearchItem.objects.filter(item_id=lost.pk).delete()
    SearchItem.objects.filter(item_id=changed.pk).update(text="wrong", category="wrong")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memory_searchitem (agent_id, persona, item_type, item_id, happened_at, recorded_at, text)"
            " VALUES (%s, 'actor', 'fact', gen_random_uuid()::text, now(), now(), 'of no fact')",
            [ada.pk],
        )
    told = []
    result = index_rebuild(progress=lambda done, total: told.append((done, total)))
    assert result == {"written": 3, "deleted": 1}
    assert told[-1] == (3, 3)
    assert states() == [("changed", "pending"), ("kept", "ready"), ("lost", "pending")]
    assert index_rebuild() == {"written": 3, "deleted": 0}
    assert Fact.objects.count() == 3


def test_index_commands_heal(served, learn, ada):
    learn("alpha")
    SearchItem.objects.update(status="failed", error="x", attempts=9)
    out = StringIO()
    call_command("backfill", stdout=out)
    assert "retried 1, vectors 1" in out.getvalue()
    SearchItem.objects.all().delete()
    call_command("reindex", "--agent", "ada", stdout=out, stderr=StringIO())
    call_command("backfill", "--no-vectors", stdout=out)
    assert states() == [("alpha", "pending")]
