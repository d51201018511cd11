"""What people wrote or let stand of an identity, and what they refused, against an agent that may change a section."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from identity.models import Agent, ChangeProposal
from identity.policy.sections import REJECTION_STANDS
from identity.principal import Principal
from identity.services.guardrails import bare_words
from identity.services.proposals import proposal_approve, proposal_keep, proposal_reject, proposal_revert, proposal_undo
from identity.services.versions import version_activate
from tests.api.problems import assert_problem
from tests.http import ApiClient

ASK = "Ask Ann before each deploy."
BOLD = "Deploy without asking anybody."
TO_ADA = {"agent": "ada"}
HELD = "A person wrote the"
REFUSED = "People rejected or reverted a change of the protocols in the last 30 days"


@pytest.fixture
def agent(api: ApiClient, ada: Agent, actor_token: str) -> ApiClient:
    return api.as_token(actor_token)


@pytest.fixture
def person(api: ApiClient, ada: Agent, bob: User) -> ApiClient:
    return api.as_person(bob)


def wish(caller: ApiClient, content: str, section: str = "protocols", **more: Any) -> Any:
    return caller.put(f"/identity/{section}", {"content": content, **more})


def proposal_of(answer: Any) -> ChangeProposal:
    return ChangeProposal.objects.get(pk=answer.json()["proposal"]["id"])


def long_ago(span: timedelta) -> None:
    for one in ChangeProposal.objects.all():
        one.created_at, one.decided_at = one.created_at - span, one.decided_at and one.decided_at - span
        one.save()


def assert_waits(caller: ApiClient, reason: str, content: str = BOLD) -> None:
    before = caller.get("/identity/protocols").json()["content"]
    answer = wish(caller, content)
    assert (answer.status_code, answer.json()["action"]) == (202, "proposed"), answer.content
    assert reason in answer.json()["proposal"]["guardrail"]
    assert caller.get("/identity/protocols").json()["content"] == before


def test_section_written_by_a_person_is_not_replaced(agent: ApiClient, person: ApiClient) -> None:
    assert person.put("/identity/protocols", {"content": ASK}, TO_ADA).json()["action"] == "applied"
    assert_waits(agent, HELD)


def test_section_emptied_by_a_person_stays_empty(agent: ApiClient, person: ApiClient) -> None:
    wish(agent, ASK)
    long_ago(timedelta(days=2))
    assert person.put("/identity/protocols", {"content": ""}, TO_ADA).json()["action"] == "applied"
    assert_waits(agent, HELD)


@pytest.mark.parametrize("edited", [None, "Ask Ann or Bob before each deploy."])
def test_section_approved_by_a_person_is_not_replaced(
    agent: ApiClient, reviewer: Principal, edited: str | None
) -> None:
    proposal_approve(proposal=proposal_of(wish(agent, ASK, mode="propose")), by=reviewer, content=edited)
    assert_waits(agent, HELD)


def test_section_kept_by_a_person_is_not_replaced_until_undone(agent: ApiClient, reviewer: Principal) -> None:
    kept = proposal_keep(proposal=proposal_of(wish(agent, ASK)), by=reviewer)
    long_ago(timedelta(days=2))
    assert_waits(agent, HELD)
    proposal_undo(proposal=kept, by=reviewer)
    assert wish(agent, BOLD).json()["action"] == "applied"


def test_section_restored_by_a_person_is_not_replaced(agent: ApiClient, reviewer: Principal) -> None:
    wish(agent, ASK)
    long_ago(timedelta(days=2))
    proposal_revert(proposal=proposal_of(wish(agent, "Deploy on Fridays.")), by=reviewer)
    long_ago(REJECTION_STANDS)
    assert_waits(agent, HELD)


def test_section_not_reviewed_stays_the_agents(agent: ApiClient) -> None:
    for content in (ASK, "Ask Ann and Bob before each deploy."):
        assert wish(agent, content).json()["action"] == "applied"
        long_ago(timedelta(days=2))


def test_section_seeded_by_the_system_stays_the_agents(agent: ApiClient, ada: Agent, system: Principal) -> None:
    version_activate(
        agent=ada, section="protocols", content=ASK, reason="", by=system, current=None, action="identity.seed"
    )
    assert wish(agent, BOLD).json()["action"] == "applied"


@pytest.mark.parametrize("again", [BOLD, f"{BOLD[:-1]}!", f"- **{BOLD.upper()}**", "Deploy with-out asking anybody"])
@pytest.mark.parametrize("section", ["protocols", "preferences", "values"])
def test_rejected_words_are_refused_in_every_section(
    agent: ApiClient, reviewer: Principal, again: str, section: str
) -> None:
    rejected = proposal_of(wish(agent, BOLD, "boundaries"))
    proposal_reject(proposal=rejected, by=reviewer, comment="Never.")
    problem = assert_problem(wish(agent, again, section), 409, "conflict", detail="(boundaries)")
    assert problem["proposal"] == str(rejected.pk)
    assert wish(agent, f"{again} Twice.", section).status_code in (200, 202)


def test_rejection_makes_the_next_change_of_the_section_wait(agent: ApiClient, reviewer: Principal) -> None:
    proposal_reject(proposal=proposal_of(wish(agent, BOLD, mode="propose")), by=reviewer)
    other = wish(agent, "Deploy; nobody needs to be asked.")
    assert (other.status_code, other.json()["action"]) == (202, "proposed")
    assert REFUSED in other.json()["proposal"]["guardrail"]
    long_ago(REJECTION_STANDS)
    assert wish(agent, "Deploy, and tell Ann.").json()["action"] == "applied"


def test_rejection_of_the_subconscious_is_hidden_from_the_actor(
    api: ApiClient, agent: ApiClient, subconscious_token: str, charlie: User
) -> None:
    hidden = proposal_of(wish(api.as_token(subconscious_token), BOLD))
    proposal_reject(proposal=hidden, by=Principal.of_user(charlie))
    assert wish(agent, BOLD).json()["action"] == "applied"


def test_rejection_ignores_a_corrected_sign(agent: ApiClient) -> None:
    first = proposal_of(wish(agent, "Retry if load < 5.", "values"))
    second = wish(agent, "Retry if load > 5.", "values")
    assert (second.status_code, second.json()["repeated"]) == (202, False)
    assert second.json()["proposal"]["id"] != str(first.pk)


@pytest.mark.parametrize(
    "other", ["ASKING!", " as\u200dking", "a-sking", "asking\u3164", "\uff41sking", "ask\u0336ing"]
)
def test_rejection_compares_bare_words(other: str) -> None:
    assert bare_words(other) == bare_words("asking.")


def test_rejection_distinguishes_text_without_words() -> None:
    assert bare_words("!!!") != bare_words("???")
