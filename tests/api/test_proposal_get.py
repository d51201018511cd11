"""GET /api/proposals/{id}."""

import pytest

from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_approve, proposal_reject
from tests.api.problems import assert_problem
from tests.factories import make_token


@pytest.fixture
def proposal(ada, actor):
    return identity_propose(agent=ada, section="values", content="Truth.", reason="It helps.", by=actor).proposal


def test_proposal_get_follows_its_life(api, proposal, bob, actor_token):
    caller = api.as_token(actor_token)
    body = caller.get(f"/proposals/{proposal.pk}").json()
    assert (body["id"], body["agent"], body["section"]) == (str(proposal.pk), "ada", "values")
    assert (body["status"], body["content"], body["reason"]) == ("pending", "Truth.", "It helps.")
    assert (body["author_kind"], body["author_name"], body["reviewer_name"]) == ("token", "ada · actor", "")
    assert (body["version"], body["decided_at"]) == (None, None)
    proposal_approve(proposal=proposal, by=Principal.of_user(bob), comment="Well said.", content="Truth first.")
    body = caller.get(f"/proposals/{proposal.pk}").json()
    assert (body["status"], body["reviewer_name"], body["comment"]) == ("approved", "bob", "Well said.")
    assert (body["version"], body["edited"]) == (1, True)


def test_proposal_get_names_why_it_was_rejected(api, proposal, bob, actor_token):
    proposal_reject(proposal=proposal, by=Principal.of_user(bob), comment="Too vague.")
    body = api.as_token(actor_token).get(f"/proposals/{proposal.pk}").json()
    assert (body["status"], body["comment"]) == ("rejected", "Too vague.")


def test_proposal_get_by_a_viewer_needs_no_agent(api, proposal, alice):
    assert api.as_person(alice).get(f"/proposals/{proposal.pk}").json()["status"] == "pending"


def test_proposal_get_of_another_agent_is_not_found(api, proposal, other_token):
    there = api.as_token(other_token).get(f"/proposals/{proposal.pk}")
    not_there = api.as_token(other_token).get("/proposals/00000000-0000-4000-8000-000000000000")
    assert assert_problem(there, 404, "not_found")["detail"] == assert_problem(not_there, 404, "not_found")["detail"]


def test_proposal_get_without_the_scope_is_refused(api, ada, proposal, system):
    secret = make_token(ada, name="memory", scopes=["memory:read"])
    refused = api.as_token(secret).get(f"/proposals/{proposal.pk}")
    assert_problem(refused, 403, "not_allowed", detail="identity:read")


def test_proposal_get_of_a_malformed_id_is_refused(api, ada, actor_token, subtests):
    for given in ["1", "abc", "00000000-0000-0000-0000-00000000000", "é", "'", "x" * 2000]:
        with subtests.test(given=given):
            refused = api.as_token(actor_token).get(f"/proposals/{given}")
            assert refused.status_code in (404, 422)
            assert_problem(refused, refused.status_code, {404: "not_found", 422: "invalid"}[refused.status_code])
