"""The queue of questions in the console: many answered at once, what refuses is named, and all is taken back."""

import re

import pytest
from django.urls import reverse

from memory.models import Fact, MemoryReview
from memory.services.facts import fact_invalidate, fact_learn
from tests.http import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def questions(ada, actor):
    for place in range(3):
        for often in ("never", "sometimes"):
            content = f"Machine {place} {often} stops at night."
            fact_learn(agent=ada, content=content, subject=f"machine {place}", by=actor)
    return list(MemoryReview.objects.order_by("created_at"))


def post(user, questions, answer):
    selected = [str(review.pk) for review in questions]
    return browser(user).post(reverse("memory_review_bulk"), {"selected": selected, "answer": answer}, follow=True)


def active():
    return sorted(Fact.objects.active().values_list("content", flat=True))


def test_reviews_resolved_together_are_undone_together(questions, bob):
    before = active()
    page = post(bob, questions, "replace").content.decode()
    assert active() == [f"Machine {place} sometimes stops at night." for place in range(3)]
    assert {review.batch for review in MemoryReview.objects.all()} != {None}
    undo = re.search(r'action="(/review/memory/undo/[^"]+)"', page)
    assert undo, "there is one undo for all of them"
    answer = browser(bob).post(undo[1], follow=True)
    assert "3 resolutions were undone" in answer.content.decode()
    assert active() == before
    assert MemoryReview.objects.pending().count() == 3


def test_reviews_refused_are_named_and_stop_no_other(questions, bob, system):
    fact_invalidate(fact=questions[1].old, by=system)
    page = post(bob, questions, "same").content.decode()
    assert "machine 1: One of these facts has been retired since" in page
    assert MemoryReview.objects.pending().count() == 1


@pytest.mark.parametrize("answer", ["merge", "reverse", "", "x"])
def test_reviews_impossible_resolution_changes_nothing(questions, bob, answer):
    before = active()
    assert post(bob, questions, answer).status_code == 200
    assert active() == before
    assert MemoryReview.objects.pending().count() == 3


def test_reviews_resolution_is_refused_to_viewers(questions, alice):
    assert post(alice, questions, "both").status_code == 403
    assert MemoryReview.objects.pending().count() == 3


def test_question_says_whose_word_each_fact_is_and_where_it_holds(ada, actor, reviewer, bob):
    """An answer by one key is given to what stands there: people's word looked like an agent's."""
    fact_learn(agent=ada, content="The gate closes at 9.", subject="gate", by=reviewer)
    fact_learn(agent=ada, content="The gate closes at 10.", subject="gate", project="apollo", by=actor)
    review = MemoryReview.objects.get()
    page = " ".join(browser(bob).get(f"/review/memory/{review.pk}/").content.decode().split())
    told = re.findall(r"<dt>Stated by</dt> <dd>([^<]+)</dd>", page)
    assert told == ["people", "the agent"]
    assert "apollo" in page


def test_buttons_that_preview_and_buttons_that_commit_have_different_words(questions, bob):
    pages = ["/review/memory/", *(f"/review/memory/{question.pk}/" for question in MemoryReview.objects.all()[:3])]
    for address in pages:
        page = browser(bob).get(address).content.decode()
        words = {"preview": set(), "commit": set()}
        for tag, inside in re.findall(r"<((?:button|a)\b[^>]*)>(.*?)</(?:button|a)>", page, re.S):
            said = " ".join(re.sub(r"<kbd>.*?</kbd>|<[^>]+>", "", inside).split())
            if "blast" in tag:
                words["preview"].add(said)
            elif 'name="answer"' in tag:
                words["commit"].add(said)
        assert words["preview"], address
        assert words["commit"], address
        assert not words["preview"] & words["commit"], address
