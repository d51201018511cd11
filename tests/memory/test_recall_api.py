"""GET /api/recall and GET /api/index as their callers see them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from context.api.recall import RecallOut
from memory.models import EmbeddingModel, Fact, SearchItem
from memory.services.facts import fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.search_index.writer import index_put
from memory.types import entry_of
from tests.api.problems import assert_problem
from tests.memory.embedders import endpoint

pytestmark = pytest.mark.django_db


def recall(api, token, q, **query):
    answer = api.as_token(token).get("/recall", {"q": q} | query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def post(api, token, *events):
    answer = api.as_token(token).post("/events", {"events": list(events)})
    assert answer.status_code == 201, answer.content
    embed_pending_rows()
    return [event["id"] for event in answer.json()["events"]]


def turn(text, **metadata):
    return {"kind": "user_input", "content": text, "loop_id": "session", "metadata": metadata}


def test_recall_returns_an_event_as_posted(api, actor_token):
    said = "  Caroline: I went to the   support group yesterday!"
    metadata = {"dia_id": "D1:3", "speaker": "Caroline", "nested": {"n": [1, None]}}
    [event_id, _] = post(api, actor_token, turn(said, **metadata), turn("Mel: Nice weather.", dia_id="D1:4"))
    found = recall(api, actor_token, "When did Caroline go to the support group?", type="event")
    first = found["items"][0]
    assert first["id"] == str(event_id)
    assert (first["type"], first["content"], first["metadata"]) == ("event", said, metadata)
    assert 0.25 <= first["score"] <= 1
    assert 0 < first["cosine"] <= 1
    assert 0 < first["lexical"] <= 1
    assert found["degraded"] == ""
    scores = [item["score"] for item in found["items"]]
    assert scores == sorted(scores, reverse=True)


def test_recall_answer_matches_the_guide(api, actor_token, ada, actor):
    api.as_token(actor_token).post(
        "/events", {"events": [{"kind": "user_input", "content": "The vault is in Riga", "metadata": {"n": [1, None]}}]}
    )
    fact_learn(agent=ada, content="The vault is in Turin.", subject="vault", tags=["a"], by=actor)
    answer = api.as_token(actor_token).get("/recall", {"q": "vault", "min_score": 0}).json()
    assert {item["type"] for item in answer["items"]} == {"event", "fact"}
    assert RecallOut.model_validate(answer).model_dump(mode="json") == answer


def test_recall_finds_by_words_before_there_is_a_vector(api, actor_token):
    api.as_token(actor_token).post("/events", {"events": [turn("Ann: The password of the vault is swordfish.")]})
    assert api.as_token(actor_token).get("/index").json() == {"ready": 0, "pending": 1, "failed": 0, "language": "en"}
    found = recall(api, actor_token, "password of the vault")
    assert [item["cosine"] for item in found["items"]] == [0]
    embed_pending_rows()
    assert api.as_token(actor_token).get("/index").json() == {"ready": 1, "pending": 0, "failed": 0, "language": "en"}
    assert recall(api, actor_token, "password of the vault")["items"][0]["cosine"] > 0.5


def test_recall_filters(api, actor_token, ada, actor):
    post(api, actor_token, turn("The event bus drops messages."))
    fact_learn(
        agent=ada, content="The event bus uses a queue.", category="technical", tags=["bus"], scope="project",
        importance=0.9, by=actor,
    )  # fmt: skip
    fact_learn(agent=ada, content="Tim likes the event bus.", category="preference", by=actor)
    embed_pending_rows()

    def kinds(**query):
        return sorted(
            (item["type"], item["category"])
            for item in recall(api, actor_token, "event bus", min_score=0, **query)["items"]
        )

    every = [("event", ""), ("fact", "preference"), ("fact", "technical")]
    assert kinds() == every
    assert kinds(type="fact") == every[1:]
    assert kinds(type=["event", "fact"]) == every
    assert kinds(type="episode") == []
    assert kinds(kind="user_input") == every[:1]
    assert kinds(category="technical") == every[2:]
    assert kinds(exclude_category=["preference", "technical"]) == every[:1]
    assert kinds(scope="project") == kinds(tag=["bus", "no"]) == kinds(min_importance=0.8) == every[2:]
    assert len(kinds(limit=1)) == 1


def test_recall_leaves_out_superseded_memory(api, actor_token, ada, actor):
    old = fact_learn(agent=ada, content="Tim lives in Berlin.", subject="Tim", by=actor).fact
    embed_pending_rows()
    between = timezone.now()
    Fact.objects.filter(pk=old.pk).update(active=False, retired_at=timezone.now())
    found = recall(api, actor_token, "Where does Tim live?", min_score=0)
    assert found["items"] == [], "the index is behind, and still nothing leaves"
    index_put([entry_of(Fact.objects.get(pk=old.pk))])
    assert recall(api, actor_token, "Where does Tim live?", min_score=0)["items"] == []
    then = recall(api, actor_token, "Where does Tim live?", as_of=between.isoformat())
    assert [item["content"] for item in then["items"]] == ["Tim lives in Berlin."]
    before = (between - timedelta(days=1)).isoformat()
    assert recall(api, actor_token, "Where does Tim live?", as_of=before, min_score=0)["items"] == []


def test_recall_knows_an_event_from_its_time(api, actor_token):
    post(api, actor_token, turn("We met in Lisbon.") | {"ts": "2024-05-01T10:00:00Z"})
    assert recall(api, actor_token, "Lisbon", as_of="2024-05-02T00:00:00Z")["items"]
    assert not recall(api, actor_token, "Lisbon", as_of="2024-04-30T00:00:00Z", min_score=0)["items"]


def test_recall_bad_parameters_are_named(api, actor_token, subtests):
    for query, field in [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": 10**30}, "limit"),
        ({"min_score": 1.1}, "min_score"),
        ({"min_score": "nan"}, "min_score"),
        ({"min_importance": -1}, "min_importance"),
        ({"type": "secret"}, "type"),
        ({"scope": "all"}, "scope"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"as_of": "2026-01-01T00:00:00"}, "as_of"),
        ({"as_of": "9999-12-31T23:59:59-12:00"}, "as_of"),
        ({"q": "x" * 4001}, "q"),
        ({"tag": ["t"] * 21}, "tag"),
    ]:
        with subtests.test(query=query, field=field):
            answer = api.as_token(actor_token).get("/recall", {"q": "x"} | query)
            assert_problem(answer, 422, "invalid")
            assert field in answer.content.decode()


def test_recall_needs_a_query(api, actor_token):
    assert_problem(api.as_token(actor_token).get("/recall"), 422, "invalid")
    assert recall(api, actor_token, "   ")["items"] == []


def test_recall_is_separate_by_agent(api, actor_token, other_token):
    post(api, actor_token, turn("The vault is behind the painting."))
    assert recall(api, other_token, "Where is the vault?", min_score=0)["items"] == []
    assert_problem(api.as_token(other_token).get("/recall", {"q": "vault", "agent": "ada"}), 404, "not_found")
    assert api.get("/recall", {"q": "vault"}).status_code == 401


def test_recall_without_the_embedder_uses_words_and_reports_it(api, actor_token, settings):
    with endpoint() as served:
        settings.EMBED_BASE_URL = served.url
        EmbeddingModel.objects.create(name="openai:degraded-test", dimension=served.dimension, state="active")
        post(api, actor_token, turn("Ann: The vault is behind the painting."), turn("Bob: Lovely weather."))
        assert recall(api, actor_token, "the vault", min_score=0)["degraded"] == ""
        served.broken = True
        found = recall(api, actor_token, "Where is the vault?")
        assert found["degraded"] == "the query could not be embedded"
        assert [item["metadata"] for item in found["items"]][:1] == [{}]
        assert "vault" in found["items"][0]["content"]


def test_recall_finds_text_of_any_length_and_script(api, actor_token):
    long = "The treaty of Westphalia was discussed. " + "filler words about nothing in particular " * 2000
    post(api, actor_token, turn(long), turn("今日は東京で会議がありました"), turn("x" * 5000 + " needle"))
    assert recall(api, actor_token, "treaty of Westphalia")["items"][0]["content"] == long
    assert any("東京" in item["content"] for item in recall(api, actor_token, "東京で会議", min_score=0)["items"])
    assert SearchItem.objects.filter(status="ready").count() == 3
