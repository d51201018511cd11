"""The endpoints that programs call: tokens for codes and refresh tokens, and their end."""

from typing import Annotated, Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe
from oauthlib.oauth2.rfc6749.errors import OAuth2Error
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from identity.policy.oauth import MAX_REDIRECT_URIS
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.services.oauth import oauth_client_register
from nousweb.access.oauth.server import OAuthServer
from nousweb.lib import DomainError, Invalid, TooMany, first_unstorable
from nousweb.lib.caller_identity import client_address

RESOURCE_METADATA = "/.well-known/oauth-protected-resource/mcp"


def issuer_of(request: HttpRequest) -> str:
    """The address of this server as it was asked: scheme and host, without a slash."""
    return request.build_absolute_uri("/")[:-1]


def resource_of(request: HttpRequest) -> str:
    """The address that a token has to be issued for."""
    return f"{issuer_of(request)}/mcp"


def challenge(request: HttpRequest, *, refused: bool) -> str:
    """WWW-Authenticate for callers of MCP without a token, or with one that was `refused`."""
    parts = [
        *(['error="invalid_token"'] if refused else []),
        f'resource_metadata="{issuer_of(request)}{RESOURCE_METADATA}"',
        f'scope="{" ".join(DEFAULT_SCOPES)}"',
    ]
    return f"Bearer {', '.join(parts)}"


@require_safe
def protected_resource(request: HttpRequest) -> HttpResponse:
    """The metadata of `/mcp` and of the issuer of its tokens."""
    return JsonResponse(
        {
            "resource": resource_of(request),
            "resource_name": "Nous Web",
            "authorization_servers": [issuer_of(request)],
            "scopes_supported": list(SCOPE_PERMISSIONS),
            "bearer_methods_supported": ["header"],
        }
    )


@require_safe
def authorization_server(request: HttpRequest) -> HttpResponse:
    """The endpoints and supported features of OAuth: codes with S256, refresh tokens, public clients."""
    issuer = issuer_of(request)
    document: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": issuer + reverse("oauth_authorize"),
        "token_endpoint": issuer + reverse("oauth_token"),
        "revocation_endpoint": issuer + reverse("oauth_revoke"),
        "scopes_supported": list(SCOPE_PERMISSIONS),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
    }
    if settings.OAUTH_REGISTRATION:
        document["registration_endpoint"] = issuer + reverse("oauth_register")
    return JsonResponse(document)


MAX_REGISTRATION = 32 * 1024
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
    if len(request.body) > MAX_REGISTRATION:
        return oauth_error(413, "invalid_client_metadata", f"A registration holds at most {MAX_REGISTRATION:,} bytes.")
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


MAX_BODY = 16 * 1024


@csrf_exempt
@require_POST
def token(request: HttpRequest) -> HttpResponse:
    """An access token and a refresh token for a code or a refresh token; each of these is good for one."""
    return _answered(request, "create_token_response")


@csrf_exempt
@require_POST
def revoke(request: HttpRequest) -> HttpResponse:
    """End a connection (RFC 7009). Answers 200 for a token that is none of the client's, too."""
    return _answered(request, "create_revocation_response")


def _answered(request: HttpRequest, endpoint: str) -> HttpResponse:
    if len(request.body) > MAX_BODY:
        return oauth_error(413, "invalid_request", f"A request holds at most {MAX_BODY:,} bytes.")
    if request.content_type != "application/x-www-form-urlencoded":
        return oauth_error(400, "invalid_request", "Send a form: application/x-www-form-urlencoded.")
    server = OAuthServer(resource=resource_of(request), request_id=request.request_id)  # type: ignore[attr-defined]
    try:
        body = request.body.decode("ascii")
        if "%00" in body:
            raise ValueError
        # Tokens that a repeated code or refresh token revokes stay revoked, whatever the response.
        with transaction.atomic():
            headers, text, status = getattr(server, endpoint)(request.build_absolute_uri(), "POST", body, {})
    except OAuth2Error as error:
        return oauth_error(error.status_code, error.error, error.description or "")
    except DomainError as error:
        return oauth_error(400, "invalid_grant", error.detail)
    except ValueError:
        return oauth_error(400, "invalid_request", "The form cannot be read.")
    return HttpResponse(text, status=status, headers={"Content-Type": "application/json", **headers})
