"""Addresses to which an authorization server sends a browser back (RFC 6749, RFC 8252, RFC 9700)."""

import re
from urllib.parse import urlsplit

_PLAIN = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")
"""Characters that an address may contain: no fragment, and nothing that could end an attribute."""

_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?(/.*)?")
_APP_SCHEME = re.compile(r"[a-z][a-z0-9+\-]*(?:\.[a-z0-9+\-]+)+")


def redirect_uri_problem(uri: str, *, app_schemes: frozenset[str] = frozenset()) -> str:
    """The reason why a client must not register `uri`, as a sentence; "" if it may.

    Allowed are https, http on the client's own machine, and schemes of programs: with a dot, or of `app_schemes`.
    """
    if not _PLAIN.fullmatch(uri):
        return "It contains characters that a redirect address must not contain, such as spaces or a fragment."
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return "It is not a valid address."
    if "@" in parts.netloc:
        return "It names a user."
    if parts.scheme == "https":
        return "" if parts.hostname else "It names no host."
    if parts.scheme == "http":
        return "" if _LOOPBACK.fullmatch(uri) else "Without https it may only lead to the client's own machine."
    if parts.scheme in app_schemes or _APP_SCHEME.fullmatch(parts.scheme):
        return ""
    return "Its scheme is neither https nor one of a program, such as com.example.app."


def redirect_uri_matches(requested: str, registered: str) -> bool:
    """Whether `requested` equals `registered`; on the client's own machine the port may differ."""
    if requested == registered:
        return True
    one, other = _LOOPBACK.fullmatch(requested), _LOOPBACK.fullmatch(registered)
    return one is not None and other is not None and one.groups() == other.groups()


def redirect_place(uri: str) -> str:
    """The target of `uri`, for people: "this computer", a host, or the scheme of a program."""
    parts = urlsplit(uri)
    if _LOOPBACK.fullmatch(uri):
        return f"this computer ({parts.netloc})"
    return parts.netloc if parts.scheme == "https" else f"the program of {parts.scheme}:"
