"""Recent tool output: what a knight works with."""

from datetime import timedelta

import pytest

from context.engine.analysis.profiles import BUILT_IN, profile_values
from context.models import ContextProfile, ContextProfileVersion
from context.services.agent_settings import profile_get, profile_update, profiles_sync
from identity.models import Agent
from nousweb.lib import clock
from tests.factories import make_events

ASK = {"session_id": "fix-7", "input": "Go on with the parser."}


@pytest.fixture
def knight(ada):
    Agent.objects.filter(pk=ada.pk).update(kind="knight")
    ada.refresh_from_db()
    return ada


@pytest.fixture
def client(api, actor_token):
    return api.as_token(actor_token)


def raw(body):
    """The lines of long-term memory."""
    return [
        line for line in body["system_prompt"].split("## Long-term Memory")[-1].splitlines() if line.startswith("- ")
    ]


def test_knight_is_told_what_tools_answered_last_in_its_session(client, knight, actor):
    make_events(knight, actor, "3 failed, 12 passed", "error: missing brace", kind="tool_result", loop_id="fix-7")
    make_events(knight, actor, "Deployed to production.", kind="tool_result", loop_id="another")
    make_events(knight, actor, "Mend the parser.", kind="user_input", loop_id="fix-7")
    make_events(knight, actor, "pytest -q", kind="tool_call", loop_id="fix-7")
    body = client.post("/context", {**ASK, "explain": True}).json()
    assert [line.split("] ")[1] for line in raw(body)] == ["error: missing brace", "3 failed, 12 passed"]
    # What was said is no tool output, and another session's is not this one's.
    assert {one["kinds"][-1] for one in body["candidates"]} == {"tool_result"}
    assert body["fingerprint"]["kinds"] == ["event", "tool_output", "tool_result"]
    other = client.post("/context", {**ASK, "session_id": "new"}).json()
    assert [line.split("] ")[1] for line in raw(other)] == [
        "Deployed to production.",
        "error: missing brace",
        "3 failed, 12 passed",
    ], "a session without any begins with the latest of the day"


def test_tool_output_is_of_the_knight_and_recent(client, api, knight, actor, subconscious_token):
    two_days_ago = clock.now() - timedelta(days=2)
    make_events(knight, actor, "An old answer.", kind="tool_result", loop_id="a", ts=two_days_ago)
    night = {"kind": "tool_result", "content": "A dream.", "loop_id": "fix-7"}
    api.as_token(subconscious_token).post("/events", {"events": [night]})
    assert "Long-term Memory" not in client.post("/context", ASK).json()["system_prompt"]
    made = make_events(knight, actor, "12 passed", kind="tool_result", loop_id="fix-7")
    assert "12 passed" in client.post("/context", ASK).json()["system_prompt"]
    for more in (
        {"profile": "royalty_default"},
        {"profile_override": {"layers": []}},
        {"conversation": [{"role": "tool", "content": "12 passed"}]},
        {"input": "hello"},
        {"as_of": (made[0].recorded_at - timedelta(seconds=1)).isoformat()},
    ):
        assert "12 passed" not in client.post("/context", ASK | more).json()["system_prompt"], more


def test_tool_output_stays_within_its_budget(client, knight, actor):
    long = "\n".join(f"line {number} of the log says nothing" for number in range(200))
    make_events(knight, actor, *(f"{number}: {long}" for number in range(9)), kind="tool_result", loop_id="fix-7")
    body = client.post("/context", {**ASK, "explain": True}).json()
    (section,) = [section for section in body["sections"] if section["key"] == "long_term"]
    assert section["tokens"] <= section["budget"] == 400
    assert len(body["candidates"]) == 5


def test_tool_output_takes_one_statement_more(client, knight, actor, django_assert_max_num_queries):
    make_events(knight, actor, "12 passed", kind="tool_result", loop_id="fix-7")
    client.post("/context", ASK)
    with django_assert_max_num_queries(13):
        client.post("/context", ASK)


def test_profiles_nobody_edited_are_brought_up_to_date(db, system):
    knight, squire = profile_get("knight_default"), profile_get("squire_default")
    assert profiles_sync() is None
    assert ContextProfileVersion.objects.count() == ContextProfile.objects.count() == len(BUILT_IN)
    old = {**profile_values(BUILT_IN["knight"]), "layers": []}
    for profile in (knight, squire):
        ContextProfileVersion.objects.filter(profile=profile).update(values=old)
    profile_update(profile=squire, values={**old, "preserve_head": 7}, by=system)
    ContextProfileVersion.objects.filter(profile=squire, version=2).update(author_kind="person")
    profiles_sync()
    assert knight.versions.get(is_current=True).values["layers"] == ["tool_output"]
    assert [version.version for version in knight.versions.order_by("version")] == [1, 2]
    assert squire.versions.get(is_current=True).values["preserve_head"] == 7
