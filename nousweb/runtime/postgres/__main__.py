"""Run one of the embedded programs on the application's database.

python -m nousweb.runtime.postgres pg_dump --format=custom --file=nous.dump
"""

import os
import subprocess
import sys

from nousweb.runtime.postgres import PostgresProblem, ensure_database_url
from nousweb.runtime.postgres.paths import address_variables, place
from nousweb.runtime.postgres.shared_server import data_dir, owner_url


def main(arguments: list[str]) -> int:
    """Run program `arguments[0]` (psql, pg_dump, pg_restore ...) with the rest; return its exit code."""
    if not arguments:
        sys.stderr.write("usage: python -m nousweb.runtime.postgres PROGRAM [ARGUMENT ...]\n")
        return 2
    try:
        # As the owner of the tables: a restore makes them.
        ensure_database_url()
        program = place(data_dir()).programs / "bin" / arguments[0]
    except PostgresProblem as problem:
        sys.stderr.write(f"nous: {problem}\n")
        return 1
    address = address_variables(owner_url())
    try:
        return subprocess.run([str(program), *arguments[1:]], check=False, env=os.environ | address).returncode
    except FileNotFoundError:
        sys.stderr.write(f"nous: There is no program {arguments[0]}.\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
