"""One agent, many users: nothing of one comes up for another, through any interface, reading and writing."""

import json

import pytest

from context.models import ContextRun
from identity.models import AuditEvent
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.services.tokens import token_create
from memory.models import Episode, Fact, LoopSummary, MemoryReview, WorkingMemory
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib.errors import Invalid
from tests.factories import SYSTEM, make_person, make_token
from tests.http import browser
from tests.security.test_project_tokens import READS, SECRET

EVERY = sorted(SCOPE_PERMISSIONS)
MIA, NOAH = {"user": "mia"}, {"user": "noah"}


@pytest.fixture
def mia(api, ada):
    """Everything that a token can hold, bound to the user mia."""
    return api.as_token(make_token(ada, name="mia", scopes=EVERY, user="mia"))


@pytest.fixture
def full(api, ada):
    return api.as_token(make_token(ada, name="full", scopes=EVERY))


@pytest.fixture
def foreign(full):
    """What the agent knows of noah, by the names of its addresses; with something of everybody's beside."""

    def made(path: str, **body: object) -> dict:
        answer = full.post(path, body)
        assert answer.status_code == 201, answer.content
        return answer.json()

    keys = {**NOAH, "importance": 0.9}
    fact = made("/facts", content=f"The {SECRET} ledger uses PostgreSQL.", subject="ledger", **keys)["fact"]
    rule = made("/facts", content=f"Always greet in {SECRET}.", category="preference", **keys)["fact"]
    said = {"kind": "user_input", "content": f"We sail to {SECRET}.", "loop_id": "zeus-loop", "key": "k", **NOAH}
    events = made("/events", events=[said])["events"]
    full.post("/loops/zeus-loop/close")
    episode = made("/episodes", title=f"Trip to {SECRET}", detail=f"All went to {SECRET}.", **keys)
    decision = made("/decisions", description=f"Go to {SECRET} by ship.", **keys)
    procedure = made("/procedures", name=f"Reach {SECRET}", steps=["Sail."], **keys)
    assert full.put("/working/zeus-session", {"task": f"Plan {SECRET}.", **NOAH}).status_code == 200
    note = {"namespace": ["notes"], "key": "trip", "value": {"text": f"The ship to {SECRET} leaves at noon."}, **NOAH}
    assert full.put("/documents", note).status_code == 200
    run = full.post("/context", {"session_id": "s", "input": f"What of the {SECRET} ledger?", **NOAH}).json()
    assert SECRET in run["system_prompt"].replace(f"What of the {SECRET} ledger?", "")
    made("/facts", content="The office closes at six.", subject="office")
    made("/facts", content="The ledger of mia uses MariaDB.", subject="ledger", importance=0.9, **MIA)
    embed_pending_rows()
    return {
        "fact": fact["id"],
        "rule": rule["id"],
        "event": events[0]["id"],
        "episode": episode["id"],
        "decision": decision["id"],
        "procedure": procedure["id"],
        "run": run["id"],
    }


def test_token_of_a_user_reads_nothing_of_another_user(mia, foreign):
    reads = [path.replace("project=zeus", "user=noah").replace("include_user", "include_project") for path in READS]
    for path in (*reads, "/documents", "/documents?user=noah", "/documents/item?namespace=notes&key=trip"):
        answer = mia.get(path.format(now="2099-01-01T00:00:00Z" if "as_of" in path else "", **foreign))
        assert answer.status_code in (200, 403, 404, 422), (path, answer.content)
        told = answer.content.decode()
        assert SECRET not in told.replace(f"q={SECRET}", ""), (path, told)
        assert "noah" in path or "noah" not in told, (path, told)
    listed = [fact["content"] for fact in mia.get("/facts").json()["items"]]
    assert sorted(listed) == ["The ledger of mia uses MariaDB.", "The office closes at six."]
    for path in ("/subjects", "/reviews", "/lifecycle", "/index", "/fingerprints", "/changes", "/expectations"):
        assert mia.get(path).status_code == 403, path


