"""Forms of the memory screens."""

from django import forms

from memory.models import Scope
from memory.policy import DEFAULT_CATEGORY, KNOWN_CATEGORIES, MAX_CONTENT_CHARACTERS, PROFILE_CATEGORIES


class FactForm(forms.Form):
    """A fact that a person adds."""

    content = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Fact",
        help_text="One thing that is true, in one sentence.",
    )
    subject = forms.CharField(max_length=200, required=False, help_text="Whom or what it is about.")
    category = forms.ChoiceField(
        choices=[
            (name, f"{name} (always in the prompt)" if name in PROFILE_CATEGORIES else name)
            for name in KNOWN_CATEGORIES
        ],
        initial=DEFAULT_CATEGORY,
    )
    scope = forms.ChoiceField(choices=Scope.choices, initial=Scope.GLOBAL)
    confidence = forms.FloatField(
        min_value=0, max_value=1, initial=1.0, widget=forms.NumberInput(attrs={"step": "0.05"}), help_text="0 to 1."
    )
    importance = forms.FloatField(
        min_value=0, max_value=1, initial=0.5, widget=forms.NumberInput(attrs={"step": "0.05"}), help_text="0 to 1."
    )
    source = forms.CharField(max_length=200, required=False, help_text="Where you have it from.")
