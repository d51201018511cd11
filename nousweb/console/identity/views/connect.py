"""Connect an agent: a token made on the spot, snippets to paste, and the sign that its first call has come."""

import json
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from context.models import ContextRun
from identity.models import Agent, ApiToken
from identity.principal import Principal
from identity.services.inbox_items import people_with_right
from identity.services.tokens import token_create
from nousweb.console.common import FORM, agent_page, refused_on
from nousweb.console.identity.token_forms import TokenForm
from nousweb.lib.installation import CLIENT_ARCHIVE

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
    form = ConnectForm(request.POST or None, agent=agent, initial={"name": _free_name(agent, by)})
    made: ApiToken | None = None
    secret = ""
    if request.method == "POST":
        by.require("identity.add_apitoken", agent)
        if form.is_valid():
            with refused_on(form):
                made, secret = token_create(agent=agent, **form.cleaned_data, by=by)
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


def _free_name(agent: Agent, by: Principal) -> str:
    """A name for a token that no active one of the agent has: where most are tried first."""
    taken = set(ApiToken.objects.usable().filter(agent=agent).values_list("name", flat=True))
    name = f"{by.name[:80]}'s computer"
    names = [name, *(f"{name} {number}" for number in range(2, len(taken) + 2))]
    return next(each for each in names if each not in taken)
