"""From where a request comes."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The client's address, an IPv6 one as its network of 64 bits, all of which one client has.

    Behind a proxy that is trusted (NOUS_TRUST_PROXY) it is the last one of X-Forwarded-For, which that proxy wrote;
    what a client says of itself there is not believed. "0.0.0.0" stands for an address that makes no sense.
    """
    said = request.META.get("REMOTE_ADDR", "")
    if settings.TRUST_PROXY:
        said = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip() or said
    return network_of(said)


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
