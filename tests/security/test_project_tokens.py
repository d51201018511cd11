"""A token that is limited to projects, in the hands of somebody who wants more: each interface, reading and writing."""

import json

import pytest

from context.engine.retrieval.candidates import usage_stats
from context.models import MemoryUsage
from identity.models import AuditEvent
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.services.tokens import token_create
from memory.models import (
    Censor,
    Decision,
    Episode,
    Event,
    Fact,
    Job,
    LoopSummary,
    MemoryReview,
    Procedure,
    WorkingMemory,
)
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from nousweb.lib.errors import Invalid
from tests.factories import SYSTEM, make_person, make_token
from tests.http import browser

SECRET = "zanzibar"
"""A word that only the other project's memories hold."""


@pytest.fixture
def limited(api, ada):
    """Everything that a token can hold, within the project apollo, with global memory to read."""
    scopes = sorted(SCOPE_PERMISSIONS)
    return api.as_token(make_token(ada, name="limited", scopes=scopes, projects=["apollo"], global_memory="read"))


@pytest.fixture
def foreign(api, ada):
    """What the other project knows, by the names of its addresses; with something global and of one's own beside."""
    full = api.as_token(make_token(ada, name="full", scopes=sorted(SCOPE_PERMISSIONS)))

    def made(path: str, **body: object) -> dict:
        answer = full.post(path, body)
        assert answer.status_code == 201, answer.content
        return answer.json()

    keys = {"project": "zeus", "importance": 0.9}
    fact = made("/facts", content=f"The {SECRET} ledger uses PostgreSQL.", subject="ledger", **keys)["fact"]
    rule = made("/facts", content=f"Always greet in {SECRET}.", category="preference", **keys)["fact"]
    event = {
        "kind": "user_input",
        "content": f"We sail to {SECRET}.",
        "loop_id": "zeus-loop",
        "project": "zeus",
        "key": "k",
    }
    events = made("/events", events=[event])["events"]
    full.post("/loops/zeus-loop/close")
    episode = made("/episodes", title=f"Trip to {SECRET}", detail=f"All went to {SECRET}.", **keys)
    decision = made("/decisions", description=f"Go to {SECRET} by ship.", **keys)
    procedure = made("/procedures", name=f"Reach {SECRET}", steps=["Sail."], **keys)
    assert full.put("/working/zeus-session", {"task": f"Plan {SECRET}.", "project": "zeus"}).status_code == 200
    run = full.post("/context", {"session_id": "s", "input": f"What of the {SECRET} ledger?", "project": "zeus"}).json()
    made("/facts", content="The office closes at six.", subject="office")
    made("/facts", content="The apollo ledger uses MariaDB.", subject="ledger", project="apollo", importance=0.9)
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


READS = (
    "/facts", "/facts?state=all", f"/facts?q={SECRET}", "/facts?project=zeus", "/facts?subject=ledger",
    "/facts?as_of={now}", "/facts/{fact}", "/facts/{fact}/history", "/facts/{rule}", "/events", "/events?project=zeus",
    f"/events?q={SECRET}", "/events/{event}", "/loops", "/loops/zeus-loop", f"/stm?q={SECRET}",
    f"/stm?q={SECRET}&project=zeus", f"/stm?q={SECRET}&all_projects=true", "/episodes", "/episodes/{episode}",
    "/decisions", "/decisions/{decision}", "/procedures", "/procedures/{procedure}", "/working/zeus-session",
    f"/recall?q={SECRET}", f"/recall?q={SECRET}&project=zeus",
    f"/recall?q={SECRET}&project=apollo&include_project=zeus",
    f"/recall?q={SECRET}&all_projects=true", f"/recall?q={SECRET}&min_score=0&project=apollo",
    f"/recall?q={SECRET}&min_score=0&as_of={{now}}", "/profile", "/profile?project=zeus", "/subjects", "/reviews",
    "/reviews?status=all", "/lifecycle", "/index", "/fingerprints", "/changes?bodies=true", "/expectations",
)  # fmt: skip


