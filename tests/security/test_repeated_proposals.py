"""An agent that floods the queue of identity changes, or proposes until people give in."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from identity.models import ChangeProposal
from identity.policy.sections import (
    MAX_PENDING_PROPOSALS_PER_TOKEN,
    MAX_PROPOSALS_PER_TOKEN_AND_DAY,
    REJECTION_STANDS,
)
from identity.principal import Principal
from identity.services.proposals import identity_propose, proposal_reject, proposal_revert, proposal_undo
from identity.services.tokens import token_create
from tests.api.problems import assert_problem

BOLD = "You are bold, and ask nobody."


@pytest.fixture
def agent(api, ada, actor_token):
    return api.as_token(actor_token)


def long_ago(span):
    for one in ChangeProposal.objects.all():
        one.created_at, one.decided_at = one.created_at - span, one.decided_at and one.decided_at - span
        one.save()


def proposed(caller, content, section="character", **more):
    return caller.put(f"/identity/{section}", {"content": content, "mode": "propose", **more})


@pytest.mark.parametrize("again", [BOLD, f"  {BOLD}\n"])
def test_repeated_proposal_with_the_same_words_is_one(agent, again):
    first = proposed(agent, BOLD)
    assert (first.status_code, first.json()["repeated"]) == (202, False)
    for _ in range(5):
        answer = proposed(agent, again, reason="Please.")
        assert (answer.status_code, answer.json()["action"], answer.json()["repeated"]) == (200, "proposed", True)
        assert answer.json()["proposal"]["id"] == first.json()["proposal"]["id"]
    assert ChangeProposal.objects.count() == 1
    assert proposed(agent, BOLD, section="values").status_code == 202
    assert proposed(agent, f"{BOLD} Or somebody.").status_code == 202


@pytest.mark.parametrize(
    ("first", "corrected"),
    [
        ("- Ask\n- Tell\n  - Bob", "- Ask\n  - Tell\n  - Bob"),
        ("Send it to us.", "Send it to US."),
        ("At most 5² items.", "At most 52 items."),
        ("if late:\n    ask()\n    wait()", "if late:\n    ask()\nwait()"),
        ("Say “file”.", "Say “ﬁle”."),
        ("One.\n\nTwo.", "One.\nTwo."),
    ],
)
def test_corrected_proposal_is_another_one(agent, first, corrected):
    assert proposed(agent, first).status_code == 202
    answer = proposed(agent, corrected)
    assert (answer.status_code, answer.json()["repeated"]) == (202, False)
    assert answer.json()["proposal"]["content"] == corrected
    assert ChangeProposal.objects.count() == 2


@pytest.mark.parametrize(
    ("first", "corrected"), [("At most 5² items.", "At most 52 items."), ("Wait 05 s.", "Wait 0.5 s.")]
)
def test_other_number_than_in_a_rejected_proposal_may_be_proposed(agent, reviewer, first, corrected):
    rejected = ChangeProposal.objects.get(pk=proposed(agent, first).json()["proposal"]["id"])
    proposal_reject(proposal=rejected, by=reviewer)
    assert_problem(proposed(agent, first.upper()), 409, "conflict", detail="these words")
    assert proposed(agent, corrected).status_code == 202


def test_repeated_proposal_is_separate_by_persona_and_person(api, agent, subconscious_token, bob, settings):
    settings.FOUR_EYES = True
    mine = proposed(agent, BOLD).json()["proposal"]["id"]
    hidden = proposed(api.as_token(subconscious_token), BOLD)
    body = {"content": BOLD, "mode": "propose"}
    person = api.as_person(bob).request("PUT", "/identity/character", body=body, query={"agent": "ada"})
    assert [answer.status_code for answer in (hidden, person)] == [202, 202]
    assert len({mine, hidden.json()["proposal"]["id"], person.json()["proposal"]["id"]}) == 3


def test_repeated_proposal_after_a_rejection_is_refused(agent, reviewer):
    first = proposed(agent, BOLD).json()["proposal"]["id"]
    proposal = ChangeProposal.objects.get(pk=first)
    proposal_reject(proposal=proposal, by=reviewer, comment="Never without asking.")
    refused = proposed(agent, BOLD.lower())
    problem = assert_problem(refused, 409, "conflict", detail="Never without asking.")
    assert problem["proposal"] == first
    assert ChangeProposal.objects.count() == 1
    long_ago(REJECTION_STANDS)
    assert proposed(agent, BOLD).status_code == 202


def test_repeated_proposal_after_an_undone_rejection_is_accepted(agent, reviewer):
    first = proposed(agent, BOLD).json()["proposal"]["id"]
    proposal_reject(proposal=ChangeProposal.objects.get(pk=first), by=reviewer)
    proposal_undo(proposal=ChangeProposal.objects.get(pk=first), by=reviewer)
    answer = proposed(agent, BOLD)
    assert (answer.status_code, answer.json()["proposal"]["id"]) == (200, first)


def test_repeated_proposal_after_a_revert_is_not_applied(agent, ada, reviewer):
    applied = agent.put("/identity/preferences", {"content": "Short answers."}).json()["proposal"]
    proposal_revert(proposal=ChangeProposal.objects.get(pk=applied["id"]), by=reviewer)
    long_ago(timedelta(days=2))
    refused = agent.put("/identity/preferences", {"content": "short  answers."})
    assert_problem(refused, 409, "conflict", detail="reverted")
    other = agent.put("/identity/preferences", {"content": "Long answers."})
    assert (other.status_code, other.json()["action"]) == (202, "proposed")


def test_repeated_proposal_refused_to_the_subconscious_is_hidden_from_the_actor(
    api, agent, subconscious_token, charlie
):
    hidden = proposed(api.as_token(subconscious_token), BOLD).json()["proposal"]["id"]
    proposal_reject(proposal=ChangeProposal.objects.get(pk=hidden), by=Principal.of_user(charlie))
    assert_problem(proposed(api.as_token(subconscious_token), BOLD), 409, "conflict")
    assert proposed(agent, BOLD).status_code == 202


def test_repeated_proposal_after_a_rejection_is_open_to_people(api, agent, bob, reviewer):
    first = proposed(agent, BOLD).json()["proposal"]["id"]
    proposal_reject(proposal=ChangeProposal.objects.get(pk=first), by=reviewer)
    body = {"content": BOLD, "mode": "propose"}
    answer = api.as_person(bob).request("PUT", "/identity/character", body=body, query={"agent": "ada"})
    assert answer.status_code == 202


def test_proposal_limit_of_waiting(api, ada, agent, all_scopes_token):
    for place in range(MAX_PENDING_PROPOSALS_PER_TOKEN):
        assert proposed(agent, f"{BOLD} {place}").status_code == 202
    assert_problem(proposed(agent, f"{BOLD} One more."), 409, "conflict", detail="are pending")
    assert proposed(agent, f"{BOLD} 3").json()["repeated"], "what waits already is still answered"
    assert proposed(api.as_token(all_scopes_token), "Of another token.").status_code == 202


def test_proposal_limit_per_day(ada, agent, reviewer):
    for place in range(MAX_PROPOSALS_PER_TOKEN_AND_DAY):
        answer = proposed(agent, f"{BOLD} {place}")
        assert answer.status_code == 202, answer.content
        proposal_reject(proposal=ChangeProposal.objects.get(pk=answer.json()["proposal"]["id"]), by=reviewer)
    refused = proposed(agent, "One more.")
    assert_problem(refused, 429, "too_many_requests", detail="50")
    assert 0 < int(refused.headers["Retry-After"]) <= 86_401
    long_ago(timedelta(days=1))
    assert proposed(agent, "One more.").status_code == 202


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("persona", ["actor", "subconscious"])
def test_repeated_proposal_at_once_is_one(ada, system, persona):
    by = Principal.of_token(token_create(agent=ada, persona=persona, name="racer", by=system)[0])
    ready = threading.Barrier(4)

    def propose(_):
        try:
            ready.wait(30)
            return identity_propose(agent=ada, section="character", content=BOLD, by=by, wait=True)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(propose, range(4)))
    assert ChangeProposal.objects.count() == 1
    assert sorted(result.repeated for result in results) == [False, True, True, True]
