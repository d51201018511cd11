"""The time zone and the languages in which an agent's inputs name times, and the time that an input asks about."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from django.conf import settings

from context.engine.analysis.time_questions import TimeReading, anchor_asked, anchored, recap_asked, time_read
from identity.models import Agent
from memory.models import ItemType, ProjectScope
from memory.persona import PersonaMemory
from memory.search.request import SearchRequest
from memory.search.search import search
from memory.services.search_index.agent_languages import language_used
from nousweb.lib import Invalid
from nousweb.lib.time_ranges import may_name_time
from nousweb.lib.time_words import TIME_WORDS

ZONE_KEY, RECENT_KEY = "time_zone", "recent"
SEVERAL = "xx"
MAX_ZONE_CHARACTERS = 64
ANCHOR_TYPES = (ItemType.EPISODE, ItemType.DECISION, ItemType.FACT, ItemType.EVENT)


class RecentMode(StrEnum):
    """When a prompt lists the last conversations."""

    ON_QUESTIONS = "on questions"
    ALWAYS = "always"
    NEVER = "never"


def zone_check(name: str, *, field: str = "time_zone") -> str:
    """An IANA name of a time zone, or "". Raises Invalid."""
    try:
        if name:
            ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Invalid(
            f"There is no time zone {name[:60]!r}; it is a name such as Europe/Berlin.", field=field
        ) from error
    return name


def zone_of(agent: Agent, named: str = "") -> ZoneInfo:
    """The zone `named`, else that of the agent's settings, else that of the server."""
    return ZoneInfo(named or str(agent.config.get(ZONE_KEY) or "") or settings.TIME_ZONE)


def recent_mode(agent: Agent) -> RecentMode:
    """When the agent's prompts list its last conversations."""
    return RecentMode(agent.config.get(RECENT_KEY) or RecentMode.ON_QUESTIONS)


def time_languages(agent: Agent) -> tuple[str, ...]:
    """The languages in which the agent's inputs may name times: its own, and English."""
    code = language_used(agent)
    return tuple(TIME_WORDS) if code == SEVERAL else tuple(dict.fromkeys([code, "en"]))


def agent_time_read(
    view: PersonaMemory, text: str, scope: ProjectScope, *, now: datetime, zone: ZoneInfo, as_of: datetime | None = None
) -> TimeReading:
    """What `text` says about a time: by its words, or beside an event in memory, which is searched for."""
    if not may_name_time(text):
        return TimeReading(recap=recap_asked(text))
    languages = time_languages(view.agent)
    reading = time_read(text, now, zone, languages)
    if reading.period or (anchor := anchor_asked(text, languages)) is None:
        return reading
    found = search(view, SearchRequest(anchor.phrase, scope, types=ANCHOR_TYPES, limit=1, as_of=as_of, now=now)).items
    if not found:
        return reading
    return replace(
        reading, period=anchored(anchor, found[0].happened_at.astimezone(zone).date(), zone, text, languages)
    )
