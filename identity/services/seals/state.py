"""What people are told of the seals: how far the sealer is, what waits, and what the last verification found."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import Min

from identity.models import LogHorizon, LogSeal, LogVerification, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.policy.sealed_tables import OVERDUE, SEALED_TABLES
from identity.services.seals.export import file_last
from identity.services.seals.pending import pending_rows
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder

TAIL_ROWS = 2_000
"""Rows of each table that are counted; the sealer takes those of a usual minute at once."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Rows that wait for a seal, and whether there may be more than were counted."""

    rows: int
    more: bool


def tail_count(by: PermissionHolder) -> Tail:
    """The rows that wait for a seal and that `by` may know of."""
    found, more = 0, False
    for table in SEALED_TABLES.values():
        horizon = LogHorizon.objects.filter(kind=table.name).first()
        rows = pending_rows(table, horizon.floor if horizon else 0, TAIL_ROWS)
        more = more or len(rows) == TAIL_ROWS
        found += sum(_is_seen(row.agent_id, row.persona, by) for row in rows)
    return Tail(found, more)


def sealed_until() -> datetime | None:
    """Up to when everything recorded is sealed, but for the last minutes of chains that wait; None before the first
    round."""
    if LogHorizon.objects.exclude(done_at=None).count() < len(SEALED_TABLES):
        return None
    moment: datetime | None = LogHorizon.objects.aggregate(first=Min("done_at"))["first"]
    return moment


def findings_seen(verification: LogVerification, by: PermissionHolder) -> Sequence[str]:
    """What a verification found, in sentences, as far as `by` may know of it."""
    return [one["sentence"] for one in verification.findings if _is_seen(one["agent_id"], one["persona"], by)]


def sees_all(by: PermissionHolder) -> bool:
    """Whether `by` may know of every row of the log."""
    return by.agents is None and by.may(VIEW_SUBCONSCIOUS)


def log_problem() -> str:
    """What is wrong with the log, in one sentence; "" where nothing is known to be."""
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
