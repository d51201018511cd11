"""Open a file to import: plain JSON, or JSON within a zip archive as chat providers send it."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from memory.transfer.json_stream import BadEntry

CONVERSATIONS = re.compile(r"(?:.*/)?conversations(?:-\d{1,6})?\.json")
"""What is read of an archive; large accounts get their conversations in several numbered files."""
MAX_ARCHIVE_ENTRIES = 100_000
MAX_UNPACKED_BYTES = 8 << 30
MAX_RATIO = 200
"""JSON packs to a tenth or a twentieth; what unpacks to more than this many times its size is no export."""
RATIO_FROM_BYTES = 32 << 20
ENCRYPTED = 0x1
ZIP = b"PK\x03\x04"
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Part:
    """One stream of JSON of the file, with what comes before and after it in bytes as a share of the whole."""

    name: str
    file: BinaryIO
    size: int
    before: int
    total: int

    def share(self, read: int) -> float:
        """The share of the whole file that has been read, 0 to 1, after `read` bytes of this part."""
        return min(self.before + read, self.total) / max(self.total, 1)


def parts_read(path: Path) -> Iterator[Part]:
    """The files to read of `path`, one after another. Raises BadEntry for an archive that is no export, or OSError."""
    with path.open("rb") as file:
        archived = file.read(len(ZIP)) == ZIP
        file.seek(0)
        if not archived:
            size = path.stat().st_size
            yield Part("", file, size, 0, size)
            return
    with _archive(path) as archive:
        found = [info for info in archive.infolist() if CONVERSATIONS.fullmatch(info.filename)]
        if not found:
            raise BadEntry("the archive", "there is no conversations.json in it.")
        found.sort(key=lambda info: info.filename)
        total = sum(info.file_size for info in found)
        for info in found:
            _bomb_check(info, total)
        before = 0
        for info in found:
            with archive.open(info) as member:
                yield Part(info.filename, cast(BinaryIO, _Bounded(member, info)), info.file_size, before, total)
            before += info.file_size


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_ARCHIVE_ENTRIES:
                raise BadEntry("the archive", f"it holds more than {MAX_ARCHIVE_ENTRIES:,} files.")
            yield archive
    except _UNREADABLE as error:
        raise BadEntry("the archive", f"it cannot be read: {error}.") from error


def _bomb_check(info: zipfile.ZipInfo, total: int) -> None:
    if info.flag_bits & ENCRYPTED:
        raise BadEntry(info.filename, "it is encrypted; unpack the archive first.")
    if total > MAX_UNPACKED_BYTES:
        raise BadEntry(info.filename, f"it unpacks to more than {MAX_UNPACKED_BYTES >> 30} GB.")
    if info.file_size > RATIO_FROM_BYTES and info.file_size > MAX_RATIO * max(info.compress_size, 1):
        raise BadEntry(info.filename, f"it unpacks to more than {MAX_RATIO} times its size, which no export does.")


class _Bounded(io.RawIOBase):
    """A member of an archive that gives no more than it announced."""

    def __init__(self, member: Any, info: zipfile.ZipInfo) -> None:
        self.member = member
        self.name = info.filename
        self.left = info.file_size

    def read(self, size: int = -1) -> bytes:
        try:
            raw: bytes = self.member.read(size)
        except _UNREADABLE as error:
            raise BadEntry(self.name, f"the archive cannot be read: {error}.") from error
        self.left -= len(raw)
        if self.left < 0:
            raise BadEntry(self.name, "it unpacks to more than it announces.")
        return raw
