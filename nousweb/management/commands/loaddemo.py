from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nousweb.demo.demo_loader import DemoInProduction, demo_check, demo_load, demo_wanted


class Command(BaseCommand):
    help = "Fill an empty database with the demo agent and its history."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            demo_check()
        except DemoInProduction as problem:
            raise CommandError(str(problem)) from problem
        if not demo_wanted():
            raise CommandError("The database is not empty; the demo is only loaded into an empty one.")
        demo_load()
        self.stdout.write("Demo data is loaded.")
