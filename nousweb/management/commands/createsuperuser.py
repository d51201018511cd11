"""Django's command, which makes an owner, with a message for a name that is refused."""

from typing import Any

from django.contrib.auth.management.commands.createsuperuser import Command as DjangoCommand
from django.core.management.base import CommandError

from nousweb.lib.errors import Invalid


class Command(DjangoCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except Invalid as error:
            raise CommandError(error.detail) from error
