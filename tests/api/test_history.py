"""GET /api/identity/{section}/history."""

import pytest

from identity.models import IdentityVersion
from identity.principal import Principal
from identity.services.proposals import identity_propose, identity_rollback
from tests.api.problems import assert_problem


@pytest.fixture
def by(bob):
    return Principal.of_user(bob)


@pytest.fixture
def seven(ada, by):
    """Seven versions of Ada's values, the seventh restoring the second."""
    for number in range(1, 7):
        identity_propose(agent=ada, section="values", content=f"Value {number}.", reason=f"Step {number}.", by=by)
    identity_rollback(agent=ada, section="values", to_version=2, by=by)


def test_history_is_latest_first_with_author_and_reason(api, seven, actor_token):
    body = api.as_token(actor_token).get("/identity/values/history").json()
    assert [item["version"] for item in body["items"]] == [7, 6, 5, 4, 3, 2, 1]
    assert body["next"] is None
    latest, before = body["items"][:2]
    assert (latest["content"], latest["restores_version"], latest["previous_version"]) == ("Value 2.", 2, 6)
    assert latest["is_current"]
    assert (latest["author_kind"], latest["author_name"]) == ("person", "bob")
    assert (before["reason"], before["is_current"], before["restores_version"]) == ("Step 6.", False, None)
    assert body["items"][-1]["previous_version"] is None


def test_history_pages_are_stable_while_versions_are_added(api, ada, seven, by, actor_token):
    caller = api.as_token(actor_token)
    first = caller.get("/identity/values/history", {"limit": 3}).json()
    assert [item["version"] for item in first["items"]] == [7, 6, 5]
    assert first["next"] == 5
    identity_propose(agent=ada, section="values", content="Newer.", by=by)
    second = caller.get("/identity/values/history", {"limit": 3, "before": first["next"]}).json()
    assert [item["version"] for item in second["items"]] == [4, 3, 2]
    last = caller.get("/identity/values/history", {"limit": 3, "before": second["next"]}).json()
    assert [item["version"] for item in last["items"]] == [1]
    assert last["next"] is None


def test_history_page_that_is_exactly_full_has_no_next(api, seven, actor_token):
    assert api.as_token(actor_token).get("/identity/values/history", {"limit": 7}).json()["next"] is None


def test_history_of_a_section_without_versions_is_empty(api, ada, actor_token):
    assert api.as_token(actor_token).get("/identity/values/history").json() == {"items": [], "next": None}


def test_history_limit_out_of_range_is_refused(api, ada, actor_token, subtests):
    for limit in ["0", "-1", "201", str(10**30), "NaN", "1e3", "1.5", "", "abc", "٣x"]:
        with subtests.test(limit=limit):
            refused = api.as_token(actor_token).get("/identity/values/history", {"limit": limit})
            assert_problem(refused, 422, "invalid", field="limit")


def test_history_before_out_of_range_is_refused(api, ada, actor_token, subtests):
    for before in ["0", "-1", str(2**63), str(10**30), "Infinity", "x"]:
        with subtests.test(before=before):
            refused = api.as_token(actor_token).get("/identity/values/history", {"before": before})
            assert_problem(refused, 422, "invalid", field="before")


def test_history_of_another_agent_is_separate(api, ada, bruno, seven, other_token):
    assert api.as_token(other_token).get("/identity/values/history").json()["items"] == []
    assert IdentityVersion.objects.filter(agent=ada, section="values").count() == 7
