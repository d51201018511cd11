"""The class for those who move from mem0, over the real server: its methods, arguments and results are mem0's."""

import inspect
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from nous_client import AsyncNous, Conflict, Nous
from nous_client.mem0 import AsyncMemory, Memory

from memory.models import Document, Fact
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.event_loops import to_its_end

pytestmark = pytest.mark.django_db(transaction=True)

TIM = {"user_id": "tim"}
TIM_KEY = {"user": "tim"}


@pytest.fixture
def memory(live_server, other_token):
    with Memory(Nous(live_server.url, other_token, retries=0)) as memory:
        yield memory


def test_methods_take_what_those_of_mem0_take():
    """`mem0_signatures.json` is written by `mem0_signatures.py` from mem0's own source."""
    known = json.loads((Path(__file__).parent / "mem0_signatures.json").read_text())["classes"]
    for ours in (Memory, AsyncMemory):
        for name in ("add", "get", "get_all", "search", "update", "delete", "delete_all", "history", "reset"):
            parameters = inspect.signature(getattr(ours, name)).parameters.values()
            given = [[one.name, one.kind.name, one.default is not one.empty] for one in parameters]
            assert given == known[ours.__name__][name], name


def test_attribute_in_the_metadata_is_kept_and_decides_nothing_until_it_is_imported(memory, bruno, ada, tmp_path):
    for text, value in (("Tim nurses.", "nurse"), ("Tim flies.", "pilot")):
        memory.add(text, metadata={"attribute": "job title", "value": value}, infer=False, **TIM)
    found = memory.get_all(filters=TIM)
    assert {one["metadata"]["value"] for one in found["results"]} == {"nurse", "pilot"}
    assert (Document.objects.filter(active=True).count(), Fact.objects.count()) == (2, 0)
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(found))
    call_command("importmemory", str(file), agent="ada", stdout=StringIO())
    old, new = Fact.objects.order_by("recorded_at")
    assert (old.attribute, old.value, old.superseded_by, new.value) == ("job title", "nurse", new, "pilot")


def test_memories_are_added_found_changed_and_told_of(memory, bruno):
    said = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "I drink green tea in the morning.", "name": "Tim"},
        {"role": "assistant", "content": "Noted."},
    ]
    added = memory.add(said, user_id=" tim ", metadata={"kind": "drink", "cups": 2, "user_id": "tom"})
    [one] = added["results"]
    assert (one["memory"], one["event"], set(one)) == (
        "I drink green tea in the morning.",
        "ADD",
        {"id", "memory", "event"},
    )
    # What is known of the same user is not added again, what all said is when asked for.
    assert memory.add(said, user_id="tim") == {"results": []}
    raw = memory.add(said, agent_id="helper", infer=False)["results"]
    assert [(each["role"], each["actor_id"]) for each in raw] == [("user", "Tim"), ("assistant", None)]
    memory.add("The boat lies in the harbour.", user_id="tim", run_id=7)
    embed_pending_rows()

    found = memory.search("what does Tim drink?", filters=TIM, threshold=0.3)["results"]
    assert [each["memory"] for each in found] == ["I drink green tea in the morning."]
    assert 0.1 <= found[0]["score"] <= 1
    got = memory.get(one["id"])
    assert list(got) == [
        "id", "memory", "hash", "metadata", "score", "created_at", "updated_at", "user_id", "actor_id", "role",
    ]  # fmt: skip
    assert (got["metadata"], got["user_id"], got["score"]) == ({"kind": "drink", "cups": 2}, "tim", None)
    assert found[0] | {"score": None} == got
    assert [each["memory"] for each in memory.get_all(filters=TIM)["results"]] == [
        "The boat lies in the harbour.", "I drink green tea in the morning.",
    ]  # fmt: skip
    assert "score" not in memory.get_all(filters=TIM)["results"][0]
    assert len(memory.get_all(filters={"run_id": 7})["results"]) == 1
    assert memory.get_all(filters=TIM, top_k=0) == {"results": []}
    for wanted, number in (
        ({"kind": "drink"}, 1), ({"kind": "*"}, 1), ({"cups": {"gte": 2, "lt": 3}}, 1), ({"cups": {"ne": 2}}, 1),
        ({"kind": {"in": ["drink", "food"]}}, 1), ({"kind": {"nin": ["drink"]}}, 1), ({"kind": {"contains": "rin"}}, 1),
        ({"kind": {"icontains": "DRI"}}, 1), ({"OR": [{"cups": 2}, {"run_id": "7"}]}, 2), ({"NOT": [{"cups": 2}]}, 1),
        ({"AND": [{"cups": {"gt": 1}}, {"kind": "food"}]}, 0),
    ):  # fmt: skip
        assert len(memory.get_all(filters=TIM | wanted)["results"]) == number, wanted

    assert memory.update(one["id"], "I drink black tea.", {"cups": 3, "user_id": "tom"}) == {
        "message": "Memory updated successfully!"
    }
    changed = memory.get(one["id"])
    assert (changed["memory"], changed["metadata"]["cups"], changed["user_id"]) == ("I drink black tea.", 3, "tim")
    assert changed["created_at"] == got["created_at"] < changed["updated_at"]
    assert memory.delete(one["id"]) == {"message": "Memory deleted successfully!"}
    assert memory.get(one["id"]) is None
    history = memory.history(one["id"])
    assert [(each["event"], each["old_memory"], each["new_memory"], each["is_deleted"]) for each in history] == [
        ("ADD", None, "I drink green tea in the morning.", False),
        ("UPDATE", "I drink green tea in the morning.", "I drink black tea.", False),
        ("DELETE", "I drink black tea.", None, True),
    ]
    assert list(history[0]) == ["id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at",
                                "is_deleted", "actor_id", "role"]  # fmt: skip
    for namespace, key in ((["mem0"], one["id"] + "-2"), (["mem0", "more"], one["id"])):
        memory.nous.put_document(namespace, key, {"data": "Of another key."})
    assert memory.history(one["id"]) == history
    memory.nous.delete_document(["mem0"], one["id"] + "-2")
    memory.nous.delete_document(["mem0", "more"], one["id"])
    assert memory.history("nothing") == []
    assert memory.delete_all(user_id="tim") == {"message": "Memories deleted successfully!"}
    assert memory.get_all(filters=TIM) == {"results": []}
    memory.reset()
    # Nothing is lost: people see and restore all of it.
    assert Document.objects.filter(active=True).count() == 0
    assert Document.objects.count() == 7


