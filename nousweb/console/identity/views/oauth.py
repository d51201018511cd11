"""Clients that connect by OAuth: a person's consent, and the list of those that may ask for it."""

from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.db.models import Count, Max, Q, Value
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from oauthlib.common import Request, add_params_to_uri
from oauthlib.oauth2.rfc6749.errors import AccessDeniedError, FatalClientError, OAuth2Error

from identity.models import OAuthClient
from identity.policy.permissions import DEFAULT_SCOPES
from identity.principal import Principal
from identity.selectors import agent_get
from identity.services.oauth import oauth_client_create, oauth_client_delete
from nousweb.access.oauth.server import OAuthServer
from nousweb.access.oauth.views import issuer_of, resource_of
from nousweb.console.common import FORM, Column, ListPage, Title, act, page, refused_on
from nousweb.console.identity.token_forms import ConsentForm
from nousweb.lib.redirect_uris import redirect_place

PAGE_SIZE = 200


@page(methods=FORM, fresh=True)
def authorize(request: HttpRequest, by: Principal) -> HttpResponse:
    """Ask a person whether a client may act as an agent, and as which; then send them back to the client.

    What the client asks for stands in the address, also when the form is sent, and is checked each time.
    """
    server = OAuthServer(resource=resource_of(request))
    uri = request.build_absolute_uri()
    try:
        scopes, asked = server.validate_authorization_request(uri)
    except FatalClientError as error:
        # Nobody is sent to an address that is not the client's.
        return _refusal(request, error.description or "This client or its address is not registered here.")
    except OAuth2Error as error:
        return _refusal(request, error.description or str(error), error)
    except ValueError:
        return _refusal(request, "The address cannot be read.")
    of_client: Request = asked["request"]
    client: OAuthClient = of_client.client
    if request.POST.get("answer") == "refuse":
        denied = AccessDeniedError(request=of_client, state=of_client.state)
        return _return(request, client, denied.in_uri(of_client.redirect_uri), connected=False)
    by.require("identity.add_apitoken")
    form = ConsentForm(request.POST or None, by=by, initial={"scopes": scopes or DEFAULT_SCOPES})
    if request.method == "POST" and form.is_valid():
        given = {
            "consent_agent": agent_get(form.cleaned_data["agent"], by),
            "consent_rights": form.rights,
            "consent_by": by,
        }
        with refused_on(form):
            headers, _, _ = server.create_authorization_response(uri, credentials=given)
            return _return(request, client, headers["Location"], connected=True)
    shown = {
        "form": form,
        "client": client,
        "vouched": client.source == OAuthClient.Source.PERSON,
        "place": redirect_place(of_client.redirect_uri),
        "connections": client.tokens.filter(revoked_at__isnull=True).count(),
    }
    return render(request, "identity/oauth_consent.html", shown, status=422 if form.errors else 200)


def _return(request: HttpRequest, client: OAuthClient, uri: str, *, connected: bool) -> HttpResponse:
    """A page that sends the browser to the client.

    No redirect: a browser holds the address that a form leads to, and all that follow it, against the form-action of
    our policy, and the client's own further redirects would be stopped.
    """
    uri = add_params_to_uri(uri, [("iss", issuer_of(request))])
    shown = {"client": client, "uri": uri, "connected": connected, "place": redirect_place(uri)}
    return render(request, "identity/oauth_return.html", shown)


def _refusal(request: HttpRequest, why: str, error: OAuth2Error | None = None) -> HttpResponse:
    """A page with the error in a client's request, and a link back if its address is known.

    It does not redirect: anybody can register an address, and this server would vouch for it.
    """
    uri: str = getattr(error, "redirect_uri", None) or ""
    back = ""
    if error is not None and uri:
        back = add_params_to_uri(uri, [*error.twotuples, ("iss", issuer_of(request))])
    shown = {"why": why, "back": back, "place": redirect_place(uri) if back else ""}
    return render(request, "identity/oauth_refusal.html", shown, status=400)


class ClientForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="Shown to people when they are asked to connect the client.")
    redirect_uris = forms.CharField(
        label="Redirect addresses",
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="One a line, letter for letter as the program sends them: https://…, http://127.0.0.1/… with any"
        " port, or the scheme of a program such as com.example.app:/callback.",
    )

    def clean_redirect_uris(self) -> list[str]:
        lines: list[str] = self.cleaned_data["redirect_uris"].split()
        return lines


LIST = ListPage(
    title="OAuth clients",
    noun="client",
    empty="Most programs register themselves when they get this server’s address for MCP.",
    about_new="For a program that cannot register itself. It gets an id but no secret.",
    numbered=True,
    is_exported=False,
    template="identity/oauth_clients.html",
    row=Title(
        "name",
        url=lambda client: "",
        badges=lambda client: [("ok", "new")] if client.is_new else [],
        detail="client_id",
    ),
    columns=(
        Column("Returns to", lambda client: ", ".join(client.redirect_uris)),
        Column("Origin", OAuthClient.get_source_display),
        Column("Created", "created_at", "time"),
        Column("Connections", "connections", "count"),
        Column("Last used", "last_used_at", "time"),
        Column("Actions", look="identity/_oauth_client_actions.html"),
    ),
)


@page("identity.view_apitoken", methods=FORM)
def clients(request: HttpRequest, by: Principal) -> HttpResponse:
    """Every client with its connections; a form for one that does not register itself."""
    form = ClientForm(request.POST or None)
    if request.method == "POST":
        by.require("identity.add_apitoken")
        if form.is_valid():
            with refused_on(form):
                made = oauth_client_create(**form.cleaned_data, by=by)
                messages.success(request, f"{made.name} was created. Enter its client id in the program.")
                return redirect(reverse("oauth_clients") + "?" + urlencode({"made": made.client_id}))
    held = Q(tokens__revoked_at__isnull=True) & (Q() if by.agents is None else Q(tokens__agent__in=by.agents))
    rows = OAuthClient.objects.annotate(
        connections=Count("tokens", filter=held),
        last_used_at=Max("tokens__last_used_at", filter=held),
        is_new=Q(client_id=request.GET.get("made", "")),
        may_delete=Value(by.may("identity.revoke_apitoken") and by.agents is None),
    ).order_by("-created_at", "-pk")
    creation_form = form if by.may("identity.add_apitoken") else None
    shown = {"creation_form": creation_form, **LIST.context(request, LIST.page(request, rows))}
    return render(request, LIST.template, shown, status=422 if form.errors else 200)


@page("identity.revoke_apitoken", methods=FORM)
def client_delete(request: HttpRequest, by: Principal, pk: int) -> HttpResponse:
    """Asks first, since all that the client holds stops working at once."""
    by.require_all_agents()
    client = get_object_or_404(OAuthClient, pk=pk)
    tokens = client.tokens.filter(revoked_at__isnull=True).select_related("agent")
    if request.method == "POST":
        return act(
            request,
            lambda: f"{client.name} was deleted. Tokens revoked: {oauth_client_delete(client=client, by=by)}.",
            "oauth_clients",
        )
    return render(request, "identity/oauth_client_delete.html", {"client": client, "tokens": tokens[:PAGE_SIZE]})
