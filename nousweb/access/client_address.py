"""The address of a request's client, behind proxies too."""

from django.conf import settings
from django.http import HttpRequest

from nousweb.lib.caller_identity import network_of


def client_address(request: HttpRequest) -> str:
    """The client's address; for IPv6 its /64 network, which belongs to one client.

    Behind a trusted proxy (NOUS_TRUST_PROXY) it is the last address of X-Forwarded-For, which that proxy wrote; the
    client's own entries are ignored. "0.0.0.0" stands for an invalid address.
    """
    said = request.META.get("REMOTE_ADDR", "")
    if settings.TRUST_PROXY:
        said = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip() or said
    return network_of(said)
