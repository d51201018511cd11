"""Who sends a request, as far as it can be known before the application has looked: a token that has been accepted
before, or else an address. Made-up tokens are their address's."""

import hashlib
import ipaddress
from threading import Lock

MOST = 10_000
"""Tokens that are remembered, the latest."""

_accepted: dict[bytes, None] = {}
_lock = Lock()


def caller_accepted(authorization: str) -> None:
    """Remember that this Authorization header was accepted by the application in this process."""
    name = _name(authorization.encode("latin-1", "replace"))
    if name in _accepted:
        return
    with _lock:
        _accepted[name] = None
        while len(_accepted) > MOST:
            del _accepted[next(iter(_accepted))]


def caller_refused(authorization: str) -> None:
    """Forget this Authorization header."""
    with _lock:
        _accepted.pop(_name(authorization.encode("latin-1", "replace")), None)


def caller_of(authorization: bytes, address: str) -> tuple[str, bool]:
    """A name for whoever sends this, and whether it is that of an accepted token."""
    if authorization:
        name = _name(authorization)
        if name in _accepted:
            return name.hex(), True
    return address, False


def network_of(address: str) -> str:
    """`address` as far as it tells clients apart."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "0.0.0.0"  # noqa: S104
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False).network_address)


def _name(authorization: bytes) -> bytes:
    # By the secret alone: "Bearer" has as many spellings as a caller would like to have names.
    secret = authorization.strip().partition(b" ")[2].strip()
    # Tokens themselves are kept nowhere.
    return hashlib.sha256(secret).digest()
