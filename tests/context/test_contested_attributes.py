"""Facts of one attribute in prompts, over HTTP: marked while a review of them is open, told plainly once it is not."""

from datetime import timedelta

import pytest

from memory.models import MemoryReview
from memory.services.reviews.states import reviews_expire
from nousweb.lib import clock
from tests.context.test_contested import asked, items_of, lines_of  # noqa: F401
from tests.memory.test_attributes import BEAR, FOX, OWL, question, resolve, undo
from tests.memory.test_learning import learn  # noqa: F401

ASKED = "Which animal goes with Tim, has Tim with him, or guards Tim now?"
DATES = {"owl": "2026-03-01", "fox": "2026-05-02", "bear": "2026-07-03"}
OWL_LINE = f"- (contested, older, 2026-03-01) [Tim] {OWL['content']}"
FOX_LINE = f"- (contested, newer, 2026-05-02) [Tim] {FOX['content']}"


@pytest.fixture
def pair(learn):  # noqa: F811
    """The ids of two facts whose writers state another value of an attribute that nobody knows."""
    told = [learn(**each, valid_from=f"{DATES[each['value']]}T00:00:00Z") for each in (OWL, FOX)]
    assert [each["action"] for each in told] == ["stored", "queued"]
    return [each["fact"]["id"] for each in told]


def test_values_of_a_stated_attribute_are_told_newest_first_with_their_dates(pair, asked):  # noqa: F811
    body = asked(input=ASKED)
    assert lines_of(body) == [FOX_LINE, OWL_LINE]
    assert [item["contested_with"] for item in items_of(body)] == [[pair[0]], [pair[1]]]


def test_values_stay_contested_if_nobody_answers_about_their_attribute(pair, asked, system):  # noqa: F811
    MemoryReview.objects.update(expires_at=clock.now() - timedelta(days=1))
    assert reviews_expire(by=system)
    assert lines_of(asked(input=ASKED)) == [FOX_LINE, OWL_LINE]


def test_values_that_both_hold_are_compatible_until_that_is_undone(api, bob, pair, asked):  # noqa: F811
    review = question().pk
    resolve(api, bob, review, "both")
    body = asked(input=ASKED)
    dated = [f"- (as of {DATES[each['value']]}) [Tim] {each['content']}" for each in (OWL, FOX)]
    assert sorted(lines_of(body)) == sorted(dated)
    assert {item["contested"] for item in items_of(body)} == {None}
    undo(api, bob, review)
    assert lines_of(asked(input=ASKED)) == [FOX_LINE, OWL_LINE]
    resolve(api, bob, review, "replace")
    assert lines_of(asked(input=ASKED)) == [dated[1]]


def test_later_value_of_an_attribute_that_may_have_several_is_not_contested(api, bob, pair, asked, learn):  # noqa: F811
    resolve(api, bob, question().pk, "both")
    assert learn(**BEAR, valid_from=f"{DATES['bear']}T00:00:00Z")["action"] == "stored"
    assert "contested" not in asked(input=ASKED)["system_prompt"]


@pytest.mark.parametrize(
    ("attribute", "first", "second"),
    [
        ("hobby", ("Tim rows.", "rowing"), ("Tim plays chess.", "chess")),
        ("home", ("Tim moved to Bergen, Norway.", "Bergen, Norway"), ("Tim lives in Norway.", "Norway")),
        ("job title", ("Tim works as a nurse.", "nurse"), ("Tim plans to become a pilot.", "pilot")),
        ("job title", ("Tim works as a nurse.", "nurse"), ("Tim used to be a pilot.", "pilot")),
    ],
)
def test_compatible_values_are_never_contested(asked, learn, attribute, first, second):  # noqa: F811
    for content, value in (first, second):
        assert learn(content, subject="Tim", attribute=attribute, value=value)["action"] == "stored"
    body = asked(input="What does Tim do, and where does Tim live? Does he work, row or play?", fill=True)
    assert "contested" not in body["system_prompt"]
    assert len(lines_of(body)) == 2
