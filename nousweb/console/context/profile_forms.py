"""Forms of profiles; empty fields are inherited."""

from collections.abc import Mapping
from typing import Any

from django import forms

from context.services.profiles import EffectiveSetting
from nousweb.console.context.forms import words_read
from nousweb.console.context.profile_settings import SETTINGS, setting_words

NONE = "none"
"""Typed for a list that is empty on purpose, as nothing typed means inherited."""


class ProfileForm(forms.Form):
    """The own settings of a profile. `effective` has the values that empty fields inherit."""

    reason = forms.CharField(
        required=False,
        max_length=2_000,
        label="Why",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the history.",
    )

    def __init__(self, *args: Any, inherited: Mapping[str, EffectiveSetting], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        made: dict[str, forms.Field] = {}
        for name, setting in SETTINGS.items():
            hint = setting_words(inherited[name].value)
            field: forms.Field
            attrs = {"placeholder": f"inherits {hint}"}
            if setting.form == "yes":
                choices = [("", f"Inherit ({hint})"), ("yes", "Yes"), ("no", "No")]
                field = forms.ChoiceField(required=False, choices=choices)
            elif setting.form == "share":
                widget = forms.NumberInput(attrs={**attrs, "step": "0.01"})
                field = forms.FloatField(required=False, min_value=0, max_value=1, widget=widget)
            elif setting.form == "count":
                widget = forms.NumberInput(attrs={**attrs, "step": "1"})
                field = forms.IntegerField(required=False, min_value=0, max_value=50, widget=widget)
            else:
                field = forms.CharField(required=False, max_length=500, widget=forms.TextInput(attrs=attrs))
            field.label, field.help_text = setting.label, setting.help
            made[name] = field
        self.fields = {**made, **self.fields}

    def values(self) -> dict[str, Any]:
        """The profile's own settings: the fields that were filled in."""
        values: dict[str, Any] = {}
        for name, setting in SETTINGS.items():
            given = self.cleaned_data[name]
            if given in ("", None):
                continue
            if setting.form == "yes":
                values[name] = given == "yes"
            elif setting.form == "words":
                values[name] = [] if given.strip().lower() == NONE else list(words_read(given))
            elif setting.form == "text" and given.strip().lower() == NONE:
                values[name] = ""
            else:
                values[name] = given
        return values

    @staticmethod
    def initial_of(values: Mapping[str, Any]) -> dict[str, Any]:
        """The initial values of the fields for a profile's own settings."""
        return {
            name: values[name] if setting.form in ("share", "count") else setting_words(values[name])
            for name, setting in SETTINGS.items()
            if name in values
        }


class ProfileCopyForm(forms.Form):
    """A profile of one's own that begins as another one is."""

    slug = forms.SlugField(
        max_length=50, label="Short name", help_text="Lower-case letters, digits, - or _. It cannot be changed later."
    )
    name = forms.CharField(max_length=100, label="Name")
    inherit = forms.BooleanField(
        required=False,
        initial=True,
        label="Inherit later changes of the original",
        help_text="If not selected, the current values are written into the copy.",
    )
