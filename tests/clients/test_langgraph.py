"""LangGraph's store over the real server: what its own in-memory store answers, this one answers too."""

import json
import random
from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from nous_client import AsyncNous, Conflict, Nous, NousError

from memory.models import Document, Fact
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.event_loops import to_its_end
from tests.late_imports import Late

graphs = Late("langgraph.graph")
runtimes = Late("langgraph.runtime")
stores = Late("langgraph.store.base")
memory_stores = Late("langgraph.store.memory")
adapter = Late("nous_client.langgraph")
pytestmark = pytest.mark.django_db(transaction=True)

NAMESPACES = [("users", "tim"), ("users", "tom"), ("users", "tim", "notes"), ("docs", "v1"), ("docs",)]
FILTERS = [
    None, {"kind": "a"}, {"size": {"$gt": 2}}, {"size": {"$lte": 3, "$ne": 1}}, {"kind": {"$ne": "a"}},
    {"about": {"deep": 1}}, {"kind": {"$eq": "b"}, "size": 2}, {"list": [1, 2]},
]  # fmt: skip


@pytest.fixture
def store(live_server, other_token):
    with Nous(live_server.url, other_token, retries=0) as client:
        yield adapter.NousStore(client)


def test_attribute_in_a_value_is_kept_and_decides_nothing_until_it_is_imported(store, bruno, ada, tmp_path):
    for key, value in (("1", "nurse"), ("2", "pilot")):
        store.put(("tim",), key, {"text": f"Tim is a {value}.", "attribute": "job title", "value": value})
    items = [item.dict() for item in store.search(("tim",))]
    assert {item["value"]["value"] for item in items} == {"nurse", "pilot"}
    assert (Document.objects.filter(active=True).count(), Fact.objects.count()) == (2, 0)
    file = tmp_path / "store.json"
    file.write_text(json.dumps(items, default=str))
    call_command("importmemory", str(file), agent="ada", stdout=StringIO())
    old, new = Fact.objects.order_by("recorded_at")
    assert (old.attribute, old.value, new.value) == ("job title", "nurse", "pilot")


def test_store_answers_as_the_one_in_memory(store, bruno):
    """Any sequence of operations gives what LangGraph's own store gives, but for the order in which items are found."""
    rng = random.Random(14)
    known = memory_stores.InMemoryStore()
    asked = []
    for _ in range(60):
        namespace, key = rng.choice(NAMESPACES), rng.choice("abc")
        match rng.randrange(6):
            case 0 | 1:
                value = {"kind": rng.choice("ab"), "size": rng.randrange(5), "about": {"deep": rng.randrange(2)},
                         "list": [1, 2][: rng.randrange(3)]}  # fmt: skip
                for each in (known, store):
                    each.put(namespace, key, value)
            case 2:
                for each in (known, store):
                    each.delete(namespace, key)
            case 3:
                asked.append([(item and item.value) for item in (each.get(namespace, key) for each in (known, store))])
            case 4:
                prefix, wanted = namespace[: rng.randrange(3)], rng.choice(FILTERS)
                asked.append(
                    [
                        sorted((item.namespace, item.key) for item in each.search(prefix, filter=wanted, limit=100))
                        for each in (known, store)
                    ]
                )
            case 5:
                where = {
                    "prefix": rng.choice([None, namespace[:1], ("*", "tim")]),
                    "suffix": rng.choice([None, ("tim",), ("*",)]),
                    "max_depth": rng.choice([None, 1, 2]),
                }
                # The one in memory goes on listing namespaces whose last item was deleted.
                held = {item.namespace for item in known.search((), limit=100)}
                listed = [name for name in known.list_namespaces(**where) if any(
                    name == each[: len(name)] for each in held)]  # fmt: skip
                asked.append([listed, store.list_namespaces(**where)])
    assert len(asked) > 20
    for one, other in asked:
        assert one == other


def test_store_items_are_documents_that_people_see_and_undo(store, bruno, api, charlie):
    store.put(("users", "tim"), "tea", {"text": "Tim likes tea."})
    first = store.get(("users", "tim"), "tea")
    store.put(("users", "tim"), "tea", {"text": "Tim likes coffee."})
    item = store.get(("users", "tim"), "tea")
    assert (item.value, item.namespace, item.created_at) == (
        {"text": "Tim likes coffee."}, ("users", "tim"), first.created_at,
    )  # fmt: skip
    assert isinstance(item.created_at, datetime)
    assert item.updated_at > first.updated_at
    store.delete(("users", "tim"), "tea")
    store.delete(("users", "tim"), "tea")
    assert store.get(("users", "tim"), "tea") is None
    assert Document.objects.filter(agent=bruno).count() == 2
    old = Document.objects.get(version=1)
    assert api.as_person(charlie).post(f"/documents/{old.pk}/restore?agent=bruno", {}).status_code == 200
    assert store.get(("users", "tim"), "tea").value == {"text": "Tim likes tea."}
    with pytest.raises(Conflict, match="only people can change it"):
        store.put(("users", "tim"), "tea", {"text": "Tim likes rum."})


