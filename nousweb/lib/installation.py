"""This installation: its files, its name for its commands, and its secret."""

import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.utils.functional import SimpleLazyObject

PACKAGE = Path(__file__).resolve().parents[1]
CLONE = PACKAGE.parent
CLONED = (CLONE / "manage.py").is_file()

RESOURCES = CLONE if CLONED else PACKAGE / "resources"
"""The folder that holds `templates` and `static`."""
CLIENT = CLONE / "clients" / "python" if CLONED else RESOURCES / "client"
"""The source of the Python client."""
CLIENT_ARCHIVE = "nous-client.zip"
"""The archive of it that the web server has under `/static/`."""


def default_data_folder() -> Path:
    """`var` in a clone; else the user's own data folder, as the platform has it."""
    if CLONED:
        return CLONE / "var"
    import platformdirs

    return Path(platformdirs.user_data_dir("nous-web", appauthor=False))


class FileSecret(SimpleLazyObject):
    """The secret in a file, read or created on first use: a command that only shows its help creates no data folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: load_secret(path))

    def __bool__(self) -> bool:
        # Django tests whether there is one before anything uses it.
        return True


def former_secrets(path: Path) -> list[str]:
    """The secrets that `secret_change` replaced and `former_secrets_forget` has not deleted, the latest first."""
    try:
        return _former(path).read_text().split()
    except FileNotFoundError:
        return []


def secret_change(path: Path) -> None:
    """Write a new secret to `path`, and add the present one to the former ones in the file beside it.

    If the process is killed in between, the present secret stays in use, and may be among the former ones as well.
    """
    former = former_secrets(path)
    now = load_secret(path)
    _write(_former(path), "".join(f"{fromkey}\n" for fromkey in dict.fromkeys([now, *former])))
    _write(path, secrets.token_urlsafe(64))


def former_secrets_forget(path: Path) -> None:
    """Delete the former secrets."""
    _former(path).unlink(missing_ok=True)


def _former(path: Path) -> Path:
    return path.with_name(f"{path.name}.former")


def _write(path: Path, text: str, put: Callable[[str, Path], None] = os.replace) -> None:
    """Write a file as a whole, readable by its owner only; `put` gives it its name."""
    handle, made = tempfile.mkstemp(prefix=".secret-", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        put(made, path)
    finally:
        Path(made).unlink(missing_ok=True)


def load_secret(path: Path) -> str:
    """Return the secret in `path`, creating it on first use, readable by its owner only. All callers get the same."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    # A second process uses the first one's.
    with suppress(FileExistsError):
        _write(path, secrets.token_urlsafe(64), os.link)
    return path.read_text().strip()
