"""Addresses of the console as people meet them: where to go on from one that shows no page."""

from urllib.parse import urlsplit

from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils.http import url_has_allowed_host_and_scheme


def page_above(path: str) -> str:
    """The nearest address above `path` that something answers, as "/review/" of "/review/decide/"."""
    parts = path.strip("/").split("/")
    while parts.pop() and parts:
        above = "/" + "/".join(parts) + "/"
        try:
            resolve(above)
        except Resolver404:
            continue
        return above
    return "/"


def page_sending(request: HttpRequest) -> str:
    """The page on which a form stood, as its browser says; the address it was sent to where that is not known."""
    sender = request.headers.get("HX-Current-URL") or request.headers.get("Referer") or ""
    if not url_has_allowed_host_and_scheme(sender, allowed_hosts={request.get_host()}):
        return request.get_full_path()
    parts = urlsplit(sender)
    if not parts.path.startswith("/"):
        return request.get_full_path()
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
