"""Connect an agent: a token made on the spot, snippets to paste, and the sign that its first call has come."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from context.models import ContextRun
from identity.models import Agent, ApiToken
from identity.principal import Principal
from identity.selectors import agent_get
from identity.services.tokens import token_create
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.identity.connect_snippets import connect_snippets, environment_lines
from nousweb.console.identity.token_forms import TokenForm
from nousweb.lib.errors import Invalid, NotFound


class ConnectForm(TokenForm):
    """A token's name, persona and scopes; limits to projects and an expiry are for the page of tokens."""

    projects = None  # type: ignore[assignment]
    global_memory = None  # type: ignore[assignment]
    expires_at = None  # type: ignore[assignment]


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_connect(request: HttpRequest, slug: str) -> HttpResponse:
    """The snippets, with a new token in them in the answer to its form, and nowhere else."""
    by = principal_of(request)
    by.require("identity.view_agent")
    agent = agent_get(slug, by)
    form = ConnectForm(request.POST or None, agent=agent, initial={"name": _free_name(agent)})
    made: ApiToken | None = None
    secret = ""
    if request.method == "POST":
        by.require("identity.add_apitoken", agent)
        if form.is_valid():
            try:
                made, secret = token_create(agent=agent, **form.cleaned_data, by=by)
            except Invalid as error:
                form_refuse(form, error)
    base_url = request.build_absolute_uri("/").rstrip("/")
    lacking = set(made.scopes) if made else None
    return render(
        request,
        "identity/connect.html",
        {
            "agent": agent,
            "form": form,
            "made": made,
            "secret": secret,
            "environment": environment_lines(base_url, secret),
            "snippets": [
                (snippet, [scope for scope in snippet.needs if lacking is not None and scope not in lacking])
                for snippet in connect_snippets(base_url, secret)
            ],
            "may_add": by.may("identity.add_apitoken"),
        },
        status=422 if form.errors else 200,
    )


@never_cache
@require_safe
def agent_connect_state(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Part of the page: whether a call with this token has come, asked for again until one has or none can."""
    by = principal_of(request)
    by.require("identity.view_apitoken")
    agent = agent_get(slug, by)
    token = ApiToken.objects.filter(agent=agent, pk=pk).first()
    if token is None:
        raise NotFound("There is no such token.")
    run = None
    if token.last_used_at and by.may("context.view_contextrun"):
        asked_by = Principal.of_token(token).name
        runs = ContextRun.objects.filter(agent=agent, principal_name=asked_by, created_at__gte=token.created_at)
        run = runs.order_by("created_at").first()
    shown = {"agent": agent, "token": token, "run": run, "may_add": by.may("identity.add_apitoken")}
    return render(request, "identity/_connect_state.html", shown)


def _free_name(agent: Agent) -> str:
    """A name for a token that no active one of the agent has."""
    taken = set(ApiToken.objects.usable().filter(agent=agent).values_list("name", flat=True))
    name = agent.name[:90]
    names = [name, *(f"{name} {number}" for number in range(2, len(taken) + 2))]
    return next(each for each in names if each not in taken)
