"""The installation's secret, kept in the data folder and made when something is first signed."""

import os
import secrets
import tempfile
from pathlib import Path

from django.utils.functional import SimpleLazyObject


class KeptSecret(SimpleLazyObject):
    """The text in a file, read or made on first use: a command that only shows its help leaves no data folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: load_secret(path))

    def __bool__(self) -> bool:
        # Django asks whether there is one before anybody uses it.
        return True


def load_secret(path: Path) -> str:
    """Return the secret kept in `path`, making it on first use, readable by its owner only. All get the same one."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    handle, made = tempfile.mkstemp(prefix=".secret-", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(64))
        # Complete from the moment that it is there; whoever comes second uses the first one's.
        os.link(made, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(made)
    return path.read_text().strip()
