"""The second step of a log-in, and the proofs in a session: nobody is signed in before their second factor is verified.

A person with a second factor is not signed in by a session without the proof of a code. A person whose role requires a
second factor but who has none sees only the page to set it up.
"""

import time
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from identity.policy.second_factors import FRESH_FOR, FRESH_PAGES, LOGIN_MINUTES
from identity.services.people import sign_in_follow
from nousweb.access.log_in import people_with_access
from nousweb.lib.problem_documents import page_sending
from nousweb.middleware.request import Middleware

PROOF = "second_factor_proof"
PENDING = "pending_login"
CODE, PROVIDER = "code", "provider"
SETUP_PATHS = ("/account/second-factor/", "/logout/")


class SecondStepMiddleware(Middleware):
    """Sets `request.user` to AnonymousUser until the second factor is verified. `request.setup_due`: the person must
    set up a second factor first. Costs nothing unless a view reads the user."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        signed_in: Any = request.user
        came_with = request.session.session_key
        request.setup_due = SimpleLazyObject(lambda: _setup_due(request, signed_in))  # type: ignore[attr-defined]

        def person() -> Any:
            if not signed_in.is_authenticated:
                return signed_in
            if came_with and request.session.session_key != came_with:
                # A session of a former secret of the installation goes on under another key.
                sign_in_follow(former_key=came_with, session_key=request.session.session_key or "")
            if signed_in.has_second_factor and PROOF not in request.session:
                return AnonymousUser()
            if _setup_due(request, signed_in) and not request.path.startswith(SETUP_PATHS):
                return AnonymousUser()
            return signed_in

        request.user = SimpleLazyObject(person)  # type: ignore[assignment]
        return self.get_response(request)


def _setup_due(request: HttpRequest, person: Any) -> bool:
    if not person.is_authenticated or person.has_second_factor or not person.needs_second_factor:
        return False
    return PROOF not in request.session


def proof_set(request: HttpRequest, way: str) -> None:
    """Note in the session that the second step was taken just now: by a code, or at the provider of the log-in."""
    request.session[PROOF] = {"way": way, "at": int(time.time())}


def is_fresh(request: HttpRequest) -> bool:
    """Whether a code was given a short while ago; also true for people without a second factor."""
    if not getattr(request.user, "has_second_factor", False):
        return True
    proof = request.session.get(PROOF, {})
    return bool(proof.get("way") == CODE and time.time() - proof["at"] <= FRESH_FOR.total_seconds())


class FreshCodeMiddleware(Middleware):
    """Requires a recent code for irreversible actions, from people who have a second factor; the form keeps its
    values."""

    def process_view(self, request: HttpRequest, *view: object) -> HttpResponse | None:
        match = request.resolver_match
        if request.method != "POST" or match is None or match.url_name not in FRESH_PAGES:
            return None
        if not request.user.is_authenticated or is_fresh(request):
            return None
        address = f"{settings.CONFIRM_URL}?{urlencode({'next': page_sending(request)})}"
        if request.headers.get("HX-Request"):
            return HttpResponse(status=401, headers={"HX-Redirect": address})
        return redirect(address)


def login_hold(request: HttpRequest, person: User, next_page: str) -> None:
    """Keep in the session that this person's password was right; they are not signed in by it."""
    request.session.cycle_key()
    request.session[PENDING] = {
        "person": person.pk,
        "hash": person.get_session_auth_hash(),
        "at": int(time.time()),
        "next": next_page,
    }


def login_held(request: HttpRequest) -> tuple[User, str] | None:
    """The person who gave the right password in this session, and the page that they wanted; None if that was too long
    ago."""
    held = request.session.get(PENDING)
    if not held or time.time() - held["at"] > LOGIN_MINUTES * 60:
        return None
    person = people_with_access().filter(pk=held["person"], is_active=True).first()
    if person is None or not constant_time_compare(held["hash"], person.get_session_auth_hash()):
        return None
    return person, held["next"]
