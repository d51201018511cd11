"""Records of log-ins with their sessions, so that people see where they are signed in and can end it."""

from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from identity.services.people import sign_in_record
from nousweb.lib.caller_identity import client_address

BROWSERS = (
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"), ("Safari/", "Safari"), ("curl/", "curl"),
)  # fmt: skip
"""Marks in user agents of browsers; many contain those of others too, so the first match counts."""
SYSTEMS = (
    ("Windows", "Windows"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)  # fmt: skip


def sign_ins_watch() -> None:
    """Begin to note; called once when the apps are ready."""
    user_logged_in.connect(_noted, dispatch_uid="nousweb.access.login_sessions")


def sign_in_note(request: HttpRequest, person: User) -> None:
    """Note that this person is signed in in the session of a request."""
    if not request.session.session_key:
        request.session.save()
    sign_in_record(
        person=person,
        session_key=request.session.session_key or "",
        browser=browser_name(request.headers.get("User-Agent", "")),
        address=client_address(request),
    )


def browser_name(user_agent: str) -> str:
    """A user agent in a few words, "Firefox on Linux"; its beginning if it is unknown."""
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in SYSTEMS if mark in user_agent), "")
    return f"{browser} on {system}" if browser and system else browser or user_agent[:80]


def _noted(sender: type[User], request: HttpRequest, user: User, **signal: Any) -> None:
    sign_in_note(request, user)