def test_prompts_and_searches_have_one_users_memory_and_everybodys(mia, full, foreign):
    asked = {"session_id": "zeus-session", "input": f"What of the {SECRET} ledger?", "explain": True}
    for caller, more in ((mia, {}), (mia, MIA), (full, {}), (full, MIA), (full, {**MIA, "all_projects": True})):
        answer = caller.post("/context", {**asked, **more})
        assert answer.status_code == 200, answer.content
        told = json.dumps({name: part for name, part in answer.json().items() if name != "explanation"})
        assert SECRET not in told.replace(asked["input"], ""), told
        assert ("MariaDB" in told) is (caller is mia or more != {})
    run = ContextRun.objects.latest("created_at")
    assert run.request["user"] == "mia"
    for path in ("/recall?q={0}&min_score=0", "/stm?q={0}", "/recall/recent?hours=1", "/profile"):
        glue = "&" if "?" in path else "?"
        for more in ("", f"{glue}user=mia"):
            answer = full.get(path.format(SECRET) + more)
            assert SECRET not in answer.content.decode().replace(f'"{SECRET}"', ""), path
        # Nobody has summarised the loop yet.
        assert "stm" in path or SECRET in full.get(path.format(SECRET) + f"{glue}user=noah").content.decode(), path
    for more in (NOAH, {**NOAH, "all_projects": True}):
        assert mia.post("/context", {**asked, **more}).status_code == 403
    for path, body in (("response", {"response": "Yes."}), ("outcome", {"outcome": "success"})):
        assert mia.post(f"/context/{foreign['run']}/{path}", body).status_code == 404


def test_token_of_a_user_writes_only_that_users(mia, foreign):
    before = _state()
    for keys in (NOAH, {"user": "*"}):
        for path, body in (
            ("/facts", {"content": "Something new is known.", **keys}),
            ("/events", {"events": [{"kind": "user_input", "content": "Hello.", **keys}]}),
            ("/episodes", {"title": "Mine", **keys}),
            ("/decisions", {"description": "Do it.", **keys}),
            ("/procedures", {"name": "Do it", "steps": ["Do."], **keys}),
        ):
            assert mia.post(path, body).status_code == 403, (path, body)
        assert mia.put("/working/mine", {"task": "Mine.", **keys}).status_code == 403
        note = {"namespace": ["notes"], "key": "trip", "value": {"text": "Mine."}, **keys}
        assert mia.put("/documents", note).status_code == 403
    inherited = [
        ("/events", {"events": [{"kind": "user_input", "content": "In.", "loop_id": "zeus-loop"}]}, 409),
        ("/events", {"events": [{"kind": "user_input", "content": f"We sail to {SECRET}.", "key": "k"}]}, 409),
        ("/loops/zeus-loop/close", None, 404),
        ("/decisions", {"description": "Do it.", "episode": foreign["episode"]}, 422),
        ("/facts/{fact}/confirm", {}, 404),
        ("/facts/{fact}/supersede", {"by": {"content": "Gone."}}, 404),
        ("/episodes/{episode}/close", {}, 404),
        ("/episodes/{episode}/events", {"text": "Mine."}, 404),
        ("/decisions/{decision}/review", {"outcome": "success"}, 404),
        ("/procedures/{procedure}/activate", None, 404),
        ("/censors", {"pattern": "apollo", "reason": "Mine."}, 403),
    ]
    for path, body, status in inherited:
        answer = mia.post(path.format(**foreign), body)
        assert answer.status_code == status, (path, answer.status_code, answer.content)
    for path in ("/decisions/{decision}", "/procedures/{procedure}", "/episodes/{episode}"):
        assert mia.request("PATCH", path.format(**foreign), body={"importance": 0.1}).status_code == 404
    assert mia.request("DELETE", "/working/zeus-session").status_code == 404
    assert _state() == before


def test_limited_token_changes_no_prompt_of_everybody(mia, full, foreign, api, ada):
    """Its answer would be told as the agent's, its outcome would count, and its recall would hide the prompt."""
    limits = {"projects": ["apollo"], "global_memory": "read"}
    apollo, other = (api.as_token(make_token(ada, name=name, **limits)) for name in ("apollo", "other"))
    ask = {"session_id": "s", "input": "When does the office close?"}

    def reached(caller, run: str) -> list[int]:
        answers = (
            caller.get("/recall", {"q": "office", "context": run}),
            caller.post(f"/context/{run}/response", {"response": "It closes at six."}),
            caller.post(f"/context/{run}/outcome", {"outcome": "failure"}),
        )
        return [answer.status_code for answer in answers]

    everybodys = full.post("/context", ask).json()["id"]
    for caller in (mia, apollo):
        assert reached(caller, everybodys) == [404] * 3
        assert reached(caller, caller.post("/context", ask).json()["id"]) == [200] * 3
    shared = apollo.post("/context", {**ask, "project": "apollo"}).json()["id"]
    assert reached(other, shared) == [200] * 3
    assert reached(full, everybodys) == [200] * 3


