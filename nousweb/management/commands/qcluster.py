from importlib import import_module
from typing import Any

from django.conf import settings
from django_q.management.commands import qcluster

from nousweb.database.limits import work_usual
from nousweb.queue.schedules import SCHEDULES


class Command(qcluster.Command):
    """The worker, with what its tasks need loaded once, before its processes are forked, and not in each of them."""

    def handle(self, *args: Any, **options: Any) -> None:
        modules = {path.rpartition(".")[0] for path, _ in SCHEDULES.values()}
        if "anthropic" in (settings.JUDGE, settings.COUNTER):
            # Its SDK takes a second to load.
            modules.add("memory.judge.anthropic")
        work_usual("job")
        for module in sorted(modules):
            import_module(module)
        super().handle(*args, **options)
