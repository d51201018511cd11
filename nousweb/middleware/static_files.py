"""Static files under names that hold a digest of their contents, so that browsers keep them for a year, and compressed.

Nothing is collected at a release: names come from the files where they are, compressed copies go to STATIC_ROOT.
"""

import gzip
import hashlib
import os
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path, PurePosixPath

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from whitenoise.compress import Compressor
from whitenoise.media_types import MediaTypes
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from nousweb.lib.installation import CLIENT, CLIENT_ARCHIVE

YEAR = 365 * 24 * 3600
DIGEST_LENGTH = 12
MIN_COMPRESSED_BYTES = 500
"""Bytes; compressing fewer wins nothing."""

CLIENT_SUFFIXES = (".md", ".py", ".toml", ".typed")

_compressor = Compressor(quiet=True)


@lru_cache(maxsize=2_000)
def _digest(path: str, changed_ns: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:DIGEST_LENGTH]


def digest_of(path: str) -> str:
    """The digest of a file's contents as it stands in its name, read again when the file has changed."""
    stat = os.stat(path)
    return _digest(path, stat.st_mtime_ns, stat.st_size)


def hashed_name(name: str, path: str) -> str:
    """ "css/layout.css" as "css/layout.f3ea4bcc2a11.css", by the content of the file at `path`."""
    pure = PurePosixPath(name)
    return str(pure.with_name(f"{pure.stem}.{digest_of(path)}{pure.suffix}"))


class HashedStaticFiles(StaticFilesStorage):
    """Gives `{% static %}` the hashed name of each file that there is."""

    def url(self, name: str | None) -> str:
        """The address of a file by its hashed name; of one that is not there, its plain address."""
        return super().url(_named("".join(name)) if name and not settings.DEBUG else name)


@lru_cache(maxsize=2_000)
def _named(name: str) -> str:
    path = finders.find(name)
    return hashed_name(name, path) if isinstance(path, str) else name


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Serves each static file by its plain name, kept for a minute, and by its hashed one, kept for a year."""

    def add_files_from_finders(self) -> None:
        super().add_files_from_finders()
        names = tuple(url.removeprefix(self.static_prefix) for url in self.files if url.startswith(self.static_prefix))
        self.files.update(_hashed_files(self.static_prefix, names))


@lru_cache(maxsize=4)
def _hashed_files(prefix: str, names: tuple[str, ...]) -> dict[str, StaticFile]:
    """The responses by the addresses of hashed names; built once, whatever the number of threads."""
    found: dict[str, StaticFile] = {}
    kinds = MediaTypes()
    for name in names:
        path = finders.find(name)
        if not isinstance(path, str):
            continue
        kind = kinds.get_type(path)
        headers = [
            ("Cache-Control", f"max-age={YEAR}, public, immutable"),
            ("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind),
            ("Access-Control-Allow-Origin", "*"),
        ]
        copy = _compressed(path)
        encodings = {"gzip": str(copy)} if copy else None
        found[prefix + hashed_name(name, path)] = StaticFile(path, headers, encodings=encodings)
    return found


def client_archive_write() -> None:
    """Write the Python client's source to STATIC_ROOT, from where pip installs it without a clone."""
    root = Path(settings.STATIC_ROOT)
    with (
        # Several processes of the server begin at once, as below.
        tempfile.NamedTemporaryFile(dir=root.parent, delete=False) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for path in sorted(CLIENT.rglob("*")):
            if path.suffix in CLIENT_SUFFIXES:
                archive.write(path, path.relative_to(CLIENT))
    os.replace(file.name, root / CLIENT_ARCHIVE)


def _compressed(path: str) -> Path | None:
    """The compressed copy of a file, made when there is none yet; None where it would not help."""
    if not _compressor.should_compress(path) or os.stat(path).st_size < MIN_COMPRESSED_BYTES:
        return None
    folder = Path(settings.STATIC_ROOT).with_name("static-compressed")
    copy = folder / f"{digest_of(path)}.gz"
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Several processes of the server begin at once: each writes its own, and the last one stays.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(gzip.compress(Path(path).read_bytes(), mtime=0))
        os.replace(file.name, copy)
    return copy
