"""Connections that are cut after the server has done what was asked: each write is repeated, and done once."""

import httpx2
import pytest
from nous_client import AsyncNous, Conflict, Nous, Unreachable

from context.models import ContextRun, MemoryUsage
from identity.models import AuditEvent, ChangeProposal
from memory.models import Document, Event
from tests.event_loops import to_its_end
from tests.late_imports import Late

memory_tool = Late("nous_client.anthropic")
langgraph = Late("nous_client.langgraph")
mem0 = Late("nous_client.mem0")
pytestmark = pytest.mark.django_db(transaction=True)


class CutOnce:
    """Loses the first answer to each request that differs from those before."""

    def __init__(self):
        self.seen = set()

    def cut(self, request):
        known = (request.method, str(request.url), request.content) in self.seen
        self.seen.add((request.method, str(request.url), request.content))
        if not known:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")


class Cut(httpx2.HTTPTransport):
    def __init__(self):
        super().__init__()
        self.cuts = CutOnce()

    def handle_request(self, request):
        request.read()
        response = super().handle_request(request)
        response.read()
        self.cuts.cut(request)
        return response


class AsyncCut(httpx2.AsyncHTTPTransport):
    def __init__(self):
        super().__init__()
        self.cuts = CutOnce()

    async def handle_async_request(self, request):
        await request.aread()
        response = await super().handle_async_request(request)
        await response.aread()
        self.cuts.cut(request)
        return response


@pytest.fixture
def nous(live_server, other_token, monkeypatch):
    monkeypatch.setattr("nous_client.client.time.sleep", lambda _: None)
    with Nous(live_server.url, other_token, transport=Cut()) as client:
        yield client


def test_turn_is_reported_and_recorded_once(nous, bruno):
    nous.learn_fact("Tim lives in Lisbon.", subject="Tim", category="person")
    with nous.turn("s", "Where does Tim live?") as turn:
        turn.answer = "Tim lives in Lisbon."
    assert [use.referenced for use in turn.report.items if use.type == "fact"] == [True]
    assert Event.objects.filter(agent=bruno).count() == 2
    assert MemoryUsage.objects.filter(agent=bruno).count() == len(turn.report.items)
    assert nous.report_outcome(turn.context.id, "success").outcome == "success"
    assert AuditEvent.objects.filter(agent=bruno, action="context.outcome").count() == 1


def test_asynchronous_turn_is_reported_and_recorded_once(live_server, other_token, bruno):
    async def run():
        async with AsyncNous(live_server.url, other_token, transport=AsyncCut()) as nous:
            async with nous.turn("s", "Hello there") as turn:
                turn.answer = "Good morning."
            return turn

    assert to_its_end(run()).report is not None
    assert Event.objects.filter(agent=bruno).count() == 2
    assert ContextRun.objects.filter(agent=bruno, response="Good morning.").count() == 1


def test_messages_of_a_turn_are_recorded_though_its_report_is_refused(nous, bruno):
    def reported_twice():
        with nous.turn("s", "Hello there") as turn:
            nous.report_answer(turn.context.id, "Another answer.")
            turn.answer = "Good morning."

    with pytest.raises(Conflict, match="Another answer"):
        reported_twice()
    assert set(Event.objects.filter(agent=bruno).values_list("content", flat=True)) == {"Hello there", "Good morning."}


def test_documents_have_each_version_once(nous, bruno):
    value = {"text": "One"}
    assert nous.put_document(["a"], "k", value).document.version == 1
    put = nous.put_document(["a"], "k", {"text": "Two"}, base_version=1)
    assert (put.action, put.document.version) == ("updated", 2)
    assert nous.put_document(["a"], "new", value, base_version=0).action == "created"
    with pytest.raises(Conflict):
        nous.put_document(["a"], "k", {"text": "Three"}, base_version=1)
    assert nous.delete_document(["a"], "k", base_version=2).version == 2
    with pytest.raises(Unreachable):
        nous.delete_document(["a"], "new")
    assert Document.objects.filter(agent=bruno).count() == 3


def test_same_identity_change_waits_once(nous, bruno):
    change = nous.propose_identity_change("values", "Truth first.", "Asked for.")
    assert change.proposal["status"] == "pending"
    assert ChangeProposal.objects.filter(agent=bruno).count() == 1


def test_memory_tool_does_each_command_once(nous, bruno):
    tool = memory_tool.MemoryTool(nous)
    path = "/memories/a.md"
    for command in (
        {"command": "create", "path": path, "file_text": "One.\n"},
        {"command": "str_replace", "path": path, "old_str": "One.", "new_str": "Two."},
        {"command": "insert", "path": path, "insert_line": 1, "insert_text": "Three.\n"},
        {"command": "rename", "old_path": path, "new_path": "/memories/b.md"},
    ):
        tool.call(command)
    assert tool.call({"command": "view", "path": "/memories/b.md"}).endswith("1\tTwo.\n     2\tThree.\n     3\t")
    assert tool.call({"command": "delete", "path": "/memories/b.md"}) == "Successfully deleted /memories/b.md"
    assert list(Document.objects.filter(agent=bruno, active=True)) == []
    assert Document.objects.filter(agent=bruno).count() == 4


def test_store_of_langgraph_writes_and_deletes_once(nous, bruno):
    store = langgraph.NousStore(nous)
    store.put(("a",), "k", {"text": "One"})
    store.put(("a",), "k", {"text": "Two"})
    assert store.get(("a",), "k").value == {"text": "Two"}
    store.delete(("a",), "k")
    assert [(each.version, each.active) for each in Document.objects.filter(agent=bruno).order_by("version")] == [
        (1, False),
        (2, False),
    ]


def test_mem0_adds_changes_and_deletes_once(nous, bruno):
    memory = mem0.Memory(nous)
    (added,) = memory.add("Tim drinks tea.", user_id="tim", infer=False)["results"]
    memory.update(added["id"], "Tim drinks green tea.")
    memory.delete(added["id"])
    assert Document.objects.filter(agent=bruno).count() == 2
    assert not Document.objects.filter(agent=bruno, active=True).exists()
