"""Forms about people: inviting, and accepting an invitation."""

from collections.abc import Mapping
from typing import Any

import django_filters
from django import forms
from django.contrib.auth import authenticate
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.password_validation import password_validators_help_texts
from django.http import HttpRequest

from identity.models import Agent, Invitation
from identity.selectors.filters import ListFilter
from identity.services.people import MAX_INVITATION_DAYS, MAX_NAME_CHARACTERS, MAX_NOTE_CHARACTERS
from memory.selectors.filters import filter_words
from nousweb.access.roles import ROLE_PERMISSIONS

ROLE_WORDS = {
    "Viewer": "views everything, and changes nothing",
    "Reviewer": "decides pending items and manages memory",
    "Administrator": "reviews, creates agents and tokens, and erases data",
    Invitation.OWNER: "may do everything, and manages people",
}
"""Descriptions of the roles, the weakest first."""
ROLES = [(role, f"{role}: {ROLE_WORDS[role]}") for role in (*ROLE_PERMISSIONS, Invitation.OWNER)]


class InvitationForm(forms.Form):
    role = forms.ChoiceField(choices=ROLES)
    note = forms.CharField(
        required=False, max_length=MAX_NOTE_CHARACTERS, label="For whom", help_text="Only owners see it."
    )
    days = forms.TypedChoiceField(
        choices=[(1, "1 day"), (7, "7 days"), (MAX_INVITATION_DAYS, f"{MAX_INVITATION_DAYS} days")],
        coerce=int,
        initial=7,
        label="Expires after",
    )


class PeopleFilter(ListFilter):
    q = django_filters.CharFilter(
        method=filter_words("username", "first_name", "last_name", "email", "roles"), label="Search"
    )


class RoleForm(forms.Form):
    """A person's role; one that may do more than `held` has to be confirmed."""

    role = forms.ChoiceField(choices=ROLES)
    confirmed = forms.BooleanField(
        label="Give more rights than now", error_messages={"required": "Confirm that this person may do more."}
    )

    def __init__(self, data: Mapping[str, Any] | None, *, held: str) -> None:
        super().__init__(data, initial={"role": held})
        ranks = {role: rank for rank, role in enumerate(ROLE_WORDS, 1)}
        if ranks.get(data.get("role", "") if data else held, 0) <= ranks.get(held, 0):
            del self.fields["confirmed"]


class AgentsForm(forms.Form):
    """The agents that a person's role is for."""

    limited = forms.ChoiceField(
        label="The role is for",
        choices=[("", "All agents, including future ones"), ("yes", "Only the agents below")],
        required=False,
        widget=forms.RadioSelect,
    )
    agents = forms.ModelMultipleChoiceField(
        queryset=Agent.objects.order_by("slug"),
        required=False,
        label="Agents",
        to_field_name="slug",
        widget=forms.CheckboxSelectMultiple,
        help_text="This person cannot see other agents: not in lists, counts or the search, and not by their address.",
    )

    @property
    def chosen(self) -> list[Agent] | None:
        """None for all."""
        return list(self.cleaned_data["agents"]) if self.cleaned_data["limited"] else None


class CodeForm(forms.Form):
    """A code of an authenticator app, or where one logs in a recovery code."""

    code = forms.CharField(
        max_length=40,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false", "autofocus": True}
        ),
    )


class RequirementsForm(forms.Form):
    """The roles of which a second factor is required."""

    roles = forms.MultipleChoiceField(
        required=False,
        choices=[(role, role) for role in ROLE_WORDS],
        label="Required for",
        widget=forms.CheckboxSelectMultiple,
    )


class AcceptForm(forms.Form):
    """The account that an invited person makes."""

    username = forms.CharField(
        max_length=MAX_NAME_CHARACTERS,
        label="Name",
        help_text="You log in with this name, and records of your decisions show it.",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        strip=False,
        help_text=" ".join(password_validators_help_texts()),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        strip=False, label="Repeat the password", widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("password") and given.get("again") and given["password"] != given["again"]:
            self.add_error("again", "The two passwords are different.")
        return given


class NameForm(forms.Form):
    """A person's full name."""

    first_name = forms.CharField(
        required=False, max_length=MAX_NAME_CHARACTERS, widget=forms.TextInput(attrs={"autocomplete": "given-name"})
    )
    last_name = forms.CharField(
        required=False, max_length=MAX_NAME_CHARACTERS, widget=forms.TextInput(attrs={"autocomplete": "family-name"})
    )


class MailForm(forms.Form):
    """A person's e-mail settings."""

    email = forms.EmailField(
        required=False, label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    at_once = forms.BooleanField(required=False, label="E-mail me high-risk items immediately")
    digest = forms.BooleanField(required=False, label="E-mail me the pending items each morning")


class OwnPasswordForm(PasswordChangeForm):
    """A new password for the signed-in person. Wrong old passwords count like wrong log-ins, and lock alike: an open
    session must not allow guessing the password."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_old_password(self) -> str:
        given: str = self.cleaned_data["old_password"]
        if authenticate(self.request, username=self.user.get_username(), password=given) is None:
            raise forms.ValidationError(self.error_messages["password_incorrect"], code="password_incorrect")
        return given
