"""Questions about a time: what they ask about, and what prompts and searches then read."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from benchmarks.time_questions import questions
from context.engine.analysis.agent_time import anchor_asked, time_read
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.api.problems import assert_problem
from tests.factories import make_fact

NOW = datetime(2026, 1, 14, 15, 30, tzinfo=UTC)
"""A Wednesday."""


def read(question):
    return time_read(question.text, question.now, question.zone, [question.language])


def test_time_of_questions_in_four_languages_is_read():
    asked = [(one, read(one).period) for one in questions("questions")]
    wrong = [one.text for one, period in asked if period is None or (period.start, period.end) != (one.start, one.end)]
    assert len(wrong) <= 0.05 * len(asked), wrong


def test_ordinary_sentences_ask_about_no_time():
    sentences = [*questions("ordinary")]
    found = [one.text for one in sentences if read(one).period]
    assert len(found) <= 0.01 * len(sentences), found


@pytest.mark.parametrize(
    ("text", "alone", "types"),
    [
        ("What did I decide today?", True, ("decision",)),
        ("What did you learn last week?", True, ("fact",)),
        ("what did we do yesterday", True, ("episode",)),
        ("And last week?", True, ()),
        ("What did I decide about the Redis cache today?", False, ("decision",)),
    ],
)
def test_question_about_a_time_names_types_and_a_topic(text, alone, types):
    period = time_read(text, NOW, ZoneInfo("UTC")).period
    assert period
    assert (period.alone, period.types) == (alone, types)


@pytest.mark.parametrize("text", ["Was habe ich heute entschieden?", "Qu'avons-nous fait hier ?", "¿Qué hicimos ayer?"])
def test_question_of_an_agent_of_several_languages_is_read_in_its_own(text):
    period = time_read(text, NOW, ZoneInfo("UTC"), ["en", "de", "fr", "es"]).period
    assert period
    assert period.alone
    assert period.types in (("decision",), ("episode",))


def test_event_is_the_time_of_questions_about_the_past_only():
    assert anchor_asked("What did we use before the migration?")
    for text in ("How do I clean up before the migration?", "Ship it before the migration.", "Should we wait?"):
        assert anchor_asked(text) is None


pytestmark = pytest.mark.django_db


@pytest.fixture
def diary(ada, system):
    """A decision, a fact and an episode each of today, of last week and of March."""
    said = {}
    for moment, words in (
        (NOW - timedelta(hours=2), ("Use brown paint.", "The gate squeaks.", "Swimming")),
        (NOW - timedelta(days=7), ("Order new tiles.", "Robins nest under the roof.", "Cooking")),
        (datetime(2025, 3, 18, 9, tzinfo=UTC), ("Sell the trailer.", "Clay is cheap in spring.", "Chess")),
    ):
        with clock.at(moment):
            decision_record(agent=ada, description=words[0], by=system)
            make_fact(ada, words[1], system)
            episode = episode_open(agent=ada, title=words[2], by=system)
            episode_close(episode=episode, summary=f"{words[2]} took all afternoon.", by=system)
            said[moment.date().isoformat()] = words
    embed_pending_rows()
    return said


def test_question_about_a_time_is_answered_by_time(api, actor_token, diary, subtests):
    for text, day, place in [
        ("What did I decide today?", "2026-01-14", 0),
        ("What did you learn last week?", "2026-01-07", 1),
        ("What did we do on 18 March?", "2025-03-18", 2),
        ("What happened last week?", "2026-01-07", 2),
    ]:
        with subtests.test(text=text, day=day, place=place):
            with clock.at(NOW):
                caller = api.as_token(actor_token)
                first = caller.get("/recall", {"q": text}).json()["items"][0]
                body = caller.post("/context", {"session_id": "s", "input": text, "explain": True}).json()
            assert diary[day][place] in first["content"]
            assert diary[day][place] in body["system_prompt"]
            asked = body["explanation"]["intent"]["time"]["start"][:10]
            assert asked in ("2026-01-05", day)
            assert f"\nToday is 2026-01-14. The input asks about this time: {asked}" in body["system_prompt"]


def test_topic_ranks_within_the_time_that_is_asked_about(api, actor_token, ada, system, diary):
    with clock.at(NOW - timedelta(days=60)):
        decision_record(agent=ada, description="Paint the gate green.", by=system)
    embed_pending_rows()
    with clock.at(NOW):
        items = api.as_token(actor_token).get("/recall", {"q": "What did I decide about paint today?"}).json()["items"]
    assert "brown paint" in items[0]["content"]


def test_sentence_with_a_word_of_time_fills_no_prompt(api, actor_token, diary):
    with clock.at(NOW):
        body = api.as_token(actor_token).post("/context", {"session_id": "s", "input": "I'm tired today."}).json()
    assert [one["key"] for one in body["sections"] if one["tier"] == 3 or one["key"] == "recent"] == []
    assert "Today is" not in body["system_prompt"], "it is the same on each day"


def test_event_in_memory_is_the_time_beside_which_a_question_asks(api, actor_token, diary):
    text = "What did we decide before the order of new tiles?"
    with clock.at(NOW):
        body = {"session_id": "s", "input": text, "explain": True}
        time = api.as_token(actor_token).post("/context", body).json()["explanation"]["intent"]["time"]
    assert (time["start"], time["end"][:10]) == (None, "2026-01-07")


def test_today_is_that_of_the_user(api, actor_token, ada, diary):
    """Of the request, else of the agent's settings; a name that is no zone is refused."""
    text = {"q": "What did I decide today?"}
    with clock.at(NOW + timedelta(hours=9)):
        caller = api.as_token(actor_token)
        assert "brown paint" not in str(caller.get("/recall", text).json()["items"])
        hit = caller.get("/recall", text | {"time_zone": "America/New_York"}).json()["items"][0]
        assert "brown paint" in hit["content"]
        ada.config["time_zone"] = "America/New_York"
        ada.save()
        assert "brown paint" in caller.get("/recall", text).json()["items"][0]["content"]
    for answer in (
        caller.get("/recall", text | {"time_zone": "Mars/Olympus"}),
        caller.post("/context", {"session_id": "s", "input": "x", "time_zone": "../etc"}),
    ):
        assert_problem(answer, 422, "invalid")
        assert "time_zone" in answer.content.decode()


