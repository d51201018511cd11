"""Django's command line, on the embedded PostgreSQL unless DATABASE_URL names another."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from traceback import walk_tb

from nousweb import __version__

# Where a database that cannot work must be noticed, rather than in the middle of a migration.
CHECKED = frozenset({"migrate", "serve"})
OURS = frozenset({"identity", "memory", "context", "nousweb"})
HELP = frozenset({"help", "--help", "-h"})
WITHOUT_DATABASE = frozenset({"check", "collectstatic", "diffsettings", "help"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. `arguments` are the program's name, the command and the rest; those of the process by default."""
    arguments = list(sys.argv if arguments is None else arguments)
    command = arguments[1] if len(arguments) > 1 else "help"
    # Neither needs the settings and apps, which take half a second to load.
    if command in ("version", "--version"):
        sys.stdout.write(f"Nous Web {__version__}\n")
        return
    if command in HELP and len(arguments) < 3:
        sys.stdout.write(_commands_text(os.path.basename(arguments[0])))
        return
    # Imports leave no garbage, and to look for it among all that they bring takes a fifth of a program's start.
    gc.disable()
    # Nor is any looked for at the end, which would take a quarter of a short command's time.
    atexit.register(gc.freeze)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError, connection

    from nousweb.lib.env import BadSetting
    from nousweb.runtime import postgres
    from nousweb.runtime.garbage import garbage_rare

    embedded = not os.environ.get("DATABASE_URL")
    try:
        if command not in WITHOUT_DATABASE or "--database" in arguments:
            if _understand(arguments, command) and command not in CHECKED:
                # What is served was checked by `serve` or `migrate`; to load all of it here is a third of a start.
                arguments.insert(2, "--skip-checks")
            garbage_rare()
            url = postgres.ensure_database_url()
            if embedded:
                from nousweb.database.postgres_roles import addresses_read

                addresses_read()
            if command in CHECKED:
                postgres.check_requirements(url)
        execute_from_command_line(arguments)
    except (postgres.PostgresProblem, BadSetting, ImproperlyConfigured) as problem:
        sys.exit(f"nous: {problem}")
    except OperationalError as error:
        # The driver raises the same, without a code too, for statements that it cannot send.
        if all(frame.f_code.co_name != "get_new_connection" for frame, _ in walk_tb(error.__traceback__)):
            raise
        sys.exit(f"nous: The database cannot be reached: {(str(error).strip() or 'no answer').splitlines()[0]}.")
    except ProgrammingError as error:
        from django.db.migrations.recorder import MigrationRecorder

        # A table is missing; or a statement names one that it does not read from.
        is_missing = getattr(error.__cause__, "sqlstate", "") == "42P01" and command != "migrate"
        if not is_missing or MigrationRecorder(connection).has_table():
            raise
        named = f"of the data folder {settings.DATA_DIR}" if embedded else "that DATABASE_URL names"
        sys.exit(f"nous: The database {named} has no tables yet. Run `serve` or `migrate` first, or name another one.")


def _commands_text(program: str) -> str:
    """The names of all commands but those of other packages."""
    from django.core import management

    paths = [import_module(package).__path__[0] for package in OURS]
    ours = {name for path in paths for name in management.find_commands(os.path.join(path, "management"))}
    listed = {"nous": ours, "django": set(management.find_commands(management.__path__[0])) - ours}
    lines = [f"Type '{program} help <subcommand>' for help on a specific subcommand.", "", "Available subcommands:"]
    for heading, names in listed.items():
        lines += ["", f"[{heading}]", *(f"    {name}" for name in sorted(names))]
    return "\n".join(lines) + "\n"


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
