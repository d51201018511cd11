"""Tokens of one agent: list, make, show once, revoke."""

from datetime import datetime, time
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from identity.models import Agent, ApiToken, Persona
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.selectors import agent_get
from identity.selectors.filters import DateInput
from identity.services.tokens import token_create, token_revoke
from nousweb.console.common.requests import form_refuse, principal_of
from nousweb.lib.errors import DomainError, Invalid, NotFound

SCOPE_MEANING = {
    "identity:read": "read its own identity and proposals",
    "identity:propose": "propose changes of its identity; what the guardrails allow is applied at once",
    "memory:read": "read the memory of its persona",
    "memory:write": "write to the memory of its persona",
    "memory:rules": "write rules, which stand in every prompt",
    "context:read": "ask for a context",
    "expectations:run": "read expectations and have them checked",
}
STATE_KINDS = {"active": "ok", "expired": "warn", "revoked": "removed"}


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=100, help_text="Where it is used, so that you know what stops when you revoke it."
    )
    persona = forms.ChoiceField(
        choices=Persona.choices, help_text="Whose memory it reaches. It never reaches the other's."
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope}: {SCOPE_MEANING.get(scope, '')}".rstrip(": ")) for scope in SCOPE_PERMISSIONS],
        widget=forms.CheckboxSelectMultiple,
        initial=list(DEFAULT_SCOPES),
        help_text="No token can ever approve a change.",
    )
    projects = forms.CharField(
        required=False,
        max_length=2_000,
        help_text="Keys, by commas. It then reaches their memory and global memory, and nothing that tells of all"
        " projects together: no subjects, reviews, changes or expectations.",
    )
    global_memory = forms.ChoiceField(
        choices=ApiToken.GlobalMemory.choices,
        initial=ApiToken.GlobalMemory.READ,
        required=False,
        help_text="Only for a token that is limited to projects.",
    )
    expires_at = forms.DateField(
        required=False, widget=DateInput(), label="Expires", help_text="The last day on which it works."
    )

    def __init__(self, *args: Any, agent: Agent, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent = agent

    def clean_name(self) -> str:
        name: str = " ".join(self.cleaned_data["name"].split())
        # Also what keeps a reload of the page that shows the secret from making a second token.
        if ApiToken.objects.usable().filter(agent=self.agent, name=name).exists():
            raise forms.ValidationError("There is an active token of this name. Revoke it, or choose another name.")
        return name

    def clean_projects(self) -> list[str]:
        given = (key.strip() for key in self.cleaned_data["projects"].split(","))
        return [key for key in given if key]

    def clean_expires_at(self) -> datetime | None:
        day = self.cleaned_data["expires_at"]
        return timezone.make_aware(datetime.combine(day, time.max)) if day else None


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_tokens(request: HttpRequest, slug: str) -> HttpResponse:
    """The list and the form; a new token's secret stands in the answer to its form, and nowhere else."""
    by = principal_of(request)
    by.require("identity.view_apitoken")
    agent = agent_get(slug)
    form = TokenForm(request.POST or None, agent=agent)
    made: ApiToken | None = None
    secret = ""
    if request.method == "POST":
        by.require("identity.add_apitoken", agent)
        if form.is_valid():
            try:
                made, secret = token_create(
                    agent=agent,
                    persona=form.cleaned_data["persona"],
                    name=form.cleaned_data["name"],
                    scopes=form.cleaned_data["scopes"],
                    expires_at=form.cleaned_data["expires_at"],
                    projects=form.cleaned_data["projects"],
                    global_memory=form.cleaned_data["global_memory"] or ApiToken.GlobalMemory.READ,
                    by=by,
                )
                form = TokenForm(agent=agent)
            except Invalid as error:
                form_refuse(form, error)
    tokens = list(agent.tokens.all()[:200])
    return render(
        request,
        "identity/tokens.html",
        {
            "agent": agent,
            "tokens": [(token, STATE_KINDS[token.state]) for token in tokens],
            "form": form,
            "made": made,
            "secret": secret,
            "try_command": _try_command(request.build_absolute_uri("/api/"), made, secret) if made else "",
            "may_add": by.may("identity.add_apitoken"),
            "may_revoke": by.may("identity.revoke_apitoken"),
        },
        status=422 if form.errors else 200,
    )


def _try_command(api_url: str, token: ApiToken, secret: str) -> str:
    """A shell command that shows that `token` works, by the first of the scopes it has."""
    authorization = f"-H 'Authorization: Bearer {secret}'"
    if "context:read" in token.scopes:
        body = '{"session_id": "try", "input": "Hello"}'
        return f"curl -sS {api_url}context {authorization} -H 'Content-Type: application/json' -d '{body}'"
    return f"curl -sS {api_url}{'identity' if 'identity:read' in token.scopes else 'facts'} {authorization}"


@require_http_methods(["GET", "HEAD", "POST"])
def agent_token_revoke(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Asks first, since whatever uses the token stops working at once."""
    by = principal_of(request)
    by.require("identity.revoke_apitoken")
    agent = agent_get(slug)
    token = ApiToken.objects.filter(agent=agent, pk=pk).select_related("agent").first()
    if token is None:
        raise NotFound("There is no such token.")
    if request.method == "POST":
        try:
            token_revoke(token=token, by=by)
            messages.success(request, f"Revoked {token.name}. It opens nothing any more.")
        except DomainError as error:
            messages.warning(request, error.detail)
        return redirect("agent_tokens", slug=slug)
    return render(request, "identity/token_revoke.html", {"agent": agent, "token": token})
