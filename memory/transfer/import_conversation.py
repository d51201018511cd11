"""Importing a conversation: its turns through the one way that events are recorded."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from identity.models import Agent
from identity.principal import Principal
from memory.layers.policy import MAX_KEY_CHARACTERS
from memory.services.events import events_record
from memory.transfer.conversations import READERS, Source, Turn
from nousweb.lib.errors import Conflict, Invalid

BATCH = 500

Progress = Callable[[float, int, int], None]
"""Called with the share that is read (0 to 1), the events stored, and those that were there already."""


def conversation_import(
    *,
    agent: Agent,
    path: Path,
    format: str,
    by: Principal,
    persona: str = "actor",
    conversation: int | None = None,
    progress: Progress = lambda share, stored, repeated: None,
) -> tuple[int, int]:
    """Record the turns in `path` as events; returns how many were stored and how many had been already.

    Batches of 500, each a call of events_record: what is stored stays when a later batch is refused, and importing
    the file again goes on from there, since keys come from the file's name and each turn's place in it. Raises
    Invalid, naming the line or turn, and Conflict when a file of this name had something else in this place.
    """
    turns = READERS[format](Source(path, persona, conversation))
    stored = repeated = 0
    while batch := list(islice(turns, BATCH)):
        events = [turn.event | {"key": turn.event.get("key") or key_of(path, turn)} for turn in batch]
        try:
            recorded = events_record(agent=agent, events=events, by=by, persona=persona)
        except (Invalid, Conflict) as error:
            raise type(error)(_placed(error.detail, batch), **error.extra) from error
        again = sum(one.repeated for one in recorded)
        stored, repeated = stored + len(recorded) - again, repeated + again
        progress(batch[-1].share, stored, repeated)
    return stored, repeated


def key_of(path: Path, turn: Turn) -> str:
    """The key of a turn: the file's name, without its folder, and the place in it."""
    room = MAX_KEY_CHARACTERS - len(turn.position) - 1
    return f"{path.name[-room:].strip() if room > 0 else ''}:{turn.position}"[-MAX_KEY_CHARACTERS:]


def _placed(detail: str, batch: list[Turn]) -> str:
    """A refusal with the turn's place in the file instead of its place in the batch."""
    for place in _places(detail):
        return detail.replace(f"events[{place}].", f"{batch[place].position}: ", 1)
    return detail


def _places(detail: str) -> Iterator[int]:
    start = detail.find("events[")
    if start >= 0:
        number = detail[start + 7 : detail.find("]", start)]
        if number.isdecimal():
            yield int(number)
