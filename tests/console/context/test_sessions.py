"""The timeline of a session: its runs in order, and what changed from one prompt to the next."""

from datetime import timedelta

import pytest

from context.models import ContextRun
from context.services.context import context_respond
from nousweb.lib import clock
from tests.factories import EXPORT, make_fact, make_run
from tests.http import browser

PAGE = "/agents/ada/context/session/"


@pytest.fixture
def runs(ada, actor, system):
    """Three runs of one session: nothing known, a fact learned, then the same again."""
    made = []
    with clock.at(clock.now() - timedelta(hours=3)):
        made.append(make_run(ada, actor, EXPORT, "night/1"))
    with clock.at(clock.now() - timedelta(hours=2)):
        make_fact(ada, "The ledger export failed because the replica lagged.", system, subject="Ledger")
        made.append(make_run(ada, actor, EXPORT, "night/1"))
    with clock.at(clock.now() - timedelta(hours=1)):
        made.append(make_run(ada, actor, EXPORT, "night/1"))
        make_run(ada, actor, EXPORT, "another")
    return made


def text(answer):
    return answer.content.decode()


def test_timeline_runs_forward_with_what_changed(runs, actor, alice):
    context_respond(run=runs[1], response="The replica lagged, so the ledger export failed.", by=actor)
    answer = browser(alice).get(PAGE, {"session": "night/1"})
    rows = answer.context["rows"]
    assert [row["run"].pk for row in rows] == [run.pk for run in runs]
    assert [row["step"] and (row["step"].came, row["step"].went) for row in rows] == [None, (1, 0), (0, 0)]
    for words in ("1 came", "the same memories", "The replica lagged, so", "No answer was reported"):
        assert words in text(answer)


def test_run_page_says_where_it_stands_in_its_session(runs, alice):
    page = text(browser(alice).get(runs[1].get_absolute_url()))
    assert "2 of 3" in page
    assert runs[0].get_absolute_url() in page
    assert runs[2].get_absolute_url() in page
    assert "1 came" in page


def test_timeline_goes_on_over_pages(ada, runs, alice):
    first = ContextRun.objects.get(pk=runs[0].pk)
    base = ContextRun.objects.values().get(pk=first.pk)
    base.pop("id")
    ContextRun.objects.bulk_create(
        ContextRun(**{**base, "created_at": first.created_at + timedelta(seconds=number)}) for number in range(1, 30)
    )
    client = browser(alice)
    one = client.get(PAGE, {"session": "night/1"})
    two = client.get(PAGE, {"session": "night/1", "after": one.context["page"].next})
    assert len(one.context["rows"]) == 20
    assert two.context["rows"][0]["previous"].pk == one.context["rows"][-1]["run"].pk
    assert two.context["rows"][0]["step"] is not None


def test_timeline_of_no_session_leads_on(ada, alice):
    client = browser(alice)
    assert client.get(PAGE).status_code == 302
    assert client.get(PAGE, {"session": "never"}).status_code == 404


def test_timeline_of_the_subconscious_needs_the_right(runs, alice, charlie):
    ContextRun.objects.filter(pk=runs[2].pk).update(persona="subconscious")
    assert len(browser(alice).get(PAGE, {"session": "night/1"}).context["rows"]) == 2
    answer = browser(charlie).get(PAGE, {"session": "night/1", "persona": "subconscious"})
    assert [row["run"].pk for row in answer.context["rows"]] == [runs[2].pk]


def test_candidates_of_a_run_are_searched_by_words(runs, alice):
    client = browser(alice)
    address = runs[1].get_absolute_url()
    assert len(client.get(address, {"q": "replica lagged"}).context["candidates"]) == 1
    none = client.get(address, {"q": "boats"})
    assert not none.context["candidates"]
    assert "No memory contains these words." in text(none)


def test_timeline_costs_the_same_however_long(runs, ada, alice, django_assert_num_queries):
    client = browser(alice)
    client.get(PAGE, {"session": "night/1"})
    with django_assert_num_queries(13):
        client.get(PAGE, {"session": "night/1"})
