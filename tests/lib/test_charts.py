"""Geometry of charts: what is drawn stands for the numbers."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.console.common import bars, lines, nice_top, stacked_bar

amounts = st.lists(st.integers(0, 10**9), min_size=1, max_size=90)


@pytest.mark.parametrize(
    ("value", "top"), [(0, 2), (1, 2), (2, 2), (3, 5), (5, 5), (5.1, 10), (10, 10), (11, 20), (99, 100), (1_200, 2_000)]
)
def test_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert nice_top(value) == top


@given(st.floats(0, 1e12))
def test_axis_holds_its_greatest_value_and_wastes_little(value: float) -> None:
    assert value <= nice_top(value) <= max(2, 2.5 * value * (1 + 1e-9))


def test_bars_stand_on_the_ground_in_their_places() -> None:
    first, second, third, fourth = bars([5, 0, 10, 20], 100, top=10, gap=0.2)
    assert (first.x, first.width, first.y, first.height) == (2.5, 20, 50, 50)
    assert (second.x, second.height, second.y) == (27.5, 0, 100)
    assert (third.y, third.height) == (0, 100)
    assert (fourth.y, fourth.height) == (0, 100), "nothing is drawn beyond the edge"


def test_bars_of_small_values_are_visible_and_of_zero_are_not() -> None:
    little, nothing, negative = bars([1, 0, -4], 100, top=1_000_000)
    assert (little.y, little.height) == (99, 1)
    assert (nothing.height, negative.height) == (0, 0)


def test_bars_of_no_values_are_none() -> None:
    assert bars([], 100, top=10) == []
    assert [bar.height for bar in bars([0, 0], 100, top=0)] == [0, 0]


@given(amounts)
def test_bars_stay_inside_and_keep_the_order_of_their_values(values: list[int]) -> None:
    drawn = bars(values, 100, top=nice_top(max(values)))
    for value, bar in zip(values, drawn, strict=True):
        assert bar.value == value
        assert bar.y + bar.height == pytest.approx(100)
        assert bar.y >= 0
        assert bar.x >= 0
        assert bar.x + bar.width <= 100.001
    for left, right in itertools.pairwise(drawn):
        assert left.x + left.width <= right.x + 0.001
    ranked = sorted(drawn, key=lambda bar: bar.value)
    assert [bar.height for bar in ranked] == sorted(bar.height for bar in ranked)


def test_line_goes_through_the_middles() -> None:
    assert lines([0, 5, 10, 20], 100, 50, top=10) == [[(12.5, 50), (37.5, 25), (62.5, 0), (87.5, 0)]]


def test_line_breaks_where_nothing_was_measured() -> None:
    assert lines([1, None, None, 1, 1], 100, 10, top=1) == [[(10, 0)], [(70, 0), (90, 0)]]
    assert lines([None, None], 100, 10, top=1) == []
    assert lines([], 100, 10, top=1) == []


def test_line_through_the_bars_meets_their_tops() -> None:
    values = [3, 8, 1, 10]
    (run,) = lines(values, 100, 60, top=10)
    for (x, y), bar in zip(run, bars(values, 60, top=10), strict=True):
        assert x == pytest.approx(bar.x + bar.width / 2)
        assert y == pytest.approx(bar.y)


@given(amounts)
def test_stacked_bar_is_filled_without_gaps(values: list[int]) -> None:
    segments = stacked_bar([(str(place), value, "seg-1") for place, value in enumerate(values)], 1000, 12)
    for left, right in itertools.pairwise(segments):
        assert left.x + left.width == pytest.approx(right.x, abs=0.002)
    if sum(values):
        assert segments[-1].x + segments[-1].width == pytest.approx(1000, abs=0.002)