def test_project_token_reads_nothing_of_another_project(limited, foreign):
    for path in READS:
        answer = limited.get(path.format(now="2099-01-01T00:00:00Z" if "as_of" in path else "", **foreign))
        assert answer.status_code in (200, 403, 404, 422), (path, answer.content)
        asked = "zeus" in path
        told = answer.content.decode()
        assert SECRET not in told.replace(f"q={SECRET}", ""), (path, told)
        assert asked or "zeus" not in told, (path, told)
    listed = [fact["content"] for fact in limited.get("/facts").json()["items"]]
    assert sorted(listed) == ["The apollo ledger uses MariaDB.", "The office closes at six."]
    for path in ("/subjects", "/reviews", "/lifecycle", "/index", "/fingerprints", "/changes", "/expectations"):
        assert limited.get(path).status_code == 403, path


def test_project_token_gets_no_prompt_of_another_project(limited, foreign):
    asked = {"session_id": "zeus-session", "input": f"What of the {SECRET} ledger?", "explain": True}
    for more in ({}, {"project": "apollo"}):
        answer = limited.post("/context", {**asked, **more})
        assert answer.status_code == 200, answer.content
        told = json.dumps({name: part for name, part in answer.json().items() if name != "explanation"})
        assert SECRET not in told.replace(asked["input"], ""), told
        assert "zeus" not in told.replace("zeus-session", "")
    assert "MariaDB" in limited.post("/context", {**asked, "project": "apollo"}).json()["system_prompt"]
    for more in ({"project": "zeus"}, {"all_projects": True}, {"project": "apollo", "include_projects": ["zeus"]}):
        assert limited.post("/context", {**asked, **more, "dry_run": True}).status_code == 403, more
    for path, body in (("response", {"response": "Yes."}), ("outcome", {"outcome": "success"})):
        assert limited.post(f"/context/{foreign['run']}/{path}", body).status_code == 404


def test_project_token_writes_only_its_own(limited, foreign, ada):
    before = state()
    zeus, everywhere = {"project": "zeus"}, {}
    for keys in (zeus, everywhere):
        event = {"kind": "user_input", "content": "Hello.", **keys}
        for path, body in (
            ("/facts", {"content": "Something new is known.", **keys}),
            ("/facts", {"content": "Obey.", "category": "rule", **keys}),
            ("/events", {"events": [event]}),
            ("/episodes", {"title": "Mine", **keys}),
            ("/decisions", {"description": "Do it.", **keys}),
            ("/procedures", {"name": "Do it", "steps": ["Do."], **keys}),
        ):
            assert limited.post(path, body).status_code == 403, (path, body)
        assert limited.put("/working/mine", {"task": "Mine.", **keys}).status_code == 403
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
        ("/procedures/{procedure}/report", {"success": True}, 404),
        ("/working/zeus-session/items", {"text": "Mine."}, 403),
        ("/working/zeus-session/threads", {"text": "Mine."}, 403),
        ("/censors", {"pattern": "apollo", "reason": "Mine."}, 403),
    ]
    for path, body, status in inherited:
        answer = limited.post(path.format(**foreign), body)
        assert answer.status_code == status, (path, answer.status_code, answer.content)
    for path in ("/decisions/{decision}", "/procedures/{procedure}", "/episodes/{episode}"):
        assert limited.request("PATCH", path.format(**foreign), body={"importance": 0.1}).status_code == 404
    assert limited.request("DELETE", "/working/zeus-session").status_code == 404
    assert limited.put("/identity/preferences", {"content": "Obey.", "reason": "So."}).status_code == 403
    assert state() == before


def test_project_token_writes_in_its_project_and_carries_nothing_out(limited, foreign, ada):
    keys = {"project": "apollo"}
    fact = limited.post("/facts", {"content": "Apollo ships on Fridays.", "subject": "apollo", **keys})
    assert (fact.status_code, fact.json()["fact"]["project"]) == (201, "apollo")
    procedure = limited.post("/procedures", {"name": "Ship", "steps": ["Push."], **keys}).json()
    for project in ("zeus", ""):
        moved = limited.request("PATCH", f"/procedures/{procedure['id']}", body={"project": project})
        assert moved.status_code == 403, moved.content
    office = Fact.objects.get(subject="office")
    told = limited.post("/facts", {"content": office.content, "subject": "office", **keys}).json()
    assert (told["action"], told["fact"]["id"]) == ("confirmed", str(office.pk))
    office.refresh_from_db()
    assert office.confirmation_count == 0, "global memory is there to be read only"
    # What the other project knows in the same words is its own matter.
    held = Fact.objects.get(pk=foreign["fact"])
    learned = limited.post("/facts", {"content": held.content, "subject": "ledger", **keys}).json()
    assert learned["fact"]["id"] != str(held.pk)
    assert "zeus" not in json.dumps(learned)


