"""Several commands share one server: starting and stopping it.

Each process that uses the embedded server holds a shared lock on one file. The last one to leave can take the lock
exclusively, and stops the server. The system drops the locks of a killed process, so no counting is needed. Starting
and stopping happen under a second, exclusive lock.
"""

import atexit
import contextlib
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from nousweb.lib.env import read
from nousweb.lib.installation import default_data_folder
from nousweb.runtime.postgres.paths import DatabaseGone, PostgresProblem
from nousweb.runtime.postgres.server import DiskGuard, EmbeddedServer

STABLE_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 15.0
"""The pauses between attempts to start a server that keeps dying double up to this; one that stays up ends them."""

_membership: "Lease | None" = None


def ensure_database_url() -> str:
    """Return DATABASE_URL; when it is unset, set it and DATABASE_OWNER_URL to the embedded server, started if need be.

    The server is stopped when the last process that called this exits. Raises PostgresProblem.
    """
    global _membership
    if not os.environ.get("DATABASE_URL"):
        membership = Lease(EmbeddedServer(data_dir()))
        os.environ["DATABASE_URL"] = membership.join()
        os.environ["DATABASE_OWNER_URL"] = membership.server.owner_url
        _membership = membership
    return os.environ["DATABASE_URL"]


def owner_url() -> str:
    """The database's address for the owner of its tables: that of the product where no other is named."""
    return os.environ.get("DATABASE_OWNER_URL") or os.environ["DATABASE_URL"]


def revive() -> bool:
    """Start the embedded server again if this process uses one and it has died; return whether it was.

    Raises PostgresProblem when it cannot be started for now, and DatabaseGone when it never can.
    """
    return _membership is not None and _membership.revive()


def disk_guard(reserve: int) -> DiskGuard | None:
    """The guard of the embedded server's disk, if this process uses one."""
    return None if _membership is None else DiskGuard(_membership.server.paths, reserve)


def data_dir() -> Path:
    """The data folder, as the settings read it; these cannot be loaded before the database has an address."""
    return read("NOUS_DATA_DIR", lambda raw: Path(raw).expanduser().resolve(), default_data_folder())


class Lease:
    """This process's share in an embedded server."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self._users: int | None = None
        self._pid = os.getpid()
        # A moment of the monotonic clock, and the seconds from then to the next attempt.
        self._tried = 0.0
        self._pause = 0.0

    def join(self) -> str:
        """Start the server unless it runs, and keep it running until `leave` or the end of this process."""
        # Settles the folders, so that the lock files have a place.
        self.server.paths  # noqa: B018
        with self._alone():
            self._users = self._open("postgres.users")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            url = self.server.start()
        atexit.register(self.leave)
        return url

    def revive(self) -> bool:
        """Start the server again if it has died and no pause is to be kept; return whether it was started.

        Raises PostgresProblem when it cannot be started for now, and DatabaseGone when its database is no longer
        there: an empty one in its place would look like a loss of everything.
        """
        try:
            if self.server.running():
                return False
            if not (self.server.paths.cluster / "PG_VERSION").is_file():
                raise DatabaseGone(f"The database in {self.server.paths.cluster} is gone.")
        except OSError as error:
            raise PostgresProblem(f"The database server cannot be reached: {error}.") from error
        since = time.monotonic() - self._tried
        if since < self._pause:
            return False
        self._pause = 1.0 if since > STABLE_SECONDS else min(max(1.0, self._pause * 2), LONGEST_PAUSE_SECONDS)
        try:
            with self._alone():
                self.server.start_again()
        finally:
            self._tried = time.monotonic()
        return True

    def leave(self) -> None:
        """Give up the share; the last one stops the server. A forked child's copy is not a share."""
        if self._users is None or os.getpid() != self._pid:
            return
        with _interrupts_ignored(), self._alone():
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                self.server.stop()
            os.close(self._users)
            self._users = None
        atexit.unregister(self.leave)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = self._open("postgres.lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _open(self, name: str) -> int:
        path = self.server.data_dir / name
        try:
            # Reading is enough to lock, and lets root and the folder's owner share one file.
            return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        except OSError as error:
            raise PostgresProblem(f"The lock file {path} cannot be opened ({error.strerror}).") from error


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A second Ctrl-C must not leave the server half stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
