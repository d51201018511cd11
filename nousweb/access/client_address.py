"""From where a request comes."""

from django.conf import settings
from django.http import HttpRequest

from nousweb.lib.caller_identity import network_of


def client_address(request: HttpRequest) -> str:
    """The client's address, an IPv6 one as its network of 64 bits, all of which one client has.

    Behind a proxy that is trusted (NOUS_TRUST_PROXY) it is the last one of X-Forwarded-For, which that proxy wrote;
    what a client says of itself there is not believed. "0.0.0.0" stands for an address that makes no sense.
    """
    said = request.META.get("REMOTE_ADDR", "")
    if settings.TRUST_PROXY:
        said = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip() or said
    return network_of(said)
