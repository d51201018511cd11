"""Storage of uploaded files until they are imported: a subfolder of the data folder, for the product's user only."""

import os
from collections.abc import Collection
from pathlib import Path
from uuid import UUID

from django.conf import settings

from nousweb.lib.errors import Conflict

FOLDER = "imports"


def run_path(key: UUID) -> Path:
    """The path of the file of an import, whether it exists or not."""
    return Path(settings.DATA_DIR) / FOLDER / str(key)


def part_write(key: UUID, offset: int, part: bytes) -> None:
    """Write bytes of a file at `offset`. Raises Conflict if earlier bytes are missing, and OSError."""
    path = run_path(key)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        if file.seek(0, os.SEEK_END) < offset:
            raise Conflict("Bytes before these are missing; upload the file again.")
        file.seek(offset)
        file.write(part)
        file.truncate()


def file_delete(key: UUID) -> None:
    run_path(key).unlink(missing_ok=True)


def delete_orphaned_files(needed: Collection[UUID]) -> int:
    """Delete all files except those of the imports in `needed`; returns how many."""
    folder = Path(settings.DATA_DIR) / FOLDER
    names = {str(key) for key in needed}
    orphaned = [path for path in folder.iterdir() if path.name not in names] if folder.is_dir() else []
    for path in orphaned:
        path.unlink(missing_ok=True)
    return len(orphaned)