def test_last_conversations_are_listed_for_questions_or_as_set(api, actor_token, ada, system, diary):
    def listed(text, mode=""):
        ada.config["recent"] = mode
        ada.save()
        body = api.as_token(actor_token).post("/context", {"session_id": "s", "input": text}).json()
        return [one["items"] for one in body["sections"] if one["key"] == "recent"]

    with clock.at(NOW):
        assert len(listed("Where were we?")) == len(listed("¿De qué hablamos ayer?")) == 1
        assert listed("Where were we?", "never") == listed("What happened in March?") == listed("Fix the gate.") == []
        [items] = listed("Fix the gate.", "always")
        assert [one["type"] for one in items] == ["episode"]
        recent = api.as_token(actor_token).get("/recall/recent", {"hours": 24 * 14}).json()["items"]
    assert [one["title"] for one in recent] == ["Swimming", "Cooking"]


def test_long_titles_of_conversations_end_after_a_word_and_all_fit(api, actor_token):
    caller = api.as_token(actor_token)
    for day in ("Monday", "Tuesday", "Thursday", "Friday", "Sunday"):
        title = f"Our web shop is slow since {day}, and nobody of the team has changed anything, as far as we know"
        assert caller.post("/episodes", {"title": title}).status_code == 201
    body = {"session_id": "s", "input": "Where were we?", "budget": 150}
    prompt = caller.post("/context", body).json()["system_prompt"]
    assert prompt.count(" Our web shop is slow since ") == 5
    assert " Our web shop is slow since Thursday…\n" in prompt
