"""Checks every sealed row against its seal, and the seals against copies of them that were kept elsewhere."""

import json
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from identity.models import Agent, LogSeal
from identity.services.seals.checks import Report
from identity.services.seals.verification import Verification, exported_check


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", metavar="SLUG", help="check the seals of this agent only, erased ones too")
        parser.add_argument("--seals", metavar="FILE", type=Path, help="seals that were exported, as JSON Lines")

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        agent_id = _agent_id(options["agent"]) if options["agent"] else None
        verification = Verification(agent_id=agent_id)
        while verification.step():
            pass
        report = verification.finish()
        exported = _lines(options["seals"]) if options["seals"] else None
        if exported is not None:
            exported_check(report, exported, agent_id)
        self._tell(report, time.monotonic() - started, len(exported) if exported is not None else None)

    def _tell(self, report: Report, seconds: float, exported: int | None) -> None:
        for finding in report.findings:
            self.stdout.write(finding.sentence)
        if report.problems > len(report.findings):
            self.stdout.write(f"… and {report.problems - len(report.findings)} more.")
        rate = round(report.rows / seconds) if seconds else 0
        self.stdout.write(
            f"{report.rows} rows in {report.seals} seals checked in {seconds:.1f} s, {rate} rows a second;"
            f" {report.holes} tombstones with a receipt; {report.tail} rows not sealed yet."
        )
        if exported is not None:
            self.stdout.write(f"{exported} exported seals compared.")
        if report.problems:
            raise CommandError(f"{report.problems} problems were found.")
        self.stdout.write("All records match their seals.")


def _agent_id(slug: str) -> int:
    """The key of an agent, also of one that was erased: its seals have its name."""
    found = Agent.objects.filter(slug=slug).values_list("pk", flat=True).first()
    found = found or LogSeal.objects.filter(agent_slug=slug).values_list("agent_id", flat=True).first()
    if found is None:
        raise CommandError(f"There is no agent called {slug}.")
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    value = json.loads(line)
                    if not isinstance(value, dict):
                        raise CommandError(f"{path}, line {number}: not a seal.")
                    found.append(value)
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    return found
