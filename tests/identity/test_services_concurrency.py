"""Many at once, each with a connection and a transaction of its own."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection, connections

from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from identity.principal import Principal
from identity.services.proposals import (
    identity_propose,
    proposal_approve,
    proposal_reject,
    proposal_undo,
    proposals_expire,
)
from identity.services.tokens import token_create
from nousweb.lib.errors import Conflict

pytestmark = pytest.mark.django_db(transaction=True)

# Fewer connections than the server allows; each thread takes the next call as soon as it is free.
THREADS = 25


def at_once(calls):
    """Run `calls` with as many at a time as there are threads; their results, an exception for a refusal."""
    together = Barrier(min(len(calls), THREADS))

    def run(numbered):
        number, call = numbered
        try:
            if number < together.parties:
                together.wait(timeout=30)
            return call()
        except Conflict as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(together.parties) as pool:
        return list(pool.map(run, enumerate(calls)))


def one_current_row_each():
    counted = Counter(IdentityVersion.objects.current().values_list("agent", "section"))
    return set(counted.values()) <= {1}


def test_concurrent_approvals_of_one_proposal_make_one_version(ada, actor, bob, charlie):
    proposal = identity_propose(agent=ada, section="character", content="Brisk.", by=actor).proposal
    people = [Principal.of_user(user) for user in (bob, charlie)]
    for by in people:
        by.may("identity.review_changeproposal")
    calls = [lambda by=people[number % 2]: proposal_approve(proposal=proposal, by=by) for number in range(50)]
    results = at_once(calls)
    assert [type(result) for result in results].count(IdentityVersion) == 1
    refusals = [result for result in results if isinstance(result, Conflict)]
    assert len(refusals) == 49
    assert {refusal.detail for refusal in refusals} < {
        "This proposal is already approved by bob.",
        "This proposal is already approved by charlie.",
    }
    versions = IdentityVersion.objects.filter(agent=ada, section="character")
    assert list(versions.values_list("version", "is_current")) == [(2, True), (1, False)]
    assert AuditEvent.objects.filter(action="proposal.approve").count() == 1


def test_concurrent_edits_of_one_base_have_one_winner_and_show_three_texts(api, ada, bob):
    callers = [api.as_person(bob) for _ in range(20)]
    calls = [
        lambda number=number: callers[number].put(
            "/identity/character", {"content": f"Text {number}.", "base_version": 1}, {"agent": "ada"}
        )
        for number in range(20)
    ]
    answers = at_once(calls)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 19}
    won = next(answer.json()["version"]["content"] for answer in answers if answer.status_code == 200)
    for number, answer in enumerate(answers):
        if answer.status_code == 409:
            body = answer.json()
            assert body["code"] == "stale_base"
            assert body["base"] == {"version": 1, "content": "You are Ada, calm and exact."}
            assert body["current"] == {"version": 2, "content": won}
            assert body["yours"] == {"content": f"Text {number}."}
    assert IdentityVersion.objects.filter(agent=ada, section="character").count() == 2
    assert one_current_row_each()


def test_concurrent_edits_without_a_base_follow_one_another(api, ada, bob):
    callers = [api.as_person(bob) for _ in range(10)]
    calls = [
        lambda number=number: callers[number].put("/identity/values", {"content": f"Text {number}."}, {"agent": "ada"})
        for number in range(10)
    ]
    assert Counter(answer.status_code for answer in at_once(calls)) == {200: 10}
    numbers = IdentityVersion.objects.filter(agent=ada, section="values").values_list("version", flat=True)
    assert sorted(numbers) == list(range(1, 11))
    assert one_current_row_each()


def test_concurrent_tokens_of_an_agent_apply_one_change(api, ada, bruno, system):
    secrets = {
        agent: [token_create(agent=agent, persona="actor", name=str(n), by=system)[1] for n in range(6)]
        for agent in (ada, bruno)
    }
    calls = [
        lambda secret=secret, number=number: api.as_token(secret).put(
            f"/identity/{('preferences', 'protocols')[number % 2]}", {"content": f"Text {number}."}
        )
        for mine in secrets.values()
        for number, secret in enumerate(mine)
    ]
    answers = at_once(calls)
    assert Counter(answer.status_code for answer in answers) == {200: 2, 202: 10}
    for agent in (ada, bruno):
        assert ChangeProposal.objects.filter(agent=agent, self_applied=True).count() == 1
    assert one_current_row_each()


def test_concurrent_approval_rejection_and_expiry_have_one_winner(ada, actor, bob, system):
    by = Principal.of_user(bob)
    by.may("identity.review_changeproposal")
    for number in range(5):
        proposal = identity_propose(agent=ada, section="values", content=f"Text {number}.", by=actor).proposal
        results = at_once([
            lambda proposal=proposal: proposal_approve(proposal=proposal, by=by),
            lambda proposal=proposal: proposal_reject(proposal=proposal, by=by),
            lambda proposal=proposal: proposals_expire(by=system, now=proposal.expires_at),
        ])  # fmt: skip
        decided = [result for result in results if not isinstance(result, Conflict) and result != 0]
        assert len(decided) == 1, results
        trail = AuditEvent.objects.filter(object_id=str(proposal.pk)).exclude(action="proposal.create").count()
        proposal.refresh_from_db()
        assert trail == (0 if proposal.status == "approved" else 1)
    assert one_current_row_each()


def test_concurrent_undo_and_later_edit_do_not_both_win(ada, actor, bob):
    by = Principal.of_user(bob)
    proposal = identity_propose(agent=ada, section="character", content="Brisk.", by=actor).proposal
    proposal_approve(proposal=proposal, by=by)
    at_once([
        lambda: proposal_undo(proposal=proposal, by=by),
        lambda: identity_propose(agent=ada, section="character", content="Edit.", base_version=2, by=by),
    ])  # fmt: skip
    now = IdentityVersion.objects.current().get(agent=ada, section="character")
    assert now.version == 3
    assert one_current_row_each()


def test_concurrent_connections_are_closed(ada):
    before = connections_open()
    at_once([lambda: IdentityVersion.objects.count() for _ in range(THREADS)])
    assert connections_open() - before < THREADS - 1


def connections_open() -> int:
    """This test's own, and those that a live server keeps for its next requests."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]
