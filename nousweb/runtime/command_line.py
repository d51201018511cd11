"""Django's command line, on the embedded PostgreSQL unless DATABASE_URL names another."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence

# Where a database that cannot work must be noticed, rather than in the middle of a migration.
CHECKED = frozenset({"migrate", "serve"})
OURS = frozenset({"identity", "memory", "context", "nousweb"})
WITHOUT_DATABASE = frozenset({"check", "collectstatic", "diffsettings", "help", "version", "--help", "--version", "-h"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. `arguments` are the program's name, the command and the rest; those of the process by default."""
    arguments = list(sys.argv if arguments is None else arguments)
    # Imports leave no garbage, and to look for it among all that they bring takes a fifth of a program's start.
    gc.disable()
    # Nor is any looked for at the end, which would take a quarter of a short command's time.
    atexit.register(gc.freeze)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from nousweb.lib.env import BadSetting
    from nousweb.runtime import postgres

    command = arguments[1] if len(arguments) > 1 else "help"
    try:
        if command not in WITHOUT_DATABASE or "--database" in arguments:
            embedded = not os.environ.get("DATABASE_URL")
            if _understand(arguments, command) and command not in CHECKED:
                # What is served was checked by `serve` or `migrate`; to load all of it here is a third of a start.
                arguments.insert(2, "--skip-checks")
            gc.freeze()
            gc.enable()
            url = postgres.ensure_database_url()
            if embedded:
                from nousweb.database.postgres_roles import addresses_read

                addresses_read()
            if command in CHECKED:
                postgres.check_requirements(url)
        execute_from_command_line(arguments)
    except (postgres.PostgresProblem, BadSetting, ImproperlyConfigured) as problem:
        sys.exit(f"nous: {problem}")


def _understand(arguments: list[str], command: str) -> bool:
    """Answer a call for help, and end at a mistake, before there is a database or a data folder.

    Returns whether this is a command of ours that would begin with Django's checks of all the settings.
    """
    import django
    from django.core.management import ManagementUtility

    django.setup()
    found = ManagementUtility(arguments).fetch_command(command)
    # Otherwise a mistake would be an exception for a caller instead of a message for a person.
    found._called_from_command_line = True  # type: ignore[attr-defined]
    found.create_parser(os.path.basename(arguments[0]), command).parse_args(arguments[2:])
    return bool(found.requires_system_checks) and type(found).__module__.partition(".")[0] in OURS
