"""A backup as a folder, taken while everything runs, and its restoration into an empty database.

The dump and the counts beside it are of one snapshot of the database: they include everything that was committed before
its moment, and nothing else. The installation's secret is included, and the former ones, since encrypted texts cannot
be read without them.
"""

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from nousweb.runtime.postgres import PostgresProblem
from nousweb.runtime.postgres.paths import address_variables, installed_programs

FORMAT, VERSION = "nous.backup", 1
DUMP, ABOUT, SECRET, FORMER = "nous.dump", "backup.json", "secret_key", "secret_key.former"


class BackupProblem(Exception):
    """Why there is no backup, or why it was not restored, in a sentence."""


def backup_take(folder: Path, *, url: str, data_folder: Path) -> tuple[datetime, int, int]:
    """Write a backup of the database at `url`, as the owner of its tables, into a new `folder`: the moment of its
    snapshot, rows in all tables, and bytes of the dump.

    The secret is copied from the data folder if it is kept there. Raises BackupProblem.
    """
    if folder.exists():
        raise BackupProblem(f"{folder} is there already: name a new folder.")
    part = folder.with_name(f"{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700, parents=True)
        with psycopg.connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            row = connection.execute("SELECT pg_export_snapshot(), clock_timestamp()").fetchone()
            assert row is not None  # noqa: S101
            rows = _counts(connection)
            if not any(rows.values()):
                raise BackupProblem("The database is empty: does NOUS_DATA_DIR or DATABASE_URL name the right one?")
            _program_run(
                url, "pg_dump", "--format=custom", "--no-owner", f"--snapshot={row[0]}", f"--file={part / DUMP}"
            )
        about = {"format": FORMAT, "version": VERSION, "moment": row[1].astimezone(UTC).isoformat(), "rows": rows}
        (part / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
        for name in (SECRET, FORMER):
            if (data_folder / name).is_file():
                shutil.copyfile(data_folder / name, part / name)
        for path in part.iterdir():
            path.chmod(0o600)
        size = (part / DUMP).stat().st_size
        part.rename(folder)
    except (OSError, psycopg.Error) as error:
        raise BackupProblem(f"The backup could not be written: {' '.join(str(error).split())}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return row[1], sum(rows.values()), size


def backup_restore(
    source: Path, *, url: str, data_folder: Path, keep_secret: bool
) -> tuple[datetime | None, int, bool]:
    """Restore a backup, or a dump of the custom format alone, into the empty database at `url`, as its owner: the
    moment of the snapshot if the backup has it, rows in all tables, and whether the secret was restored too.

    The tables are as they were then, and need `migrate`. The secret is put into the data folder unless one is there, or
    `keep_secret`. All is restored or nothing. Raises BackupProblem.
    """
    dump, about = (source / DUMP, _about(source)) if source.is_dir() else (source, None)
    if not dump.is_file():
        raise BackupProblem(f"There is no backup at {source}.")
    try:
        with psycopg.connect(url) as connection:
            if sum(_counts(connection).values()):
                raise BackupProblem(
                    "The database is not empty: restore into a new data folder (NOUS_DATA_DIR) or a new database."
                )
        _program_run(
            url, "pg_restore", "--no-owner", "--no-privileges", "--no-comments", "--exit-on-error",
            "--single-transaction", f"--dbname={conninfo_to_dict(url)['dbname']}", str(dump),
        )  # fmt: skip
        with psycopg.connect(url) as connection:
            rows = _counts(connection)
        with_secret = not keep_secret and (source / SECRET).is_file() and not (data_folder / SECRET).exists()
        if with_secret:
            for name in (one for one in (SECRET, FORMER) if (source / one).is_file()):
                descriptor = os.open(data_folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w") as file:
                    file.write((source / name).read_text())
    except (OSError, psycopg.Error) as error:
        raise BackupProblem(f"The backup could not be restored: {' '.join(str(error).split())}.") from error
    if about is not None and about["rows"] != rows:
        wrong = sorted(name for name in {*rows, *about["rows"]} if rows.get(name) != about["rows"].get(name))
        raise BackupProblem(f"The backup is not whole: other counts of rows in {', '.join(wrong)}.")
    moment = datetime.fromisoformat(about["moment"]) if about is not None else None
    return moment, sum(rows.values()), with_secret


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError) as error:
        raise BackupProblem(f"{folder} is no backup: {ABOUT} cannot be read.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("version") != VERSION:
        raise BackupProblem(f"{folder} is no backup that this version reads.")
    return about


def _counts(connection: psycopg.Connection) -> dict[str, int]:
    """Rows by table of the product's schema; partitions count, but not their parents."""
    tables = connection.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace(current_schema()) AND c.relkind = 'r'"
        " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid"
        " AND d.deptype = 'e') ORDER BY 1"
    ).fetchall()
    found: dict[str, int] = {}
    for (name,) in tables:
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))).fetchone()
        found[name] = row[0] if row else 0
    return found


def _program_run(url: str, program: str, *arguments: str) -> None:
    try:
        path = installed_programs() / "bin" / program
        finished = subprocess.run(
            [str(path), *arguments],
            env=os.environ | address_variables(url),
            capture_output=True,
            text=True,
            check=False,
        )
    except PostgresProblem as problem:
        raise BackupProblem(str(problem)) from problem
    if finished.returncode:
        said = finished.stderr.strip().splitlines() or ["it said nothing"]
        raise BackupProblem(f"{program} failed: {said[0]}")
