"""What an input says about the memories that it needs."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.engine.analysis.agent_time import time_read
from context.engine.analysis.frames import plan_retrieval
from context.engine.analysis.intent import intent_read
from context.engine.section_budgets import MEMORY_SECTIONS, PLANNED_TYPES

TYPES = ("decision", "fact", "procedure", "episode")


def plan_of(text, frame="question"):
    return plan_retrieval(intent_read(text, frame), text)


@pytest.mark.parametrize(
    "text", ["hey", "Hi!", "hello there", "good morning", "hey Marlow", "hello how are you", "Thanks, that helps!"]
)
def test_intent_of_a_greeting_retrieves_nothing(text):
    plan = plan_of(text)
    assert intent_read(text, "conversation").is_greeting
    assert plan.queries == ()
    assert plan.skip_types == set(PLANNED_TYPES)
    assert dict(plan.budget_overrides) == {MEMORY_SECTIONS[one].key: 0 for one in PLANNED_TYPES}
    assert plan.budget_overrides.keys() >= {"decisions", "facts", "procedures", "episodes"}


@pytest.mark.parametrize(
    "text", ["hey, what did I decide about Redis?", "hi, should we switch to Redis?", "hello world is a program", ""]
)
def test_intent_of_text_that_only_begins_with_a_greeting_is_no_greeting(text):
    assert not intent_read(text, "question").is_greeting


def test_intent_of_a_question_after_a_greeting_asks_for_decisions():
    signals = intent_read("hey, what did I decide about Redis?", "decision")
    assert signals.dominant_type == "decision"
    assert signals.is_question
    assert signals.entities == ("Redis",)


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("Redis keeps crashing", ("Redis",)),
        ("Tim moved to New York. Alice's laptop stayed.", ("Tim", "New York", "Alice")),
        ("Marlow, what did Project Apollo decide?", ("Marlow", "Project Apollo")),
        ("GitHub Actions failed, and so did the K8s job of BENCH-100821", ("GitHub Actions", "K8s", "BENCH-100821")),
        ("Überlingen liegt am Bodensee", ("Überlingen", "Bodensee")),
        ("Launch on 14 March 2026, not 2026-03-15, March 2027 or 3/16/2026", (
            "14 March 2026", "2026-03-15", "March 2027", "3/16/2026",
        )),
        # A sentence begins with a capital, and so do I.
        ("Deploy strategy for carts. Should it change? I'm not sure, I've doubts.", ()),
        ("Carts expire after 30 minutes. What's next?", ()),
        ("It's done. Nothing is left. Currently nobody works.", ()),
    ],
)  # fmt: skip
def test_intent_entities_are_names_and_dates(text, entities):
    assert intent_read(text, "question").entities == entities


@pytest.mark.parametrize(
    ("text", "recency"),
    [
        ("what happened yesterday", 0.8),
        ("what is going on right now", 1.0),
        ("the outage last week", 0.5),
        ("we met last month", 0.3),
        ("today and last month", 1.0),
        ("timeless", 0.0),
    ],
)
def test_intent_words_of_time_ask_for_recent_memory(text, recency):
    time = time_read(text, datetime(2026, 3, 4, 15, tzinfo=UTC), ZoneInfo("UTC"))
    assert time.recency == recency
    plan = plan_retrieval(intent_read(text, "question", time), text)
    # A time that is asked about is a period to read, and no weight.
    assert all(query.recency_weight == (0.0 if plan.period else recency) for query in plan.queries)


@pytest.mark.parametrize(
    ("text", "dominant"),
    [
        ("what was my decision about deployment strategy", "decision"),
        ("we decided something", "decision"),
        ("how do I deploy", "procedure"),
        ("what happened yesterday", "episode"),
        ("tell me about Tim", "fact"),
        ("nothing in particular", None),
    ],
)
def test_intent_words_hint_at_a_memory_type(text, dominant):
    assert intent_read(text, "question").dominant_type == dominant


def test_intent_requested_type_gets_eight_and_others_three():
    plan = plan_of("what was my decision about deployment strategy")
    assert [plan.limit_of(memory_type) for memory_type in TYPES] == [8, 3, 3, 3]
    assert [plan_of("regarding Redis").limit_of(memory_type) for memory_type in TYPES] == [5, 5, 5, 5]


def test_intent_query_is_the_whole_sentence():
    text = "Why did Alice not want the Redis migration?"
    assert plan_of(text).text == text


def test_intent_keywords_keep_the_order_of_reading():
    signals = intent_read("Deploy strategy for Redis clusters and Redis again", "task")
    assert signals.topic_keywords == ("deploy", "strategy", "redis", "clusters")
    # What a question begins with is no topic.
    assert intent_read("What do we know about Redis, and Why?", "task").topic_keywords == ("redis",)


def test_intent_default_frame_closes_no_section():
    text = "what became of the billing queue"
    signals = intent_read(text, "conversation")
    assert plan_retrieval(signals, text, frame_is_sure=False).budget_overrides == {}
    assert plan_retrieval(signals, text).budget_overrides["episodes"] == 0


@given(st.text(max_size=300))
def test_intent_of_any_text_is_deterministic(text):
    assert plan_of(text) == plan_of(text)


def test_intent_plan_is_what_is_read():
    """Types that it skips have no limit, and recency counts as it says for each type."""
    plan = plan_of("what happened yesterday")
    queries = tuple(replace(one, recency_weight=0.0 if one.memory_type == "fact" else 0.5) for one in plan.queries)
    changed = replace(plan, queries=queries, skip_types=frozenset({"decision"}))
    assert [changed.limit_of(memory_type) for memory_type in TYPES] == [0, *(plan.limit_of(one) for one in TYPES[1:])]
    assert [changed.recency_of(memory_type) for memory_type in ("fact", "episode", "event")] == [0.0, 0.5, 0.5]
