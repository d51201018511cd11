"""Metadata for clients: of the resource (RFC 9728) and of the authorization server (RFC 8414)."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS

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
