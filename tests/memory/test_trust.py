"""Trust classes: the least of what a memory rests on, and nothing but a person raises it."""

import pytest

from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.principal import Principal
from memory.models import Fact
from memory.services.facts import fact_confirm, fact_learn
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_token


@pytest.fixture
def caller(api, ada):
    return api.as_token(make_token(ada, scopes=sorted(SCOPE_PERMISSIONS)))


def keep(caller, path, method="POST", **body):
    answer = caller.request(method, path, body=body)
    assert answer.status_code in (200, 201, 202), answer.content
    return answer.json()


def event(caller, kind, content="The build took nine minutes.", **more):
    made = keep(caller, "/events", events=[{"kind": kind, "content": content, "loop_id": "l", **more}])
    return made["events"][0]["id"]


def trust(caller, path):
    answer = caller.get(path)
    assert answer.status_code == 200, answer.content
    return answer.json()["trust"]


def learned(caller, **fields):
    return keep(caller, "/facts", **fields)["fact"]


@pytest.mark.parametrize(
    ("kind", "metadata", "expected"),
    [
        ("user_input", {}, "agent"),
        ("actor_output", {}, "agent"),
        ("tool_result", {}, "tool"),
        ("error", {}, "tool"),
        ("tool_result", {"url": "https://example.org/page"}, "web"),
    ],
)
def test_event_trust_by_kind_and_page(caller, kind, metadata, expected):
    key = event(caller, kind, metadata=metadata)
    assert trust(caller, f"/events/{key}") == expected
    found = caller.get(f"/events?trust={expected}").json()["items"]
    assert [one["id"] for one in found] == [key]
    assert caller.get("/events?trust=imported").json()["items"] == []


def test_fact_trust_by_its_source(caller, alice, reviewer, ada):
    tool = event(caller, "tool_result")
    episode = keep(caller, "/episodes", title="Build")["id"]
    assert trust(caller, f"/episodes/{episode}") == "agent"
    keep(caller, f"/episodes/{episode}/events", event_ids=[tool])
    assert trust(caller, f"/episodes/{episode}") == "tool"
    assert learned(caller, content="Ada likes tea.")["trust"] == "agent"
    assert learned(caller, content="Builds run at night.", source=f"event:{tool}")["trust"] == "tool"
    assert learned(caller, content="Tests run in parallel.", source=f"episode:{episode}")["trust"] == "tool"
    assert learned(caller, content="Python 4 is not planned.", source="https://example.org/news")["trust"] == "web"
    assert fact_learn(agent=ada, content="Tea is at four.", by=reviewer, source="https://x.org").fact.trust == "person"
    decision = keep(caller, "/decisions", description="Keep the build cache.", episode=episode)
    assert decision["trust"] == "tool"
    shown = {one["content"] for one in caller.get("/facts?trust=tool").json()["items"]}
    assert shown == {"Builds run at night.", "Tests run in parallel."}


def test_imported_is_imported(ada):
    imports = Principal.of_command(channel="import")
    assert fact_learn(agent=ada, content="Ada moved to Bonn.", by=imports).fact.trust == "imported"


def test_nothing_but_a_person_raises_it(caller, ada, actor, reviewer):
    text = "The deploy key is rotated on Mondays."
    first = learned(caller, content=text, subject="deploy key", source="https://example.org/wiki")
    # Repeated as the agent's own word, confirmed and replaced by the agent.
    again = keep(caller, "/facts", content=text, subject="deploy key")
    assert (again["action"], again["fact"]["trust"]) == ("confirmed", "web")
    assert keep(caller, f"/facts/{first['id']}/confirm")["trust"] == "web"
    new = keep(
        caller, f"/facts/{first['id']}/supersede", by={"content": "The deploy key is rotated on Fridays, by hand."}
    )["new"]
    assert new["trust"] == "web"
    # A person's confirmation does, with its record.
    fact = Fact.objects.get(pk=new["id"])
    assert fact_confirm(fact=fact, by=reviewer).trust == "person"
    assert fact.changes.filter(action="confirmed", author_kind="person", before__endorsed=False).exists()


def test_search_and_verdicts_tell_trust(caller):
    learned(caller, content="The staging server is called Kestrel.", source="https://example.org/wiki")
    event(caller, "tool_result", "The staging server Kestrel answered in 20 ms.")
    embed_pending_rows()
    found = caller.get("/recall?q=staging server Kestrel").json()["items"]
    assert {one["type"]: one["trust"] for one in found} == {"fact": "web", "event": "tool"}
    asked = {"session_id": "s", "input": "What is the staging server called?", "explain": True, "dry_run": True}
    verdicts = keep(caller, "/context", **asked)["candidates"]
    assert {one["trust"] for one in verdicts if one["type"] == "fact"} == {"web"}


@pytest.mark.parametrize(
    ("least", "shown"), [(["fact:agent"], False), (["any:tool"], False), (["decision:agent"], True)]
)
def test_a_profile_leaves_out_what_is_trusted_less(caller, least, shown):
    learned(caller, content="The staging server is called Kestrel.", source="https://example.org/wiki")
    learned(caller, content="The user reads the Kestrel Times.", category="person", source="https://example.org/me")
    embed_pending_rows()
    asked = {
        "session_id": "s", "input": "What is the staging server called?", "explain": True, "dry_run": True,
        "profile_override": {"least_trust": least},
    }  # fmt: skip
    answer = keep(caller, "/context", **asked)
    verdicts = {one["text"]: one["verdict"] for one in answer["candidates"]}
    assert (verdicts["The staging server is called Kestrel."] == "low_trust") is not shown
    assert ("called Kestrel." in answer["system_prompt"]) is shown
    assert ("Kestrel Times" in answer["system_prompt"]) is shown
    wrong = caller.post("/context", {**asked, "profile_override": {"least_trust": ["fact:nobody"]}})
    assert wrong.status_code == 422
