"""Log-in at an OpenID Connect provider: its claims about a person lead to an account with a role, or to a refusal.

The package `allauth` implements the protocol: authorization code with PKCE and state, issuer, audience and time of the
id token. The nonce, which it does not support, is sent and compared here. It does not decide who may come in:
`pre_social_login` ends each log-in with a response of ours.
"""

import io
import secrets
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import Any, cast

import requests
import structlog
import urllib3
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect import views
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET
from requests import RequestException

from identity.models import Invitation
from identity.services.accounts import provider_account_sign_in
from nousweb.access.log_in import BACKEND
from nousweb.access.roles import ROLE_PERMISSIONS
from nousweb.access.second_factor_step import PROVIDER, is_fresh, proof_set
from nousweb.lib import DomainError, Invalid, NotAllowed, text_check
from nousweb.lib.http_exchange import http_exchange

log = structlog.get_logger(__name__)

# Not by an installed app, which every command would load with an HTTP client.
registry.register(OpenIDConnectProvider)

PROVIDER_ID = "oidc"
CONNECT = "provider_connect"
"""In the session of a signed-in person who wants to connect the provider's log-in to their account."""
NONCE = "provider_nonce"
"""In the session: the nonce that the id token must carry, so that one of another browser's log-in is useless here."""
NONCE_BYTES = 16
MAX_SUBJECT_CHARACTERS = 191
"""What an account of the package stores."""
MAX_REDIRECTS = 3
RANKING = (*ROLE_PERMISSIONS, Invitation.OWNER)
"""Roles from the least to the most."""


def role_of_groups(groups: Iterable[str]) -> str:
    """The highest role that NOUS_OIDC_ROLES gives to one of a person's groups at the provider; "" for none."""
    given = {settings.OIDC_ROLES[group] for group in groups if group in settings.OIDC_ROLES}
    return max(given, key=RANKING.index, default="")


class ProviderAdapter(DefaultSocialAccountAdapter):
    """Knows the one provider of the settings, and decides who comes in."""

    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[Any]:
        if not settings.OIDC_ISSUER or provider != PROVIDER_ID:
            return []
        return [
            SocialApp(
                provider="openid_connect",
                provider_id=PROVIDER_ID,
                name=settings.OIDC_NAME,
                client_id=settings.OIDC_CLIENT_ID,
                secret=settings.OIDC_CLIENT_SECRET,
                settings={
                    "server_url": settings.OIDC_ISSUER,
                    "scope": settings.OIDC_SCOPES,
                    "oauth_pkce_enabled": True,
                    "auth_params": {"nonce": request.session.get(NONCE, "")},
                },
            )
        ]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Raises ImmediateHttpResponse: the person is signed in by it, or refused."""
        linked_to = request.user if request.session.pop(CONNECT, False) and request.user.is_authenticated else None
        try:
            if linked_to is not None and not is_fresh(request):
                raise NotAllowed("The code of your second factor is too old. Connect your account once more.")
            claims = _claims(sociallogin.account.extra_data, str(request.session.pop(NONCE, "")))
            groups = claims.get(settings.OIDC_GROUPS_CLAIM) or []
            groups = [str(group) for group in groups] if isinstance(groups, list) else [str(groups)]
            person = provider_account_sign_in(
                issuer=settings.OIDC_ISSUER,
                subject=_subject(claims),
                name=str(claims.get("preferred_username") or claims.get("email") or ""),
                role=role_of_groups(groups),
                linked_to=linked_to,
            )
        except DomainError as error:
            raise ImmediateHttpResponse(_refusal(request, error.detail, error.status)) from error
        raise ImmediateHttpResponse(_signed_in(request, person, sociallogin, linked=linked_to is not None))

    def get_requests_session(self) -> requests.Session:
        """Each request to the provider ends in time, whatever it answers."""
        session: requests.Session = super().get_requests_session()
        session.max_redirects = MAX_REDIRECTS
        for scheme in ("https://", "http://"):
            session.mount(scheme, _EndsInTime())
        return session

    def on_authentication_error(self, request: HttpRequest, provider: Any, **details: Any) -> None:
        """Raises ImmediateHttpResponse with a page of ours; the reason of the failure is logged."""
        log.warning(
            "provider_login_failed", error=str(details.get("error")), exception=type(details.get("exception")).__name__
        )
        message = f"The log-in at {settings.OIDC_NAME} did not succeed, or took too long. Try it once more."
        raise ImmediateHttpResponse(_refusal(request, message, 401))


class _EndsInTime(requests.adapters.HTTPAdapter):
    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        body: Any = request.body
        try:
            answer = http_exchange(
                request.url or "",
                body.encode() if isinstance(body, str) else body,
                dict(cast("Mapping[str, str]", request.headers)),
                seconds=timeout,
                method=request.method or "GET",
                authorities=verify if isinstance(verify, str) else "",
            )
        except (OSError, HTTPException, ValueError) as error:
            raise RequestException(str(error), request=request) from error
        headers = urllib3.HTTPHeaderDict(answer.headers)
        return self.build_response(
            request, urllib3.HTTPResponse(io.BytesIO(answer.body), headers, answer.status, preload_content=False)
        )


@require_GET
def provider_login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Send the browser to the provider."""
    # The nonce stays until it is used, so that a second tab does not invalidate the first.
    request.session.setdefault(NONCE, secrets.token_urlsafe(NONCE_BYTES))
    return _answered(request, views.login)


