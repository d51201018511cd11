"""Tokens of one agent: list, make, show once, make another secret, revoke."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from identity.models import Agent, ApiToken
from identity.principal import Principal
from identity.services.tokens import token_create, token_revoke, token_rotate
from nousweb.console.common import FORM, Action, Column, ListPage, Title, act, agent_page, refused_on
from nousweb.console.identity.token_forms import RotationForm, TokenForm
from nousweb.lib.errors import DomainError

LIST = ListPage(
    title="Tokens",
    noun="token",
    empty="With a token the agent can write its memories and request its prompt. It can never approve anything.",
    numbered=True,
    is_exported=False,
    template="identity/tokens.html",
    actions=(Action("Connect your agent", "agent_connect", "try", "identity.view_agent"),),
    row=Title(
        "name",
        url=lambda token: "",
        badges=lambda token: [("neutral", "connected over MCP")] if token.resource else [],
        detail=lambda token: f"{token.prefix}…",
    ),
    columns=(
        Column("Scopes", look="identity/_token_scopes.html"),
        Column("Created by", "created_by"),
        Column("Created", "created_at", "time"),
        Column("Last used", "last_used_at", "time"),
        Column("Expires", "expires_at", "time", is_usual=lambda token: not token.expires_at),
        Column(
            "State",
            look="identity/_token_state.html",
            is_usual=lambda token: token.state == "active" and not token.previous_secret_is_valid,
        ),
        Column("Actions", look="identity/_token_actions.html"),
    ),
)


@agent_page("identity.view_apitoken", methods=FORM, fresh=True)
def agent_tokens(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The list and the form; a new token's secret stands in the answer to its form, and nowhere else."""
    form = TokenForm(request.POST or None, agent=agent)
    made: ApiToken | None = None
    secret = ""
    if request.method == "POST":
        by.require("identity.add_apitoken", agent)
        if form.is_valid():
            with refused_on(form):
                made, secret = token_create(
                    agent=agent,
                    name=form.cleaned_data["name"],
                    **form.rights,
                    by=by,
                )
                form = TokenForm(agent=agent)
    shown = {
        "agent": agent,
        "creation_form": form if by.may("identity.add_apitoken") else None,
        "made": made,
        "secret": secret,
        "try_command": _try_command(request.build_absolute_uri("/api/"), made, secret) if made else "",
        **LIST.context(request, LIST.page(request, agent.tokens.select_related("client"))),
    }
    return render(request, LIST.template, shown, status=422 if form.errors else 200)


def _try_command(api_url: str, token: ApiToken, secret: str) -> str:
    """A shell command that shows that `token` works, by the first of the scopes it has."""
    authorization = f"-H 'Authorization: Bearer {secret}'"
    if "context:read" in token.scopes:
        body = '{"session_id": "try", "input": "Hello"}'
        return f"curl -sS {api_url}context {authorization} -H 'Content-Type: application/json' -d '{body}'"
    return f"curl -sS {api_url}{'identity' if 'identity:read' in token.scopes else 'facts'} {authorization}"


@agent_page("identity.revoke_apitoken", methods=FORM)
def agent_token_revoke(request: HttpRequest, by: Principal, agent: Agent, pk: int) -> HttpResponse:
    """Asks for confirmation, since all clients of the token stop working at once."""
    token = _token(agent, pk)
    if request.method == "POST":
        done = f"{token.name} was revoked. It no longer gives access."
        back = reverse("agent_tokens", args=[agent.slug])
        return act(request, lambda: token_revoke(token=token, by=by), back, done, refusals=(DomainError,))
    return render(request, "identity/token_revoke.html", {"agent": agent, "token": token})


@agent_page("identity.add_apitoken", methods=FORM, fresh=True)
def agent_token_rotate(request: HttpRequest, by: Principal, agent: Agent, pk: int) -> HttpResponse:
    """Asks how long the former secret goes on; the new one stands in the answer to its form, and nowhere else."""
    token = _token(agent, pk)
    form, secret = RotationForm(request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            secret = token_rotate(token=token, grace=form.cleaned_data["grace"], by=by)
        token.refresh_from_db()
    shown = {
        "agent": agent,
        "token": token,
        "form": form,
        "secret": secret,
        "may_rotate": token.state == "active" and token.secret_expires_at is None,
    }
    return render(request, "identity/token_rotate.html", shown, status=422 if form.errors else 200)


def _token(agent: Agent, pk: int) -> ApiToken:
    return get_object_or_404(ApiToken.objects.select_related("agent"), agent=agent, pk=pk)
