from typing import Any

from django.core.management.base import BaseCommand

from nousweb.demo.demo_access import demo_info


class Command(BaseCommand):
    help = "Print the demo's logins, its agent's token and a call to try."

    def handle(self, *args: Any, **options: Any) -> None:
        if info := demo_info():
            self.stdout.write(info)
