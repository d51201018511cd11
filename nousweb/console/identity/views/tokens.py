"""Access of programs to an agent: its tokens, snippets with a new one to paste, and clients that connect by OAuth."""

import json
from dataclasses import dataclass
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.db.models import Count, Max, Q, Value
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from oauthlib.common import Request, add_params_to_uri
from oauthlib.oauth2.rfc6749.errors import AccessDeniedError, FatalClientError, OAuth2Error

from context.models import ContextRun
from identity.models import Agent, ApiToken, OAuthClient
from identity.policy.permissions import DEFAULT_SCOPES
from identity.principal import Principal
from identity.selectors import agent_get
from identity.services.inbox_items import people_with_right
from identity.services.oauth import oauth_client_create, oauth_client_delete
from identity.services.tokens import token_create, token_revoke, token_rotate
from nousweb.access.oauth.server import OAuthServer
from nousweb.access.oauth.views import issuer_of, resource_of
from nousweb.console.common import FORM, Action, Column, ListPage, Title, act, agent_page, page, refused_on
from nousweb.console.identity.token_forms import ConsentForm, RotationForm, TokenForm, rights_told
from nousweb.lib.errors import DomainError
from nousweb.lib.installation import CLIENT_ARCHIVE
from nousweb.lib.redirect_uris import redirect_place

PLACEHOLDER = "nous_…"
"""In place of the token until there is one."""

PYTHON = """\
from nous_client import Nous

nous = Nous()
nous.learn_fact("Tim drinks green tea.", subject="Tim", category="preference")
print(nous.context("What does Tim drink?", session_id="first").system_prompt)
"""
ANTHROPIC = """\
from anthropic import Anthropic
from nous_client import Nous

with Nous() as nous, nous.turn("first", "What do you remember of me?") as turn:
    turn.create(Anthropic(), model="claude-sonnet-5", max_tokens=1000)

print(turn.answer)
"""
LANGGRAPH = """\
from nous_client.langgraph import NousStore

store = NousStore()  # builder.compile(store=store)
store.put(("tim",), "tea", {"text": "Tim drinks green tea."})
print(store.search(("tim",), query="What does Tim drink?"))
"""
OPENAI = """\
from nous_client import Nous
from openai import OpenAI

with Nous() as nous, nous.turn("first", "What do you remember of me?") as turn:
    messages = [{"role": "system", "content": turn.system_prompt}, {"role": "user", "content": turn.input}]
    answer = OpenAI().chat.completions.create(model="gpt-5.2", messages=messages)
    turn.answer = answer.choices[0].message.content

print(turn.answer)
"""


@dataclass(frozen=True, slots=True)
class ConnectSnippet:
    """One way to connect. `language` is `json`, `python` or `sh`; `needs` names scopes without which it is refused."""

    key: str
    title: str
    where: str
    """Where to put the snippet, in a sentence."""
    language: str
    text: str
    needs: tuple[str, ...]
    install: str = ""
    """The command that installs the imported packages."""


def _install(base_url: str, extra: str = "") -> str:
    return f'pip install "nous-client{extra} @ {base_url}/static/{CLIENT_ARCHIVE}"'


