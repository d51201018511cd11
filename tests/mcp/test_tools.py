"""The tools: the whole turn of an agent, refusals a model can mend, definitions that hold."""

import jsonschema
import pytest

from identity.models import ApiToken, AuditEvent, ChangeProposal
from identity.services.tokens import token_revoke
from memory.models import Event, Fact
from nousweb.mcp.tools import TOOLS
from tests.factories import make_fact, make_token
from tests.mcp.conftest import HANDSHAKE, MODERN

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
def test_whole_turn(mcp, api, bruno, other_token, version):
    caller = mcp(other_token, version)
    learned = caller.answered("learn_fact", content="Tim prefers tea to coffee.", subject="Tim", category="preference")
    assert learned["action"] == "stored"
    context = caller.tool("get_context", input="What does Tim drink?", session_id="s")
    body = context["structuredContent"]
    assert "Tim prefers tea to coffee." in body["system_prompt"]
    assert context["content"][0]["text"] == body["system_prompt"]
    assert body["id"] in context["content"][1]["text"]
    answer = caller.answered("report_answer", run_id=body["id"], response="Tim prefers tea to coffee, always.")
    assert [item["id"] for item in answer["items"] if item["referenced"]] == [learned["fact"]["id"]]
    assert caller.answered("report_outcome", run_id=body["id"], outcome="success")["outcome"] == "success"
    events = [{"kind": "user_input", "content": "What does Tim drink?", "key": "turn-1"}]
    for _ in range(2):
        caller.answered("log_events", events=events)
    assert Event.objects.filter(agent=bruno, content="What does Tim drink?").count() == 1
    found = caller.answered("recall", q="What does Tim drink?", type=["fact"], limit=3)
    assert found["items"][0]["id"] == learned["fact"]["id"]
    asked = {"input": "What does Tim drink?", "session_id": "s"}
    over_http = api.as_token(other_token).post("/context", asked).json()
    again = caller.answered("get_context", **asked)
    assert again["system_prompt"] == over_http["system_prompt"]


def test_recall_in_the_turn_of_a_context(mcp, other_token):
    caller = mcp(other_token)
    fact = caller.answered("learn_fact", content="Lamp 3 hangs in room 21.", category="technical")["fact"]
    run_id = caller.answered("get_context", input="Hello", session_id="s")["id"]
    caller.answered("recall", q="Where does lamp 3 hang?", context=run_id)
    caller.answered("expand", type="fact", memory_id=fact["id"], context=run_id)
    answer = caller.answered("report_answer", run_id=run_id, response="Lamp 3 hangs in room 21.")
    assert [(item["id"], item["referenced"]) for item in answer["items"]] == [(fact["id"], True)]
    refused = caller.tool("recall", q="lamp", context=run_id)
    assert "reported already" in refused["content"][0]["text"]


def test_episode_and_working_memory(mcp, actor_token):
    caller = mcp(actor_token)
    episode = caller.answered("open_episode", title="Release", detail="We shipped 2.0.")
    closed = caller.answered("close_episode", episode_id=episode["id"], summary="2.0 is out.", outcome="success")
    assert closed["ended_at"]
    caller.answered("keep_in_mind", session_id="s", text="The release is at noon.")
    assert caller.answered("working_memory", session_id="s")["items"][0]["text"] == "The release is at noon."


@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
def test_documents_are_kept_read_found_and_retired(mcp, ada, actor_token, other_token, version):
    caller = mcp(actor_token, version)
    place = {"namespace": ["notes", "trip"], "key": "lisbon"}
    kept = caller.answered("put_document", **place, value={"text": "The ferry leaves at nine."})
    assert (kept["action"], kept["document"]["version"]) == ("created", 1)
    assert (
        caller.answered("put_document", **place, value={"text": "The ferry leaves at nine."})["action"] == "unchanged"
    )
    changed = caller.answered("put_document", **place, value={"text": "The ferry leaves at ten."}, base_version=1)
    assert (changed["action"], changed["document"]["version"]) == ("updated", 2)
    assert "409" in caller.refused("put_document", **place, value={"text": "Eleven."}, base_version=1)
    assert caller.answered("get_document", **place)["value"] == {"text": "The ferry leaves at ten."}
    assert [one["key"] for one in caller.answered("list_documents", namespace=["notes"])["items"]] == ["lisbon"]
    assert caller.answered("list_documents", namespace=["recipes"])["items"] == []
    found = caller.answered("search_documents", query="When does the ferry leave?", namespace=["notes"])
    assert found["items"][0]["document"]["id"] == changed["document"]["id"]
    assert "404" in mcp(other_token, version).refused("get_document", **place)
    assert mcp(other_token, version).answered("search_documents", query="ferry", min_score=0)["items"] == []
    assert caller.answered("delete_document", **place)["active"] is False
    assert "404" in caller.refused("get_document", **place)
    assert "404" in caller.refused("delete_document", **place)
    assert set(AuditEvent.objects.filter(object_type="document").values_list("channel", flat=True)) == {"mcp"}


