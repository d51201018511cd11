"""Limits of OAuth clients and lifetimes of their secrets, declared as data."""

from datetime import timedelta

CODE_LIFETIME = timedelta(minutes=2)
SECRET_LIFETIME = timedelta(hours=1)
"""Lifetime of an access token; a refresh token renews it."""
REFRESH_LIFETIME = timedelta(days=30)
"""Lifetime of a refresh token, which each renewal replaces: the maximum silence of a client."""

MAX_REDIRECT_URIS = 10
MAX_REDIRECT_URI_CHARACTERS = 500

REGISTRATION_WINDOW = timedelta(hours=1)
REGISTRATIONS_OF_ADDRESS = 20
"""Clients that may register themselves from one address within the window."""
REGISTRATIONS_WAITING = 500
"""Clients that nobody has connected yet, of all addresses."""
UNCONNECTED_LIFETIME = timedelta(days=1)
"""After which a client that registered itself, and that nobody connected, is forgotten."""

APP_SCHEMES = frozenset({"cursor", "vscode", "vscode-insiders", "windsurf", "zed", "claude"})
"""Schemes of programs that do not follow RFC 8252, by which a scheme of one's own is a name of the internet turned
round, such as `com.example.app`."""
