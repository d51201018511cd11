"""Twenty changes of twenty kinds between two checks: each is named as the one that broke its expectation."""

from itertools import cycle

from benchmarks.planted_changes import Garden
from context.expectations.services import expectation_create, expectations_verify, request_of
from context.models import ExpectationResult
from identity.models import Agent
from identity.principal import Principal
from memory.services.events import events_record
from memory.services.search_index.row_embedding import embed_pending_rows
from tests.factories import make_person, make_principal


def test_expectations_name_the_change_that_broke_each(ada, settings):
    settings.FOUR_EYES = False
    by = Principal.of_user(make_person("gardener", "Viewer", "Reviewer", "Administrator"))
    agent = make_principal(ada)
    plants = Garden(ada, by).plants()
    assert len(plants) == 20
    question = request_of("Tell me of the anchor.")
    stays = expectation_create(
        agent=ada, by=by, request=question, requirement="present", target="section", section="identity"
    )
    embed_pending_rows()
    first = expectations_verify(agent=ada, by=by)
    states = {result.expectation_id: (result.state, result.detail) for result in ExpectationResult.objects.all()}
    assert {states[one.pk][0] for one in first} == {"passed"}, states
    named = {}
    # In another order than they were written, with changes in between that break nothing.
    order = [plants[(7 * place) % len(plants)] for place in range(len(plants))]
    for number, (plant, kind) in enumerate(zip(order, cycle(["user_input", "tool_call"]))):
        events_record(agent=ada, events=[{"kind": kind, "content": f"Number {number}.", "loop_id": "l"}], by=agent)
        named[plant.expectation.pk] = plant.apply()
    embed_pending_rows()
    expectations_verify(agent=Agent.objects.get(pk=ada.pk), by=by)
    results = ExpectationResult.objects.filter(is_current=True)
    found = {one.expectation_id: one for one in results if one.expectation_id in named}
    wrong = {
        (kind, key): (found[pk].state, found[pk].detail, found[pk].cause)
        for pk, (kind, key) in named.items()
        if (found[pk].cause.get("kind"), found[pk].cause.get("object_id")) != (kind, key)
    }
    assert not wrong
    assert {one.state for one in found.values()} == {"failed"}
    assert {one.cause["by"] for one in found.values()} == {"gardener", "agent"}
    assert results.get(expectation=stays).state == "passed"
