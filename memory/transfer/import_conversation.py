"""Import a conversation: its turns are recorded as events."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from identity.models import Agent
from identity.principal import Principal
from memory.layers.event_validation import MAX_KEY_CHARACTERS, events_check
from memory.services.events import events_record
from memory.transfer.conversation_readers import READERS, LeftOut, Source, Turn
from memory.transfer.import_dry_run import PLACE
from memory.transfer.json_stream import place_shown
from nousweb.lib import Conflict, Invalid, clock

BATCH = 500

Progress = Callable[[float, int, int], None]
"""Called with the share that is read (0 to 1), the events stored, and those that were there already."""


@dataclass(frozen=True, slots=True)
class ImportedEvents:
    """How many events were stored, how many had been already, and what was left out, by reason."""

    stored: int
    repeated: int
    left_out: Counter[str]


def conversation_import(
    *,
    agent: Agent,
    path: Path,
    format: str,
    by: Principal,
    persona: str = "actor",
    conversation: int | None = None,
    project: str = "",
    task: str = "",
    user: str = "",
    progress: Progress = lambda share, stored, repeated: None,
) -> ImportedEvents:
    """Record the turns in `path` as events.

    1. The file is read through first, and nothing is stored when any of it cannot be.
    2. Batches of 500 follow, each a call of events_record. What is stored stays when this is stopped, and importing
       the file again goes on from there, since keys come from the file's name and each turn's place in it.

    Events belong to `project`, `task` and `user` unless the file says otherwise. Raises Invalid, naming the line or
    turn, and Conflict when a file of this name had something else in this place.
    """
    source = Source(path, persona, conversation)
    keys = {name: key for name, key in (("project", project), ("task", task), ("user", user)) if key}
    left_out: Counter[str] = Counter()
    for batch, events in _batches(source, format, keys, left_out):
        with _placing(batch):
            events_check(events, persona=persona, now=clock.now())
    stored = repeated = 0
    for batch, events in _batches(source, format, keys, Counter()):
        with _placing(batch):
            recorded = events_record(agent=agent, events=events, by=by, persona=persona)
        again = sum(one.repeated for one in recorded)
        stored, repeated = stored + len(recorded) - again, repeated + again
        progress(batch[-1].share, stored, repeated)
    return ImportedEvents(stored, repeated, left_out)


def _batches(
    source: Source, format: str, of_all: dict[str, str], left_out: Counter[str]
) -> Iterator[tuple[list[Turn], list[dict[str, Any]]]]:
    """The turns of the file with the events that they become; what is `left_out` is counted."""
    turns = _turns(READERS[format](source), left_out)
    while batch := list(islice(turns, BATCH)):
        keys = [turn.event.get("key") for turn in batch]
        yield (
            batch,
            [
                of_all | turn.event | {"key": key_of(source.path, turn) if key is None else key}
                for turn, key in zip(batch, keys, strict=True)
            ],
        )


def _turns(read: Iterator[Turn | LeftOut], left_out: Counter[str]) -> Iterator[Turn]:
    for one in read:
        if isinstance(one, Turn):
            yield one
        else:
            left_out[one.why] += 1


@contextmanager
def _placing(batch: list[Turn]) -> Iterator[None]:
    """Let refusals name the place in the file."""
    try:
        yield
    except (Invalid, Conflict) as error:
        detail = PLACE.sub(lambda named: f"{place_shown(batch[int(named[1])].position)}: ", error.detail, count=1)
        raise type(error)(detail, **error.extra) from error


def key_of(path: Path, turn: Turn) -> str:
    """The key of a turn: the file's name, without its folder, and the place in it."""
    room = MAX_KEY_CHARACTERS - len(turn.position) - 1
    return f"{path.name[-room:].strip() if room > 0 else ''}:{turn.position}"[-MAX_KEY_CHARACTERS:]
