"""An unrelated question finds nothing and a related one the right thing, on the same small store."""

import pytest

from memory.models import GLOBAL
from memory.persona import ActorMemory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_fact, make_token
from tests.memory.stores import RELATED, UNRELATED, fill

TIER_THREE = {"exclude_categories": ("person", "preference", "rule")}


@pytest.fixture
def store(ada, actor):
    fill(ada, actor)
    return ActorMemory(ada)


def test_search_relevance_separates_related_from_unrelated(store):
    for question in UNRELATED:
        found = search(store, SearchRequest(question, GLOBAL, **TIER_THREE))
        assert [hit.content for hit in found.items] == [], question
        assert found.degraded == ""
    for question, said in RELATED.items():
        found = search(store, SearchRequest(question, GLOBAL, **TIER_THREE))
        assert any(said in hit.content for hit in found.items[:3]), (question, [hit.content for hit in found.items])


def test_a_question_that_was_asked_before_hides_nothing(api, ada, system):
    """It is nearer to the question than each answer, by itself and in parts."""
    caller = api.as_token(make_token(ada))
    facts = [
        "Kim works as a nurse.",
        "Kim does not eat meat.",
        "Kim moved to Lisbon in spring.",
        "Kim plays the cello.",
    ]
    facts += ["Tom lives in Oslo.", "Tom works as a pilot.", "Ana follows a gluten-free diet.", "Lee works as a chef."]
    for fact in facts:
        make_fact(ada, fact, system, subject=fact.split()[0])
    question, unknown = "Tell me about Kim: home, diet and job", "What is the capital of Mars?"
    embed_pending_rows()

    def told(asked: str) -> list[str]:
        """As a prompt searches."""
        hits = search(ActorMemory(ada), SearchRequest(asked, GLOBAL, uniform_decay=True)).items
        return sorted(hit.content for hit in hits if hit.content in facts)

    before = told(question)
    assert {*facts[:3]} <= {*before}
    asked = (question, "Where does Kim live and which diet does she follow?", "Which job does Kim have?", unknown)
    for number, text in enumerate(asked):
        said = {"kind": "user_input", "content": text, "loop_id": f"l{number}"}
        assert caller.post("/events", {"events": [said]}).status_code == 201
    embed_pending_rows()
    assert {*facts[:3]} <= {*told(question)}
    assert told(unknown) == []
    assert [item["content"] for item in caller.get("/recall", {"q": unknown}).json()["items"]] == [unknown]


def test_search_relevance_threshold_zero_and_default(store):
    question = UNRELATED[0]
    everything = search(store, SearchRequest(question, GLOBAL, min_score=0, limit=100))
    assert len(everything.items) > 10
    assert everything.threshold == 0
    assert search(store, SearchRequest(question, GLOBAL)).threshold == 0.25
    for hit in everything.items:
        assert 0 <= hit.score < 0.25


def test_search_timings_are_reported(store):
    found = search(store, SearchRequest("how does the event bus work", GLOBAL))
    assert list(found.timings) == ["counts", "words", "embedding", "candidates", "scoring", "loading"]
    assert all(seconds >= 0 for seconds in found.timings.values())
    assert found.considered > 0


def test_search_of_nothing_finds_nothing(store, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert search(store, SearchRequest("  \n ", GLOBAL)).items == []


def test_search_of_odd_queries_is_harmless(store, subtests):
    for question in ["?!", "the of and", "'; DROP TABLE memory_fact; --", "a\\b 'c' \"d\" | & ! <-> :*", "%s %(q)s"]:
        with subtests.test(question=question):
            assert isinstance(search(store, SearchRequest(question, GLOBAL, min_score=0)).items, list)


def test_search_type_may_be_limited_to_its_best(store):
    question = UNRELATED[0]
    everything = search(store, SearchRequest(question, GLOBAL, min_score=0, limit=100)).items
    facts = [hit.id for hit in everything if hit.type == "fact"]
    assert len(facts) > 3
    few = search(store, SearchRequest(question, GLOBAL, min_score=0, limit=100, max_per_type={"fact": 2})).items
    # The other types lose nothing, and nothing changes its place.
    assert [hit.id for hit in few] == [hit.id for hit in everything if hit.id not in facts[2:]]
    # What is left out makes room for the next.
    least = search(
        store, SearchRequest(question, GLOBAL, min_score=1.0, limit=100, min_results=5, max_per_type={"fact": 2})
    ).items
    assert [hit.id for hit in least] == [hit.id for hit in few[:5]]


def test_search_of_symbols_finds_them_as_they_are_written(ada, actor, store):
    said = [
        "🔴 means that the release is stopped.",
        "🟢 means that the release goes on.",
        "这个发布已经停止了。",
        "进去吧。",
    ]
    made = [make_fact(ada, text, actor) for text in said]
    embed_pending_rows()
    assert [hit.content for hit in search(store, SearchRequest("🔴", GLOBAL)).items] == said[:1]
    assert {hit.content for hit in search(store, SearchRequest(" 🔴🟢 !", GLOBAL)).items} == {*said[:2]}
    assert search(store, SearchRequest("🟣", GLOBAL)).items == []
    assert search(store, SearchRequest("🔴", GLOBAL, as_of=made[0].recorded_at)).items[0].content == said[0]
    assert search(store, SearchRequest("🇩🇪", GLOBAL)).items == []
