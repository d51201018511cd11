#!/usr/bin/env python
"""Django's command line, on the embedded PostgreSQL unless DATABASE_URL names another."""

import os
import sys

# Where a database that cannot work must be noticed, rather than in the middle of a migration.
CHECKED = frozenset({"migrate", "serve"})
WITHOUT_DATABASE = frozenset({"check", "collectstatic", "diffsettings", "help", "version", "--help", "--version"})


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from nousweb import postgres
    from nousweb.lib.env import BadSetting

    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    if command not in WITHOUT_DATABASE or "--database" in sys.argv:
        try:
            url = postgres.ensure_database_url()
            if command in CHECKED:
                postgres.check_requirements(url)
        except (postgres.PostgresProblem, BadSetting) as problem:
            sys.exit(f"nous: {problem}")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as problem:
        sys.exit(f"nous: {problem}")


if __name__ == "__main__":
    main()
