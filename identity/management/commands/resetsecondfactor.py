from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from identity.principal import Principal
from identity.services.second_factors import second_factor_reset
from nousweb.lib.errors import DomainError


class Command(BaseCommand):
    help = "Forget the second factor of a person who lost it: the way back in for the last owner."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        person = User.objects.filter(username=options["username"]).first()
        if person is None:
            raise CommandError(f"There is no account {options['username']!r}.")
        try:
            second_factor_reset(person=person, by=Principal.of_command())
        except DomainError as error:
            raise CommandError(error.detail) from error
        self.stderr.write(f"The second factor of {person.username} is reset; the password alone logs them in.")
