"""Forms of the identity pages. Services validate; forms keep the entered values."""

from typing import Any

from django import forms
from django.utils.text import slugify

from identity.models import Agent, AgentKind
from identity.policy.sections import MAX_REASON_CHARACTERS, MAX_SECTION_CHARACTERS
from nousweb.console.common import SHORTCUTS


class AgentSearchForm(forms.Form):
    q = forms.CharField(
        label="Search",
        required=False,
        max_length=100,
        widget=forms.SearchInput({"placeholder": "Name or slug", "data-key": SHORTCUTS["search"].key}),
    )


_NAMES = ((kind.value, *kind.label.split(": ")) for kind in AgentKind)
KINDS = [(key, f"{does.capitalize()} ({name.lower()})") for key, name, does in _NAMES]


class AgentForm(forms.Form):
    """An agent's name and kind."""

    name = forms.CharField(max_length=100, help_text="The name shown in the console.")
    kind = forms.ChoiceField(
        choices=KINDS, initial=AgentKind.SQUIRE, help_text="What the agent does, and so what its prompts prefer."
    )


class NewAgentForm(AgentForm):
    """Everything that an agent starts with."""

    name = forms.CharField(
        max_length=100, help_text="The name shown in the console.", widget=forms.TextInput(attrs={"autofocus": True})
    )
    slug = forms.CharField(
        max_length=50,
        required=False,
        help_text="Part of its address and cannot be changed: lower-case letters, digits, - and _. "
        "Left empty, it is made from the name.",
    )
    prompt = forms.CharField(
        label="First character",
        required=False,
        max_length=MAX_SECTION_CHARACTERS,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "true", "class": "mono"}),
        help_text="Who the agent is: role, voice, temperament. Becomes version 1 of its character. "
        "Left empty, the agent stays new until somebody writes its identity.",
    )
    facts_from = forms.ModelChoiceField(
        label="Preferences from facts of",
        queryset=Agent.objects.order_by("name", "slug"),
        required=False,
        empty_label="No agent",
        to_field_name="slug",
        help_text="What that agent knows of its user (facts of the categories person, preference and rule, but none of "
        "its subconscious) becomes version 1 of the new one’s preferences. The facts stay where they are.",
    )
    field_order = ["name", "slug", "kind", "prompt", "facts_from"]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if not given.get("slug") and "slug" not in self.errors:
            given["slug"] = slugify(given.get("name", ""))[:50]
            if given.get("name") and not given["slug"]:
                self.add_error("slug", "The name has no letters or digits for it: choose one.")
        return given


class ReasonForm(forms.Form):
    """Why something is done; kept with the version and in the audit trail."""

    reason = forms.CharField(
        required=False,
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Shown to reviewers and in the audit trail.",
    )


class RollbackForm(ReasonForm):
    base_version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)


class ProposeForm(RollbackForm):
    """A section's new text, and the version that it was made from."""

    content = forms.CharField(
        label="Text",
        required=False,
        # Its length is the service's to judge, in words that say how much is too much.
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "true"}),
    )
    field_order = ["content", "reason", "base_version"]


class CompareForm(forms.Form):
    """The two versions to compare; 0 stands for the empty section before its first version."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # "from" is the address's word and cannot be a Python name.
        for name in ("from", "to"):
            self.fields[name] = forms.IntegerField(min_value=0, max_value=2**31 - 1)