def test_memories_of_people_stay_and_expired_ones_are_hidden(memory, bruno, api, charlie):
    [one] = memory.add("I like tea.", user_id="tim")["results"]
    memory.update(one["id"], "I like rum.")
    first = Document.objects.get(version=1)
    assert api.as_person(charlie).post(f"/documents/{first.pk}/restore?agent=bruno", {}).status_code == 200
    assert memory.get(one["id"])["memory"] == "I like tea."
    for change in (lambda: memory.update(one["id"], "I like rum."), lambda: memory.delete(one["id"])):
        with pytest.raises(Conflict, match="only people can change it"):
            change()
    gone = datetime.now(UTC).date() - timedelta(days=2)
    memory.add("It rained.", user_id="tim", expiration_date=gone)
    assert len(memory.get_all(filters=TIM)["results"]) == 1
    every = memory.get_all(filters=TIM, show_expired=True)["results"]
    [hidden] = [each for each in every if each["memory"] == "It rained."]
    assert hidden["expiration_date"] == gone.isoformat()
    with pytest.raises(ValueError, match="valid date"):
        memory.update(hidden["id"], metadata={"expiration_date": "soon"})
    memory.update(hidden["id"], expiration_date=None)
    assert len(memory.get_all(filters=TIM)["results"]) == 2


def test_what_mem0_refuses_is_refused(memory):
    for call in (
        lambda: memory.add("x"),
        lambda: memory.add(5, user_id="tim"),
        lambda: memory.add("x", user_id="t m"),
        lambda: memory.add("x", user_id="tim", timestamp=1),
        lambda: memory.add("x", user_id="tim", memory_type="procedural_memory"),
        lambda: memory.add("x", user_id="tim", expiration_date="soon"),
        lambda: memory.add("x", user_id="tim", metadata={"expiration_date": "soon"}),
        lambda: memory.search("x"),
        lambda: memory.search("x", user_id="tim"),
        lambda: memory.search(" ", filters=TIM),
        lambda: memory.search("x", filters=TIM, threshold=2),
        lambda: memory.search("x", filters=TIM, top_k=-1),
        lambda: memory.search("x", filters=TIM, reference_date="2026-01-01"),
        lambda: memory.get_all(),
        lambda: memory.get_all(filters={"kind": "x"}),
        lambda: memory.get_all(agent_id="x"),
        lambda: memory.update("x"),
        lambda: memory.update("x", "text"),
        lambda: memory.delete("x"),
        lambda: memory.delete_all(),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call()
    assert not Document.objects.exists()


def test_asynchronous_memory_with_an_extractor_and_the_prompt_of_the_api(live_server, other_token, api, bruno):
    async def run():
        async with AsyncNous(live_server.url, other_token) as nous:
            memory = AsyncMemory(nous, extract=lambda messages: ["Tim drinks green tea from Kyoto."])
            [one] = (await memory.add("I drink tea, from Kyoto, green.", user_id="tim"))["results"]
            kept = await memory.get(one["id"])
            await memory.update(one["id"], metadata={"sure": True})
            return one, kept, await memory.history(one["id"]), await memory.get_all(filters=TIM)

    one, got, history, found = to_its_end(run())
    assert (one["memory"], got["memory"]) == ("Tim drinks green tea from Kyoto.",) * 2
    assert [each["event"] for each in history] == ["ADD", "UPDATE"]
    assert found["results"][0]["metadata"] == {"sure": True}
    embed_pending_rows()
    question = "Which tea does Tim drink?"
    with Nous(live_server.url, other_token) as nous, nous.turn("s", question, user="tim") as turn:
        turn.answer = "Green tea from Kyoto."
    assert "Tim drinks green tea from Kyoto." in turn.system_prompt
    ask = {"session_id": "t", "input": question, "dry_run": True}
    for keys, told in ((TIM_KEY, True), ({}, False), ({"user": "tom"}, False)):
        asked = api.as_token(other_token).post("/context", ask | keys).json()["system_prompt"]
        assert ("Tim drinks green tea from Kyoto." in asked) is told
