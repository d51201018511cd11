"""The Python client over HTTP against the real server, blocking and asynchronous."""

import inspect
import json
from pathlib import Path

import pytest
from nous_client import (
    AsyncNous,
    Blocked,
    Invalid,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Nous,
    NousError,
    Unreachable,
    models,
)

from context.models import ContextRecall
from memory.models import Event, Fact
from memory.services.erasure import fact_erase
from tests.event_loops import to_its_end
from tests.factories import make_token
from tests.judge_server import KEY, JudgeServer, Reply
from tests.late_imports import Late

anthropic = Late("anthropic")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def nous(live_server, other_token):
    with Nous(live_server.url, other_token, retries=0) as client:
        yield client


def test_learned_fact_states_an_attribute(nous, bruno):
    old = nous.learn_fact("Tim works with patients.", subject="Tim", attribute="job title", value="nurse").fact
    told = nous.learn_fact("Tim flies.", subject="Tim", attribute="Job title", value="pilot")
    assert (told.action, told.superseded, told.fact.attribute, told.fact.value) == (
        "superseded",
        [old.id],
        "job title",
        "pilot",
    )


def test_turn_with_a_model_of_anthropic(nous, bruno):
    nous.learn_fact("Tim lives in Lisbon.", subject="Tim", category="person")
    with JudgeServer() as server:
        text = [{"type": "text", "text": "Tim lives in Lisbon."}]
        server.queue(Reply(content=text, stop_reason="end_turn"))
        model = anthropic.Anthropic(api_key=KEY, base_url=server.url)
        with nous.turn("s", "Where does Tim live?") as turn:
            message = turn.create(model, model="claude-sonnet-5", max_tokens=200)
        assert "".join(block["text"] for block in server.requests[0]["system"]) == turn.system_prompt
        assert "Tim lives in Lisbon." in turn.system_prompt
        assert server.requests[0]["messages"] == [{"role": "user", "content": "Where does Tim live?"}]
    assert message.content[0].text == turn.answer
    assert [use.referenced for use in turn.report.items if use.type == "fact"] == [True]
    assert list(Event.objects.filter(agent=bruno).order_by("id").values_list("kind", "content", "loop_id")) == [
        ("user_input", "Where does Tim live?", "s"),
        ("actor_output", "Tim lives in Lisbon.", "s"),
    ]


@pytest.mark.parametrize(("own", "marked"), [(0, [0, 1]), (2, [0, 1]), (3, [0]), (4, [])])
def test_turn_marks_what_anthropic_may_keep_in_its_cache(nous, bruno, own, marked):
    nous.learn_fact("Tim lives in Lisbon.", subject="Tim", category="person")
    nous.learn_fact("The lighthouse of Tarn is 31 metres tall.", category="technical")
    mark = {"cache_control": {"type": "ephemeral"}}
    said = [{"type": "text", "text": f"Part {place}.", **(mark if place < own else {})} for place in range(4)]
    with JudgeServer() as server, nous.turn("s", "How tall is the lighthouse of Tarn?") as turn:
        server.queue(Reply(content=[{"type": "text", "text": "31 metres."}], stop_reason="end_turn"))
        model = anthropic.Anthropic(api_key=KEY, base_url=server.url)
        messages = [{"role": "user", "content": said}]
        turn.create(model, model="claude-sonnet-5", max_tokens=200, messages=messages)
        (request,) = server.requests
    parts = [
        "".join(block.text for block in turn.context.blocks if block.stability == stability)
        for stability in ("stable", "session", "volatile")
    ]
    assert [block["text"] for block in request["system"]] == parts
    assert ["Tarn" in part for part in parts] == [False, True, True]
    assert [place for place, block in enumerate(request["system"]) if block.get("cache_control")] == marked
    assert json.dumps(request).count("cache_control") <= 4


