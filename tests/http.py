"""The API as its callers reach it: over the whole middleware stack, as an agent's token or as a person."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client

from nousweb.database.statement_timeouts import work_usual

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import HttpResponse


class ApiClient:
    """Calls under /api with JSON bodies. `as_token` and `as_person` give a client of somebody else.

    CSRF checks are on, as in production: a person's calls carry the session cookie and the CSRF token.
    """

    def __init__(self, headers: dict[str, str] | None = None, client: Client | None = None) -> None:
        self.headers = headers or {}
        self.client = client or Client(enforce_csrf_checks=True, raise_request_exception=False)

    def as_token(self, secret: str) -> ApiClient:
        return ApiClient({"Authorization": f"Bearer {secret}"})

    def as_person(self, user: User, *, csrf: bool = True) -> ApiClient:
        return ApiClient({"X-CSRFToken": ""} if csrf else {}, signed_in(user))

    def with_headers(self, **headers: str) -> ApiClient:
        """The same caller with further headers; `If_Match` names `If-Match`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ApiClient(self.headers | named, self.client)

    def get(self, path: str, query: dict[str, Any] | None = None) -> HttpResponse:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Any = None, query: dict[str, Any] | None = None) -> HttpResponse:
        return self.request("POST", path, body=body, query=query)

    def put(self, path: str, body: Any = None, query: dict[str, Any] | None = None) -> HttpResponse:
        return self.request("PUT", path, body=body, query=query)

    def request(self, method: str, path: str, *, body: Any = None, query: Any = None) -> HttpResponse:
        """`body` is sent as JSON, or as it is when it is bytes."""
        headers = dict(self.headers)
        if "X-CSRFToken" in headers and "csrftoken" in self.client.cookies:
            headers["X-CSRFToken"] = self.client.cookies["csrftoken"].value
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(
            method, f"/api{path}", data, content_type="application/json", headers=headers, query_params=query
        )


def signed_in(user: User) -> Client:
    """A browser-like client of `user`, with CSRF checks on and the CSRF cookie that a page would have set."""
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    _session_open(client, user)
    client.cookies["csrftoken"] = _get_new_csrf_string()
    return client


def browser(user: User) -> Client:
    """A client of `user` without CSRF checks, which are tested for every page at once elsewhere."""
    client = Client()
    _session_open(client, user)
    return client


def _session_open(client: Client, user: User) -> None:
    """Create the session of a login in the database and the browser, without the rest of a login, which takes six times
    as long: failures are not reset, and the time of the last login stays as it is."""
    backend: str = client._get_backend()  # type: ignore[attr-defined]
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = backend
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    client._set_login_cookies(SimpleNamespace(session=session))  # type: ignore[attr-defined]


def wsgi_application() -> Any:
    """The application as a WSGI server imports it.

    That declares of the whole process that it answers requests, which give up waiting for a lock after 3 s: of threads
    that learn at once on a busy machine, one would. The other tests of the process have the limits of commands again.
    """
    from nousweb.wsgi import application

    work_usual("command")
    return application


def markup(response: HttpResponse) -> str:
    """A page's source on one line: however its template is laid out, one space stands where white space stands."""
    return re.sub(r" (?=/?>)", "", " ".join(response.content.decode().split()))