def test_project_token_that_only_reads_global_memory_changes_none_of_it(api, ada, limited):
    """Its loops, sessions and censors stay what they were for everybody, and how its facts rank."""
    full = api.as_token(make_token(ada, name="full", scopes=sorted(SCOPE_PERMISSIONS)))
    apollo = {"project": "apollo"}
    said = {"kind": "user_input", "content": "Hello.", "loop_id": "shared"}
    assert full.post("/events", {"events": [said]}).status_code == 201
    full.put("/working/desk", {"task": "Shared task."})
    full.post("/working/desk/items", {"text": "Shared item."})
    fact = full.post("/facts", {"content": "The office closes at six.", "subject": "office", "importance": 0.9}).json()
    person = api.as_person(make_person("rita", "Reviewer"))
    warn = {"pattern": "swordfish", "reason": "Secret.", "severity": "warn", "escalation_threshold": 1}
    censor = person.post("/censors", warn, {"agent": "ada"}).json()["id"]
    for more in (apollo, {}):
        answer = limited.post("/events", {"events": [{**said, **more}]})
        assert (answer.status_code, answer.json()["field"]) == (403, "events[0].loop_id")
    assert limited.post("/loops/shared/close").status_code == 403
    assert LoopSummary.objects.get().project == ""
    # The name of a session is free in each project.
    assert limited.put("/working/desk", {"task": "Mine.", **apollo}).status_code == 200
    assert limited.post("/working/desk/items", {"text": "My item."}).status_code == 201
    assert limited.get("/working/desk").json()["task"] == "Mine."
    shared = full.get("/working/desk").json()
    assert (shared["task"], [item["text"] for item in shared["items"]]) == ("Shared task.", ["Shared item."])
    ask = {"session_id": "desk", "input": "When does the office close?"}
    assert "Shared task." in full.post("/context", ask).json()["system_prompt"]
    assert "Mine." in limited.post("/context", {**ask, **apollo}).json()["system_prompt"]
    assert limited.request("DELETE", "/working/desk").status_code == 204
    assert full.get("/working/desk").json()["task"] == "Shared task."
    # What it says is checked by the censors, and counts on none.
    assert limited.post("/censors/check", {"text": "A swordfish."}).json()["verdict"] == "warn"
    assert limited.post("/context", {**ask, "input": "A swordfish?"}).json()["censor_verdict"] == "warn"
    assert (Censor.objects.get(pk=censor).activation_count, Job.objects.filter(handler="censor_escalate").count()) == (
        0,
        0,
    )
    embed_pending_rows()
    for caller, counted in ((limited, False), (full, True)):
        run = caller.post("/context", {**ask, **(apollo if caller is limited else {})}).json()
        assert "six" in run["system_prompt"]
        assert caller.post(f"/context/{run['id']}/response", {"response": "It closes at six."}).status_code == 200
        assert MemoryUsage.objects.get(run=run["id"], item_id=fact["fact"]["id"]).counted is counted
    assert usage_stats(ada, "actor", [("fact", fact["fact"]["id"])], now=clock.now()).popitem()[1].observations == 1


def test_project_token_that_may_write_global_memory(api, ada, foreign):
    caller = api.as_token(make_token(ada, name="both", projects=["apollo", "hermes"], global_memory="write"))
    for keys in ({}, {"project": "hermes"}):
        assert caller.post("/facts", {"content": f"Known {keys}.", **keys}).status_code == 201
    assert caller.post("/facts", {"content": "Known.", "project": "zeus"}).status_code == 403
    both = {"session_id": "s", "input": "Ledger?", "project": "apollo", "include_projects": ["hermes"]}
    assert caller.post("/context", both).status_code == 200
    assert caller.post("/censors", {"pattern": "apollo", "reason": "Mine."}).status_code == 201


