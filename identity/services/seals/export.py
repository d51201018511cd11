"""Export seals to a file and to the change feed, where the owner of the database cannot change them."""

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from identity.models import Agent, LogHorizon, LogSeal
from identity.policy.changes import CHANGE_KINDS
from identity.services.agent_lock import agent_lock_shared
from identity.services.change_feed import feed_change_record
from identity.services.seals.sealer import seal_values
from nousweb.lib.errors import NotFound

BATCH = 500
LAST_BYTES = 4096
"""A line is shorter, so the last one begins within so many bytes of the end."""


ANNOUNCED = "announced"
"""The row of LogHorizon that says up to which serial the change feed knows of seals."""


class SealsDiffer(Exception):
    """The file's last seal is not the one of the database: one of the two was changed."""


def seal_export(seal: LogSeal) -> dict[str, Any]:
    """A seal as it is exported: the hashed values, and the hash."""
    return {**seal_values(seal), "hash": seal.hash}


def seals_export(path: Path | None = None) -> int:
    """Append the seals that are not in the file yet, NOUS_SEALS_FILE by default; returns how many.

    Nothing is appended to a file whose last seal is another one than the database's. Raises SealsDiffer and OSError.
    """
    path = path or settings.SEALS_FILE
    if path is None:
        return 0
    count = 0
    with path.open("a+b") as file:
        # Two workers of one machine append one after the other.
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_cut(file):
            file.write(b"\n")
        for seal in _following(file_last(file)):
            file.write(json.dumps(seal_export(seal), sort_keys=True).encode() + b"\n")
            count += 1
        file.flush()
        if count:
            os.fsync(file.fileno())
    return count


def seals_announce() -> int:
    """Write the seals of agents that the change feed does not know of into it, for webhooks; returns how many."""
    place, _ = LogHorizon.objects.get_or_create(kind=ANNOUNCED)
    count = 0
    for seal in LogSeal.objects.filter(serial__gt=place.floor).order_by("serial").iterator(BATCH):
        with transaction.atomic():
            if seal.agent_id is not None and _announce(seal):
                count += 1
            LogHorizon.objects.filter(kind=ANNOUNCED, floor__lt=seal.serial).update(floor=seal.serial)
    return count


def _announce(seal: LogSeal) -> bool:
    try:
        with agent_lock_shared(seal.agent_id or 0):
            feed_change_record(
                kind="log.sealed",
                agent=Agent(pk=seal.agent_id),
                persona=seal.persona,
                object_type="logseal",
                object_id=seal.hash,
                details={name: seal_values(seal)[name] for name in CHANGE_KINDS["log.sealed"].details},
            )
    except NotFound:
        # The agent was erased, and its stream with it; the file has the seal.
        return False
    return True


def file_last(file: Any) -> dict[str, Any]:
    """The last seal in an open file; {} for an empty one. A line that a full disk cut off is skipped."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LAST_BYTES))
    tail = file.read()
    for line in reversed(tail.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("serial"), int):
            return found
    return {}


def _is_cut(file: Any) -> bool:
    """Whether the last line has no end."""
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) != b"\n")


def _following(last: dict[str, Any]) -> Iterator[LogSeal]:
    if last:
        seal = LogSeal.objects.filter(serial=last["serial"]).only("hash").first()
        if seal is None or seal.hash != last.get("hash"):
            raise SealsDiffer(f"Seal {last['serial']} of the file is not in the database.")
    return LogSeal.objects.filter(serial__gt=last.get("serial", 0)).order_by("serial").iterator(BATCH)
