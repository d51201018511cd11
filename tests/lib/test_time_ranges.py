"""Times that a text names, as ranges from a moment in a time zone."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from nousweb.lib.time_ranges import time_anchor, time_expressions

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 1, 14, 15, 30, tzinfo=BERLIN)


def read(text: str, language: str = "en", now: datetime = NOW) -> list[tuple[str, str, str]]:
    """The words, start and end of each time in `text`."""
    return [
        (each.text, *(f"{moment:%Y-%m-%d %H:%M}" if moment else "" for moment in (each.start, each.end)))
        for each in time_expressions(text, now, now.tzinfo, [language])  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("language", "text", "start", "end"),
    [
        ("en", "last week", "2026-01-05 00:00", "2026-01-12 00:00"),
        ("en", "between Monday and Wednesday", "2026-01-05 00:00", "2026-01-08 00:00"),
        ("de", "gestern Abend", "2026-01-13 18:00", "2026-01-14 00:00"),
        ("en", "from 3 to 10 May", "2025-05-03 00:00", "2025-05-11 00:00"),
        ("de", "zwischen dem 3. und dem 10. Mai", "2025-05-03 00:00", "2025-05-11 00:00"),
        ("fr", "du 3 au 10 mai", "2025-05-03 00:00", "2025-05-11 00:00"),
        ("es", "entre el 3 y el 10 de mayo", "2025-05-03 00:00", "2025-05-11 00:00"),
        ("en", "on 10 May", "2025-05-10 00:00", "2025-05-11 00:00"),
        ("en", "on 3 Dec", "2025-12-03 00:00", "2025-12-04 00:00"),
        ("en", "on Dec 3rd", "2025-12-03 00:00", "2025-12-04 00:00"),
        ("de", "in der Kalenderwoche 30", "2025-07-21 00:00", "2025-07-28 00:00"),
        ("fr", "depuis mardi", "2026-01-13 00:00", ""),
        ("es", "el 18 de marzo", "2025-03-18 00:00", "2025-03-19 00:00"),
    ],
)
def test_time_is_read_as_a_range(language, text, start, end):
    ((_, *found),) = read(text, language)
    assert found == [start, end]


def test_place_of_a_time_is_that_of_its_words():
    text = "It rained since Tuesday, and on 2026-01-02."
    first, second = time_expressions(text, NOW, BERLIN, ["en"])
    assert text[first.begin : first.finish] == first.text == "since Tuesday"
    assert (second.text, second.granularity, second.certain) == ("2026-01-02", "day", True)


def test_words_that_only_look_like_times_are_none():
    for text in ("I may march on with version 2.0.18", "The sun sat for a second", "Ticket 2024 has 18 items"):
        assert read(text) == []


def test_event_beside_which_a_question_asks_is_its_anchor():
    anchor = time_anchor("What did we use before the migration?")
    assert anchor
    assert (anchor.relation, anchor.phrase) == ("before", "the migration")
