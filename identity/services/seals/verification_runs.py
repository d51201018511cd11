"""Verifications in the background: requested by people or once a day, run by the worker in parts."""

import time
from dataclasses import asdict
from datetime import timedelta

from django.db import transaction
from django.db.models import Max, Q

from identity.models import LogSeal, LogVerification
from identity.policy.seal_limits import VERIFY_EVERY, VERIFY_SECONDS
from identity.policy.sealed_tables import VIEW
from identity.principal import Principal
from identity.services.audit import audit_record
from identity.services.seals.findings import Report
from identity.services.seals.verification import Verification
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, NotAllowed

Status = LogVerification.Status
KEPT_FINDINGS = 200
LOST_AFTER = timedelta(minutes=3)
"""A part that has said nothing for so long was left by a worker that is gone."""


@transaction.atomic
def verification_request(*, by: Principal) -> LogVerification:
    """Ask for the log to be checked against its seals. Raises NotAllowed, and Conflict while it is being checked."""
    by.require(VIEW)
    if by.agents is not None:
        raise NotAllowed(
            "A verification checks the whole log, so only people with access to all agents can request it."
        )
    if LogVerification.objects.filter(status__in=(Status.WAITING, Status.RUNNING)).exists():
        raise Conflict("A verification is already running.")
    found = LogVerification.objects.create(asked_by=by.name)
    audit_record(by=by, action="log.verify", target=found, agent=None, label="The log")
    return found


def verification_continue() -> int:
    """Go on with the verification that waits or has begun, or begin the daily one; returns how many rows it saw."""
    found = LogVerification.objects.filter(status__in=(Status.WAITING, Status.RUNNING)).order_by("pk").first()
    if found is None:
        young = LogVerification.objects.filter(asked_at__gt=clock.now() - VERIFY_EVERY).exists()
        if young or not LogSeal.objects.exists():
            return 0
        found = LogVerification.objects.create(asked_by="schedule")
    now = clock.now()
    free = Q(worked_at=None) | Q(worked_at__lt=now - LOST_AFTER)
    if not LogVerification.objects.filter(free, pk=found.pk).update(worked_at=now):
        return 0
    return _work(found)


def _work(found: LogVerification) -> int:
    if found.status == Status.WAITING:
        found.status, found.started_at = Status.RUNNING, clock.now()
        found.last_serial = LogSeal.objects.aggregate(last=Max("serial"))["last"] or 0
    report = Report(problems=found.problems, rows=found.rows, holes=found.holes)
    verification = Verification(report, after=found.serial)
    end, begun, more = time.monotonic() + VERIFY_SECONDS, found.rows, True
    while more and time.monotonic() < end:
        more = verification.step()
        _save(found, report, verification.serial, worked_at=clock.now())
    if not more:
        verification.finish()
        found.status, found.finished_at = Status.DONE, clock.now()
        if report.problems:
            audit_record(
                by=Principal.of_system("worker"),
                action="log.problem",
                target=found,
                agent=None,
                label="The log",
                after={"problems": report.problems},
                message="Rows do not match their seals.",
            )
    _save(found, report, verification.serial, worked_at=None)
    return report.rows - begun


def _save(found: LogVerification, report: Report, serial: int, *, worked_at: object) -> None:
    known = len(found.findings)
    new = [asdict(one) for one in report.findings[: KEPT_FINDINGS - known]] if known < KEPT_FINDINGS else []
    found.findings += new
    report.findings.clear()
    found.serial, found.rows, found.holes, found.problems = serial, report.rows, report.holes, report.problems
    found.worked_at = worked_at  # type: ignore[assignment]
    found.save()
