"""What memories have been worth so far, decayed in the database."""

from datetime import timedelta

import hypothesis
import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from context.engine.analysis.request import ContextRequest
from context.engine.retrieval.candidates import UsageStats, usage_stats
from context.models import ContextRun, MemoryUsage
from context.services.context import context_assemble, context_respond
from memory.services.facts import fact_learn
from nousweb.lib import clock
from nousweb.lib.errors import Conflict

NOW = timezone.now()


@pytest.fixture(autouse=True)
def boosted(settings):
    settings.USAGE_BOOST_PERCENT = 100


def observe(ada, item_id, *, referenced, days_ago=0.0):
    run = ContextRun.objects.create(
        agent=ada, persona="actor", session_id="s", input="?", request={}, system_prompt="", sections=[], tokens=0,
        duration_ms=1, principal_name="t",
    )  # fmt: skip
    return MemoryUsage.objects.create(
        run=run, agent=ada, persona="actor", item_type="fact", item_id=item_id, referenced=referenced, overlap=0.5,
        at=NOW - timedelta(days=days_ago),
    )  # fmt: skip


def boost(ada, item_id="a"):
    found = usage_stats(ada, "actor", [("fact", item_id)], now=NOW)
    return found[("fact", item_id)].boost if found else 1.0


def test_usage_reference_counts_half_after_a_week(ada):
    observe(ada, "a", referenced=True, days_ago=7)
    assert usage_stats(ada, "actor", [("fact", "a")], now=NOW)[("fact", "a")].score == pytest.approx(0.5)


def test_usage_of_an_unknown_memory_is_neutral(ada):
    assert usage_stats(ada, "actor", [("fact", "a")], now=NOW) == {}
    assert usage_stats(ada, "actor", [], now=NOW) == {}


@pytest.mark.parametrize(
    ("references", "factor"),
    [
        ([True], 1.0),
        ([False], 1.0),
        ([False, False], 0.5),
        ([True, False], 1.0),
        ([True, True], 1.5),
        ([True, True, False, False], 1.0),
    ],
)
def test_usage_factor_follows_the_share_of_references(ada, references, factor):
    for referenced in references:
        observe(ada, "a", referenced=referenced)
    assert boost(ada) == pytest.approx(factor)


def test_usage_factor_is_as_strong_as_its_setting(ada, settings):
    for referenced in (True, True):
        observe(ada, "a", referenced=referenced)
    settings.USAGE_BOOST_PERCENT = 20
    assert boost(ada) == pytest.approx(1.1)
    settings.USAGE_BOOST_PERCENT = 0
    assert boost(ada) == 1.0


def test_usage_long_ago_weighs_less_than_recent_uselessness(ada):
    observe(ada, "a", referenced=True, days_ago=28)
    observe(ada, "a", referenced=False)
    assert boost(ada) == pytest.approx(0.5 + (1 / 16) / (1 + 1 / 16))


@pytest.mark.parametrize(("referenced", "fresh"), [(True, 1.5), (False, 0.5)])
def test_usage_factor_fades_toward_neutral_with_a_half_life_of_a_week(ada, referenced, fresh):
    for item_id, days_ago in (("now", 0), ("week", 7), ("weeks", 14), ("years", 3_000)):
        for _ in range(3):
            observe(ada, item_id, referenced=referenced, days_ago=days_ago)
    factors = [boost(ada, item_id) for item_id in ("now", "week", "weeks", "years")]
    assert factors == pytest.approx([fresh, 1 + (fresh - 1) / 2, 1 + (fresh - 1) / 4, 1.0])


OBSERVATIONS = st.lists(st.tuples(st.booleans(), st.floats(0, 60)), min_size=2, max_size=8)


@given(OBSERVATIONS, st.floats(0, 90), st.randoms(use_true_random=False))
@hypothesis.settings(max_examples=25, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_usage_factor_fades_by_age_alone_in_whatever_order_it_is_observed(ada, observed, days_later, random):
    shuffled = random.sample(observed, len(observed))
    for item_id, rows in (("a", observed), ("b", shuffled)):
        MemoryUsage.objects.filter(item_id=item_id).delete()
        for referenced, days_ago in rows:
            observe(ada, item_id, referenced=referenced, days_ago=days_ago)
    keys = [("fact", "a"), ("fact", "b")]
    first, other = (usage_stats(ada, "actor", keys, now=NOW)[key].boost for key in keys)
    assert first == pytest.approx(other)
    later = usage_stats(ada, "actor", keys, now=NOW + timedelta(days=days_later))[keys[0]].boost
    assert later - 1 == pytest.approx((first - 1) * 2 ** (-days_later / 7), abs=1e-9)
    assert abs(later - 1) <= abs(first - 1) + 1e-9


def test_usage_ignores_the_future_and_other_memories(ada, bruno):
    observe(ada, "a", referenced=True, days_ago=-1)
    observe(ada, "b", referenced=True)
    observe(bruno, "a", referenced=True)
    assert usage_stats(ada, "actor", [("fact", "a")], now=NOW) == {}


def test_usage_statistics_of_nothing_are_neutral():
    assert UsageStats(5, 0.0, 0.0, 0.0).boost == 1.0


def test_usage_answer_references_what_it_repeats_once(ada, actor, system):
    tea = fact_learn(agent=ada, content="Tim drinks green tea in the morning.", category="person", by=system).fact
    rain = fact_learn(agent=ada, content="Umbrellas belong to the hallway.", category="person", by=system).fact
    with clock.at(NOW - timedelta(hours=1)):
        made = context_assemble(agent=ada, request=ContextRequest("s", "What does Tim drink?"), by=actor)
    run = ContextRun.objects.get(pk=made.id)
    uses = context_respond(run=run, response="He drinks green tea " + "and so on " * 200, by=actor).uses
    assert {use.id: use.referenced for use in uses} == {str(tea.pk): True, str(rain.pk): False}
    assert MemoryUsage.objects.filter(run=run).count() == 2
    with pytest.raises(Conflict):
        context_respond(run=run, response="Tea.", by=actor)
