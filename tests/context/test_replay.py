"""A logged request against today's memory, without a trace."""

import pytest

from context.models import ContextRun
from context.services.replay import context_replay
from identity.models import AuditEvent
from identity.principal import Principal
from nousweb.lib import clock
from nousweb.lib.errors import NotAllowed, NotFound
from tests.context.stories import learn, send


def test_a_replay_knows_what_was_learned_since_and_leaves_no_trace(ada, actor, system, bob):
    run = send(ada, actor)
    then = clock.now()
    learn(ada, "The ledger export failed because the replica lagged.", system)
    before = ContextRun.objects.count(), AuditEvent.objects.count()
    by = Principal.of_user(bob)
    now = context_replay(run=run, by=by).prepared.assembly.system_prompt
    assert "replica lagged" in now
    assert "replica lagged" not in run.system_prompt
    assert context_replay(run=run, by=by, as_of=then).prepared.assembly.system_prompt == run.system_prompt
    assert (ContextRun.objects.count(), AuditEvent.objects.count()) == before


def test_nothing_changed_gives_the_same_prompt_token_for_token(ada, actor, system, bob):
    for number in range(5):
        learn(ada, f"The ledger export writes file {number} at night.", system)
    run = send(ada, actor, conversation=(), tags=("export",), mode="plan")
    again = context_replay(run=run, by=Principal.of_user(bob)).prepared.assembly
    assert (again.system_prompt, again.tokens) == (run.system_prompt, run.tokens)


def test_another_frame_or_profile_may_be_tried(ada, actor, bob):
    run = send(ada, actor)
    replayed = context_replay(run=run, by=Principal.of_user(bob), frame="decision", profile="peasant_default")
    assert (replayed.prepared.decided.frame.frame.id, replayed.prepared.decided.profile.profile_id) == (
        "decision",
        "peasant_default",
    )
    with pytest.raises(NotFound):
        context_replay(run=run, by=Principal.of_user(bob), profile="nobody")


def test_of_the_subconscious_only_with_the_right_to_it(ada, subconscious_token, bob, charlie):
    from identity.models import ApiToken

    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    learn(ada, "A dream.", dreamer, category="preference")
    run = send(ada, dreamer)
    with pytest.raises(NotAllowed):
        context_replay(run=run, by=Principal.of_user(bob))
    assert "A dream." in context_replay(run=run, by=Principal.of_user(charlie)).prepared.assembly.system_prompt


def test_a_token_replays_nothing(ada, actor):
    with pytest.raises(NotAllowed):
        context_replay(run=send(ada, actor), by=actor)
