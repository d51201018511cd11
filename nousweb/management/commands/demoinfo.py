from typing import Any

from django.core.management.base import BaseCommand

from nousweb.demo.demo_access import demo_info


class Command(BaseCommand):
    help = "Print the demo's logins, its agent's token and a call to try."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(demo_info() or "This is no demo: `serve --demo` makes one of an empty database.")