def test_turn_that_fails_or_says_nothing_reports_nothing(nous, bruno):
    def breaks_off():
        with nous.turn("s", "Hello") as turn:
            turn.answer = "Half an ans"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_off()
    with nous.turn("s", "Hello"):
        pass
    assert not Event.objects.filter(agent=bruno).exists()
    with pytest.raises(RuntimeError, match="Enter the turn"):
        nous.turn("s", "Hello").system_prompt  # noqa: B018


def test_turn_whose_user_asks_to_be_forgotten_leaves_nothing(live_server, bruno, other_token):
    token = make_token(bruno, scopes=["memory:read", "memory:write", "context:read", "users:manage"])

    async def forget():
        async with AsyncNous(live_server.url, token) as nous, nous.turn("s", "Forget me.", user="tom") as turn:
            await nous.erase_user("tom", "Asked for.")
            turn.answer = "Done."

    with Nous(live_server.url, token) as manager, Nous(live_server.url, other_token) as nous:
        nous.learn_fact("Tom lives in Lisbon.", user="tom")
        with nous.turn("s", "Forget everything about me.", user="tom") as turn:
            manager.erase_user("tom", "Asked for.")
            turn.answer = "Done."
        assert turn.report is None
    to_its_end(forget())
    assert not Event.objects.filter(agent=bruno).exists()
    assert not Fact.objects.filter(agent=bruno).exists()


def test_turn_of_which_a_memory_was_erased_is_recorded_all_the_same(nous, bruno, system):
    def loses_a_memory():
        fact = nous.learn_fact("Tom lives in Lisbon.", user="tom").fact
        with nous.turn("s", "Where do I live?", user="tom") as turn:
            fact_erase(fact=Fact.objects.get(pk=fact.id), by=system, reason="Asked for.")
            turn.answer = "In Lisbon."

    with pytest.raises(NotFound):
        loses_a_memory()
    said = Event.objects.filter(agent=bruno, user="tom").order_by("id").values_list("content", flat=True)
    assert list(said) == ["Where do I live?", "In Lisbon."]


def test_turn_that_looks_up_more_is_judged_by_it(nous, bruno):
    fact = nous.learn_fact("Lamp 3 hangs in room 21.", category="technical").fact
    with nous.turn("s", "Hello") as turn:
        (hit,) = turn.recall("Where does lamp 3 hang?", type=["fact"])
        assert turn.expand(hit.type, hit.id).item.content == "Lamp 3 hangs in room 21."
        turn.answer = "Lamp 3 hangs in room 21."
    assert [(use.id, use.referenced) for use in turn.report.items] == [(str(fact.id), True)]
    assert ContextRecall.objects.filter(run=turn.context.id, agent=bruno).count() == 2


def test_turn_stops_at_a_censor(nous, api, charlie, bruno):
    censor = {"pattern": "delete production", "reason": "Never.", "severity": "absolute"}
    assert api.as_person(charlie).post("/censors?agent=bruno", censor).status_code == 201
    with pytest.raises(Blocked, match="Never"), nous.turn("s", "delete production now"):
        raise AssertionError
    with pytest.raises(Blocked, match="Never"):
        nous.check_censors("delete production").raise_if_blocked()


def test_memory_of_each_kind(nous, bruno):
    for number in range(5):
        nous.learn_fact(f"Lamp {number} hangs in room {number * 7}.", category="technical", tags=["lamps"])
    assert [len(list(nous.facts(tag="lamps", limit=limit))) for limit in (2, 5, 50)] == [5, 5, 5]
    hits = nous.recall("Where does lamp 3 hang?", type=["fact"], limit=2)
    assert hits[0].content == "Lamp 3 hangs in room 21."
    assert nous.expand(hits[0].type, hits[0].id).item.content == hits[0].content
    assert nous.fact(hits[0].id).tags == ["lamps"]
    events = [{"kind": "tool_call", "content": "ls"}, {"kind": "tool_result", "content": "a b", "key": "k"}]
    assert [event.repeated for event in nous.log_events(events)] == [False, False]
    assert [event.repeated for event in nous.log_events(events[1:])] == [True]
    episode = nous.open_episode("Release", detail="We shipped.")
    assert nous.close_episode(episode.id, summary="Shipped.", outcome="success").ended_at
    nous.keep_in_mind("s", "Ask about tea.")
    assert nous.working_memory("s").items[0]["text"] == "Ask about tea."
    assert "Bruno" in nous.identity().prompt
    change = nous.propose_identity_change("values", "Truth first.", "Asked for.")
    assert change.proposal["status"] == "pending"
    context = nous.context("Where does lamp 3 hang?", "s", budget=2000)
    assert nous.report_outcome(context.id, "success").outcome == "success"
    kinds = [change.kind for change, _ in nous.changes(kinds="fact.learned", limit=2)]
    assert kinds == ["fact.learned"] * 5


