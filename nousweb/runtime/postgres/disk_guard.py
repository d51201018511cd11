"""Lets the embedded database refuse changes while its disk is nearly full, and accept them again by itself.

PostgreSQL ends itself when its own log finds no room, and cannot start again before there is some. A database that
accepts no changes writes next to nothing, so reads go on.
"""

import contextlib
import os
import re
import shutil
import signal
from pathlib import Path

from nousweb.runtime.postgres.paths import ServerPaths

SWITCH = "default_transaction_read_only"
SWITCHED = re.compile(rb"(?m)^" + SWITCH.encode() + rb" = '(\w+)'[ ]*$")


class DiskGuard:
    """The guard of one server: changes are refused while less than `reserve` bytes are free on its disk."""

    def __init__(self, paths: ServerPaths, reserve: int) -> None:
        self._paths = paths
        self._reserve = reserve
        self.refusing = False

    def check(self) -> bool:
        """Compare the free space with the reserve; return whether that changed what the database does.

        A half more than the reserve has to be free before changes are accepted again. Raises OSError.
        """
        free = shutil.disk_usage(self._paths.cluster).free
        refuse = free < (self._reserve * 3 // 2 if self.refusing else self._reserve)
        if refuse == self.refusing:
            return False
        switch_set(self._paths, refuse)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self._paths.cluster / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)
        self.refusing = refuse
        return True


def switch_set(paths: ServerPaths, refuse: bool) -> None:
    """Write into the cluster's settings whether sessions begin read-only. PostgreSQL reads it at a start or SIGHUP.

    The line is overwritten in place, which needs no free space where its file system allows that; ALTER SYSTEM would
    write a new file.
    """
    file = Path(paths.cluster) / "postgresql.auto.conf"
    before = file.read_bytes()
    line = f"{SWITCH} = '{'on' if refuse else 'off'}'".encode().ljust(len(SWITCH) + len(" = 'off'"))
    after = SWITCHED.sub(line, before) if SWITCHED.search(before) else before.rstrip(b"\n") + b"\n" + line + b"\n"
    if after != before:
        with file.open("r+b") as settings:
            settings.write(after)
            settings.truncate()
