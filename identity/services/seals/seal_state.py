"""State of the seals, as it is reported to people: the sealer's progress, unsealed rows, the last verification."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import Min

from identity.models import LogHorizon, LogSeal, LogVerification, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.seal_limits import OVERDUE
from identity.policy.sealed_tables import SEALED_TABLES
from identity.services.seals.export import file_last
from identity.services.seals.pending_rows import pending_rows
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder

MAX_COUNTED_ROWS = 2_000
"""Maximum number of rows of each table that are counted; the sealer takes those of a usual minute at once."""


@dataclass(frozen=True, slots=True)
class UnsealedRows:
    """Number of rows that have no seal yet, and whether there may be more than were counted."""

    rows: int
    more: bool


def unsealed_rows_count(by: PermissionHolder) -> UnsealedRows:
    """Count the rows without a seal that `by` may see."""
    found, more = 0, False
    for table in SEALED_TABLES.values():
        horizon = LogHorizon.objects.filter(kind=table.name).first()
        rows = pending_rows(table, horizon.floor if horizon else 0, MAX_COUNTED_ROWS)
        more = more or len(rows) == MAX_COUNTED_ROWS
        found += sum(_is_seen(row.agent_id, row.persona, by) for row in rows)
    return UnsealedRows(found, more)


def sealed_until() -> datetime | None:
    """The moment up to which all records are sealed, except for the last minutes of delayed chains; None before the
    first round."""
    if LogHorizon.objects.exclude(done_at=None).count() < len(SEALED_TABLES):
        return None
    moment: datetime | None = LogHorizon.objects.aggregate(first=Min("done_at"))["first"]
    return moment


def findings_seen(verification: LogVerification, by: PermissionHolder) -> Sequence[str]:
    """The findings of a verification that `by` may see, as sentences."""
    return [one["sentence"] for one in verification.findings if _is_seen(one["agent_id"], one["persona"], by)]


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
