"""A search reads the collections of its view, of its agent, and no other: by its plan and by trying."""

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from identity.models import Agent
from identity.services.agents import agent_create
from memory.models import GLOBAL, EmbeddingModel, Event, SearchItem
from memory.persona import ActorMemory, SubconsciousMemory
from memory.search.query_word_counts import counts_read
from memory.search.request import SearchRequest
from memory.search.row_retrieval import candidates_statement, lexical_statement
from memory.search.search import search
from memory.services.events import events_record
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.transactions import sql_row
from tests.factories import make_principal


def plans_of(view, request, counts, vector):
    """PostgreSQL's plans of the statements of a search."""
    lexemes = list(counts.df)
    statements = (
        lexical_statement(view, request, counts, lexemes),
        candidates_statement(view, request, counts, lexemes, [], vector, vector),
    )
    return [sql_row(f"EXPLAIN (FORMAT JSON) {statement}", values)[0] for statement, values in statements if statement]


def tables_of(plan):
    """Every relation and index that a plan names."""
    found = set()
    pending = [plan]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            found |= {value for key, value in node.items() if key in ("Relation Name", "Index Name")}
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return {name for name in found if name.startswith("memory_searchitem")}


@pytest.fixture
def both(ada, actor, system):
    subconscious = make_principal(ada, "subconscious", name="s")
    say(ada, actor, "The launch code of the demo is swordfish")
    say(ada, subconscious, "The secret suspicion is that the launch will slip")
    embed_pending_rows()
    return ada


def say(agent, by, *texts):
    return events_record(agent=agent, events=[{"kind": "system_event", "content": text} for text in texts], by=by)


@pytest.mark.django_db
def test_search_plan_of_an_actor_touches_only_its_collection(both):
    requests = [
        SearchRequest("what about the launch", GLOBAL),
        SearchRequest("launch", GLOBAL, types=["fact", "event"], tags=["x"], scopes=["task"], min_importance=0.1),
        SearchRequest("launch", GLOBAL, as_of=SearchItem.objects.first().recorded_at),
    ]
    for request in requests:
        for vector in (None, [0.1] * 384):
            counts = counts_read(ActorMemory(both), request.query)
            plan = plans_of(ActorMemory(both), request, counts, vector)
            touched = tables_of(plan)
            assert touched
            assert all(name.startswith("memory_searchitem_actor") for name in touched), touched
            assert "subconscious" not in json.dumps(plan)
    wide = tables_of(plans_of(SubconsciousMemory(both), requests[0], counts, None))
    assert any(name.startswith("memory_searchitem_subconscious") for name in wide)


@pytest.mark.django_db
def test_search_separates_the_actor_and_shows_both_to_the_subconscious(both, api, actor_token, subconscious_token):
    question = {"q": "secret suspicion about the launch", "min_score": 0}
    actors = api.as_token(actor_token).get("/recall", question).json()["items"]
    assert [item["persona"] for item in actors] == ["actor"]
    others = api.as_token(subconscious_token).get("/recall", question).json()["items"]
    assert {item["persona"] for item in others} == {"actor", "subconscious"}
    assert "suspicion" in others[0]["content"]
    assert api.as_token(actor_token).get("/index").json() == {"ready": 1, "pending": 0, "failed": 0, "language": "en"}
    assert api.as_token(subconscious_token).get("/index").json() == {
        "ready": 2,
        "pending": 0,
        "failed": 0,
        "language": "en",
    }


WORDS = st.lists(
    st.sampled_from(["launch", "secret", "code", "slip", "demo", "swordfish", "actor", "subconscious", "persona"]),
    min_size=1,
)


@pytest.mark.django_db
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    mine=st.lists(WORDS, min_size=1, max_size=4),
    hidden=st.lists(WORDS, min_size=1, max_size=4),
    foreign=st.lists(WORDS, min_size=1, max_size=2),
    loop=st.sampled_from(["L", "M"]),
    metadata=st.dictionaries(
        st.sampled_from(["persona", "agent_id", "speaker", "subject"]), st.text("ab'\"%\\", max_size=9)
    ),
    query=st.one_of(WORDS.map(" ".join), st.text(min_size=1, max_size=60)),
    more=st.fixed_dictionaries(
        {},
        optional={
            "type": st.lists(st.sampled_from(["event", "fact", "episode", "procedure", "decision"])),
            "limit": st.integers(1, 100),
            "min_score": st.floats(0, 1),
            "kind": st.lists(st.sampled_from(["system_event", "subconscious_output", "x' OR 1=1"]), max_size=2),
            "agent": st.sampled_from(["", "ada"]),
            "persona": st.just("subconscious"),
            "tag": st.lists(st.text("ab%'\\", max_size=5), max_size=2),
        },
    ),
    vectors=st.booleans(),
)
def test_search_view_is_widened_by_no_text_or_query(
    ada, actor, system, api, actor_token, mine, hidden, foreign, loop, metadata, query, more, vectors
):
    subconscious = make_principal(ada, "subconscious", name="s")
    other = Agent.objects.filter(slug="other").first() or agent_create(slug="other", name="O", prompt="O.", by=system)
    stranger = make_principal(other, name="o")
    for by, agent, texts in ((actor, ada, mine), (subconscious, ada, hidden), (stranger, other, foreign)):
        events_record(
            agent=agent,
            events=[
                {"kind": "system_event", "content": " ".join(words), "loop_id": loop, "metadata": metadata}
                for words in texts
            ],
            by=by,
        )
    if vectors:
        embed_pending_rows()
    answer = api.as_token(actor_token).get("/recall", {"q": query.replace("\0", ""), "min_score": 0} | more)
    if answer.status_code != 200:
        assert answer.status_code in (400, 422), answer.content
        return
    # What earlier examples wrote is there too.
    allowed = dict(Event.objects.filter(agent=ada, persona="actor").values_list("id", "metadata"))
    for item in answer.json()["items"]:
        assert item["persona"] == "actor"
        assert item["metadata"] == allowed[int(item["id"])]
    for hit in search(ActorMemory(other), SearchRequest("launch secret", GLOBAL, min_score=0)).items:
        assert Event.objects.get(pk=hit.id).agent_id == other.pk
    assert EmbeddingModel.objects.count() <= 1
