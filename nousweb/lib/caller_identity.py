"""The caller of a request, before the application has checked it: a token that has been accepted before, or else an
address. Requests with an unknown token are counted per address.
"""

import hashlib
import ipaddress
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    # The web server's first process imports this file, without Django's requests.
    from django.http import HttpRequest

MAX_TOKENS = 10_000
"""Maximum number of remembered tokens; the oldest are forgotten."""

_accepted: dict[bytes, None] = {}
_lock = Lock()


def caller_accepted(authorization: str) -> None:
    """Remember that this Authorization header was accepted by the application in this process."""
    name = _name(authorization.encode("latin-1", "replace"))
    if name in _accepted:
        return
    with _lock:
        _accepted[name] = None
        while len(_accepted) > MAX_TOKENS:
            del _accepted[next(iter(_accepted))]


def caller_refused(authorization: str) -> None:
    """Forget this Authorization header."""
    with _lock:
        _accepted.pop(_name(authorization.encode("latin-1", "replace")), None)


def caller_of(authorization: bytes, address: str) -> tuple[str, bool]:
    """A name for the caller, and whether it is that of an accepted token."""
    if authorization:
        name = _name(authorization)
        if name in _accepted:
            return name.hex(), True
    return address, False


@lru_cache(maxsize=4_096)
def network_of(address: str) -> str:
    """The part of `address` that distinguishes clients: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "0.0.0.0"  # noqa: S104
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False).network_address)


def _name(authorization: bytes) -> bytes:
    # By the secret alone: a caller could spell "Bearer" in many ways to get many names.
    secret = authorization.strip().partition(b" ")[2].strip()
    # The tokens themselves are not stored.
    return hashlib.sha256(secret).digest()


def client_address(request: "HttpRequest") -> str:
    """The client's address; for IPv6 its /64 network, which belongs to one client.

    Behind a trusted proxy (NOUS_TRUST_PROXY) it is the last address of X-Forwarded-For, which that proxy wrote; the
    client's own entries are ignored. "0.0.0.0" stands for an invalid address.
    """
    said = request.META.get("REMOTE_ADDR", "")
    if settings.TRUST_PROXY:
        said = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip() or said
    return network_of(said)