def test_document_tools_say_what_to_mend(mcp, actor_token, subtests):
    for name, arguments, why in [
        ("put_document", {"key": "k", "value": {}}, "namespace: Field required"),
        (
            "put_document",
            {"namespace": ["a"], "key": "k", "value": "text"},
            "value: Input should be a valid dictionary",
        ),
        ("put_document", {"namespace": [], "key": "k", "value": {}}, "namespace: List should have at least 1 item"),
        ("get_document", {"namespace": ["a"]}, "key: Field required"),
        ("get_document", {"namespace": [{"a": 1}], "key": "k"}, "namespace: takes a plain value"),
        ("search_documents", {"query": "x", "limit": 0}, "limit: Input should be greater than or equal to 1"),
        ("list_documents", {"state": "gone"}, "state: String should match pattern"),
        ("delete_document", {"namespace": ["a"], "key": "none"}, "404"),
    ]:
        with subtests.test(name=name, arguments=arguments, why=why):
            assert why in mcp(actor_token).refused(name, **arguments)


READ_ONLY = {
    "recall",
    "recall_recent",
    "expand",
    "working_memory",
    "get_document",
    "list_documents",
    "search_documents",
}
IDEMPOTENT = {"report_answer", "report_outcome", "put_document"}


def test_annotations_are_what_the_tools_do(mcp, actor_token):
    tools = mcp(actor_token, MODERN).result("tools/list")["tools"]
    hints = {tool["name"]: tool["annotations"] for tool in tools}
    assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == READ_ONLY
    assert {name for name, hint in hints.items() if hint.get("idempotentHint")} == IDEMPOTENT
    assert {name for name, hint in hints.items() if hint.get("destructiveHint")} == {"delete_document"}
    assert not any(hint["openWorldHint"] for hint in hints.values())


def test_tools_called_idempotent_change_nothing_the_second_time(mcp, ada, actor_token):
    caller = mcp(actor_token)
    run = caller.answered("get_context", input="Hello", session_id="s")["id"]
    calls = [
        ("report_answer", {"run_id": run, "response": "Good morning."}),
        ("report_outcome", {"run_id": run, "outcome": "success", "note": "So."}),
        ("put_document", {"namespace": ["notes"], "key": "k", "value": {"text": "One"}, "base_version": 0}),
        ("put_document", {"namespace": ["notes"], "key": "k", "value": {"text": "Two"}, "base_version": 1}),
    ]
    assert {name for name, _ in calls} == IDEMPOTENT
    for name, arguments in calls:
        first = caller.answered(name, **arguments)
        recorded = AuditEvent.objects.count()
        assert caller.answered(name, **arguments) == first
        assert AuditEvent.objects.count() == recorded


def test_tools_called_read_only_record_nothing(mcp, ada, actor, actor_token):
    fact = make_fact(ada, "Tim lives in Lisbon.", actor)
    caller = mcp(actor_token)
    caller.answered("keep_in_mind", session_id="s", text="Lisbon.")
    caller.answered("put_document", namespace=["notes"], key="k", value={"text": "Lisbon."})
    before = AuditEvent.objects.count()
    calls = {
        "recall": {"q": "Lisbon"},
        "recall_recent": {},
        "expand": {"type": "fact", "memory_id": str(fact.pk)},
        "working_memory": {"session_id": "s"},
        "get_document": {"namespace": ["notes"], "key": "k"},
        "list_documents": {},
        "search_documents": {"query": "Lisbon"},
    }
    assert calls.keys() == READ_ONLY
    for name, arguments in calls.items():
        caller.answered(name, **arguments)
    assert AuditEvent.objects.count() == before


def test_censor_check(mcp, api, charlie, actor_token):
    censor = {"pattern": "delete production", "reason": "Never.", "severity": "absolute"}
    assert api.as_person(charlie).post("/censors?agent=ada", censor).status_code == 201
    assert mcp(actor_token).answered("check_censors", text="delete production now")["verdict"] == "block"
    context = mcp(actor_token).tool("get_context", input="delete production now", session_id="s")
    assert context["content"][1]["text"].endswith("Stop: a censor blocks this input. Never.")


def test_identity_change_always_waits_for_a_person(mcp, ada, actor_token):
    caller = mcp(actor_token)
    result = caller.answered("propose_identity_change", section="preferences", content="Tea.", reason="He said so.")
    assert result["proposal"]["status"] == "pending"
    assert ChangeProposal.objects.get().status == "pending"
    assert "no such argument" in caller.refused(
        "propose_identity_change", section="preferences", content="Tea!", mode="auto"
    )


