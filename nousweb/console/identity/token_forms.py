"""Forms for the rights of a token or a connected client."""

from datetime import datetime, time, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from identity.models import Agent, ApiToken, Persona
from identity.policy.permissions import DEFAULT_SCOPES, SCOPE_PERMISSIONS
from identity.principal import Principal
from identity.selectors.filters import DateInput, agent_choices

SCOPE_MEANING = {
    "identity:read": "read its own identity and proposals",
    "identity:propose": "propose changes of its identity; what the guardrails allow is applied at once",
    "memory:read": "read the memory of its persona",
    "memory:write": "write to the memory of its persona",
    "memory:rules": "write rules, which stand in every prompt",
    "context:read": "ask for a context",
    "expectations:run": "read expectations and have them checked",
}


class RotationForm(forms.Form):
    """The time for which the former secret of a token is still accepted."""

    grace = forms.TypedChoiceField(
        label="The former secret",
        choices=[
            (24, "keeps working for a day"),
            (7 * 24, "keeps working for seven days"),
            (0, "stops working at once"),
        ],
        coerce=lambda hours: timedelta(hours=int(hours)),
        help_text="Until whatever uses the token has the new one.",
    )


class RightsForm(forms.Form):
    """The choices for every token."""

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
        return {
            name: self.cleaned_data[name] for name in ("persona", "scopes", "projects", "global_memory", "expires_at")
        }


class TokenForm(RightsForm):
    name = forms.CharField(
        max_length=100, help_text="Where it is used, so that you know what stops when you revoke it."
    )
    field_order = ["name"]

    def __init__(self, *args: Any, agent: Agent, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent = agent

    def clean_name(self) -> str:
        name: str = " ".join(self.cleaned_data["name"].split())
        # Also what keeps a reload of the page that shows the secret from making a second token.
        if ApiToken.objects.usable().filter(agent=self.agent, name=name).exists():
            raise forms.ValidationError("There is an active token of this name. Revoke it, or choose another name.")
        return name


class ConsentForm(RightsForm):
    """The agent for which a client may act, and its rights."""

    field_order = ["agent"]

    def __init__(self, *args: Any, by: Principal, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        agents = agent_choices(by)
        choices = agents if len(agents) == 1 else [("", "Choose an agent"), *agents]
        self.fields["agent"] = forms.ChoiceField(choices=choices, help_text="Whose memory it is. It reaches no other.")
        self.order_fields(self.field_order)
        self.fields["expires_at"].label = "Until"
        self.fields["expires_at"].help_text = "The last day on which it works; without one, for as long as it is used."
