"""Applies the screening rules to all stored texts again, and quarantines those that read like an instruction."""

import time
from typing import Any

from identity.principal import Principal
from memory.models import Screening
from memory.services.quarantine.screening import screening_continue, screening_request
from nousweb.lib import Conflict
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = screening_request(by=Principal.of_command())
        except Conflict:
            self.stderr.write("A screening is already running; this command continues it.")
            run = Screening.objects.filter(status__in=Screening.OPEN).latest("pk")
        while run.status != Screening.Status.DONE:
            if not screening_continue(seconds=5.0):
                # The worker reads just now.
                time.sleep(0.5)
            run.refresh_from_db()
            self.stderr.write(f"\r{run.checked:,} of {run.total:,}", ending="")
        self.stderr.write("")
        self.stdout.write(
            f"{run.checked:,} memories screened with the rules {run.rules}: {run.quarantined:,} are quarantined now."
        )