@pytest.mark.parametrize("version", [HANDSHAKE, MODERN])
def test_definitions_are_schemas_that_the_answers_hold(mcp, actor_token, version):
    tools = {tool["name"]: tool for tool in mcp(actor_token, version).result("tools/list")["tools"]}
    assert list(tools) == [tool.name for tool in TOOLS]
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert "agent" not in tool["inputSchema"]["properties"]
        assert tool["title"]
        assert len(tool["description"]) > 40
    assert tools["recall"]["annotations"]["readOnlyHint"] is True
    assert tools["learn_fact"]["annotations"]["readOnlyHint"] is False
    assert tools["recall"]["inputSchema"]["required"] == ["q"]
    assert "mode" not in tools["propose_identity_change"]["inputSchema"]["properties"]
    caller = mcp(actor_token, version)
    arguments = {"input": "Hello", "session_id": "s", "task": {"key": "greet"}, "budget": 900}
    jsonschema.validate(arguments, tools["get_context"]["inputSchema"])
    jsonschema.validate(caller.answered("get_context", **arguments), tools["get_context"]["outputSchema"])


def test_refusal_says_what_to_mend_and_changes_nothing(mcp, actor_token, subtests):
    for name, arguments, why in [
        ("recall", {}, "q: Field required"),
        ("recall", {"q": "tea", "limit": "many"}, "limit: Input should be a valid integer"),
        ("recall", {"q": {"any": "thing"}}, "q: takes a plain value"),
        ("recall", {"q": "tea", "colour": "red"}, "colour: there is no such argument"),
        ("recall", {"q": "tea", "agent": "bruno"}, "agent: there is no such argument"),
        ("recall", {"q": "tea\x00"}, "NUL"),
        (
            "learn_fact",
            {"content": "x", "colour": "red"},
            "colour: Extra inputs are not permitted. The fields are source_ref",
        ),
        ("learn_fact", {"content": 5}, "content: Input should be a valid string"),
        ("learn_fact", {"content": "x", "agent": "bruno"}, "agent: Extra inputs are not permitted"),
        ("report_answer", {"response": "x"}, "run_id: is required"),
        ("report_answer", {"run_id": "nonsense", "response": "x"}, "run_id: Input should be a valid UUID"),
        ("close_episode", {"episode_id": "x/close", "summary": "s"}, "episode_id: Input should be a valid UUID"),
        ("propose_identity_change", {"section": "soul", "content": "x"}, "There is no identity section"),
        ("working_memory", {"session_id": "none"}, "404"),
    ]:
        with subtests.test(name=name, arguments=arguments, why=why):
            before = Fact.objects.count(), AuditEvent.objects.count()
            assert why in mcp(actor_token).refused(name, **arguments)
            assert (Fact.objects.count(), AuditEvent.objects.count()) == before


def test_other_agents_memories_do_not_exist(mcp, ada, bruno, actor, actor_token, other_token):
    make_fact(ada, "Ada keeps the spare key under the third stone.", actor)
    run = mcp(actor_token).answered("get_context", input="Where is the spare key?", session_id="s")
    other = mcp(other_token)
    assert other.answered("recall", q="Where is the spare key?")["items"] == []
    assert "404" in other.refused("report_answer", run_id=run["id"], response="Under the stone.")
    assert (
        "stone" not in other.answered("get_context", input="Where is the spare key?", session_id="s")["system_prompt"]
    )


def test_actor_reads_nothing_of_the_subconscious(mcp, actor_token, subconscious_token):
    mcp(subconscious_token).answered("learn_fact", content="The actor repeats itself about lighthouses.")
    assert mcp(actor_token).answered("recall", q="lighthouses", min_score=0)["items"] == []


def test_scopes_hold(mcp, ada):
    caller = mcp(make_token(ada, scopes=["context:read"]))
    assert "403" in caller.refused("learn_fact", content="Tea is hot.")
    assert "scope" in caller.refused("propose_identity_change", section="values", content="x")


@pytest.mark.parametrize("token", ["", "nous_wrong"])
def test_without_a_valid_token_there_is_nothing(mcp, token):
    answer = mcp(token).send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_revoked_token_is_refused_at_once(mcp, ada, actor_token, system):
    caller = mcp(actor_token)
    assert caller.result("ping") == {}
    token_revoke(token=ApiToken.objects.get(agent=ada), by=system)
    assert caller.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code == 401


def test_person_cannot_call_with_a_session(api, charlie):
    client = api.as_person(charlie).client
    answer = client.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, content_type="application/json")
    assert answer.status_code == 401


