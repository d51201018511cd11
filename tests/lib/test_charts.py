"""Geometry of charts: what is drawn stands for the numbers."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.console.common import bars, stacked_bar
from nousweb.console.common.charts import INTERVALS, axis_step, ticks

amounts = st.lists(st.integers(0, 10**9), min_size=1, max_size=90)


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
    drawn = bars(values, 100, top=max(values))
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


@given(st.integers(1, 90))
def test_first_and_last_column_have_a_label_and_no_two_labels_are_near(number: int) -> None:
    labelled = ticks(number)
    assert (labelled[0], labelled[-1]) == (0, number - 1)
    assert all(12 * (right - left) >= number for left, right in itertools.pairwise(labelled))


@given(amounts)
def test_stacked_bar_is_filled_without_gaps(values: list[int]) -> None:
    segments = stacked_bar([(str(place), value, "seg-1") for place, value in enumerate(values)], 1000, 12)
    for left, right in itertools.pairwise(segments):
        assert left.x + left.width == pytest.approx(right.x, abs=0.002)
    if sum(values):
        assert segments[-1].x + segments[-1].width == pytest.approx(1000, abs=0.002)


@given(st.floats(1, 10**9))
def test_few_lines_of_a_chart_at_round_numbers_reach_its_values(value: float) -> None:
    step = axis_step(value)
    lines = math.ceil(value / step)
    assert 1 <= lines <= INTERVALS
    assert str(step).strip("0") in {"1", "2", "4", "5"}
    assert step * lines < 2 * value + 1, "the greatest is not lost below the upper edge"
