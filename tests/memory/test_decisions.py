"""Decisions: recorded as they were made, reviewed as often as needed, never rewritten."""

from uuid import uuid4

import pytest

from identity.models import AuditEvent
from memory.models import Decision, SearchItem
from tests.api.problems import assert_problem

WHOLE = {
    "description": "Move to Postgres 18.",
    "context": "The old server is full.",
    "category": "architecture",
    "confidence": 0.7,
    "stakes": "high",
    "reasons": ["It is faster.", "We know it."],
    "tags": ["db"],
    "scope": "project",
    "importance": 0.9,
}


@pytest.fixture
def caller(api, ada, actor_token):
    return api.as_token(actor_token)


def recorded(caller, **body):
    answer = caller.post("/decisions", {"description": "Tea."} | body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def test_decision_keeps_what_it_was_based_on(caller, ada):
    episode = caller.post("/episodes", {"title": "The move"}).json()["id"]
    decision = recorded(caller, **WHOLE, episode=episode)
    assert {name: decision[name] for name in WHOLE} == WHOLE
    assert (decision["outcome"], decision["reviewed_at"], decision["episode"]) == ("pending", None, episode)
    assert caller.get(f"/decisions/{decision['id']}").json() == decision
    item = SearchItem.objects.get(item_id=decision["id"])
    assert (item.item_type, item.category, item.active) == ("decision", "architecture", True)
    assert "It is faster." in item.text
    assert AuditEvent.objects.get(action="decision.record").object_id == decision["id"]


def test_decision_outcome_is_recorded_and_recorded_again(api, caller, bob):
    path = f"/decisions/{recorded(caller)['id']}"
    first = caller.post(f"{path}/review", {"outcome": "failure", "note": "It broke."}).json()
    assert (first["outcome"], first["outcome_note"], first["reviewed_by"]) == ("failure", "It broke.", "ada · actor")
    second = api.as_person(bob).post(f"{path}/review", {"outcome": "partial"}, {"agent": "ada"}).json()
    assert (second["outcome"], second["outcome_note"], second["reviewed_by"]) == ("partial", "", "bob")
    trail = AuditEvent.objects.filter(action="decision.review").order_by("id")
    assert [(row.before["outcome"], row.after["outcome"], row.author_name) for row in trail] == [
        ("pending", "failure", "ada · actor"), ("failure", "partial", "bob"),
    ]  # fmt: skip
    assert trail[1].before["outcome_note"] == "It broke."
    for bad in (
        {},
        {"outcome": "great"},
        {"outcome": "success", "note": "x" * 8_001},
        {"outcome": "success", "by": "x"},
    ):
        assert_problem(caller.post(f"{path}/review", bad), 422, "invalid")


def test_decision_description_is_never_rewritten(caller):
    path = f"/decisions/{recorded(caller)['id']}"
    for name in ("description", "confidence", "stakes", "reasons", "context", "outcome", "reviewed_by"):
        assert_problem(caller.request("PATCH", path, body={name: "x"}), 422, "invalid", field=name)
    body = {"category": "drinks", "tags": ["b"], "scope": "task", "importance": 0.2, "active": False}
    changed = caller.request("PATCH", path, body=body).json()
    assert {name: changed[name] for name in body} == body
    assert not SearchItem.objects.get().active
    assert caller.request("PATCH", path, body={"category": ""}).json()["category"] == ""
    for bad in ({"category": "Two Words"}, {"tags": None}, {"scope": ""}, {"importance": 2}):
        assert_problem(caller.request("PATCH", path, body=bad), 422, "invalid")


def test_decision_field_out_of_bounds_is_refused_by_name(caller, subtests):
    for bad in [
        {"description": ""},
        {"description": "x" * 8_001},
        {"context": "x" * 8_001},
        {"confidence": 1.1},
        {"confidence": "high"},
        {"stakes": "fatal"},
        {"reasons": ["x"] * 21},
        {"reasons": ["x" * 2_001]},
        {"reasons": [" "]},
        {"category": "Two Words"},
        {"importance": -1},
        {"episode": "x"},
        {"episode": "00000000-0000-0000-0000-000000000000"},
        {"outcome": "success"},
    ]:
        with subtests.test(bad=bad):
            assert_problem(
                caller.post("/decisions", {"description": "Tea."} | bad), 422, "invalid", field=next(iter(bad))
            )
            assert not Decision.objects.exists()
            assert not SearchItem.objects.exists()


def test_decision_numbers_that_are_none_are_refused(caller):
    for number in (b"NaN", b"Infinity", b"1e999"):
        refused = caller.post("/decisions", b'{"description": "Tea.", "confidence": ' + number + b"}")
        assert refused.status_code in (400, 422)
    assert not Decision.objects.exists()


def test_decision_episode_of_another_memory_is_refused(api, caller, other_token, subconscious_token):
    for secret in (other_token, subconscious_token):
        foreign = api.as_token(secret).post("/episodes", {}).json()["id"]
        refused = caller.post("/decisions", {"description": "Tea.", "episode": foreign})
        assert_problem(refused, 422, "invalid", field="episode")


def test_decisions_list_is_filtered_and_paged(caller):
    for place, stakes in enumerate(("low", "medium", "high", "critical", "low")):
        made = recorded(caller, description=f"Choice {place}", stakes=stakes, category="tea" if place else "cake")
        if place < 2:
            caller.post(f"/decisions/{made['id']}/review", {"outcome": "success"})

    def shown(**query):
        return [decision["description"][-1] for decision in caller.get("/decisions", query).json()["items"]]

    assert shown() == list("43210")
    assert shown(outcome="success") == list("10")
    assert shown(unreviewed=True) == list("432")
    assert shown(category="cake") == ["0"]
    assert shown(stakes="low") == list("40")
    assert shown(q="CHOICE 3") == ["3"]
    first = caller.get("/decisions", {"limit": 3}).json()
    rest = caller.get("/decisions", {"limit": 3, "cursor": first["next"]}).json()
    assert ([decision["description"][-1] for decision in rest["items"]], rest["next"]) == (list("10"), None)
    for bad in ({"stakes": "x"}, {"outcome": "x"}, {"unreviewed": "perhaps"}, {"limit": -5}):
        assert_problem(caller.get("/decisions", bad), 422, "invalid")


def test_decisions_of_others_are_not_found(api, caller, other_token, subconscious_token):
    mine = recorded(caller)["id"]
    hidden = recorded(api.as_token(subconscious_token))["id"]
    assert [decision["id"] for decision in caller.get("/decisions").json()["items"]] == [mine]
    for stranger, key in ((caller, hidden), (api.as_token(other_token), mine), (caller, str(uuid4()))):
        assert_problem(stranger.get(f"/decisions/{key}"), 404, "not_found")
        assert_problem(stranger.post(f"/decisions/{key}/review", {"outcome": "success"}), 404, "not_found")
        assert_problem(stranger.request("PATCH", f"/decisions/{key}", body={}), 404, "not_found")
    assert_problem(
        api.as_token(subconscious_token).post(f"/decisions/{mine}/review", {"outcome": "success"}), 403, "not_allowed"
    )


def test_decisions_are_read_only_for_viewers(api, caller, alice):
    key = recorded(caller)["id"]
    viewer = api.as_person(alice)
    assert viewer.get("/decisions", {"agent": "ada"}).json()["items"][0]["id"] == key
    assert_problem(
        viewer.post(f"/decisions/{key}/review", {"outcome": "success"}, {"agent": "ada"}), 403, "not_allowed"
    )
