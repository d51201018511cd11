"""The base of management commands that call services."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from nousweb.lib.errors import DomainError


class ServiceCommand(BaseCommand):
    """A command whose refusals by services, and whose `problems`, are messages for the person who typed it."""

    problems: tuple[type[Exception], ...] = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        refusals: tuple[type[Exception], ...] = (DomainError, *self.problems)
        try:
            return super().execute(*args, **options)
        except refusals as error:
            raise CommandError(str(error)) from error
