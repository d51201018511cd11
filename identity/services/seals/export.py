"""Seals outside the database, in a file and in the change feed, and their state as it is reported to people.

The owner of the database cannot change what was exported.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Min

from identity.models import Agent, LogHorizon, LogSeal, LogVerification, Persona
from identity.policy.changes import CHANGE_KINDS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sealed_tables import OVERDUE, SEALED_TABLES
from identity.services.agent_lock import agent_lock_shared
from identity.services.change_feed import feed_change_record
from identity.services.seals.sealer import pending_rows, seal_values
from nousweb.lib import NotFound, clock
from nousweb.lib.permission_holder import PermissionHolder

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


MAX_COUNTED_ROWS = 2_000
"""Maximum number of rows of each table that are counted; the sealer takes those of a usual minute at once."""


def unsealed_rows_count(by: PermissionHolder) -> dict[str, int | bool]:
    """The number of `rows` without a seal that `by` may see, and whether there may be `more` than were counted."""
    found, more = 0, False
    for table in SEALED_TABLES.values():
        horizon = LogHorizon.objects.filter(kind=table.name).first()
        rows = pending_rows(table, horizon.floor if horizon else 0, MAX_COUNTED_ROWS)
        more = more or len(rows) == MAX_COUNTED_ROWS
        found += sum(_is_seen(row.agent_id, row.persona, by) for row in rows)
    return {"rows": found, "more": more}


def sealed_until() -> datetime | None:
    """The moment up to which all records are sealed, except for the last minutes of delayed chains; None before the
    first round."""
    if LogHorizon.objects.exclude(done_at=None).count() < len(SEALED_TABLES):
        return None
    moment: datetime | None = LogHorizon.objects.aggregate(first=Min("done_at"))["first"]
    return moment


def findings_seen(verification: LogVerification, by: PermissionHolder) -> Sequence[str]:
    """The findings of a verification that `by` may see, as sentences."""
    return [
        finding["sentence"]
        for finding in verification.findings
        if _is_seen(finding["agent_id"], finding["persona"], by)
    ]


def sees_all(by: PermissionHolder) -> bool:
    """Whether `by` may see every row of the log."""
    return by.agents is None and by.may(VIEW_SUBCONSCIOUS)


def log_problem() -> str:
    """The known problem of the log, in one sentence; "" if there is none."""
    last = LogVerification.objects.filter(status=LogVerification.Status.DONE).first()
    if last is not None and last.problems:
        return f"The last verification found {last.problems} problems."
    if (problem := _file_problem(settings.SEALS_FILE)) != "":
        return problem
    until = sealed_until()
    if LogSeal.objects.exists() and (until is None or clock.now() - until > OVERDUE):
        return "The sealer has not finished for an hour or more, so edits of newer records cannot be detected."
    return ""


def _file_problem(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            last = file_last(file)
    except FileNotFoundError:
        return "" if not LogSeal.objects.exists() else f"The seals' file {path} does not exist."
    except OSError as error:
        return f"The seals' file {path} cannot be read: {type(error).__name__}."
    seal = LogSeal.objects.filter(serial=last.get("serial", 0)).first()
    if last and (seal is None or seal.hash != last.get("hash")):
        return f"Seal {last['serial']} in {path} is different from the one in the database: the chain was recomputed."
    return ""


def _is_seen(agent_id: int | None, persona: str, by: PermissionHolder) -> bool:
    if persona == Persona.SUBCONSCIOUS and not by.may(VIEW_SUBCONSCIOUS):
        return False
    return by.agents is None or agent_id in by.agents
