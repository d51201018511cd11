"""How long what waits will take: the pace of the person who decides."""

from datetime import UTC, datetime, timedelta

import pytest

from nousweb.console.inbox.decisions import minutes_left

START = datetime(2026, 3, 4, 9, tzinfo=UTC)


def at(*seconds: float) -> list[datetime]:
    return [START + timedelta(seconds=second) for second in seconds]


@pytest.mark.parametrize(
    ("waiting", "moments", "minutes"),
    [
        (0, [], 0),
        (37, [], 13),
        (37, at(0, 6, 12, 18, 24), 4),
        (37, list(reversed(at(0, 6, 12, 18, 24))), 4),
        (10, at(0, 0.01, 0.02, 0.03, 0.04), 4),
        (10, at(0, 12, 4_000, 4_012, 4_024), 2),
        (1, at(0, 6, 12, 18), 1),
    ],
)
def test_minutes_left_follow_the_pace(waiting: int, moments: list[datetime], minutes: int) -> None:
    assert minutes_left(waiting, moments) == minutes