def test_project_token_is_shown_nothing_that_people_found_wrong_elsewhere(api, ada, foreign):
    """It learns as if the other project did not exist, and the other project's prompts leave out what it learned."""
    reviewer = api.as_person(make_person("rita", "Reviewer"))
    full = api.as_token(make_token(ada, name="reads", scopes=sorted(SCOPE_PERMISSIONS)))
    statement, retired = f"the {SECRET} ledger uses PostgreSQL", f"A text about {SECRET} that people took away."
    note = {"namespace": ["notes"], "value": {"text": retired}}
    kept = full.put("/documents", {**note, "key": "zeus", "project": "zeus"}).json()["document"]["id"]
    gone = {"agent": "ada", "namespace": "notes", "key": "zeus", "project": "zeus"}
    assert reviewer.request("DELETE", "/documents/item", query=gone).status_code == 200
    assert reviewer.post(f"/facts/{foreign['fact']}/invalidate", {}, {"agent": "ada"}).status_code == 200
    caller = api.as_token(make_token(ada, name="both", projects=["apollo"], global_memory="write"))
    for keys in ({}, {"project": "apollo"}):
        answer = caller.post("/facts", {"content": statement, "subject": "ledger", **keys})
        assert answer.status_code == 201, answer.content
        for value in ({"text": retired}, {"text": statement}):
            answer = caller.put("/documents", {**note, "key": f"mine-{len(value['text'])}", "value": value, **keys})
            assert answer.status_code == 200, answer.content
        told = answer.content.decode()
        assert foreign["fact"] not in told
        assert kept not in told
    embed_pending_rows()
    ask = {"session_id": "s", "input": f"What does the {SECRET} ledger use?", "explain": True}
    assert "PostgreSQL" not in full.post("/context", {**ask, "project": "zeus"}).json()["system_prompt"]
    assert "PostgreSQL" in caller.post("/context", {**ask, "project": "apollo"}).json()["system_prompt"]


@pytest.mark.parametrize("per_day", [0, 9])
def test_project_token_is_told_no_id_of_what_its_fact_contradicts_elsewhere(api, ada, per_day):
    """Whether a review is opened, or nobody is asked any more."""
    ada.config = {"attention": {"per_day": per_day, "per_hundred_facts": per_day}}
    ada.save()
    full = api.as_token(make_token(ada, name="full"))
    about = {"subject": "Tim", "attribute": "spotter"}
    first = full.post(
        "/facts", {"content": "Tim has a spotter called Ann.", **about, "value": "Ann", "project": "zeus"}
    )
    caller = api.as_token(make_token(ada, name="both", projects=["apollo"], global_memory="write"))
    second = caller.post("/facts", {"content": "Tim has a spotter called Ben.", **about, "value": "Ben"})
    assert second.status_code == 201, second.content
    assert MemoryReview.objects.exists()
    assert first.json()["fact"]["id"] not in second.content.decode()


def test_project_token_is_made_by_people_and_audited(ada, foreign):
    charlie = browser(make_person("charlie2", "Administrator"))
    page = charlie.get("/agents/ada/tokens/").content.decode()
    assert 'name="projects"' in page
    form = {"name": "site", "persona": "actor", "scopes": ["context:read"], "projects": " apollo, hermes,, ",
            "global_memory": "read"}  # fmt: skip
    answer = charlie.post("/agents/ada/tokens/", form)
    assert b"apollo, hermes" in answer.content, answer.context["form"].errors
    after = AuditEvent.objects.filter(action="token.create").latest("id").after
    assert (after["projects"], after["global_memory"]) == (["apollo", "hermes"], "read")
    refused = charlie.post("/agents/ada/tokens/", form | {"name": "bad", "projects": "x" * 101})
    assert refused.status_code == 422
    with pytest.raises(Invalid):
        token_create(agent=ada, persona="actor", name="bad", projects=["a\nb"], by=SYSTEM)


def state() -> list[object]:
    """What hostile writes would change."""
    found: list[object] = [
        sorted(model.objects.values_list("pk", flat=True))
        for model in (Fact, Event, Episode, Decision, Procedure, WorkingMemory)
    ]
    found.append(sorted(LoopSummary.objects.values_list("loop_id", "event_count", "closed_by")))
    found.append(sorted(WorkingMemory.objects.values_list("session_id", "task", "project")))
    found.append(sorted(Fact.objects.values_list("pk", "confirmation_count", "active")))
    return found
