from typing import Any

from django.core.management.base import CommandError

from nousweb.demo.demo_access import DemoInProduction, demo_check, demo_wanted
from nousweb.demo.demo_loader import demo_load
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Fill an empty database with the demo agent and its history."
    problems = (DemoInProduction,)

    def handle(self, *args: Any, **options: Any) -> None:
        demo_check()
        if not demo_wanted():
            raise CommandError("The database is not empty; the demo is only loaded into an empty one.")
        demo_load()
        self.stdout.write("Demo data is loaded.")
