"""The endpoints that programs call: tokens for codes and refresh tokens, and their end."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from oauthlib.oauth2.rfc6749.errors import OAuth2Error

from nousweb.access.oauth.metadata import resource_of
from nousweb.access.oauth.registration import oauth_error
from nousweb.access.oauth.server import OAuthServer
from nousweb.lib.errors import DomainError

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
