"""The page of what was decided about facts without people, and undoing it."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from identity.models import Agent
from identity.principal import Principal
from memory.models import Fact, MemoryReview
from memory.services.facts import fact_invalidate, fact_learn
from nousweb.console.common.list_page import page_of
from tests.factories import make_principal
from tests.http import browser, markup

URL = "/review/automatic/"
THINGS = ("twin", "spotter", "understudy", "substrate", "counterpart", "lookalike")


def learn(agent: Agent, by: Principal, thing: str, value: str, **fields: Any) -> Fact:
    about = {"subject": "Tim", "attribute": thing, "value": value, **fields}
    return fact_learn(agent=agent, content=f"Tim has a {thing} called {value}.", by=by, **about).fact


@pytest.fixture
def decided(ada: Agent, actor: Principal) -> dict[str, str]:
    """An undecided attribute, a possible duplicate, and a replaced fact; how a form names them."""
    Agent.objects.filter(pk=ada.pk).update(config={"attention": {"per_day": 0}})
    for value in ("Ann", "Ben"):
        learn(ada, actor, "twin", value)
    for content in (
        "Tim enjoys drinking green tea in the morning.",
        "Tim likes to drink green tea in the mornings.",
        "Tim lives in Graz.",
        "Tim lives in Linz.",
    ):
        fact_learn(agent=ada, content=content, subject="Tim", by=actor)
    old = Fact.objects.get(content="Tim lives in Graz.")
    assert old.superseded_by is not None
    return {
        "attribute": f"memoryreview:{MemoryReview.objects.get(kind='attribute').pk}",
        "duplicate": f"memoryreview:{MemoryReview.objects.get(kind='duplicate').pk}",
        "replaced": f"factchange:{old.changes.get(action='superseded').pk}",
    }


def named(page: str) -> list[str]:
    # The button by which one takes a row names it, too.
    return list(dict.fromkeys(re.findall(r'name="selected" value="([^"]*)"', page)))


def undo(user: User, *values: str) -> str:
    return markup(browser(user).post(reverse("automatic_decisions_undo"), {"selected": values}, follow=True))


def test_decisions_are_listed(decided: dict[str, str], bob: User) -> None:
    page = markup(browser(bob).get(URL))
    assert named(page) == [decided["replaced"]]
    for words in ("Graz", "Linz"):
        assert words in page
    inbox = markup(browser(bob).get(reverse("inbox")))
    assert "Decided automatically" in inbox
    assert "No pending reviews" in markup(browser(bob).get(reverse("memory_review"), follow=True))
    assert "Nothing has been decided yet" in markup(
        browser(bob).get(reverse("memory_review") + "?status=decided", follow=True)
    )


def test_reviews_beyond_the_limit_are_a_part_of_the_inbox(decided: dict[str, str], bob: User) -> None:
    inbox = markup(browser(bob).get(reverse("inbox")))
    assert "2 more reviews are held back by the limits of their agents." in inbox
    [address] = set(re.findall(r'href="([^"]*status=undecided)"', inbox)) - {f"{reverse('inbox')}?status=undecided"}
    held_back = markup(browser(bob).get(unescape(address)))
    assert set(named(held_back)) == {decided["attribute"], decided["duplicate"]}
    assert ">2 held back</a>" in markup(browser(bob).get("/"))
    for words in ("Can Tim have several twins at once?", "green tea", "Move to the inbox", "Ada may ask "):
        assert words in held_back
    assert "2 more reviews" not in held_back
    assert "Expired" not in held_back
    moved = browser(bob).post(reverse("automatic_decisions_undo"), {"selected": decided["duplicate"]}, follow=True)
    assert named(markup(moved)) == [decided["duplicate"]]
    assert "1 more review is held back" in markup(moved)


def test_decisions_are_filtered(decided: dict[str, str], bruno: Agent, bob: User, subtests: pytest.Subtests) -> None:
    for query, shown in [
        ("decision=superseded", ["replaced"]),
        ("decision=confirmed", []),
        ("agent=ada", ["replaced"]),
        ("agent=bruno", []),
        ("agent=nobody", []),
        ("decision=nonsense", ["replaced"]),
    ]:
        with subtests.test(query=query, shown=shown):
            page = markup(browser(bob).get(f"{URL}?{query}"))
            assert named(page) == [decided[name] for name in shown]
            assert ("No decision matches these filters" in page) == (not shown)


def test_decisions_begin_empty(ada: Agent, bob: User) -> None:
    assert "Nothing has been decided automatically" in markup(browser(bob).get(URL))


def test_decisions_are_undone_together(decided: dict[str, str], bob: User) -> None:
    page = undo(bob, *decided.values())
    assert "2 reviews are pending now." in page
    assert "1 older fact was restored." in page
    assert named(page) == []
    assert set(MemoryReview.objects.pending().values_list("kind", flat=True)) == {"attribute", "duplicate"}
    assert MemoryReview.objects.get(kind="contradiction").status == "joined"
    assert Fact.objects.get(content="Tim lives in Graz.").active


def test_decisions_that_cannot_be_undone_are_named_and_stop_no_other(decided: dict[str, str], bob: User) -> None:
    undo(bob, decided["duplicate"])
    page = undo(bob, decided["duplicate"], decided["attribute"], "factchange:0", "factchange:x", "memoryreview:x", "x")
    assert "1 was not undone" in page
    assert "1 review is pending now." in page
    assert "Nothing was selected" in undo(bob)


def test_reviews_about_facts_that_ended_are_held_back_no_longer(decided: dict[str, str], bob: User) -> None:
    fact_invalidate(fact=Fact.objects.get(content__startswith="Tim likes to drink"), by=Principal.of_user(bob))
    assert named(markup(browser(bob).get(reverse("inbox"), {"status": "undecided"}))) == [decided["attribute"]]


def test_persons_decision_is_not_listed(ada: Agent, bob: User) -> None:
    for town in ("Graz", "Linz"):
        fact_learn(agent=ada, content=f"Tim lives in {town}.", subject="Tim", by=Principal.of_user(bob))
    assert named(markup(browser(bob).get(URL))) == []


def test_viewer_reads_and_undoes_nothing(decided: dict[str, str], alice: User) -> None:
    page = markup(browser(alice).get(URL))
    assert "Graz" in page
    assert named(page) == []
    answer = browser(alice).post(reverse("automatic_decisions_undo"), {"selected": list(decided.values())})
    assert answer.status_code == 403
    assert not MemoryReview.objects.pending().exists()


def test_decisions_of_the_subconscious_are_shown_only_to_those_who_may(ada: Agent, bob: User) -> None:
    Agent.objects.filter(pk=ada.pk).update(config={"attention": {"per_day": 0}})
    by = make_principal(ada, "subconscious")
    for value in ("Ann", "Ben"):
        learn(ada, by, "twin", value)
    for town in ("Graz", "Linz"):
        fact_learn(agent=ada, content=f"Tim lives in {town}.", subject="Tim", by=by)
    may = Principal.of_user(bob).may("memory.view_subconscious")
    for page in (browser(bob).get(URL), browser(bob).get(reverse("inbox"), {"status": "undecided"})):
        assert len(named(markup(page))) == (1 if may else 0)


def test_undecided_review_is_resolved_on_its_page(decided: dict[str, str], bob: User) -> None:
    review = MemoryReview.objects.get(kind="duplicate")
    page = markup(browser(bob).get(review.get_absolute_url()))
    assert "Held back" in page
    answer = browser(bob).post(review.get_absolute_url(), {"answer": "same"})
    assert answer.status_code == 302
    review.refresh_from_db()
    assert (review.status, review.resolution) == ("resolved", "same")


def test_page_number_of_queries_does_not_grow(
    ada: Agent, actor: Principal, bob: User, django_assert_num_queries: Any
) -> None:
    Agent.objects.filter(pk=ada.pk).update(config={"attention": {"per_day": 0}})
    client = browser(bob)

    def more(things: tuple[str, ...]) -> None:
        for thing in things:
            for value in ("Ann", "Ben"):
                learn(ada, actor, thing, value)
            for town in ("Graz", "Linz"):
                fact_learn(agent=ada, content=f"{thing} lives in {town}.", subject=thing, by=actor)

    more(THINGS[:1])
    client.get(URL)
    for things in (THINGS[1:2], THINGS[2:]):
        with django_assert_num_queries(13):
            assert client.get(URL).status_code == 200
        more(things)


def test_decisions_have_pages(ada: Agent, actor: Principal, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_of, "__defaults__", (5,))
    for number in range(6):
        for town in ("Graz", "Linz"):
            fact_learn(agent=ada, content=f"Guest {number} lives in {town}.", subject=f"guest {number}", by=actor)
    first, second = (markup(browser(bob).get(f"{URL}?page={page}")) for page in (1, 2))
    assert (len(named(first)), len(named(second))) == (5, 1)
    assert "1–5 of 6" in first
