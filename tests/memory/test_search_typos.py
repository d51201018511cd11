"""Mistyped words of a query find what they were meant to, and nothing that only looks like them."""

import pytest

from memory.models import GLOBAL, Fact, ProjectScope
from memory.persona import ActorMemory
from memory.search.request import SearchRequest
from memory.search.search import apply_corrections, edit_candidates, search, suspected_typos
from memory.services.facts import fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows

SAID = (
    "The harpsichord was sold to Wojciechowski in Gdansk.",
    "Katherine plays in the tournament of the fencing club.",
    "The invoice of the greenhouse was paid in March.",
    "All frontend code is written in JavaScript.",
    "The hood of the jacket is torn.",
    "Backups of the database are taken nightly.",
    "The photographer comes from Tennessee.",
)


@pytest.fixture
def store(ada, actor):
    for content in SAID:
        fact_learn(agent=ada, content=content, category="technical", by=actor)
    embed_pending_rows()
    assert Fact.objects.filter(agent=ada).count() == len(SAID)
    return ActorMemory(ada)


def test_mistyped_words_count_as_what_they_were_meant_to_be(store, subtests):
    for query, said in [
        ("Who bought the harpsicord?", SAID[0]),
        ("What did Wojcechowski buy?", SAID[0]),
        ("What did Wojciechovski buy?", SAID[0]),
        ("Who plays in the torunament?", SAID[1]),
        ("Where does Kathrine play?", SAID[1]),
        ("Was the bill of the greenhuose paid?", SAID[2]),
        ("Where does the fotographer come from?", None),
        ("Who is from Tennesee?", SAID[6]),
        ("When are the bakcups taken?", SAID[5]),
    ]:
        with subtests.test(query=query, said=said):
            hits = search(store, SearchRequest(query, GLOBAL)).items
            if said is None:
                # Nobody mistypes the first letter: that the meaning is near is the embedding's to see.
                assert all(hit.lexical < 1 for hit in hits)
            else:
                assert hits[0].content == said
                assert hits[0].lexical > 0.3


def test_other_words_are_not_taken_for_typos(store, subtests):
    for query, not_said in [
        ("Which Java version is required?", SAID[3]),  # begins alike
        ("Where are the hoodies?", SAID[4]),  # a word of its own
        ("Is the hook torn?", None),  # a usual word
        ("How many bacons are there?", SAID[5]),
    ]:
        with subtests.test(query=query, not_said=not_said):
            hits = search(store, SearchRequest(query, GLOBAL, min_score=0)).items
            for hit in hits:
                if hit.content == not_said:
                    assert hit.lexical == 0


def test_typos_look_only_where_the_request_may(ada, actor):
    fact_learn(agent=ada, content="The harpsichord is in Gdansk.", category="technical", project="opera", by=actor)
    embed_pending_rows()
    view = ActorMemory(ada)
    there = ProjectScope("opera")
    assert search(view, SearchRequest("Where is the harpsicord?", there)).items[0].lexical == 1
    found = search(view, SearchRequest("Where is the harpsicord?", GLOBAL))
    assert found.items == []
    assert found.query is not None
    assert found.query.lexemes == ["harpsicord"]


def test_usual_queries_ask_nothing_more(store, django_assert_max_num_queries):
    with django_assert_max_num_queries(5):
        search(store, SearchRequest("Which weather is expected at the airport?", GLOBAL))


def test_what_looks_mistyped():
    unknown = {"harpsicord": 0, "weather": 0, "databas": 3, "xyz": 0, "ab12cd": 0}
    assert suspected_typos("harpsicord weather database xyz ab12cd", unknown) == ["harpsicord"]
    assert suspected_typos("a log of nothing but words", {f"unknownword{one}": 0 for one in "abcdefgh"}) == []
    assert suspected_typos("Harpsicord, harpsicord", {"harpsicord": 0}) == ["harpsicord"]
    assert (
        apply_corrections("Is the Harpsicord in tune?", {"harpsicord": "harpsichord"}) == "Is the harpsichord in tune?"
    )


@pytest.mark.parametrize(
    ("typed", "correction"),
    [
        ("harpsicord", "harpsichord"),
        ("hrapsichord", None),
        ("harpischord", "harpsichord"),
        ("harppsichord", "harpsichord"),
        ("acommodation", "accommodation"),
        ("restaraunt", "restaurant"),
        ("definately", "definitely"),
        ("harspichrod", None),
    ],
)
def test_near_words(typed, correction):
    found = set(edit_candidates(typed))
    assert (correction in found) if correction else ("harpsichord" in found) == (typed == "hrapsichord")
    assert len(found) < 1_600
    assert all(one[0] == typed[0] for one in found)
