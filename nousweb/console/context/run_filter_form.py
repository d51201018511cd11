"""The filters of the list of logged prompts."""

from typing import Any

from django import forms
from django.db.models import QuerySet

from context.engine.analysis.frames import FRAMES
from context.models import ContextProfile, ContextRun
from identity.selectors.filters import DateInput

OUTCOMES = [("", "Any outcome"), ("success", "Success"), ("failure", "Failure"), ("none", "Not reported")]


class RunFilterForm(forms.Form):
    """Filters of the list of logged runs."""

    q = forms.CharField(required=False, label="Words in the input", max_length=200)
    frame = forms.ChoiceField(
        required=False, choices=[("", "Any frame"), *((key, frame.label) for key, frame in FRAMES.items())]
    )
    profile = forms.ChoiceField(required=False)
    session = forms.CharField(required=False, max_length=200)
    outcome = forms.ChoiceField(required=False, choices=OUTCOMES)
    since = forms.DateField(required=False, label="From", widget=DateInput())
    until = forms.DateField(required=False, label="To", widget=DateInput())
    min_tokens = forms.IntegerField(required=False, min_value=0, max_value=10**6, label="Minimum tokens")
    fingerprint = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        slugs = ContextProfile.objects.values_list("slug", "name")[:200]
        self.fields["profile"] = forms.ChoiceField(
            required=False, choices=[("", "Any profile"), *slugs], label="Profile"
        )

    def apply(self, runs: QuerySet[ContextRun]) -> QuerySet[ContextRun]:
        """The runs that pass; none while a filter cannot be read."""
        if not self.is_valid():
            return runs.none()
        given = self.cleaned_data
        exact = {"frame": "frame", "profile": "profile", "session": "session_id", "fingerprint": "fingerprint_id"}
        runs = runs.filter(**{column: given[name] for name, column in exact.items() if given[name]})
        if given["outcome"]:
            runs = runs.filter(outcome="" if given["outcome"] == "none" else given["outcome"])
        if given["since"]:
            runs = runs.filter(created_at__date__gte=given["since"])
        if given["until"]:
            runs = runs.filter(created_at__date__lte=given["until"])
        if given["min_tokens"]:
            runs = runs.filter(tokens__gte=given["min_tokens"])
        if given["q"]:
            runs = runs.filter(input__icontains=given["q"])
        return runs

    @property
    def is_filtered(self) -> bool:
        return bool(self.is_valid() and any(self.cleaned_data.values()))
