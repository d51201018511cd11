"""Whether there is room on the disks that the product writes to."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from django.conf import settings

OK = "ok"
ELSEWHERE = "elsewhere"
MEBIBYTE = 1024 * 1024
PROBE_BYTES = 64 * 1024


def disks_checked() -> dict[str, str]:
    """The state of the data folder's disk and of the embedded database's; that of another database server is not
    checked."""
    folder = _database_folder()
    return {
        "data_disk": _room(settings.DATA_DIR) or _writable(settings.DATA_DIR) or OK,
        "database_disk": ELSEWHERE if folder is None else _room(folder) or OK,
    }


def database_disk_low() -> bool:
    """Whether the embedded database's disk has less space than it should have."""
    folder = _database_folder()
    return folder is not None and bool(_room(folder))


def _database_folder() -> Path | None:
    """The folder of the embedded server's database; None if another server is used."""
    server = settings.DATABASES["default"]
    host = server.get("HOST") or server.get("OPTIONS", {}).get("host", "")
    if not str(host).startswith("/"):
        return None
    folder = settings.DATA_DIR / "postgres"
    pointer = settings.DATA_DIR / "postgres.location"
    with contextlib.suppress(OSError):
        folder = Path(pointer.read_text().strip())
    # Unlike the path's own method it says no, too, of a folder that may not be looked at.
    return folder if os.path.isdir(folder) else None


def _room(folder: Path) -> str:
    try:
        free = shutil.disk_usage(folder).free // MEBIBYTE
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return f"{free} MB free" if free < settings.DISK_FREE_MB else ""


def _writable(folder: Path) -> str:
    """A quota, or a file system that went read-only, shows only when something is written."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(os.urandom(PROBE_BYTES))
            probe.flush()
    except OSError as error:
        return f"cannot be written to ({error.strerror})"
    return ""
