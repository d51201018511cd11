"""The authorization server: oauthlib's protocol over the services of identity.

Clients have no secrets, so PKCE with S256 is asked of all of them; a token is for one resource (RFC 8707).
"""

import re
from typing import Any

from oauthlib.common import Request
from oauthlib.oauth2 import AuthorizationEndpoint, BearerToken, RequestValidator, RevocationEndpoint, TokenEndpoint
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.grant_types import AuthorizationCodeGrant, RefreshTokenGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256

from identity.models import OAuthClient, OAuthCode, OAuthRefreshToken
from identity.policy.oauth import SECRET_LIFETIME
from identity.policy.permissions import SCOPE_PERMISSIONS
from identity.services.oauth import (
    oauth_code_claim,
    oauth_code_exchange,
    oauth_consent,
    oauth_refresh,
    oauth_refresh_claim,
    oauth_revoke,
)
from nousweb.lib.redirect_uris import redirect_uri_matches

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""A SHA-256 in base64url, as in S256."""


class InvalidTarget(errors.OAuth2Error):
    """The resource is not one that tokens are issued for (RFC 8707)."""

    error = "invalid_target"
    description = "Tokens are issued for this server's MCP address only."


class _CodeGrant(AuthorizationCodeGrant):
    _code_challenge_methods = {"S256": code_challenge_method_s256}


class GrantValidator(RequestValidator):
    """oauthlib's validator, for tokens of `resource`. Its own data are stored on its request."""

    def __init__(self, resource: str, request_id: str) -> None:
        super().__init__()
        self.resource = resource
        self.request_id = request_id
        self.code: OAuthCode | None = None
        self.refresh_token: OAuthRefreshToken | None = None

    def request_check(self, request: Request) -> dict[str, Any]:
        """The first check of both endpoints."""
        if "resource" in request.duplicate_params or (request.resource or self.resource).rstrip("/") != self.resource:
            raise InvalidTarget(request=request)
        for name in ("code_challenge", "code_challenge_method", "response_mode", "code", "code_verifier"):
            if name in request.duplicate_params:
                raise errors.InvalidRequestError(description=f"Duplicate {name} parameter.", request=request)
        return {}

    def authorization_check(self, request: Request) -> dict[str, Any]:
        if request.response_mode not in (None, "query"):
            raise errors.InvalidRequestError(description="The response mode is query.", request=request)
        if request.code_challenge is None or request.code_challenge_method != "S256":
            raise errors.InvalidRequestError(description="PKCE with the method S256 is needed.", request=request)
        if not _CHALLENGE.fullmatch(request.code_challenge):
            raise errors.InvalidRequestError(description="code_challenge is no SHA-256 in base64url.", request=request)
        return {}

    # Clients.

    def validate_client_id(self, client_id: str, request: Request, *args: Any, **kwargs: Any) -> bool:
        request.client = OAuthClient.objects.filter(client_id=client_id).first()
        return request.client is not None

    def client_authentication_required(self, request: Request, *args: Any, **kwargs: Any) -> bool:
        return False

    def authenticate_client_id(self, client_id: str | None, request: Request, *args: Any, **kwargs: Any) -> bool:
        return bool(client_id) and self.validate_client_id(client_id or "", request)

    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return any(redirect_uri_matches(redirect_uri, uri) for uri in request.client.redirect_uris)

    def get_default_redirect_uri(self, client_id: str, request: Request, *args: Any, **kwargs: Any) -> str | None:
        uris = request.client.redirect_uris
        return uris[0] if len(uris) == 1 else None

    def validate_response_type(
        self, client_id: str, response_type: str, client: OAuthClient, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return response_type == "code"

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: OAuthClient, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return grant_type in ("authorization_code", "refresh_token")

    # Scopes: the person chooses; those that a client asks for are where the choice begins.

    def get_default_scopes(self, client_id: str, request: Request, *args: Any, **kwargs: Any) -> list[str]:
        return []

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: OAuthClient, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        request.scopes = [scope for scope in scopes if scope in SCOPE_PERMISSIONS]
        return True

    # Codes.

    def is_pkce_required(self, client_id: str, request: Request) -> bool:
        return True

    def save_authorization_code(
        self, client_id: str, code: dict[str, str], request: Request, *args: Any, **kwargs: Any
    ) -> None:
        oauth_consent(
            code=code["code"],
            client=request.client,
            agent=request.consent_agent,
            rights=request.consent_rights,
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
            resource=self.resource,
            by=request.consent_by,
        )

    def validate_code(
        self, client_id: str, code: str, client: OAuthClient, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        self.code = oauth_code_claim(code=code, client=client)
        if self.code is None or self.code.resource != self.resource:
            return False
        request.scopes = self.code.rights["scopes"]
        request.user = self.code.person_id
        return True

    def get_code_challenge(self, code: str, request: Request) -> str | None:
        return self.code.code_challenge if self.code else None

    def get_code_challenge_method(self, code: str, request: Request) -> str:
        return "S256"

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: OAuthClient, request: Request, *args: Any, **kw: Any
    ) -> bool:
        return self.code is not None and self.code.redirect_uri == redirect_uri

    def invalidate_authorization_code(
        self, client_id: str, code: str, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """Done in the exchange itself."""

    # Tokens.

    def save_token(self, token: dict[str, Any], request: Request, *args: Any, **kwargs: Any) -> None:
        """Replace the secrets that oauthlib generated by our own."""
        if self.code is not None:
            _, secret, refresh = oauth_code_exchange(code=self.code, request_id=self.request_id)
        elif self.refresh_token is not None:
            _, secret, refresh = oauth_refresh(refresh_token=self.refresh_token)
        else:
            raise errors.ServerError(request=request)
        token |= {"access_token": secret, "refresh_token": refresh}

    def validate_refresh_token(
        self, refresh_token: str, client: OAuthClient, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        self.refresh_token = oauth_refresh_claim(secret=refresh_token, client=client)
        return self.refresh_token is not None and self.refresh_token.token.resource == self.resource

    def get_original_scopes(self, refresh_token: str, request: Request, *args: Any, **kwargs: Any) -> list[str]:
        return self.refresh_token.token.scopes if self.refresh_token else []

    def refresh_check(self, request: Request) -> dict[str, Any]:
        """A connection keeps its scopes, even if a refresh requests narrower ones: the response states the actual
        scopes."""
        request.scopes = self.get_original_scopes("", request)
        return {}

    def revoke_token(self, token: str, token_type_hint: str, request: Request, *args: Any, **kwargs: Any) -> None:
        oauth_revoke(secret=token, client=request.client)


class OAuthServer(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):
    """The three endpoints, and no other grant than these two."""

    def __init__(self, *, resource: str, request_id: str = "") -> None:
        validator = GrantValidator(resource, request_id)
        code, refresh = _CodeGrant(validator), RefreshTokenGrant(validator)
        code.custom_validators.pre_auth += [validator.request_check, validator.authorization_check]
        code.custom_validators.pre_token.append(validator.request_check)
        refresh.custom_validators.pre_token.append(validator.request_check)
        refresh.custom_validators.post_token.append(validator.refresh_check)
        bearer = BearerToken(validator, expires_in=int(SECRET_LIFETIME.total_seconds()))
        AuthorizationEndpoint.__init__(
            self, default_response_type="code", default_token_type=bearer, response_types={"code": code}
        )
        TokenEndpoint.__init__(
            self,
            default_grant_type="authorization_code",
            default_token_type=bearer,
            grant_types={"authorization_code": code, "refresh_token": refresh},
        )
        RevocationEndpoint.__init__(self, validator)