def connect_snippets(base_url: str, secret: str = "") -> list[ConnectSnippet]:
    """Each kind of agent's snippet with this server's address, which ends without a slash, and the token."""
    token = secret or PLACEHOLDER
    server = {"type": "http", "url": f"{base_url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    body = '{"session_id": "first", "input": "What do you remember of me?"}'
    curl = f"curl -s {base_url}/api/context -H 'Authorization: Bearer {token}' \\\n  -d '{body}'\n"
    return [
        ConnectSnippet("curl", "curl", "In a shell, or as a request of any language.", "sh", curl, ("context:read",)),
        ConnectSnippet(
            "mcp",
            "MCP client",
            "In the file in which the client keeps its servers. Then ask it what it remembers.",
            "json",
            json.dumps({"mcpServers": {"memory": server}}, indent=2, ensure_ascii=False) + "\n",
            ("context:read",),
        ),
        ConnectSnippet(
            "python",
            "Python",
            "Before your own call of a model, whichever it is.",
            "python",
            PYTHON,
            ("context:read", "memory:write"),
            _install(base_url),
        ),
        ConnectSnippet(
            "anthropic",
            "Anthropic SDK",
            "In place of your call of messages.create.",
            "python",
            ANTHROPIC,
            ("context:read", "memory:write"),
            _install(base_url, "[anthropic]"),
        ),
        ConnectSnippet(
            "langgraph",
            "LangGraph",
            "Where the graph is compiled: its store is the agent's memory.",
            "python",
            LANGGRAPH,
            ("memory:read", "memory:write"),
            _install(base_url, "[langgraph]"),
        ),
        ConnectSnippet(
            "openai",
            "OpenAI and compatible servers",
            "In place of your call of chat.completions.create.",
            "python",
            OPENAI,
            ("context:read", "memory:write"),
            _install(base_url, "[openai]"),
        ),
    ]


class ConnectForm(TokenForm):
    """A token's name, persona and scopes; limits to projects or a user and an expiry are for the page of tokens."""

    projects = None  # type: ignore[assignment]
    global_memory = None  # type: ignore[assignment]
    user = None  # type: ignore[assignment]
    expires_at = None  # type: ignore[assignment]


@agent_page("identity.view_agent", methods=FORM, fresh=True)
def agent_connect(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The snippets, with a new token in them in the answer to its form, and nowhere else."""
    sent = request.POST if request.method == "POST" else None
    form = ConnectForm(sent, agent=agent, initial={"name": _free_name(agent, by)})
    made, secret = _made(form, by)
    base_url = request.build_absolute_uri("/").rstrip("/")
    lacking = set(made.scopes) if made else None
    may_add = by.may("identity.add_apitoken")
    return render(
        request,
        "identity/connect.html",
        {
            "agent": agent,
            "form": form,
            "made": made,
            "secret": secret,
            "environment": f"export NOUS_URL={base_url}\nexport NOUS_TOKEN={secret or PLACEHOLDER}\n",
            "snippets": [
                (snippet, [scope for scope in snippet.needs if lacking is not None and scope not in lacking])
                for snippet in connect_snippets(base_url, secret)
            ],
            "may_add": may_add,
            "who_may_add": [] if may_add else people_with_right("identity.add_apitoken", agent)[:5],
        },
        status=422 if form.errors else 200,
    )


@agent_page("identity.view_apitoken", fresh=True)
def agent_connect_state(request: HttpRequest, by: Principal, agent: Agent, pk: int) -> HttpResponse:
    """Part of the page: whether a call with this token has come, asked for again until one has or none can."""
    token = get_object_or_404(ApiToken, agent=agent, pk=pk)
    run = None
    if token.last_used_at and by.may("context.view_contextrun"):
        asked_by = Principal.of_token(token).name
        runs = ContextRun.objects.filter(agent=agent, principal_name=asked_by, created_at__gte=token.created_at)
        run = runs.order_by("created_at").first()
    shown = {"agent": agent, "token": token, "run": run, "may_add": by.may("identity.add_apitoken")}
    return render(request, "identity/_connect_state.html", shown)


def _made(form: TokenForm, by: Principal) -> tuple[ApiToken | None, str]:
    """The token that a sent form describes, with its secret; none where it is refused, which the form says."""
    if form.is_bound:
        by.require("identity.add_apitoken", form.agent)
        if form.is_valid():
            with refused_on(form):
                return token_create(agent=form.agent, **form.cleaned_data, by=by)
    return None, ""


def _free_name(agent: Agent, by: Principal) -> str:
    """A name for a token that no active one of the agent has: where most are tried first."""
    taken = set(ApiToken.objects.usable().filter(agent=agent).values_list("name", flat=True))
    name = f"{by.name[:80]}'s computer"
    names = [name, *(f"{name} {number}" for number in range(2, len(taken) + 2))]
    return next(each for each in names if each not in taken)


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
        Column("May", rights_told),
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
    form = TokenForm(request.POST if request.method == "POST" else None, agent=agent)
    made, secret = _made(form, by)
    if made:
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


TOKENS_SHOWN = 200


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
    back = add_params_to_uri(uri, [*error.twotuples, ("iss", issuer_of(request))]) if error and uri else ""
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


CLIENTS = ListPage(
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
    shown = {"creation_form": creation_form, **CLIENTS.context(request, CLIENTS.page(request, rows))}
    return render(request, CLIENTS.template, shown, status=422 if form.errors else 200)


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
    return render(request, "identity/oauth_client_delete.html", {"client": client, "tokens": tokens[:TOKENS_SHOWN]})