def test_store_searches_by_meaning(store, bruno):
    store.put(("users", "tim"), "1", {"text": "Tim drinks green tea in the morning."})
    store.put(("users", "tim"), "2", {"text": "The boat lies in the harbour."})
    store.put(("users", "tim"), "3", {"text": "Tim drinks green tea.", "more": "x"}, index=False)
    store.put(("users", "tim"), "4", {"text": "Ships sail.", "more": "green tea"}, index=["text"])
    embed_pending_rows()
    found = store.search(("users",), query="what does Tim drink?", limit=2)
    assert isinstance(found[0], stores.SearchItem)
    assert found[0].key == "1"
    assert 0.2 < found[0].score <= 1
    assert {item.key for item in store.search(("users",), query="ships", limit=10)} == {"1", "2", "3", "4"}
    assert [item.key for item in store.search(("users",), query="ships", limit=10, offset=3)] == ["3"]
    assert store.search(("users",), query="ships", offset=100) == []


def test_store_refuses_what_langgraph_refuses(store):
    for bad in ((), ("",), ("a.b",), ("langgraph",), (1,)):
        with pytest.raises(stores.InvalidNamespaceError):
            store.put(bad, "k", {"a": 1})
    with pytest.raises(stores.InvalidNamespaceError):
        store.batch([stores.PutOp(("a.b",), "k", {})])
    with pytest.raises(ValueError, match="Only one prefix"):
        store.batch([stores.ListNamespacesOp(match_conditions=(stores.MatchCondition("prefix", ("a",)),) * 2)])
    assert not Document.objects.exists()


def test_store_items_live_for_their_minutes_after_the_last_read(live_server, other_token, bruno):
    minute = timedelta(minutes=1)
    with Nous(live_server.url, other_token, retries=0) as client:
        store = adapter.NousStore(client, ttl={"default_ttl": 10, "refresh_on_read": True})
        assert store.supports_ttl
        begun = clock.now()
        store.put(("a",), "default", {"n": 1})
        store.put(("a",), "own", {"n": 2}, ttl=0.5)
        store.put(("a",), "never", {"n": 3}, ttl=None)

        def ends(**moved):
            Document.objects.filter(key__in=moved).update(expires_at=begun + 2 * minute)
            return {one.key: one.expires_at and round((one.expires_at - begun) / minute, 1)
                    for one in Document.objects.all()}  # fmt: skip

        assert ends() == {"default": 10.0, "own": 0.5, "never": None}
        ends(default=True)
        assert store.get(("a",), "default", refresh_ttl=False).value == {"n": 1}
        assert ends()["default"] == 2.0
        assert len(store.search(("a",))) == 3
        assert ends() == {"default": 10.0, "own": 0.5, "never": None}
        Document.objects.filter(key="own").update(expires_at=begun)
        assert store.get(("a",), "own") is None
        assert [item.key for item in store.search(("a",))] == ["never", "default"]
        assert store.list_namespaces() == [("a",)]
        with pytest.raises(NousError):
            store.put(("a",), "k", {"n": 1}, ttl=-1)


def test_store_works_asynchronously_and_by_project(live_server, other_token, bruno):
    async def run(nous):
        store = adapter.NousStore(nous, project="regatta")
        await store.aput(("a",), "k", {"text": "Of the regatta."})
        await store.abatch(
            [stores.PutOp(("a",), "k", {"n": 1}), stores.PutOp(("a",), "k", {"n": 2}), stores.PutOp(("a",), "x", {})]
        )
        found = await store.asearch(("a",))
        names = await store.alist_namespaces()
        await store.adelete(("a",), "x")
        return (
            (await store.aget(("a",), "k")).value,
            sorted(item.key for item in found),
            names,
            await store.aget(("a",), "x"),
        )

    async def both():
        async with AsyncNous(live_server.url, other_token) as nous:
            with pytest.raises(TypeError, match="asynchronous"):
                adapter.NousStore(nous).get(("a",), "k")
            first = await run(nous)
        with Nous(live_server.url, other_token) as nous:
            return first, await run(nous)

    first, second = to_its_end(both())
    assert first == second == ({"n": 2}, ["k", "x"], [("a",)], None)
    assert set(Document.objects.values_list("project", flat=True)) == {"regatta"}
    with Nous(live_server.url, other_token) as nous:
        assert adapter.NousStore(nous).search(("a",)) == []


def test_store_in_a_graph_makes_the_prompt_of_the_api(store, live_server, other_token, api, bruno):
    """A graph keeps what it hears, and its next prompt says it: the same prompt as the API's."""

    def hear(state: graphs.MessagesState, runtime: runtimes.Runtime):
        runtime.store.put(("users", "tim"), "tea", {"text": state["messages"][-1].content})
        return {}

    def think(state: graphs.MessagesState, runtime: runtimes.Runtime):
        embed_pending_rows()
        question = "Which tea does Tim drink in the morning?"
        with Nous(live_server.url, other_token) as nous, nous.turn("s", question) as turn:
            turn.answer = "Green tea from Kyoto."
        return {"messages": [("assistant", turn.system_prompt)]}

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("hear", hear)
    graph.add_node("think", think)
    graph.add_edge(graphs.START, "hear")
    graph.add_edge("hear", "think")
    said = "Tim drinks green tea from Kyoto in the morning."
    prompt = graph.compile(store=store).invoke({"messages": [("user", said)]})["messages"][-1].content
    assert said in prompt
    ask = {"session_id": "t", "input": "Which tea does Tim drink in the morning?", "dry_run": True}
    asked = api.as_token(other_token).post("/context", ask).json()["system_prompt"]
    assert [line for line in asked.splitlines() if "Kyoto" in line and said in line] == [
        line for line in prompt.splitlines() if said in line
    ]
