"""Check the address of a webhook, and send to it: never into a private network, unless that is allowed."""

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from identity.policy.webhooks import ANSWER_BYTES, EXCHANGE_SECONDS, TIMEOUT_SECONDS
from nousweb.lib import Invalid, unstorable_reason
from nousweb.lib.http_exchange import Cut

NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is routed on the internet; other ranges embed IPv4 addresses, or are local to a site."""

WORDS: dict[type[Exception], str] = {
    socket.gaierror: "The host name cannot be resolved.",
    ssl.SSLError: "Its certificate is not accepted, or it does not use TLS.",
    ConnectionRefusedError: "It refuses connections.",
    TimeoutError: "It did not answer in time.",
    http.client.HTTPException: "It closed the connection, or its response is not HTTP.",
}


class NotSent(Exception):
    """The message did not reach its address. The error text is for people, and contains nothing of the message."""


def url_check(url: str) -> str:
    """`url` if a webhook may have it: http or https, a host, no credentials, no fragment. Raises Invalid."""
    if unstorable_reason(url) or len(url) > 500 or any(ord(sign) <= 32 or ord(sign) >= 127 for sign in url):
        raise Invalid("An address must have at most 500 ASCII characters and no spaces.", field="url")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid("This is not a valid address.", field="url") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise Invalid("An address must begin with https:// or http:// and name a host.", field="url")
    if parts.username is not None or parts.password is not None:
        raise Invalid("An address must not contain a name or password: each message is signed.", field="url")
    if parts.fragment:
        raise Invalid("An address must not have a fragment.", field="url")
    if not (settings.WEBHOOK_ALLOW_PRIVATE or _may_be_public(parts.hostname)):
        raise Invalid("An address within a private network is not allowed.", field="url")
    return url


def _may_be_public(host: str) -> bool:
    """False for hosts that are certainly private: this machine by name, or an address in any spelling that a resolver
    accepts."""
    host = host.rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return _reachable(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        # 127.1 and 0x7f000001, which are no addresses to Python's module.
        return _reachable(ipaddress.IPv4Address(socket.inet_aton(host)))
    except OSError:
        return True


def message_send(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, int]:
    """Post `body` to `url`, without following redirects. Raises NotSent, at the latest after EXCHANGE_SECONDS.

    The host's name is resolved once and the connection goes to the checked address, so that a name that changes in
    between leads nowhere else.
    """
    parts = urlsplit(url)
    began = time.monotonic()
    try:
        with _connection(parts) as connection:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, {"Host": parts.netloc, **headers})
            response = connection.getresponse()
            response.read(ANSWER_BYTES)
            status = response.status
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotSent(_why(error)) from error
    return status, round((time.monotonic() - began) * 1000)


def _why(error: Exception) -> str:
    """The reason why a message was not sent, for people."""
    for kinds, words in WORDS.items():
        if isinstance(error, kinds):
            return words
    return f"The address cannot be reached ({type(error).__name__})."


@contextmanager
def _connection(parts: SplitResult) -> Iterator[http.client.HTTPConnection]:
    """A connection to the address of the host's name, cut after EXCHANGE_SECONDS. Raises NotSent and OSError."""
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    if not found or not all(_reachable(ipaddress.ip_address(str(one).partition("%")[0])) for one in found):
        raise NotSent("The address is within a private network.")
    with Cut(EXCHANGE_SECONDS) as cut:
        raw: Any = cut.connect((sorted(map(str, found))[0], port))
        raw.settimeout(TIMEOUT_SECONDS)
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        try:
            if parts.scheme == "https":
                raw = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
            connection.sock = raw
            yield connection
        finally:
            connection.close()
            raw.close()


def _reachable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if settings.WEBHOOK_ALLOW_PRIVATE:
        return True
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if isinstance(inner, ipaddress.IPv6Address) and inner in NAT64:
        inner = ipaddress.IPv4Address(int(inner) & 0xFFFFFFFF)
    if isinstance(inner, ipaddress.IPv6Address) and inner not in GLOBAL_UNICAST:
        return False
    return bool(inner.is_global and not inner.is_multicast)
