"""A logged request against today's memory, without a trace."""

import pytest

from context.engine.analysis.request import ContextRequest
from context.engine.context_record import ContextRecord
from context.models import ContextRun
from context.services.context import context_assemble, context_replay
from identity.models import AuditEvent
from identity.principal import Principal
from nousweb.lib import clock
from nousweb.lib.errors import NotAllowed, NotFound
from tests.factories import EXPORT, make_fact, make_run


def test_replay_includes_what_was_learned_since_and_writes_nothing(ada, actor, system, bob):
    run = make_run(ada, actor)
    then = clock.now()
    make_fact(ada, "The ledger export failed because the replica lagged.", system)
    before = ContextRun.objects.count(), AuditEvent.objects.count()
    by = Principal.of_user(bob)
    now = context_replay(run=run, by=by).system_prompt
    assert "replica lagged" in now
    assert "replica lagged" not in run.system_prompt
    assert context_replay(run=run, by=by, as_of=then).system_prompt == run.system_prompt
    assert (ContextRun.objects.count(), AuditEvent.objects.count()) == before


def test_replay_without_changes_gives_the_same_prompt_token_for_token(ada, actor, system, bob):
    for number in range(5):
        make_fact(ada, f"The ledger export writes file {number} at night.", system)
    run = make_run(ada, actor, conversation=(), tags=("export",), mode="plan")
    again = context_replay(run=run, by=Principal.of_user(bob))
    assert (again.system_prompt, again.tokens) == (run.system_prompt, run.tokens)


def test_replay_takes_another_frame_or_profile(ada, actor, bob):
    run = make_run(ada, actor)
    replayed = context_replay(run=run, by=Principal.of_user(bob), frame="decision", profile="peasant_default")
    assert (replayed.frame_id, replayed.profile_id) == (
        "decision",
        "peasant_default",
    )
    with pytest.raises(NotFound):
        context_replay(run=run, by=Principal.of_user(bob), profile="nobody")


def test_replay_of_the_subconscious_needs_the_permission(ada, subconscious_token, bob, charlie):
    from identity.models import ApiToken

    dreamer = Principal.of_token(ApiToken.objects.get(agent=ada, persona="subconscious"))
    make_fact(ada, "A dream.", dreamer, category="preference")
    run = make_run(ada, dreamer)
    with pytest.raises(NotAllowed):
        context_replay(run=run, by=Principal.of_user(bob))
    assert "A dream." in context_replay(run=run, by=Principal.of_user(charlie)).system_prompt


def test_replay_is_refused_to_tokens(ada, actor):
    with pytest.raises(NotAllowed):
        context_replay(run=make_run(ada, actor), by=actor)


def test_replay_record_is_the_one_that_was_answered(ada, actor, system):
    make_fact(ada, "The ledger export failed because the replica lagged.", system, subject="Ledger")
    make_fact(ada, "Bananas are yellow.", system)
    record = context_assemble(agent=ada, request=ContextRequest("s", EXPORT, tags=("export",), mode="plan"), by=actor)
    assert {one["verdict"] for one in record.candidates} > {"included"}
    assert ContextRecord.of_run(ContextRun.objects.get(pk=record.id)) == record
