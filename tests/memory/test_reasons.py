"""The reasons of a comparison in words: what both facts are about, never a code or a stem of the comparison."""

import re
from html import unescape

import pytest
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.comparison.compare_facts import REASONS, Comparison, Kind, Reason, compare_facts, reasons_of
from memory.comparison.fact_snapshot import FactSnapshot
from memory.embedding.protocol import UNKNOWN
from memory.models import FactChange
from nousweb.lib import clock
from tests.http import browser, markup
from tests.memory.test_learning import learn  # noqa: F401

TIM, NOBODY = "Tim", ""
INTERNAL = re.compile(r"\+|_|\bd:|\bt:|[{}]")
PAIRS = [
    (TIM, "Tim's time zone is CET.", "Tim's time zone is EST.", {"changed_value": "Another value of Tim's time zone."}),
    (NOBODY, "Tim's time zone is CET.", "Tim's time zone is EST.",
     {"changed_value": "Another value of Tim's time zone."}),
    (TIM, "My time zone is CET.", "My time zone is EST.", {"changed_value": "Another value of Tim's time zone."}),
    ("cache", "The cache uses Redis for caching.", "The cache uses Memcached for caching.",
     {"changed_value": "Another value of cache's tool for caching."}),
    ("flags", "The flags are on.", "The flags are off.", {"changed_value": "Another value of flags' state."}),
    ("vault", "The vault holds twelve coins.", "The vault holds 15 coins.",
     {"changed_value": "Another number in the same sentence about vault: “vault holds … coins”."}),
    ("rose", "The deploy of rose takes 22 minutes.", "The deploy of rose takes 51 minutes.",
     {"changed_value": "Another number in the same sentence about rose: “deploy of rose takes … minutes”."}),
    (NOBODY, "It launches on 5 March.", "It launches on 6 March.", {"number": "Another number, date, time or unit."}),
    (TIM, "Tim planned the move.", "Tim ships the move.",
     {"value": "The same is said about Tim with one thing exchanged."}),
    (TIM, "Tim will move.", "Tim moved.", {"time": "They speak about Tim of another time, or of a plan."}),
    (TIM, "Tim saw Ann here.", "Tim never saw Ben here.",
     {"negation": "One denies what the other one says about Tim."}),
    ("mill", "The mill gained a wheel in May.", "The mill lost a wheel in May.",
     {"antonym": "One says the opposite of what the other one says about mill."}),
    (NOBODY, "Ann pays Ben.", "Ben pays Ann.", {"roles": "The same words stand in other roles."}),
    (NOBODY, "All users log in.", "Few users log in.", {"quantity": "They speak of another quantity or frequency."}),
    (TIM, "Tim met Ann.", "Tim met Ben.",
     {"name": "They name other people, places or things in what they say about Tim."}),
    (TIM, "Tim has a cat.", "Tim has a cat named Minka.", {"detail": "One says more about Tim than the other one."}),
    (TIM, "Is Tim ill?", "Tim is ill.", {"question": "One of them asks about Tim."}),
    (TIM, "Tim lives in Rome.", "Tim no longer lives in Rome.",
     {"ended": "What was true about Tim is true no longer."}),
    ("gate", "The gate accepted the call.", "The gate rejected the call.",
     {"reversed": "It says the opposite in the same words about gate."}),
    (TIM, "Tim often rows with the crew.", "Tim is a rower of the crew.",
     {"quantity": "They speak about Tim of another quantity or frequency."}),
]  # fmt: skip


def words_of(subject, old, new, *, days=0):
    moments = [clock.now(), clock.now().replace(year=2099)] if days else [None, None]
    facts = [FactSnapshot(text, subject, moment=at) for text, at in zip((old, new), moments, strict=True)]
    return {reason["code"]: reason for reason in reasons_of(compare_facts(*facts, 0.9, UNKNOWN))}


@pytest.mark.parametrize(("subject", "old", "new", "expected"), PAIRS)
def test_reason_names_subject_and_attribute_in_words(subject, old, new, expected):
    found = words_of(subject, old, new)
    assert {code: found[code]["words"] for code in expected} == expected
    for reason in found.values():
        assert not INTERNAL.search(f"{reason['words']} {reason['old']} {reason['new']}"), reason


def test_quotes_of_a_reason_are_spelled_as_in_the_facts():
    found = words_of(TIM, "Tim planned the move on 5 March at 3 pm.", "Tim ships the move on 6 March at 4 pm.")
    assert (found["number"]["old"], found["number"]["new"]) == ("5 March 15:00", "6 March 16:00")
    assert (found["time"]["old"], found["time"]["new"]) == ("planned 5 March 15:00", "ships 6 March 16:00")


def test_reason_about_a_day_that_moved():
    found = words_of(TIM, "Tim saw Ann yesterday.", "Tim saw Ann yesterday.", days=1)
    words = "In what is said about Tim, a word like “yesterday” means another day now."
    assert found["relative_time"]["words"] == words


@pytest.mark.parametrize("code", sorted({*REASONS} - {"changed_number"}))
@pytest.mark.parametrize("about", ["", "Tim", "Tim's time zone"])
def test_each_code_has_a_sentence(code, about):
    comparison = Comparison(Kind.UNRELATED, 0.9, 0.5, (Reason(code),), about=about)
    ((words, named),) = [(each["words"], each["code"]) for each in reasons_of(comparison)]
    assert named == code
    assert re.fullmatch(r"[A-Z][^{}+_]*[a-z]\.", words)
    assert "  " not in words
    assert about in words or code == "subject"


WORDS = """
    Tim Ann the a plans planned ships shipped shipping runs ran weekly daily monthly on 5 March 3 pm 12 km twelve no
    longer not never time zone is are was CET uses Redis for caching prefers tea to coffee gateways all few often
    rejected accepted and of in yesterday will may ? must holds has have started Rome 's
"""
SENTENCES = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=10).map(" ".join)


@settings(max_examples=400)
@given(SENTENCES, SENTENCES, st.sampled_from([TIM, NOBODY, "gateways"]))
def test_no_reason_has_a_stem_or_another_internal_name(old, new, subject):
    for reason in words_of(subject, f"{old}.", f"{new}.").values():
        assert not INTERNAL.search(f"{reason['words']} {reason['old']} {reason['new']}"), reason


def test_history_reviews_and_pages_name_the_reason_in_words(api, bob, ada, actor_token, learn):  # noqa: F811
    old = learn("The cache uses Redis for caching.", subject="cache")["fact"]
    assert learn("The cache uses Memcached for caching.", subject="cache")["action"] == "superseded"
    change = FactChange.objects.get(fact=old["id"], action="superseded")
    words = "Another value of cache's tool for caching."
    assert (change.reason, change.evidence["reasons"][0]["words"]) == (words, words)
    assert change.evidence["changed"]["attribute"] == "tool for caching"
    page = unescape(markup(browser(bob).get(reverse("agent_fact", args=["ada", old["id"]]))))
    assert words in page
    assert "cache+ing" not in page
    api.as_person(bob).post("/facts", {"content": "The vault holds 12 coins.", "subject": "vault"}, {"agent": "ada"})
    told = learn("The vault holds 15 coins.", subject="vault")
    shown = api.as_token(actor_token).get(f"/reviews/{told['review']}").json()
    sentence = "Another number in the same sentence about vault: “vault holds … coins”."
    assert [reason["words"] for reason in shown["reasons"]] == [sentence]
    assert sentence in markup(browser(bob).get(reverse("memory_review_detail", args=[told["review"]])))