@require_GET
def provider_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The address to which the provider sends the browser back."""
    return _answered(request, views.callback)


def _answered(request: HttpRequest, view: Any) -> HttpResponse:
    if not settings.OIDC_ISSUER:
        raise Http404
    try:
        return view(request, PROVIDER_ID)
    except (RequestException, OAuth2Error, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        log.warning("provider_unreachable", exception=type(error).__name__)
        message = f"{settings.OIDC_NAME} cannot be reached, or says what cannot be understood. Try again later."
        return _refusal(request, message, 503)


def _claims(response: dict[str, Any], nonce: str) -> dict[str, Any]:
    """The claims about a person, from the user info and the id token together.

    Raises OAuth2Error if they are about different people, or of another issuer or log-in.
    """
    token, info = response.get("id_token") or {}, response.get("userinfo") or {}
    if not token.get("sub") or info.get("sub", token["sub"]) != token["sub"]:
        raise OAuth2Error("The user info is about somebody else than the id token.")
    if str(token.get("iss", "")).rstrip("/") != settings.OIDC_ISSUER:
        raise OAuth2Error("The id token is another issuer's.")
    if not nonce or not constant_time_compare(str(token.get("nonce", "")), nonce):
        raise OAuth2Error("The id token is of another log-in.")
    return token | info


def _subject(claims: dict[str, Any]) -> str:
    """Raises Invalid for one that cannot be stored as it is."""
    subject = str(claims["sub"])
    if text_check("sub", subject, MAX_SUBJECT_CHARACTERS, required=True) != subject:
        raise Invalid("The provider's name of the account begins or ends with white space.", field="sub")
    return subject


def _signed_in(request: HttpRequest, person: User, sociallogin: SocialLogin, *, linked: bool) -> HttpResponse:
    if linked:
        return HttpResponseRedirect(resolve_url("account"))
    login(request, person, backend=BACKEND)
    proof_set(request, PROVIDER)
    request.session.set_expiry(settings.OIDC_SESSION_HOURS * 3600)
    target = str(sociallogin.state.get("next") or "")
    safe = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()})
    return HttpResponseRedirect(target if safe else resolve_url("home"))


def _refusal(request: HttpRequest, message: str, status: int) -> HttpResponse:
    return render(request, "registration/provider_refused.html", {"said": message}, status=status)
