"""What a query needs to know of whoever asks."""

from typing import Protocol


class PermissionHolder(Protocol):
    """A person, a token or the product itself, of whom only rights matter."""

    def may(self, permission: str) -> bool:
        """Whether it holds `permission` ("app.codename")."""