def test_writes_without_a_user_are_the_tokens_users(mia, ada):
    mia.post("/facts", {"content": "Mia wants short answers.", "category": "person"})
    mia.post("/events", {"events": [{"kind": "user_input", "content": "Hello.", "loop_id": "one"}]})
    mia.post("/episodes", {"title": "A talk"})
    mia.put("/working/desk", {"task": "Talk."})
    mia.post("/working/desk/items", {"text": "She has a cat."})
    owners = [model.objects.get().user for model in (Fact, Episode, LoopSummary, WorkingMemory)]
    assert owners == ["mia"] * 4
    print(Fact.objects.values())
    prompt = mia.post("/context", {"session_id": "desk", "input": "Hello?"}).json()["system_prompt"]
    assert "short answers" in prompt
    assert "She has a cat." in prompt


def test_sessions_of_one_name_are_each_users_own(full):
    for keys, text in ((MIA, "Mia's item"), (NOAH, "Noah's item"), ({}, "Everybody's item")):
        assert full.post("/working/desk/items", {"text": text, **keys}).status_code == 201
        assert full.put("/working/desk", {"task": f"Task with {text}.", **keys}).status_code == 200
    for keys, text in ((MIA, "Mia's item"), (NOAH, "Noah's item"), ({}, "Everybody's item")):
        working = full.get("/working/desk", keys).json()
        assert [item["text"] for item in working["items"]] == [text]
        prompt = full.post("/context", {"session_id": "desk", "input": "Go on.", **keys}).json()["system_prompt"]
        told = [one for one in ("Mia's", "Noah's", "Everybody's") if f"{one} item" in prompt]
        assert told == [text.split()[0]]
    assert full.request("DELETE", "/working/desk", query=MIA).status_code == 204
    assert full.get("/working/desk", NOAH).json()["items"]


def test_facts_of_two_users_never_meet(full):
    """What contradicts, repeats or replaces is looked for only in what one user sees."""
    said = "The ledger runs on PostgreSQL 15."
    for keys in (MIA, NOAH):
        learned = full.post("/facts", {"content": said, "subject": "ledger", **keys}).json()
        assert learned["action"] == "stored"
    newer = {"content": "The ledger now runs on PostgreSQL 17.", "subject": "ledger", **NOAH}
    assert full.post("/facts", newer).json()["fact"]["user"] == "noah"
    assert Fact.objects.get(user="mia").active
    assert not MemoryReview.objects.filter(facts__contains=[Fact.objects.get(user="mia").pk]).exists()
    again = full.post("/facts", {"content": said, "subject": "ledger", **MIA}).json()
    assert (again["action"], again["fact"]["user"]) == ("confirmed", "mia")


def test_loop_belongs_to_the_first_user_that_its_events_name(full):
    said = {"kind": "user_input", "content": "Hello.", "loop_id": "talk"}
    assert full.post("/events", {"events": [said, {**said, **MIA}, said]}).status_code == 201
    assert LoopSummary.objects.get().user == "mia"
    answer = full.post("/events", {"events": [{**said, **NOAH}]})
    assert (answer.status_code, answer.json()["field"]) == (409, "events[0].user")


def test_unusable_keys_of_users_are_refused(full):
    for user in ("?", "at\nlas", "x" * 101, " mia"):
        assert full.post("/facts", {"content": "It is known.", "user": user}).status_code == 422, user
        assert full.post("/context", {"session_id": "s", "input": "?", "user": user}).status_code == 422, user
        said = {"kind": "user_input", "content": "Hello.", "user": user}
        answer = full.post("/events", {"events": [said]})
        assert (answer.status_code, answer.json()["field"]) == (422, "events[0].user")


def test_token_of_a_user_is_made_by_people_and_audited(ada):
    charlie = browser(make_person("charlie2", "Administrator"))
    form = {"name": "phone", "persona": "actor", "scopes": ["context:read"], "user": " mia "}
    assert b"Only the user mia" in charlie.post("/agents/ada/tokens/", form).content
    assert AuditEvent.objects.filter(action="token.create").latest("id").after["user"] == "mia"
    for user in ("*", "?", "a\nb"):
        with pytest.raises(Invalid):
            token_create(agent=ada, persona="actor", name="bad", user=user, by=SYSTEM)


def _state() -> list[object]:
    facts = sorted(Fact.objects.values_list("pk", "confirmation_count", "active"))
    loops = sorted(LoopSummary.objects.values_list("loop_id", "event_count", "closed_by"))
    return [facts, loops, sorted(WorkingMemory.objects.values_list("session_id", "task", "user"))]
