"""What every console view needs of a request."""

from typing import cast

from django.http import HttpRequest

from identity.principal import Principal


def principal_of(request: HttpRequest) -> Principal:
    """The signed-in person, as services know them; set by PrincipalMiddleware."""
    return cast(Principal, request.principal)  # type: ignore[attr-defined]