def test_audit_names_the_channel(mcp, api, ada, actor_token, bob):
    mcp(actor_token).answered("propose_identity_change", section="values", content="Truth.", reason="r")
    api.as_token(actor_token).put("/identity/boundaries", {"content": "None.", "mode": "propose", "reason": "r"})
    channels = AuditEvent.objects.filter(action="proposal.create").order_by("id").values_list("channel", flat=True)
    assert list(channels) == ["mcp", "api"]


def test_resources_and_prompt(mcp, ada, actor, actor_token):
    make_fact(ada, "Tim lives in Lisbon.", actor, subject="Tim O'Neil")
    caller = mcp(actor_token, MODERN)
    assert [one["uri"] for one in caller.result("resources/list")["resources"]] == ["nous://identity", "nous://profile"]
    template = caller.result("resources/templates/list")["resourceTemplates"][0]["uriTemplate"]
    assert template == "nous://subjects/{subject}"
    assert "calm and exact" in caller.result("resources/read", {"uri": "nous://identity"})["contents"][0]["text"]
    subject = caller.result("resources/read", {"uri": "nous://subjects/Tim%20O%27Neil"})["contents"][0]
    assert "Lisbon" in subject["text"]
    assert subject["mimeType"] == "application/json"
    assert caller.result("prompts/list")["prompts"][0]["arguments"][0]["name"] == "input"
    prompt = caller.result("prompts/get", {"name": "context", "arguments": {"input": "Where does Tim live?"}})
    text = prompt["messages"][0]["content"]["text"]
    assert "Lisbon" in text
    assert text.endswith("Where does Tim live?")


GOOD = {
    "type": "fact", "q": "x", "content": "A b c.", "input": "x", "session_id": "s", "section": "values", "text": "x",
    "namespace": ["a"], "key": "k", "value": {"a": 1}, "response": "x", "outcome": "success", "query": "x",
    "memory_id": "0b1e2f3a-0000-4000-8000-000000000000", "run_id": "0b1e2f3a-0000-4000-8000-000000000000",
    "episode_id": "0b1e2f3a-0000-4000-8000-000000000000", "events": [{"kind": "error", "content": "x"}],
    "sha256": "a" * 64,
}  # fmt: skip


def test_nul_in_any_argument_is_refused_with_its_reason(mcp, actor_token):
    caller = mcp(actor_token)
    answers = 0
    for tool in caller.result("tools/list")["tools"]:
        schema = tool["inputSchema"]
        needed = {name: GOOD[name] for name in schema["required"]}
        for name in schema["properties"]:
            for value in ("a\0b", ["\0"], {"a": "\0"}, {"\0": 1}):
                said = caller.refused(tool["name"], **{**needed, name: value})
                assert "500" not in said, (tool["name"], name, value, said)
                answers += "NUL" in said
    assert answers > 60
    for uri in ("nous://subjects/a%00b", "nous://subjects/a\0b"):
        assert "NUL" in caller.request("resources/read", {"uri": uri})["error"]["message"]


def test_expand_takes_the_beginning_of_an_id_that_no_other_has(mcp, ada, actor_token):
    for number, key in enumerate(("aaaaaaaa-1000", "aaaaaaaa-2000", "bbbbbbbb-0000"), 1):
        made = {"agent": ada, "persona": "actor", "content": f"Lamp {number} hangs here."}
        Fact.objects.create(id=f"{key}-4000-8000-000000000000", **made)
    caller = mcp(actor_token)

    def found(start):
        return caller.answered("expand", type="fact", memory_id=start)["item"]["content"]

    assert found("bbbbbbbb") == "Lamp 3 hangs here."
    assert found("AAAAAAAA-1") == "Lamp 1 hangs here."
    assert "begins with 'aaaaaaaa'" in caller.refused("expand", type="fact", memory_id="aaaaaaaa")
    for start in ("aaaaaaa", "cccccccc", "aaaaaaaa-10-zz", ""):
        assert "There is no such fact" in caller.refused("expand", type="fact", memory_id=start) or not start
    assert "There is no such event" in caller.refused("expand", type="event", memory_id="٣")


def test_moment_of_an_event_is_text(mcp, actor_token):
    for moment in (1_700_000_000, 1.5, True, "1700000000", [1]):
        said = mcp(actor_token).refused("log_events", events=[{"kind": "error", "content": "x", "ts": moment}])
        assert "A moment is text with a time zone" in said
    event = {"kind": "error", "content": "x", "ts": "2026-01-31T09:00:00Z"}
    assert mcp(actor_token).answered("log_events", events=[event])["events"][0]["ts"] == "2026-01-31T09:00:00Z"
