"""The background worker's report of its state."""

from typing import Any

from django.core.cache.backends.filebased import FileBasedCache


class HeartbeatCache(FileBasedCache):
    """Django's cache in files, whose folder is made when something is written, and not for a check of the settings."""

    _made = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._made = True

    def _createdir(self) -> None:
        if self._made:
            super()._createdir()  # type: ignore[misc]