def test_refusals_are_errors_that_say_why(nous, live_server, bruno):
    with pytest.raises(Invalid, match="content") as invalid:
        nous.learn_fact("")
    assert invalid.value.errors[0]["field"] == "content"
    assert invalid.value.request_id
    with pytest.raises(NotFound):
        nous.fact("0b1e2f3a-0000-4000-8000-000000000000")
    with pytest.raises(NotFound):
        nous.fact("../identity")
    with pytest.raises(NotAuthenticated), Nous(live_server.url, "nous_wrong") as stranger:
        stranger.identity()
    with (
        pytest.raises(NotAllowed, match="scope"),
        Nous(live_server.url, make_token(bruno, scopes=["context:read"])) as few,
    ):
        few.learn_fact("Tea is hot.")
    assert not Fact.objects.exists()


def test_asynchronous_client_does_the_same(live_server, other_token, bruno):
    async def run():
        async with AsyncNous(live_server.url, other_token) as nous:
            await nous.learn_fact("Tim lives in Lisbon.", subject="Tim", category="person")
            async with nous.turn("s", "Where does Tim live?") as turn:
                turn.answer = "Tim lives in Lisbon."
            found = [fact.content async for fact in nous.facts(limit=1)]
            changes = [change.kind async for change, _ in nous.changes(kinds="fact.*")]
            with pytest.raises(Invalid):
                await nous.learn_fact("")
            return turn, found, changes

    turn, found, changes = to_its_end(run())
    assert "Tim lives in Lisbon." in turn.system_prompt
    assert turn.report.items[0].referenced
    assert found == ["Tim lives in Lisbon."]
    assert changes == ["fact.learned"]


def test_both_clients_have_the_same_methods():
    def methods(kind):
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("_")}

    assert methods(Nous) == methods(AsyncNous)


def test_without_a_token_the_client_says_what_to_do(monkeypatch):
    monkeypatch.delenv("NOUS_TOKEN", raising=False)
    with pytest.raises(NousError, match="NOUS_TOKEN"):
        Nous("http://127.0.0.1:1")


def test_server_that_is_away_is_unreachable():
    with pytest.raises(Unreachable), Nous("http://127.0.0.1:1", "nous_x", retries=0) as nous:
        nous.identity()


def test_models_are_those_of_the_api():
    schemas = json.loads(Path("docs/openapi.json").read_text())["components"]["schemas"]
    names = {
        "Context": "ContextOut", "Section": "SectionOut", "Report": "ResponseOut", "Use": "UseOut", "Fact": "FactOut",
        "LearnedFact": "LearnOut", "Event": "RecordedOut", "Hit": "RecallItem", "Episode": "EpisodeOut",
        "Identity": "IdentityOut", "IdentityChange": "ChangeOut", "CensorCheck": "CensorCheckOut",
        "WorkingMemory": "WorkingOut", "Change": "FeedChangeOut", "Outcome": "OutcomeOut", "Expansion": "ExpansionOut",
        "Detail": "MemoryDetailOut", "Document": "DocumentOut", "PutDocument": "DocumentPutOut",
        "FoundDocument": "FoundDocumentOut",
    }  # fmt: skip
    for ours, theirs in names.items():
        assert set(getattr(models, ours).model_fields) <= set(schemas[theirs]["properties"]), ours
