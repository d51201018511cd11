"""Run one of the embedded programs on the application's database.

python -m nousweb.postgres pg_dump --format=custom --file=nous.dump
"""

import os
import subprocess
import sys

from nousweb.postgres import PostgresProblem, ensure_database_url
from nousweb.postgres.placement import place
from nousweb.postgres.sharing import data_dir


def main(arguments: list[str]) -> int:
    """Run program `arguments[0]` (psql, pg_dump, pg_restore ...) with the rest; return its exit code."""
    if not arguments:
        sys.stderr.write("usage: python -m nousweb.postgres PROGRAM [ARGUMENT ...]\n")
        return 2
    try:
        url = ensure_database_url()
        program = place(data_dir()).programs / "bin" / arguments[0]
    except PostgresProblem as problem:
        sys.stderr.write(f"nous: {problem}\n")
        return 1
    # PGDATABASE takes a whole address in place of a name, so that each program finds the database by itself.
    return subprocess.run([str(program), *arguments[1:]], check=False, env=os.environ | {"PGDATABASE": url}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
