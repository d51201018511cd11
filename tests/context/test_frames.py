"""Which frame an input calls for."""

import pytest

from context.engine.analysis.frames import DEFAULT_FRAME, FRAMES, budget_for, frame_select, plan_retrieval
from context.engine.analysis.intent import intent_read


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("should we fix this bug", "decision"),
        ("hello how are you", "conversation"),
        ("build this", "task"),
        ("why is it slow", "question"),
        ("brainstorm ideas for the launch", "creative"),
        ("the job crashed with a traceback", "debug"),
        ("I decided on Postgres", "decision"),
        ("we are deciding between two options", "decision"),
    ],
)
def test_frame_is_chosen_by_words(text, frame):
    assert frame_select(text).frame.id == frame


@pytest.mark.parametrize("text", ["buildings everywhere", "", "   ", "the fixture", "weather", "👩‍🚀"])
def test_frame_without_matching_word_is_the_default(text):
    chosen = frame_select(text)
    assert (chosen.frame.id, chosen.confidence, chosen.hits) == (DEFAULT_FRAME, 0.0, ())


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("build this", 0.3),
        ("build and fix the server", 0.6),
        ("build, fix and deploy it", 0.9),
        ("build, fix, deploy and refactor it", 1.0),
        ("build, fix, deploy, refactor and update it", 1.0),
    ],
)
def test_frame_confidence_grows_with_each_pattern_up_to_one(text, confidence):
    assert frame_select(text).confidence == pytest.approx(confidence)


def test_frame_ties_fall_in_the_declared_order():
    assert list(FRAMES) == ["decision", "debug", "task", "question", "creative", "conversation"]
    assert frame_select("fix the bug").frame.id == "debug"
    assert frame_select("explain how to build").frame.id == "question"


def test_frame_forced_needs_no_words():
    chosen = frame_select("hello", forced="decision")
    assert (chosen.frame.id, chosen.confidence, chosen.forced) == ("decision", 1.0, True)


@pytest.mark.parametrize(
    ("frame", "total", "window"),
    [
        ("conversation", 3_000, 3),
        ("question", 6_000, 5),
        ("task", 8_000, 5),
        ("decision", 12_000, 8),
        ("creative", 6_000, 4),
        ("debug", 10_000, 6),
    ],
)
def test_frame_has_its_total_and_its_window(frame, total, window):
    budget = budget_for(frame)
    assert (budget.total, budget.window) == (total, window)


def planned_budget(text, frame, **more):
    plan = plan_retrieval(intent_read(text, frame), text)
    return budget_for(frame, plan_overrides=plan.budget_overrides, **more)


def test_frame_of_a_decision_gets_more_decisions_and_procedures():
    budget = planned_budget("should we move to Redis", "decision")
    assert (budget.of("decisions"), budget.of("procedures"), budget.window) == (3500, 2000, 8)


def test_frame_plan_is_overridden_by_the_operator():
    budget = planned_budget("should we move to Redis", "decision", operator_overrides={"decisions": 100})
    assert budget.of("decisions") == 100
    assert budget.of("procedures") == 2000


def test_frame_explicit_total_is_shared_by_searched_sections_and_opens_no_closed_one():
    budget = planned_budget("hello, what is new?", "conversation", total=1_000, operator_overrides={"facts": 50})
    assert budget.total == 1_000
    assert (budget.of("decisions"), budget.of("facts"), budget.of("procedures")) == (1_000, 50, 0)
    assert budget.of("identity") == 300
