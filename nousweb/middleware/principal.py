"""Set the acting principal for services: the signed-in person."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from identity.principal import Principal, acting


class PrincipalMiddleware:
    """Sets `request.principal`, the signed-in person, as the acting principal of the request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        def person() -> Principal:
            if not request.user.is_authenticated:
                # Such as a login that stores its password again, in a stronger form.
                return Principal("system", "visitor", "visitor", request.request_id)  # type: ignore[attr-defined]
            return Principal.of_user(request.user, request_id=request.request_id)  # type: ignore[attr-defined]

        principal: Any = SimpleLazyObject(person)
        request.principal = principal  # type: ignore[attr-defined]
        with acting(principal):
            return self.get_response(request)
