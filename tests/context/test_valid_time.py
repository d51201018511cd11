"""Facts that have ended or are not valid yet, over HTTP: in no prompt and no search unless they are asked for."""

from datetime import timedelta

import pytest

from context.services.agent_settings import context_pin
from memory.models import MemoryReview
from memory.services.facts import fact_learn
from memory.services.reviews.states import reviews_expire
from memory.services.search_index.row_embedding import embed_pending_rows
from nousweb.lib import clock
from tests.factories import make_facts
from tests.http import browser, markup

HOUR = timedelta(hours=1)
ENDED, CURRENT, COMING = (
    "The code of the vault is heron.",
    "The vault stands in the cellar of the mill.",
    "The vault will be moved to Turin.",
)
ASKED = "Tell me about the vault: code, place, Turin"


@pytest.fixture
def called(api, actor_token):
    return api.as_token(actor_token)


def learn(agent, by, content, *, begins=None, ends=None, **more):
    now = clock.now()
    span = {
        "valid_from": None if begins is None else now + begins,
        "valid_until": None if ends is None else now + ends,
    }
    return fact_learn(agent=agent, content=content, by=by, **{"category": "technical", **span, **more}).fact


@pytest.fixture
def facts(ada, actor):
    """Three facts, of which one has ended and one is not valid yet."""
    found = [
        learn(ada, actor, ENDED, ends=-HOUR),
        learn(ada, actor, CURRENT),
        learn(ada, actor, COMING, begins=HOUR),
    ]
    embed_pending_rows()
    return found


def ask(called, **more):
    answer = called.post("/context", {"session_id": "s", "input": ASKED} | more)
    assert answer.status_code == 200, answer.content
    return answer.json()


def shown(body):
    return {text for text in (ENDED, CURRENT, COMING) if text in body["system_prompt"]}


def recalled(called, **query):
    answer = called.get("/recall", {"q": ASKED, "min_score": 0} | query)
    assert answer.status_code == 200, answer.content
    return {item["content"] for item in answer.json()["items"]}


@pytest.mark.parametrize("category", ["technical", "preference"])
def test_valid_time_decides_what_prompts_tell_in_core_memory_too(ada, actor, called, category):
    for text, begins, ends in ((ENDED, None, -HOUR), (CURRENT, -HOUR, HOUR), (COMING, HOUR, None)):
        learn(ada, actor, text, begins=begins, ends=ends, category=category)
    embed_pending_rows()
    assert shown(ask(called)) == {CURRENT}
    assert shown(ask(called, as_of=(clock.now() - timedelta(milliseconds=1)).isoformat())) == {CURRENT}


def test_valid_time_decides_what_recall_finds(called, facts):
    assert recalled(called) == {CURRENT}


def test_time_passes_without_a_write(ada, actor, called):
    """A fact vanishes when it ends, and appears when it begins; the end itself is no longer part of it."""
    now = clock.now()
    with clock.at(now - 3 * HOUR):
        learn(ada, actor, ENDED, ends=HOUR)
        learn(ada, actor, COMING, begins=HOUR, category="preference")
    embed_pending_rows()
    with clock.at(now - 2.5 * HOUR):
        assert (shown(ask(called)), recalled(called)) == ({ENDED}, {ENDED})
    with clock.at(now - 2 * HOUR):
        assert (shown(ask(called)), recalled(called)) == ({COMING}, {COMING})
    assert shown(ask(called)) == {COMING}


def test_ended_facts_take_no_place_from_valid_ones(ada, actor, called):
    ended = [f"The allergy test of Ben on day {number} found a peanut allergy." for number in range(60)]
    make_facts(ada, ended, actor, importance=0.5, valid_until=clock.now() - HOUR)
    learn(ada, actor, "Ben is allergic to peanuts since he was a child of four.")
    embed_pending_rows()
    body = ask(called, input="Which peanut allergy did the allergy test of Ben find?")
    assert "since he was a child of four" in body["system_prompt"]
    assert "of Ben on day" not in body["system_prompt"]


def test_verdicts_say_what_has_ended_and_what_is_not_valid_yet(called, facts):
    body = ask(called, explain=True)
    found = {one["text"]: one for one in body["candidates"]}
    assert {text: one["verdict"] for text, one in found.items()} == {
        ENDED: "expired",
        CURRENT: "included",
        COMING: "not_yet_valid",
    }
    ended, begins = (f"{moment:%Y-%m-%d}" for moment in (facts[0].valid_until, facts[2].valid_from))
    assert found[ENDED]["reason"] == f"Expired on {ended}."
    assert found[COMING]["reason"] == f"Its valid time begins on {begins}."


def test_verdicts_as_of_a_moment_are_those_of_that_moment(ada, actor, called):
    now = clock.now()
    with clock.at(now - 3 * HOUR):
        learn(ada, actor, ENDED, ends=HOUR)
        learn(ada, actor, COMING, begins=2.5 * HOUR)
    embed_pending_rows()
    body = ask(called, explain=True, as_of=(now - HOUR).isoformat())
    assert shown(body) == set()
    assert {one["text"]: one["verdict"] for one in body["candidates"]} == {ENDED: "expired", COMING: "not_yet_valid"}


def test_pinned_fact_that_has_ended_is_left_out(ada, actor, called, system):
    now = clock.now()
    with clock.at(now - 3 * HOUR):
        for category in ("technical", "preference"):
            fact = learn(ada, actor, f"{ENDED} {category}", ends=HOUR, category=category)
            context_pin(agent=ada, item_type="fact", item_id=str(fact.pk), by=system)
        assert ENDED in ask(called, input="hello")["system_prompt"]
    assert ENDED not in ask(called, input="hello")["system_prompt"]
    assert ENDED not in ask(called)["system_prompt"]


