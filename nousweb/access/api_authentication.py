"""Authentication of the API: an agent's bearer token, or a person's session with its CSRF token."""

from django.conf import settings
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from identity.principal import Principal
from identity.services.tokens import token_authenticate
from nousweb.database.replica import token_reads
from nousweb.lib import NotAllowed
from nousweb.lib.caller_identity import caller_accepted, caller_refused

AUTHENTICATED_CALLER = "authenticated_caller"
"""Attribute of a request that another channel, such as MCP, makes for a caller that it has authenticated.

No header can set it.
"""


class CsrfRefused(NotAllowed):
    code = "csrf_failed"
    title = "CSRF check failed"


def authenticated_caller(request: HttpRequest) -> Principal | None:
    """The caller that another channel has authenticated."""
    return getattr(request, AUTHENTICATED_CALLER, None)


class TokenAuth(HttpBearer):
    channel = "api"

    def resource(self, request: HttpRequest) -> str:
        """The resource for which a token must have been issued if it opens one resource only; "" if no such token is
        accepted."""
        return ""

    def authenticate(self, request: HttpRequest, token: str) -> Principal | None:
        found = token_authenticate(token, resource=self.resource(request))
        if found is None:
            caller_refused(request.headers["Authorization"])
            return None
        caller_accepted(request.headers["Authorization"])
        principal = Principal.of_token(found, request_id=request.request_id, channel=self.channel)  # type: ignore[attr-defined]
        request.principal = principal  # type: ignore[attr-defined]
        if settings.DATABASE_REPLICA:
            token_reads(request, found.agent_id)
        return principal


class PersonAuth(APIKeyCookie):
    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> Principal | None:
        # A request that names a token is judged by that token alone, never by a session beside it. Only a
        # session needs a CSRF token: without a session, "not signed in" is the better response.
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None
        if check_csrf(request):
            raise CsrfRefused("Send the CSRF token of this session as X-CSRFToken.")
        return self.authenticate(request, None)

    def authenticate(self, request: HttpRequest, key: str | None) -> Principal | None:
        return Principal.of_user(request.user, request_id=request.request_id, channel="api")  # type: ignore[attr-defined,arg-type]
