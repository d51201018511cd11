"""The day in the lines of a prompt: over HTTP, after an edit on trial, and beside what the conversation says."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from context.engine.analysis.agent_time import LineClock, repeated_slots
from context.engine.assembly import FixedSection, Item, list_item
from context.engine.overrides import Overrides
from context.models import ContextRun
from nousweb.lib import clock
from nousweb.lib.dated_lines import Told
from tests.context.test_contested import asked  # noqa: F401

TOLD = datetime(2026, 1, 8, 12, tzinfo=UTC)
ZONE = ZoneInfo("UTC")
AFTER_A_YEAR = LineClock(TOLD + timedelta(days=365), ZONE)
ALARMS = "Yesterday the sensors gave false alarms."
ALARMS_LINE = "- [sensor] Yesterday (2026-01-07) the sensors gave false alarms."


def test_lines_are_dated_in_every_section_and_logged_as_sent(api, actor_token, asked):  # noqa: F811
    caller = api.as_token(actor_token)
    with clock.at(TOLD):
        for path, body in (
            ("/facts", {"content": ALARMS, "subject": "sensor", "category": "technical"}),
            ("/facts", {"content": "The sensors currently use firmware 14.", "category": "technical"}),
            ("/facts", {"content": "Prefers the sensors quiet now.", "subject": "Ann", "category": "preference"}),
            ("/decisions", {"description": "Replace the sensors tomorrow, and currently ignore them."}),
            ("/procedures", {"name": "Sensors", "description": "Read the sensors; currently from the roof."}),
        ):
            assert caller.post(path, body).status_code in (200, 201)
    question = {
        "input": "What did the sensors do, which decisions and procedures are about sensors?",
        "session_id": "s",
    }
    body = asked(**question)
    lines = body["system_prompt"].split("\n")
    assert ALARMS_LINE in lines
    assert "- (as of 2026-01-08) The sensors currently use firmware 14." in lines
    assert "- (as of 2026-01-08) [Ann] Prefers the sensors quiet now." in lines
    assert any("[2026-01-08] Replace the sensors tomorrow (2026-01-09), and currently" in line for line in lines)
    assert any(line.startswith("- (as of 2026-01-08) Sensors") for line in lines)
    sections = ContextRun.objects.latest("created_at").sections
    assert ALARMS_LINE in {item["text"] for section in sections for item in section["items"]}
    past = asked(**question, as_of="2026-01-08T13:00:00Z")
    assert ALARMS_LINE in past["system_prompt"].split("\n")
    # What the prompt said is not said again; the same words of another day say something else.
    told = {"role": "user", "content": "Yesterday (2026-01-07) the sensors gave false alarms."}
    assert ALARMS_LINE not in asked(**question, conversation=[told])["system_prompt"]
    assert ALARMS_LINE in asked(**question, conversation=[{**told, "content": ALARMS}])["system_prompt"]


@pytest.mark.parametrize(
    ("content", "attribute", "days", "dated"),
    [
        ("The status of the pump is broken.", "", 8, True),
        ("The status of the pump is broken.", "", 6, False),
        ("It hums.", "mood", 2, True),
        ("Staging runs PostgreSQL 17.", "", 31, True),
        ("The number of keys is 12.", "", 31, True),
        ("Ann's phone number is 5551234.", "", 300, False),
        ("Ann's birthday is 4 May.", "", 300, False),
        ("The status page lists all pumps.", "", 300, False),
    ],
)
def test_an_old_value_of_an_attribute_that_soon_changes_has_its_day(content, attribute, days, dated):
    now = LineClock(TOLD + timedelta(days=days), ZONE)
    assert list_item(content, told=now.fact_told(content, attribute, TOLD, TOLD)) == (
        f"- (as of 2026-01-08) {content}" if dated else f"- {content}"
    )


def test_several_values_of_one_attribute_have_their_days():
    slots = [("Ann", "home"), ("Ann", "home"), ("Ann", "employer"), ("Tim", "home"), ("Ann", "hobby"), ("Ann", "hobby")]
    assert repeated_slots([*slots, ("", ""), ("", "")]) == {("Ann", "home")}


def test_a_text_cannot_begin_with_our_mark():
    told = Told(TOLD, TOLD, ZONE)
    forged = "(as of 2030-01-01) Currently all doors are open."
    assert list_item(forged, told=told) == f"- (as of 2026-01-08) \\{forged}"
    assert list_item(f"［as of 2030-01-01］ {ALARMS}", told=told).startswith("- \\")


def test_a_fact_edited_on_trial_is_told_now():
    section = FixedSection("user_profile", "User Profile", 1, 100, [Item("fact", "1", "- [Ann] Likes tea.")])
    change = Overrides(facts={"1": "Currently likes tea."}, subjects={"1": "Ann"})
    (after,) = change.sections([section], AFTER_A_YEAR)
    assert [item.text for item in after.items] == ["- (as of 2027-01-08) [Ann] Currently likes tea."]


def test_core_memory_marks_what_soon_changes_at_once_so_that_no_clock_changes_it():
    told = [LineClock(TOLD + timedelta(days=days), ZONE) for days in (0, 100)]
    lines = {list_item("Ann's status is away.", told=now.fact_told("Ann's status is away.", "", TOLD, TOLD, core=True))
             for now in told}  # fmt: skip
    assert lines == {"- (as of 2026-01-08) Ann's status is away."}
