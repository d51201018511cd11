"""Dynamic registration of clients (RFC 7591). A registered client has no access until a person connects it."""

from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from identity.policy.oauth import MAX_REDIRECT_URIS
from identity.services.oauth import oauth_client_register
from nousweb.lib.caller_identity import client_address
from nousweb.lib.errors import Invalid, TooMany
from nousweb.lib.validation import first_unstorable

MAX_BODY = 32 * 1024
GRANTS, RESPONSES = ["authorization_code", "refresh_token"], ["code"]


class ClientMetadata(BaseModel):
    """The supported fields of a registration; RFC 7591 lets the server ignore the others."""

    model_config = ConfigDict(strict=True)

    redirect_uris: Annotated[list[str], Field(min_length=1, max_length=MAX_REDIRECT_URIS)]
    client_name: Annotated[str, Field(max_length=300)] | None = None
    grant_types: list[str] | None = None
    response_types: list[str] | None = None


@csrf_exempt
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    """Register a public client, whatever the requested method; returns it as it was stored."""
    if not settings.OAUTH_REGISTRATION:
        return oauth_error(403, "access_denied", "Clients cannot register themselves here: a person makes them.")
    if len(request.body) > MAX_BODY:
        return oauth_error(413, "invalid_client_metadata", f"A registration holds at most {MAX_BODY:,} bytes.")
    try:
        asked = ClientMetadata.model_validate_json(request.body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        code = "invalid_redirect_uri" if place.startswith("redirect_uris") else "invalid_client_metadata"
        return oauth_error(400, code, f"{place}: {first['msg']}" if place else str(first["msg"]))
    if reason := first_unstorable([asked.client_name or "", *asked.redirect_uris]):
        return oauth_error(400, "invalid_client_metadata", reason)
    if asked.grant_types is not None and "authorization_code" not in asked.grant_types:
        return oauth_error(400, "invalid_client_metadata", "The grant of this server is authorization_code.")
    if asked.response_types is not None and "code" not in asked.response_types:
        return oauth_error(400, "invalid_client_metadata", "The response type of this server is code.")
    try:
        client = oauth_client_register(
            name=asked.client_name or "", redirect_uris=asked.redirect_uris, address=client_address(request)
        )
    except Invalid as error:
        code = "invalid_redirect_uri" if error.field == "redirect_uris" else "invalid_client_metadata"
        return oauth_error(400, code, error.detail)
    except TooMany as error:
        refused = oauth_error(429, "too_many_requests", error.detail)
        refused["Retry-After"] = str(error.retry_after)
        return refused
    answer: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created_at.timestamp()),
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "grant_types": GRANTS,
        "response_types": RESPONSES,
        "token_endpoint_auth_method": "none",
    }
    return _not_stored(JsonResponse(answer, status=201))


def oauth_error(status: int, code: str, description: str) -> HttpResponse:
    """A refusal as RFC 6749 and RFC 7591 shape it."""
    return _not_stored(JsonResponse({"error": code, "error_description": description}, status=status))


def _not_stored(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "no-store"
    return response
