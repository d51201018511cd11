"""The users whom an agent serves: what the agents know about each, and whose the memories from before are."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode

from identity.models import Agent
from identity.principal import Principal
from memory.models import serves_users
from memory.services.users import CHANGE, MANAGE, TYPES, agents_of_user, memories_assign, personas_of, user_counts
from memory.transfer.agent_export import user_export
from nousweb.console.common import FORM, Action, Column, ListPage, Title, agent_page, page_of, refused_on
from nousweb.lib.constrained_types import EVERYBODY, MAX_KEY_CHARACTERS, UNASSIGNED
from nousweb.lib.errors import NotFound

LATEST = 100
"""Memories of one type that the page of a user lists."""
TYPE_NAMES = {model: name for name, model in TYPES.items()}
LIST = ListPage(
    title="Users",
    noun="user",
    about="People whom the agent serves, each with their own memories.",
    about_new="Memories from before the agent served many users are in no prompt until they belong to somebody.",
    empty="When the agent serves many users, it keeps the memories of each apart. Turn that on in its prompt settings.",
    is_exported=False,
    actions=(Action("Open the prompt settings", "agent_context_settings", "", "identity.change_agent"),),
    row=Title("words"),
    columns=(Column("By type", "told"), Column("Memories", "total", "count")),
    template="memory/users.html",
)
USER = ListPage(
    title="User",
    noun="item",
    empty="No agent knows anything of this user.",
    is_exported=False,
    row=Title(lambda memory: str(memory)),
    columns=(
        Column("Type", lambda memory: TYPE_NAMES[type(memory)].capitalize()),
        Column("Agent", lambda memory: memory.agent.name),
        Column("Since", lambda memory: _moment(memory), "time"),
    ),
)


class AssignForm(forms.Form):
    """Whose memories become, and which."""

    user = forms.CharField(required=False, max_length=MAX_KEY_CHARACTERS, label="User", help_text="The key of a user.")
    everybody = forms.BooleanField(required=False, label="For everybody", help_text="Instead of a user.")
    types = forms.MultipleChoiceField(
        required=False,
        choices=[(name, f"{name.capitalize()}s") for name in TYPES],
        widget=forms.CheckboxSelectMultiple,
        label="Only these types",
    )
    words = forms.CharField(
        required=False, max_length=200, label="Only memories with these words", help_text="Such as a name or a session."
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if bool(given.get("user")) is bool(given.get("everybody")):
            self.add_error("user", "Name a user, or choose everybody.")
        return given


@agent_page(MANAGE, methods=FORM)
def agent_users(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The users of an agent with numbers of memories, and the form that assigns memories that are nobody's."""
    form = AssignForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        with refused_on(form):
            counts = memories_assign(
                agent=agent, by=by, user=EVERYBODY if given["everybody"] else given["user"], types=given["types"],
                words=given["words"],
            )  # fmt: skip
            messages.success(request, f"{sum(counts.values()):,} memories were assigned.")
            return redirect(request.path)
    counted = user_counts([agent], personas=personas_of(by))
    rows = [
        SimpleNamespace(
            words="Not assigned" if user == UNASSIGNED else user,
            total=sum(counts.values()),
            told=", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items()),
            get_absolute_url=lambda user=user: "" if user == UNASSIGNED else _address(agent, user),
        )
        for (_, user), counts in sorted(counted.items())
    ]
    offered = by.may(CHANGE) and serves_users(agent) and (agent.pk, UNASSIGNED) in counted
    shown = {
        "agent": agent,
        "creation_form": form if offered else None,
        **LIST.context(request, page_of(request, rows)),
    }
    return render(request, LIST.template, shown, status=422 if form.errors else 200)


@agent_page(MANAGE)
def agent_user(request: HttpRequest, by: Principal, agent: Agent, user: str) -> HttpResponseBase:
    """What the agents know about a user; with ?export=jsonl, everything as a file."""
    personas = personas_of(by)
    agents = agents_of_user(list(Agent.objects.visible_to(by).order_by("name")), user, personas)
    if user == UNASSIGNED or not agents:
        raise NotFound("No agent knows anything of this user.")
    if request.GET.get("export"):
        lines = user_export(agents=agents, user=user, by=by)
        headers = {"Content-Disposition": 'attachment; filename="user.jsonl"'}
        return StreamingHttpResponse(lines, content_type="application/x-ndjson; charset=utf-8", headers=headers)
    rows: list[Any] = []
    for model in TYPES.values():
        found = model._default_manager.filter(agent__in=agents, user=user, persona__in=personas)
        rows += found.select_related("agent").order_by("-pk")[:LATEST]
    rows.sort(key=_moment, reverse=True)
    about = format_html(
        'The latest of each type. <a href="?export=jsonl">Export everything</a> or <a href="{}">erase everything</a>.',
        f"{reverse('agent_user_erase', args=[agent.slug])}?{urlencode({'user': user})}",
    )
    shown = replace(USER, title=f"User {user}", about=about)
    return render(request, USER.template, {"agent": agent, **shown.context(request, page_of(request, rows))})


def _address(agent: Agent, user: str) -> str:
    return reverse("agent_user", args=[agent.slug, user])


def _moment(memory: Any) -> Any:
    """Since when there is a memory: its first moment that the model has."""
    names = ("recorded_at", "first_event_at", "created_at")
    return next(getattr(memory, name) for name in names if hasattr(memory, name))
