"""Large collections: their counts and their approximate index find what reading everything finds."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from memory import tasks
from memory.models import GLOBAL, SearchItem, SearchStatistics
from memory.persona import ActorMemory
from memory.search import query_word_counts, row_retrieval, vector_indexes
from memory.search.query_word_counts import counts_read, statistics_refresh
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.search.vector_indexes import build_megabytes, may_index, vector_indexes_keep
from memory.services.facts import fact_learn
from memory.services.search_index import reembedding
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.background import repeat
from nousweb.management.commands.serve import indexes_keep
from tests.database import as_the_owner
from tests.factories import make_facts
from tests.product import until

QUESTION = "which drawer holds the brass key"


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(query_word_counts, "COUNT_FROM", 30)
    monkeypatch.setattr(vector_indexes, "INDEX_FROM", 30)


def indexes():
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE strpos(indexname, '_near_') > 0")
        return [name for (name,) in cursor.fetchall()]


def test_memory_for_building_a_vector_index_follows_from_its_size(monkeypatch):
    monkeypatch.setattr(vector_indexes.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 4 * 2**20}.get)
    sizes = [build_megabytes(items, 384) for items in (5_000, 100_000, 1_000_000, 100_000_000)]
    assert sizes == [64, 159, 1590, 4096], "a quarter of 16 GiB at most"


@pytest.mark.django_db(transaction=True)
def test_vector_index_is_built_by_the_keeper_as_the_owner(ada, actor, small_limits):
    make_facts(ada, [f"Drawer {number} holds spoon number {number * 7}." for number in range(40)], actor)
    embed_pending_rows()
    statistics_refresh()
    if not may_index():
        assert indexes() == []
    stop = repeat(indexes_keep, name="index-keeper", pause=lambda: timedelta(milliseconds=50))
    (keeper,) = [thread for thread in threading.enumerate() if thread.name == "index-keeper"]
    try:
        until("there is an index", lambda: SearchStatistics.objects.exclude(vector_index_model="").exists())
    finally:
        stop.set()
        keeper.join()
    assert len(indexes()) == 1
    SearchStatistics.objects.all().delete()
    with as_the_owner():
        vector_indexes_keep()


@pytest.mark.django_db(transaction=True)
def test_large_collection_without_a_vector_index_is_read_in_part(ada, actor, small_limits, monkeypatch):
    view = ActorMemory(ada)
    fact_learn(agent=ada, content="Grandfather repairs violins.", by=actor)
    make_facts(ada, [f"Drawer {number} holds spoon number {number * 7}." for number in range(60)], actor)
    embed_pending_rows()
    wanted = SearchRequest("Who mends musical instruments?", GLOBAL, min_score=0, limit=50)

    def finds():
        return any("violins" in hit.content for hit in search(view, wanted).items)

    assert finds(), "all vectors are read"
    for module in (query_word_counts, row_retrieval):
        monkeypatch.setattr(module, "READ_WHOLE", 20)
    assert counts_read(view, "x").unindexed == {"actor"}
    assert counts_read(view, "x").items == 21, "so many tell that it is large"
    assert not finds(), "the latest are read, and no word is shared"
    assert any("spoon" in hit.content for hit in search(view, wanted).items)
    statistics_refresh()
    if not may_index():
        assert counts_read(view, "x").unindexed == {"actor"}
    with as_the_owner():
        vector_indexes_keep()
    assert counts_read(view, "x").unindexed == frozenset()
    assert finds(), "the index has them all"
    SearchStatistics.objects.all().delete()
    with as_the_owner():
        vector_indexes_keep()


@pytest.mark.django_db(transaction=True)
def test_collection_that_grew_is_counted_when_it_is_embedded(ada, actor, small_limits, monkeypatch):
    monkeypatch.setattr(reembedding, "MANY_EMBEDDED", 30)
    make_facts(ada, [f"Drawer {number} holds spoon number {number * 7}." for number in range(40)], actor)
    assert tasks.embed_pending() == 40
    assert SearchStatistics.objects.get().items == 40
    SearchStatistics.objects.all().delete()
    make_facts(ada, ["The brass key lies in drawer 12."], actor)
    assert tasks.embed_pending() == 1
    assert not SearchStatistics.objects.exists(), "a few more are counted by the clock"


@pytest.mark.django_db(transaction=True)
def test_vector_index_appears_and_disappears_with_equal_results(ada, actor, small_limits):
    view = ActorMemory(ada)
    make_facts(ada, [f"Drawer {number} holds spoon number {number * 7}." for number in range(60)], actor)
    fact_learn(agent=ada, content="The brass key lies in drawer 12.", by=actor)
    embed_pending_rows()
    before = search(view, SearchRequest(QUESTION, GLOBAL))
    assert "brass key" in before.items[0].content
    assert statistics_refresh() == 1
    with as_the_owner():
        vector_indexes_keep()
    held = SearchStatistics.objects.get()
    assert (held.items, held.vector_index_model) == (61, SearchItem.objects.first().model)
    counts = counts_read(view, QUESTION)
    assert (counts.items, counts.df["brass"]) == (61, 1)
    after = search(view, SearchRequest(QUESTION, GLOBAL))
    assert after.items[0] == before.items[0]
    assert statistics_refresh() == 0, "nothing has changed"
    with as_the_owner():
        assert vector_indexes_keep() == 0, "nothing has changed"
    SearchItem.objects.exclude(text__contains="brass").delete()
    statistics_refresh()
    assert not SearchStatistics.objects.exists()
    with as_the_owner():
        vector_indexes_keep()
    assert indexes() == [], "an index that nobody wants goes"
    assert [hit.content for hit in search(view, SearchRequest(QUESTION, GLOBAL)).items] == [
        "The brass key lies in drawer 12."
    ]
