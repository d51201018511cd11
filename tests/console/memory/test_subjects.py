"""The pages of subjects follow the registry: one thing, whatever its facts call it."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from context.models import MemoryUsage
from context.services.context import context_respond
from memory.models import Fact, Subject
from memory.services.search_index.row_embedding import embed_pending_rows
from memory.services.subjects.changes import subject_change_undo, subject_merge
from tests.factories import make_fact, make_review, make_run
from tests.http import browser

PAGE = "/agents/ada/subjects/"


@pytest.fixture
def two(ada, system):
    make_fact(ada, "Tim lives in Rome.", system, subject="Tim")
    make_fact(ada, "The captain owns two boats.", system, subject="the captain")
    return [Subject.objects.select_related("agent").get(name=name) for name in ("Tim", "the captain")]


def text_of(answer):
    return " ".join(answer.content.decode().split())


def test_subject_pages_follow_spellings(ada, two, reviewer, bob):
    person = browser(bob)
    tim, captain = two
    assert "owns two boats" not in text_of(person.get(f"{PAGE}Tim/"))
    change = subject_merge(subject=captain, into=tim, by=reviewer)
    for name in ("Tim", "the captain", "THE CAPTAIN"):
        page = text_of(person.get(f"{PAGE}{name}/"))
        assert "lives in Rome" in page, name
        assert "owns two boats" in page, name
    moved = person.get(f"{PAGE}{captain.pk}/")
    assert (moved.status_code, str(tim.pk) in moved["Location"]) == (302, True)
    rows = person.get(PAGE).context["rows"]
    assert [(row.name, row.facts) for row in rows] == [("Tim", 2)]
    assert "owns two boats" in text_of(person.get("/agents/ada/facts/?subject=Tim"))
    subject_change_undo(change=change, by=reviewer)
    assert "owns two boats" not in text_of(person.get(f"{PAGE}Tim/"))
    assert {row.name for row in person.get(PAGE).context["rows"]} == {"Tim", "the captain"}


def test_list_of_subjects_tells_the_newest_fact_of_each_its_kind_and_how_often_it_is_shown(
    ada, two, system, actor, bob
):
    make_fact(ada, "Tim sails on Sundays.", system, subject="Tim")
    assert "Answered prompts, 7 days" not in text_of(browser(bob).get(PAGE))
    embed_pending_rows()
    context_respond(run=make_run(ada, actor, "When does Tim sail?"), response="On Sundays.", by=actor)
    page = browser(bob).get(PAGE)
    of_tim = [str(fact.pk) for fact in Fact.objects.filter(subject="Tim")]
    assert MemoryUsage.objects.filter(item_id__in=of_tim).count() == 2
    assert {row.name: row.shown for row in page.context["rows"]}["Tim"] == 1, "one prompt had both"
    assert 'data-label="Answered prompts, 7 days" class="num">1</td>' in text_of(page)
    Subject.objects.filter(name="Tim").update(kind=Subject.Kind.PERSON)
    page = text_of(browser(bob).get(PAGE))
    assert "Tim sails on Sundays." in page
    assert "lives in Rome" not in page
    assert re.search(r"<summary *> Person <span", page)


def test_list_of_subjects_marks_contradictions_and_keeps_that_two_alike_are_not_the_same(ada, actor, system, bob):
    review = make_review(ada, actor, "The lift never stops.", "The lift sometimes stops.")
    for name in ("deployments", "deploys", "service-01", "service-02"):
        make_fact(ada, f"The {name} are green.", system, subject=name)
    person = browser(bob)
    page = person.get(PAGE)
    assert [row.name for row in page.context["rows"] if row.is_contradicted] == ["Tim"]
    assert f'href="{review.get_absolute_url()}">Resolve</a>' in text_of(page)
    assert page.context["rows"][0].name == "Tim", "before the others"
    assert re.findall('scope="rowgroup"[^>]*> ?([^<]*?) ?<', text_of(page)) == ["Needs attention", "All others"]
    assert 'scope="rowgroup"' not in text_of(person.get(PAGE, {"sort": "facts"}))
    assert "The lift never or sometimes stops." in text_of(page)
    assert [row.name for row in person.get(PAGE, {"state": "contradicted"}).context["rows"]] == ["Tim"]
    assert "Contradicted:</span> The lift never or sometimes stops." in text_of(person.get(f"{PAGE}Tim/"))
    subject, into = (page.context["suggested"][name] for name in ("subject", "into"))
    assert {subject.name, into.name} == {"deployments", "deploys"}
    assert text_of(page).count("the same subject?") == 1
    assert re.search("Similar facts: “The (deploys|deployments) are green.” and “The deploy", text_of(page))
    told = person.post(f"{PAGE}{subject.pk}/apart/", {"into": into.name, "query": "sort=facts"}, follow=True)
    assert "stay two subjects" in text_of(told)
    assert told.request["QUERY_STRING"] == "sort=facts"
    assert told.context["suggested"] is None
    assert "already resolved" in text_of(person.post(f"{PAGE}{subject.pk}/apart/", {"into": into.name}, follow=True))


def test_subject_stands_beside_the_one_that_it_would_be_merged_into(ada, two, system, bob):
    tim, captain = two
    for subject, place in ((tim, "Rome"), (captain, "Oslo")):
        fact = make_fact(ada, f"{subject.name} has a home in {place}.", system, subject=subject.name)
        Fact.objects.filter(pk=fact.pk).update(attribute="home", value=place)
    person = browser(bob)
    beside = text_of(person.get(f"{PAGE}{captain.pk}/beside/?into=tim"))
    for told in ("owns two boats", "lives in Rome", "2 facts", "Both have facts about: home (Oslo, Rome)."):
        assert told in beside, told
    for nobody in ("", "the captain", "somebody else"):
        assert "fact" not in text_of(person.get(f"{PAGE}{captain.pk}/beside/", {"into": nobody})), nobody


def test_kind_of_a_subject_is_set_in_its_row(ada, two, bob, charlie):
    tim, _ = two
    page = browser(bob).post(f"{PAGE}{tim.pk}/kind/", {"kind": "person"}, follow=True)
    assert page.redirect_chain == [(PAGE, 302)]
    assert "The kind of “Tim” is now: person." in text_of(page)
    assert Subject.objects.get(pk=tim.pk).kind == "person"


@pytest.mark.parametrize(
    ("sort", "names"),
    [("", ["the captain", "Tim"]), ("facts", ["Tim", "the captain"]), ("newest", ["Tim", "the captain"])],
)
def test_list_of_subjects_is_sorted_by_the_heads_of_its_columns(ada, two, system, bob, sort, names):
    make_fact(ada, "Tim sails on Sundays.", system, subject="Tim")
    page = browser(bob).get(PAGE, {"sort": sort} if sort else {})
    assert [row.name for row in page.context["rows"]] == names
    assert 'href="?sort=facts"' in text_of(page)


def test_subject_pages_number_of_queries_is_constant(ada, two, system, bob):
    person = browser(bob)
    tim, _ = two

    def counted(path):
        with CaptureQueriesContext(connection) as asked:
            assert person.get(path).status_code == 200
        return len(asked)

    counted(PAGE)
    before = counted(PAGE), counted(f"{PAGE}{tim.pk}/")
    for number in range(12):
        make_fact(
            ada,
            f"Number {number} is green, {number} doors down.",
            system,
            subject=f"house {number}a",
        )
        Fact.objects.create(agent=ada, content=f"He knows {number}.", subject="Tim", subject_alias=tim.aliases.get())
    assert (counted(PAGE), counted(f"{PAGE}{tim.pk}/")) == before
