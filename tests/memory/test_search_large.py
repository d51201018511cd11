"""Large collections: their counts and their approximate index find what reading everything finds."""

import pytest

from memory.models import SearchItem, SearchStatistics
from memory.persona import ActorMemory
from memory.search import SearchRequest, search, statistics, vector_indexes
from memory.search.candidates import counts_read
from memory.search.statistics import statistics_refresh
from memory.search.vector_indexes import vector_indexes_keep
from memory.services.facts import fact_learn
from memory.services.indexing import embeddings_make
from tests.database import as_the_owner

QUESTION = "which drawer holds the brass key"


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(statistics, "COUNT_FROM", 30)
    monkeypatch.setattr(vector_indexes, "INDEX_FROM", 30)


@pytest.mark.django_db(transaction=True)
def test_counts_and_index_come_and_go_and_the_answer_stays(ada, actor, small_limits):
    view = ActorMemory(ada)
    for number in range(60):
        fact_learn(agent=ada, content=f"Drawer {number} holds spoon number {number * 7}.", by=actor)
    fact_learn(agent=ada, content="The brass key lies in drawer 12.", by=actor)
    embeddings_make()
    before = search(view, SearchRequest(QUESTION))
    assert "brass key" in before.items[0].content
    assert statistics_refresh() == 1
    with as_the_owner():
        assert vector_indexes_keep() == 1
    held = SearchStatistics.objects.get()
    assert (held.items, held.vector_index_model) == (61, SearchItem.objects.first().model)
    counts = counts_read(view, QUESTION)
    assert (counts.items, counts.df["brass"]) == (61, 1)
    after = search(view, SearchRequest(QUESTION))
    assert after.items[0] == before.items[0]
    assert statistics_refresh() == 0, "nothing has changed"
    with as_the_owner():
        assert vector_indexes_keep() == 0, "nothing has changed"
    SearchItem.objects.exclude(text__contains="brass").delete()
    statistics_refresh()
    assert not SearchStatistics.objects.exists()
    with as_the_owner():
        assert vector_indexes_keep() == 1, "an index that nobody wants goes"
    assert [hit.content for hit in search(view, SearchRequest(QUESTION)).items] == ["The brass key lies in drawer 12."]
