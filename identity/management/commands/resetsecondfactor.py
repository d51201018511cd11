from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User

from identity.principal import Principal
from identity.services.second_factors import second_factor_reset
from nousweb.lib import existing
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Forget the second factor of a person who lost it: the way back in for the last owner."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        username = options["username"]
        person = existing(User.objects.filter(username=username).first(), f"There is no account {username!r}.")
        second_factor_reset(person=person, by=Principal.of_command())
        self.stderr.write(f"The second factor of {person.username} is reset; the password alone logs them in.")