def test_contested_fact_that_has_ended_contests_nothing(ada, actor, called):
    now = clock.now()
    with clock.at(now - 3 * HOUR):
        learn(ada, actor, "The vault holds 15 coins.", ends=2 * HOUR)
        learn(ada, actor, "The vault holds 17 coins.")
        embed_pending_rows()
        assert "contested" in ask(called, input="How many coins does the vault hold?")["system_prompt"]
    assert MemoryReview.objects.filter(status="pending").count() == 1
    prompt = ask(called, input="How many coins does the vault hold?")["system_prompt"]
    assert "- The vault holds 17 coins." in prompt
    assert "15 coins" not in prompt


def test_review_of_a_fact_that_has_ended_is_closed(ada, actor, system):
    with clock.at(clock.now() - 3 * HOUR):
        learn(ada, actor, "The vault holds 15 coins.", ends=2 * HOUR)
        learn(ada, actor, "The vault holds 17 coins.")
    assert reviews_expire(by=system) == 1
    assert MemoryReview.objects.get().resolution == "moot"


def post(called, content, **more):
    answer = called.post("/facts", {"content": content, "category": "technical"} | more)
    assert answer.status_code == 201, answer.content
    return answer.json()


@pytest.mark.parametrize("new", ["The vault holds 15 coins.", "The vault holds 17 coins."])
def test_fact_about_now_is_neither_a_repetition_nor_a_contradiction_of_one_that_has_ended(ada, actor, called, new):
    ended = learn(ada, actor, "The vault holds 15 coins.", ends=-HOUR)
    learned = post(called, new)
    assert learned["action"] == "stored"
    assert learned["fact"]["id"] != str(ended.pk)
    assert not MemoryReview.objects.exists()
    ended.refresh_from_db()
    assert (ended.active, ended.confirmation_count) == (True, 0)


@pytest.mark.parametrize("new", ["The vault holds 15 coins.", "The vault no longer holds 15 coins."])
def test_fact_that_has_ended_changes_nothing_about_one_of_now(ada, actor, called, new):
    current = learn(ada, actor, "The vault holds 15 coins.")
    assert post(called, new, valid_until=(clock.now() - HOUR).isoformat())["action"] == "stored"
    current.refresh_from_db()
    assert (current.active, current.confirmation_count) == (True, 0)
    assert not MemoryReview.objects.exists()
    assert "- The vault holds 15 coins." in ask(called, input="How many coins does the vault hold?")["system_prompt"]


def test_fact_about_now_is_no_repetition_of_one_that_begins_later(ada, actor, called):
    learn(ada, actor, CURRENT, begins=HOUR)
    assert post(called, CURRENT)["action"] == "stored"
    assert shown(ask(called)) == {CURRENT}


def test_fact_learned_again_with_another_end_gets_it(ada, actor, called):
    old = learn(ada, actor, CURRENT)
    learned = post(called, CURRENT, valid_until=(clock.now() + HOUR).isoformat())
    assert (learned["action"], learned["superseded"]) == ("superseded", [str(old.pk)])
    assert learned["fact"]["validity"] == "current"
    assert post(called, CURRENT)["action"] == "confirmed"


def test_fact_that_has_ended_learned_again_is_one_fact(ada, actor, called):
    ends = (clock.now() - HOUR).isoformat()
    assert post(called, ENDED, valid_until=ends)["action"] == "stored"
    assert post(called, ENDED, valid_until=ends)["action"] == "confirmed"


def test_lists_tell_facts_that_are_not_valid_apart(called, facts):
    def listed(**query):
        return {(item["content"], item["validity"]) for item in called.get("/facts", query).json()["items"]}

    ended, current, coming = (ENDED, "expired"), (CURRENT, "current"), (COMING, "not_yet_valid")
    assert listed() == listed(state="active") == {current}
    assert listed(state="expired") == {ended}
    assert listed(state="not_yet_valid") == {coming}
    assert listed(state="all") == {ended, current, coming}
    assert listed(state="retired") == set()
    assert called.get("/facts", {"state": "over"}).status_code == 422


def test_profile_holds_valid_facts_only(ada, actor, called):
    for text, begins, ends in ((ENDED, None, -HOUR), (CURRENT, None, None), (COMING, HOUR, None)):
        learn(ada, actor, text, begins=begins, ends=ends, category="preference")
    found = called.get("/profile").json()
    assert ([fact["content"] for fact in found["preferences"]], found["counts"]["preferences"]) == ([CURRENT], 1)


def test_fact_asked_for_by_its_id_says_that_it_is_not_in_use(called, facts):
    for fact, active in zip(facts, (False, True, False), strict=True):
        item = called.get(f"/recall/fact/{fact.pk}").json()["item"]
        assert (item["content"], item["active"]) == (fact.content, active)


def test_pages_mark_facts_that_are_not_valid(bob, facts):
    for fact, words in zip(facts, ("Expired", "Active", "Not yet valid"), strict=True):
        assert words in markup(browser(bob).get(f"/agents/ada/facts/{fact.pk}/")).split("fact-content")[0]
    listed = markup(browser(bob).get("/agents/ada/facts/"))
    assert [text in listed for text in (ENDED, CURRENT, COMING)] == [False, True, False]
    assert ENDED in markup(browser(bob).get("/agents/ada/facts/", {"state": "expired"}))
