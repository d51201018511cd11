"""Who calls the API: an agent's bearer token, or a person's session with its CSRF token."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer

from identity.principal import Principal
from identity.services.tokens import token_authenticate


class TokenAuth(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> Principal | None:
        found = token_authenticate(token)
        if found is None:
            return None
        principal = Principal.of_token(found, request_id=request.request_id)  # type: ignore[attr-defined]
        request.principal = principal  # type: ignore[attr-defined]
        return principal


class PersonAuth(APIKeyCookie):
    param_name = settings.SESSION_COOKIE_NAME

    def authenticate(self, request: HttpRequest, key: str | None) -> Principal | None:
        # A request that names a token is judged by that token alone, never by a session beside it.
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None
        principal: Any = request.principal  # type: ignore[attr-defined]
        return principal
