"""The day in a line of a prompt."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memory.services.erasure.steps import spellings_of
from nousweb.lib.dated_lines import Told, line_dated, undated_parts

AT = datetime(2026, 1, 8, 12, tzinfo=UTC)
ZONE = ZoneInfo("UTC")
AS_OF = "as of 2026-01-08"


def dated(text, began=AT, recorded=AT, zone=ZONE, **more):
    return line_dated(text, Told(began, recorded, zone, **more))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Yesterday the sensors gave false alarms", "Yesterday (2026-01-07) the sensors gave false alarms"),
        ("The pump broke three days ago.", "The pump broke three days ago (2026-01-05)."),
        ("She left two years ago.", "She left two years ago (2024)."),
        ("This Friday it opens, next month it closes.",
         "This Friday (2026-01-09) it opens, next month (2026-02) it closes."),
        ("Last week was calm.", "Last week (2025-12-29 to 2026-01-04) was calm."),
        ("The lease ends in two years.", "The lease ends in two years (2028)."),
        ("Dans deux ans elle part.", "Dans deux ans (2028) elle part."),
        ("Tomorrow's talk is tomorrow.", "Tomorrow's (2026-01-09) talk is tomorrow (2026-01-09)."),
        ("Today it rains, and today it pours.", "Today (2026-01-08) it rains, and today it pours."),
        ("Gestern fiel der Sensor aus, morgen kommt Ersatz.",
         "Gestern (2026-01-07) fiel der Sensor aus, morgen (2026-01-09) kommt Ersatz."),
        ("Vor drei Tagen kam Post.", "Vor drei Tagen (2026-01-05) kam Post."),
        ("Hier, nous avons changé la pompe.", "Hier (2026-01-07), nous avons changé la pompe."),
        ("Elle part la semaine prochaine.", "Elle part la semaine prochaine (2026-01-12 to 2026-01-18)."),
        ("Ayer falló la bomba; hace tres días también.",
         "Ayer (2026-01-07) falló la bomba; hace tres días (2026-01-05) también."),
    ],
)  # fmt: skip
def test_words_that_name_a_time_are_followed_by_it(text, line):
    assert dated(text) == (line, "")


@pytest.mark.parametrize(
    "text",
    [
        "Currently uses Postgres 14", "Ann now lives in Ghent.", "He is 34 years old.", "It was repaired recently.",
        "She has worked there for three years.", "In the last three months she lost 5 kg.", "Ann's current tool is vi.",
        "This past weekend it snowed.", "Half a year ago it snowed.", "In zwei Wochen ist Messe.",
        "Derzeit nutzt das Team Postgres 14.", "Ann ist 34 Jahre alt.", "Actuellement elle habite à Lyon.",
        "Il a 34 ans.", "Actualmente vive en Lima.", "Tiene 34 años.",
        # The writer named the day: ours says when that was told.
        "Yesterday (2025-05-05) it rained.",
    ],
)  # fmt: skip
def test_other_words_that_depend_on_a_day_mark_the_line(text):
    assert dated(text) == (text, AS_OF)
    assert dated(text, dated=True) == (text, "")


@pytest.mark.parametrize(
    "text",
    [
        "The courier brings the parcel to gate 3 on Mondays.", "He said “yesterday I fell” and \"now\".",
        "Call `today()` or now(), and open today.md.", "```\nyesterday = 1\n```", "Now open the lid.",
        "USA Today reported it.", "Press 'today' twice.", "It was built in two weeks.",
        "From now on use metric units.", "Now that it is done, rest.", "The last week of March is a holiday.",
        "Am Morgen trinkt sie Tee.", "Hier ist der Plan.", "Por la mañana desayuna.", "The current user may log in.",
        "Use the next available slot.", "He is 34 and the port is 5432.", "",
    ],
)  # fmt: skip
def test_a_line_without_such_words_stays_as_it_is(text):
    assert dated(text) == (text, "")
    assert dated(text, always=True) == (text, AS_OF)


def test_days_are_those_of_the_zone():
    late = AT.replace(hour=23, minute=30)
    assert (
        dated("Yesterday it rained.", late, late, ZoneInfo("Europe/Berlin"))[0] == "Yesterday (2026-01-08) it rained."
    )


@pytest.mark.parametrize(
    ("began", "day"),
    [(timedelta(days=300), "2025-03-13"), (timedelta(days=1), "2026-01-07"), (-timedelta(3), "2026-01-07")],
)
def test_a_fact_with_a_valid_time_is_read_from_its_record_only_if_that_fits(began, day):
    """Valid from yesterday, told today; or valid from when an import says that it was told."""
    assert dated("Yesterday it rained.", AT - began)[0] == f"Yesterday ({day}) it rained."


def test_a_quote_of_a_dated_line_has_a_part_of_its_text():
    text = "Yesterday the sensors gave false alarms."
    part = max(undated_parts(text), key=len).strip()
    assert part in dated(text)[0]
    assert part in spellings_of(text)
    assert undated_parts("The sensors rest.") == ["The sensors rest."]
