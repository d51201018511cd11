"""GET /api/identity/{section}/diff."""

import pytest

from identity.principal import Principal
from identity.services.proposals import identity_propose
from tests.api.problems import assert_problem


@pytest.fixture
def two(ada, bob):
    by = Principal.of_user(bob)
    identity_propose(agent=ada, section="values", content="Truth.\nSpeed.\nCare.", by=by)
    identity_propose(agent=ada, section="values", content="Truth.\nCalm.\nCare.\nThrift.", by=by)


def test_diff_has_lines_added_removed_and_changed(api, two, actor_token):
    answer = api.as_token(actor_token).get("/identity/values/diff", {"from": 1, "to": 2})
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["section", "from", "to", "added", "removed", "lines"]
    assert (body["from"], body["to"], body["added"], body["removed"]) == (1, 2, 2, 1)
    assert body["lines"] == [
        {"kind": "equal", "old": "Truth.", "new": "Truth."},
        {"kind": "changed", "old": "Speed.", "new": "Calm."},
        {"kind": "equal", "old": "Care.", "new": "Care."},
        {"kind": "added", "old": None, "new": "Thrift."},
    ]


def test_diff_of_both_directions_and_of_the_same_version(api, two, actor_token):
    caller = api.as_token(actor_token)
    backwards = caller.get("/identity/values/diff", {"from": 2, "to": 1}).json()
    assert (backwards["added"], backwards["removed"]) == (1, 2)
    same = caller.get("/identity/values/diff", {"from": 2, "to": 2}).json()
    assert {line["kind"] for line in same["lines"]} == {"equal"}


def test_diff_rebuilds_either_side(api, two, actor_token):
    lines = api.as_token(actor_token).get("/identity/values/diff", {"from": 1, "to": 2}).json()["lines"]
    assert "\n".join(line["old"] for line in lines if line["old"] is not None) == "Truth.\nSpeed.\nCare."
    assert "\n".join(line["new"] for line in lines if line["new"] is not None) == "Truth.\nCalm.\nCare.\nThrift."


def test_diff_of_a_missing_version_is_not_found(api, two, actor_token):
    refused = api.as_token(actor_token).get("/identity/values/diff", {"from": 1, "to": 3})
    assert_problem(refused, 404, "not_found", detail="no version 3")


def test_diff_of_a_version_out_of_range_is_refused_by_name(api, two, actor_token, subtests):
    for value in [None, "0", "-1", str(2**63), str(10**30), "NaN", "x", ""]:
        for name in ["from", "to"]:
            with subtests.test(value=value, name=name):
                query = {"from": "1", "to": "2", name: value}
                refused = api.as_token(actor_token).get(
                    "/identity/values/diff", {key: given for key, given in query.items() if given is not None}
                )
                assert_problem(refused, 422, "invalid", field=name)


def test_diff_of_two_unrelated_texts_of_full_length(api, ada, bob, actor_token):
    """The worst input that the limits let through has an answer, not a timeout."""
    by = Principal.of_user(bob)
    identity_propose(
        agent=ada, section="values", content="\n".join("a" * (n % 3) for n in range(1, 9_000)) + "x", by=by
    )
    identity_propose(
        agent=ada, section="values", content="\n".join("b" * (n % 3) for n in range(1, 9_000)) + "y", by=by
    )
    answer = api.as_token(actor_token).get("/identity/values/diff", {"from": 1, "to": 2})
    assert answer.status_code == 200
    assert answer.json()["added"] > 5_000
