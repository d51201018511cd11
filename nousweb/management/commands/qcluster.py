from importlib import import_module
from multiprocessing.util import Finalize
from typing import Any

from django.conf import settings
from django_q.management.commands import qcluster
from django_q.signals import post_spawn

from memory.judge.model_judge import PROVIDERS
from nousweb.database.statement_timeouts import work_usual
from nousweb.lib.background import tasks_declared


class Command(qcluster.Command):
    """The worker. It loads what its tasks need once, before its processes are forked."""

    def handle(self, *args: Any, **options: Any) -> None:
        tasks_declared()
        work_usual("job")
        # An SDK takes a second to load.
        for kind in {settings.JUDGE, settings.COUNTER}.intersection(PROVIDERS):
            import_module(f"memory.judge.{kind}")
        if settings.TELEMETRY:
            post_spawn.connect(_telemetry_of_worker, dispatch_uid="nousweb.monitoring.telemetry.worker")
        super().handle(*args, **options)


def _telemetry_of_worker(**signal: Any) -> None:
    """Called in each process that runs tasks: threads do not outlive the fork that made it."""
    from nousweb.monitoring.telemetry.exporter import telemetry_start, telemetry_stop

    telemetry_start(gauges=True)
    Finalize(None, telemetry_stop, exitpriority=10)
