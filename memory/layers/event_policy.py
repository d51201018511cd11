"""Rules about events and the layers made of them, declared as data."""

import re

from identity.models import Persona
from memory.models import EventKind

KIND_PERSONAS: dict[str, tuple[str, ...]] = {
    EventKind.SUBCONSCIOUS_PROMPT: (Persona.SUBCONSCIOUS,),
    EventKind.SUBCONSCIOUS_OUTPUT: (Persona.SUBCONSCIOUS,),
}
"""Kinds that only some personas record; every other kind is for both."""

CLOSING_KINDS = frozenset({EventKind.ACTOR_OUTPUT, EventKind.SUBCONSCIOUS_OUTPUT})
"""What ends a loop. Source: seed "Agentic Memory System", Prompt Loop Boundaries."""

OPENING_KINDS = (EventKind.USER_INPUT, EventKind.SUBCONSCIOUS_PROMPT)

DEFAULT_VISIBILITY = "public"
VISIBILITY_RANK = {"public": 0, "internal": 1, "private": 2}
"""The known words, the most open first; a loop is as visible as its least visible event."""
OTHER_VISIBILITY_RANK = 1

KIND_IMPORTANCE: dict[str, float] = {
    EventKind.USER_INPUT: 0.6,
    EventKind.ACTOR_OUTPUT: 0.6,
    EventKind.TOOL_CALL: 0.3,
    EventKind.TOOL_RESULT: 0.3,
    EventKind.SUBCONSCIOUS_PROMPT: 0.3,
    EventKind.SUBCONSCIOUS_OUTPUT: 0.5,
    EventKind.SYSTEM_EVENT: 0.2,
    EventKind.ERROR: 0.7,
}
"""Importance, 0 to 1, of a long-term entry by the kind of its event."""

MAX_PROSE_CHARACTERS = 2_000
"""Most characters of a long-term entry, its speaker not counted."""
OUTPUT_HEAD_CHARACTERS = 800
OUTPUT_TAIL_CHARACTERS = 600
"""Lengths to which long tool output and stack traces are shortened: beginning and end."""
MAX_SPEAKER_CHARACTERS = 100

OUTPUT_KINDS = frozenset({EventKind.TOOL_RESULT, EventKind.ERROR})
"""Kinds whose lines matter, and whose end says as much as their beginning."""
STACK_TRACE = re.compile(
    r"^Traceback \(most recent call last\):|^\s+at \S+[ (]|^\s+File \".+\", line \d+|^goroutine \d+ \[|panicked at ",
    re.MULTILINE,
)

MAX_SUMMARY_INPUT = 400
MAX_SUMMARY_OUTPUT = 500
MAX_SUMMARY_ERROR = 200
MAX_SUMMARY_TOOLS = 10
MAX_TOOL_CHARACTERS = 40
MAX_SUMMARY_CHARACTERS = 1_800
"""No summary is longer: a line each for what was asked, answered, used, and went wrong."""
