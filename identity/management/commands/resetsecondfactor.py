from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from identity.principal import Principal
from identity.services.second_factors import second_factor_reset
from nousweb.lib.commands import ServiceCommand


class Command(ServiceCommand):
    help = "Forget the second factor of a person who lost it: the way back in for the last owner."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"There is no account {options['username']!r}.")
        second_factor_reset(person=person, by=Principal.of_command())
        self.stderr.write(f"The second factor of {person.username} is reset; the password alone logs them in.")
