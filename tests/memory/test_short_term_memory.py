"""Short-term search: the seed's formula, the window, and settings of the agent."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity.models import Agent
from memory.layers.short_term_search import STM_DEFAULTS, StmConfig, normalise, stm_score, stm_search
from memory.models import GLOBAL, LoopSummary
from memory.persona import ActorMemory
from memory.services.events import events_record
from memory.services.loops import derived_backfill
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.factories import make_events

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLAIN = StmConfig.of({"stm": {"half_life_seconds": 3600, "w_similarity": 0.6, "w_recency": 0.4}})


@pytest.mark.parametrize(
    ("query", "summary", "age", "kind", "visibility", "expected"),
    [
        ("redis cache", "redis cache", 0, "actor_output", "public", 0.6 + 0.4),
        ("redis cache", "redis cache", 3600, "actor_output", "public", 0.6 + 0.4 * 0.5),
        ("redis cache", "redis cache", 7200, "actor_output", "public", 0.6 + 0.4 * 0.25),
        ("cache redis", "we put the redis cache live", 3600, "actor_output", "public", 0.6 + 0.4 * 0.5),
        ("redis cache", "redis cache", 0, "actor_output", "internal", 1.0 * 0.9),
        ("redis cache", "redis cache", 0, "error", "private", 1.0 * 1.1 * 0.8),
        ("redis cache", "redis cache", 0, "actor_output", "a-word-of-its-own", 1.0),
        ("", "redis cache", 3600, "actor_output", "public", 0.4 * 0.5),
        ("redis cache", "redis cache", -99, "actor_output", "public", 1.0),
    ],
)
def test_short_term_score_is_that_of_the_seed(query, summary, age, kind, visibility, expected):
    score = stm_score(query, summary, age_seconds=age, kind=kind, visibility=visibility, config=PLAIN)
    assert score.score == pytest.approx(expected)
    assert score.score == (0.6 * score.similarity + 0.4 * score.recency) * score.boost


def test_short_term_text_ignores_case_marks_and_forms():
    assert normalise("  Café-TIME\uff11!") == "café time1"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*STM_DEFAULTS, "stm", "public", "error"]), inner, max_size=8)
        ),
        max_leaves=20,
    )
)
def test_short_term_search_survives_any_agent_settings(value):
    for config in (value, {"stm": value}):
        found = StmConfig.of(config)
        score = stm_score("a b", "b c", age_seconds=10, kind="error", visibility="public", config=found)
        assert math.isfinite(score.score)
        assert score.score >= 0
        assert 1 <= found.window <= 500


def test_short_term_unusable_settings_fall_back_and_are_named():
    found = StmConfig.of(
        {
            "stm": {
                "half_life_seconds": 0, "w_similarity": True, "w_recency": 0.9, "window": 2.5, "colour": "red",
                "kind_boosts": {"error": -1, "tool_call": 2}, "visibility_boosts": [],
            }
        }
    )  # fmt: skip
    assert (found.half_life_seconds, found.w_similarity, found.window) == (86_400, 0.7, 50)
    assert found.w_recency == 0.9
    assert (found.kind_boosts["error"], found.kind_boosts["tool_call"]) == (1.1, 2)
    assert found.visibility_boosts == STM_DEFAULTS["visibility_boosts"]
    named = " ".join(found.problems)
    for name in ("half_life_seconds", "w_similarity", "window", "colour", "kind_boosts.error", "visibility_boosts"):
        assert f"stm.{name}" in named
    assert StmConfig.of({}).problems == ()


@pytest.fixture
def loops(ada, actor):
    """Five closed loops, an hour apart, the last an hour ago."""
    topics = ["the redis cache", "the holiday plan", "redis again", "billing of invoices", "weather"]
    with clock.at(NOW):
        for place, topic in enumerate(topics):
            ts = NOW - timedelta(hours=len(topics) - place)
            said = {"kind": "user_input", "content": f"Tell me of {topic}", "loop_id": str(place), "ts": ts}
            done = {"kind": "actor_output", "content": f"Said of {topic}.", "loop_id": str(place), "ts": ts}
            events_record(agent=ada, events=[said, done], by=actor)
        derived_backfill()
    return topics


def test_short_term_search_is_best_first_then_by_time(loops, ada):
    hits = stm_search(ActorMemory(ada), GLOBAL, "redis cache", now=NOW)
    assert [hit.loop.loop_id for hit in hits][:2] == ["0", "2"]
    assert [hit.score.score for hit in hits] == sorted((hit.score.score for hit in hits), reverse=True)
    flat = StmConfig.of({"stm": {"w_similarity": 0, "w_recency": 0}})
    assert [hit.loop.loop_id for hit in stm_search(ActorMemory(ada), GLOBAL, "x", now=NOW, config=flat)] == list(
        "43210"
    )


def test_short_term_search_is_limited_to_the_window_of_the_agent(loops, ada, api, actor_token):
    Agent.objects.filter(pk=ada.pk).update(config={"stm": {"window": 2, "w_recency": "much"}})
    answer = api.as_token(actor_token).get("/stm", {"q": "redis cache"}).json()
    assert {item["loop"]["loop_id"] for item in answer["items"]} == {"3", "4"}
    assert answer["problems"] == ["stm.w_recency must be a number from 0 to 1."]


def test_short_term_search_over_http_gives_the_parts_of_each_score(loops, api, actor_token):
    answer = api.as_token(actor_token).get("/stm", {"q": "redis cache", "limit": 2}).json()
    assert len(answer["items"]) == 2
    best = answer["items"][0]
    assert best["loop"]["loop_id"] == "0"
    assert best["similarity"] == 1.0
    assert best["score"] == pytest.approx((0.7 * best["similarity"] + 0.3 * best["recency"]) * best["boost"])
    assert answer["problems"] == []
    none = api.as_token(actor_token).get("/stm", {"q": "redis cache", "min_score": 5})
    assert none.json()["items"] == []


def test_short_term_search_leaves_out_an_open_loop(ada, actor):
    make_events(ada, actor, "redis", loop_id="open")
    derived_backfill()
    assert LoopSummary.objects.count() == 1
    assert stm_search(ActorMemory(ada), GLOBAL, "redis", now=clock.now()) == []


def test_short_term_bad_query_is_refused_by_name(api, actor_token, subtests):
    for query, field in [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "x" * 1_001}, "q"),
        ({"q": "x", "limit": 0}, "limit"),
        ({"q": "x", "limit": 10**20}, "limit"),
        ({"q": "x", "min_score": "nan"}, "min_score"),
        ({"q": "x", "min_score": "inf"}, "min_score"),
    ]:
        with subtests.test(query=query, field=field):
            assert_problem(api.as_token(actor_token).get("/stm", query), 422, "invalid", field=field)
