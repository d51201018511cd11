"""Forms for the rights of a token or a connected client."""

from datetime import datetime, time, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from identity.models import Agent, ApiToken, Persona
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.selectors.filters import DateInput, agent_choices
from nousweb.lib.bounds import MAX_KEY_CHARACTERS

SCOPE_MEANING = {
    "identity:read": "read its own identity and proposals",
    "identity:propose": "propose changes of its identity; those that the guardrails allow apply at once",
    "memory:read": "read the memory of its persona",
    "memory:write": "write to the memory of its persona",
    "memory:rules": "write rules, which are in every prompt",
    "context:read": "request its prompt",
    "expectations:run": "read and check expectations",
    "users:manage": "list, export and erase users",
}


def scope_label(scope: str) -> str:
    """A scope as a choice: what it allows, and its code."""
    meaning = SCOPE_MEANING.get(scope, "")
    return f"{meaning[:1].upper()}{meaning[1:]} ({scope})" if meaning else scope


def rights_told(token: ApiToken) -> str:
    """What a token may do, and where, in words."""
    told = "; ".join(SCOPE_MEANING.get(scope, scope).partition(";")[0] for scope in token.scopes)
    return f"{told[:1].upper()}{told[1:]}. {token.limits}".strip()


class RotationForm(forms.Form):
    """The time for which the former secret of a token is still accepted."""

    grace = forms.TypedChoiceField(
        label="The previous secret",
        choices=[
            (24, "keeps working for a day"),
            (7 * 24, "keeps working for seven days"),
            (0, "stops working immediately"),
        ],
        coerce=lambda hours: timedelta(hours=int(hours)),
        help_text="Until all programs that use the token have the new secret.",
    )


class RightsForm(forms.Form):
    """The choices for every token."""

    persona = forms.ChoiceField(
        choices=Persona.choices,
        help_text="The persona whose memory the token can access. It never gives access to the other persona's memory.",
    )
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope_label(scope)) for scope in SCOPE_PERMISSIONS],
        widget=forms.CheckboxSelectMultiple,
        initial=list(DEFAULT_SCOPES),
        help_text="No token can ever approve a change.",
    )
    projects = forms.CharField(
        required=False,
        max_length=2_000,
        help_text="Project keys, separated by commas. The token can then access their memory and global memory, but no"
        " data that spans all projects: no subjects, reviews, changes or expectations.",
    )
    global_memory = forms.ChoiceField(
        choices=ApiToken.GlobalMemory.choices,
        initial=ApiToken.GlobalMemory.READ,
        required=False,
        help_text="Only for a token that is limited to projects.",
    )
    user = forms.CharField(
        required=False,
        max_length=MAX_KEY_CHARACTERS,
        help_text="Key of one of the users whom the agent serves. The token can then access this user's memory and what"
        " is for everybody, and writes this user's only.",
    )
    expires_at = forms.DateField(
        required=False, widget=DateInput(), label="Expires", help_text="The last day on which the token works."
    )

    def clean_projects(self) -> list[str]:
        given = (key.strip() for key in self.cleaned_data["projects"].split(","))
        return [key for key in given if key]

    def clean_global_memory(self) -> str:
        return self.cleaned_data["global_memory"] or ApiToken.GlobalMemory.READ

    def clean_expires_at(self) -> datetime | None:
        day = self.cleaned_data["expires_at"]
        return timezone.make_aware(datetime.combine(day, time.max)) if day else None

    @property
    def rights(self) -> dict[str, Any]:
        """The chosen rights, as arguments of `token_rights_check`."""
        names = ("persona", "scopes", "projects", "global_memory", "user", "expires_at")
        return {name: self.cleaned_data[name] for name in names}


class TokenForm(RightsForm):
    name = forms.CharField(
        max_length=100, help_text="Where the token is used, so that you know what stops working when you revoke it."
    )
    field_order = ["name"]

    def __init__(self, *args: Any, agent: Agent, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent = agent

    def clean_name(self) -> str:
        name: str = " ".join(self.cleaned_data["name"].split())
        # Also what keeps a reload of the page that shows the secret from making a second token.
        if ApiToken.objects.usable().filter(agent=self.agent, name=name).exists():
            raise forms.ValidationError("An active token has this name. Revoke it, or choose another name.")
        return name


class ConsentForm(RightsForm):
    """The agent for which a client may act, and its rights."""

    field_order = ["agent"]

    def __init__(self, *args: Any, by: Principal, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        agents = agent_choices(by)
        self.fields["agent"] = forms.ChoiceField(
            choices=agents if len(agents) == 1 else [("", "Choose an agent"), *agents],
            help_text="The agent whose memory the client can access. It gets no access to other agents.",
        )
        self.order_fields(self.field_order)
        self.fields["expires_at"].label = "Until"
        self.fields[
            "expires_at"
        ].help_text = "The last day of the connection. If empty, it lasts as long as it is used."
