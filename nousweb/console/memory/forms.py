"""Forms of the pages of memory."""

import hashlib
import json
from functools import partial
from typing import Any

from django import forms

from memory.models import Censor, Decision, Episode, ItemType, Scope
from memory.policy import (
    DEFAULT_CATEGORY,
    KNOWN_CATEGORIES,
    MAX_ATTRIBUTE_CHARACTERS,
    MAX_CONTENT_CHARACTERS,
    MAX_DETAIL_CHARACTERS,
    MAX_REMARK_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    PROFILE_CATEGORIES,
)
from memory.selectors.filters import MomentInput
from nousweb.console.common import SHORTCUTS
from nousweb.lib.bounds import MAX_KEY_CHARACTERS, MAX_QUERY_CHARACTERS

_attribute = partial(forms.CharField, max_length=MAX_ATTRIBUTE_CHARACTERS, required=False)
_value = partial(forms.CharField, max_length=MAX_VALUE_CHARACTERS, required=False)
_EXPIRES_AT = forms.DateTimeField(
    required=False,
    widget=MomentInput(),
    label="Expires",
    help_text="UTC. It is left out everywhere from then on, and erased later. Empty: it does not expire.",
)


class StoredForm(forms.Form):
    """A form of what is stored: it does not overwrite, unseen, what others stored since it was shown."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = json.dumps(self.initial, sort_keys=True, default=str)
        self.initial["shown"] = hashlib.sha256(stored.encode()).hexdigest()[:16]
        self.fields["shown"] = forms.CharField(required=False, widget=forms.HiddenInput())

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.pop("shown", "") not in ("", self.initial["shown"]):
            # Whoever saves again has read this.
            self.data = {**dict(self.data.items()), "shown": self.initial["shown"]}
            raise forms.ValidationError(
                "It has changed since this page was opened. Look at it in another tab, or save again to replace it."
            )
        return self.cleaned_data


class TagsField(forms.CharField):
    """Tags, parted by commas."""

    def to_python(self, value: Any) -> Any:
        return [tag for part in (super().to_python(value) or "").split(",") if (tag := part.strip())]

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value


class ProjectForm(forms.Form):
    """How far a memory reaches, and the keys of its project and task."""

    scope = forms.ChoiceField(
        choices=Scope.choices, initial=Scope.GLOBAL, help_text="Determined by project and task if one is given."
    )
    project = forms.CharField(
        max_length=MAX_KEY_CHARACTERS, required=False, help_text="Key of the project; leave empty for none."
    )
    task = forms.CharField(
        max_length=MAX_KEY_CHARACTERS,
        required=False,
        help_text="Key of a task, with or without a project; leave empty for none.",
    )


class LabelsForm(forms.Form):
    """The importance and the tags of a memory."""

    importance = forms.FloatField(
        min_value=0, max_value=1, widget=forms.NumberInput(attrs={"step": "0.05"}), help_text="0 to 1."
    )
    tags = TagsField(required=False, max_length=1200, help_text="Separate with commas.")


class FactForm(ProjectForm):
    """A fact that a person adds."""

    content = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Fact",
        help_text="One true statement, in one sentence.",
    )
    subject = forms.CharField(max_length=200, required=False, help_text="The person or thing that the fact is about.")
    attribute = _attribute(help_text="What the fact says of its subject, such as “job title”.")
    value = _value(help_text="The value of the attribute, such as “nurse”.")
    category = forms.ChoiceField(
        choices=[
            (name, f"{name} (always in the prompt)" if name in PROFILE_CATEGORIES else name)
            for name in KNOWN_CATEGORIES
        ],
        initial=DEFAULT_CATEGORY,
    )
    confidence = forms.FloatField(
        min_value=0,
        max_value=1,
        initial=1.0,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
        help_text="How sure you are: 0 is a guess, 1 is certain.",
    )
    importance = forms.FloatField(
        min_value=0,
        max_value=1,
        initial=0.5,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
        help_text="From 0 to 1; 0.5 is usual.",
    )
    source = forms.CharField(max_length=200, required=False, help_text="Where the information comes from.")
    expires_at = _EXPIRES_AT

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("value") and not self.cleaned_data.get("attribute"):
            self.add_error("attribute", "Name the attribute that has this value.")
        return self.cleaned_data


class RemarkForm(forms.Form):
    """Why something is done; the history keeps it."""

    reason = forms.CharField(
        max_length=MAX_REMARK_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Stays in the history, with your name.",
    )


class FactRestoreForm(RemarkForm):
    """Why a fact is restored, and whether the person also verifies it."""

    endorse = forms.BooleanField(
        required=False,
        label="Verify it too",
        help_text="Then it counts as verified by people: no token can replace it. Else it is restored as it was.",
    )


class ExpiryForm(RemarkForm):
    """When a memory expires."""

    expires_at = _EXPIRES_AT
    field_order = ("expires_at", "reason")


class FactSupersedeForm(RemarkForm):
    """The superseding fact, and since when it is true."""

    content = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="New fact",
        help_text="The new fact keeps the subject, category, tags and importance of the old one.",
    )
    at = forms.DateTimeField(
        required=False,
        widget=MomentInput(),
        label="Since",
        help_text="When it became true, UTC. Empty means now.",
    )
    attribute = _attribute(help_text="What the new fact says of its subject; empty means that of the old one.")
    value = _value(help_text="The new value of the attribute.")
    field_order = ("content", "attribute", "value", "at", "reason")


class FactEditForm(StoredForm, ProjectForm, LabelsForm, RemarkForm):
    """Category and metadata of a fact."""

    category = forms.CharField(max_length=50, help_text="A lower-case word. Agents may use their own words.")
    field_order = ("category", "scope", "project", "task", "importance", "tags", "reason")


class CensorForm(forms.Form):
    """A censor that a person makes."""

    match = forms.ChoiceField(
        choices=Censor.Match.choices,
        label="Match by",
        help_text="A pattern matches characters (RE2 syntax, ignoring case); a meaning compares meanings of sentences.",
    )
    pattern = forms.CharField(
        max_length=1_000,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "class": "mono is-low"}),
        label="Pattern or meaning",
    )
    severity = forms.ChoiceField(
        choices=Censor.Severity.choices,
        help_text="Warn lets the text pass and warns the agent; block and absolute block the text.",
    )
    reason = forms.CharField(
        max_length=MAX_REMARK_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Shown to the agent when the censor triggers.",
    )
    domain = forms.CharField(max_length=50, required=False, help_text="A lower-case word. Empty means everywhere.")
    similarity_threshold = forms.FloatField(
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.01"}),
        label="Minimum similarity",
        help_text="For a meaning only: 0 to 1. Empty uses the default of the embedding model.",
    )
    escalation_threshold = forms.IntegerField(
        min_value=1,
        max_value=1_000,
        initial=5,
        help_text="After this number of activations the censor may escalate automatically.",
    )


class CensorEditForm(StoredForm, CensorForm):
    """The changeable fields of a censor; its kind of matching stays."""

    match = None  # type: ignore[assignment]
    active = forms.BooleanField(required=False, label="In force")
    message = forms.CharField(
        max_length=MAX_REMARK_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        label="Reason for the change",
        help_text="Stays in the audit trail.",
    )


class BenchForm(forms.Form):
    """A text to try."""

    text = forms.CharField(
        max_length=MAX_DETAIL_CHARACTERS,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "placeholder": "Text to test"}),
    )
    domain = forms.CharField(max_length=50, required=False, help_text="Excludes the censors of other domains.")


class DecisionReviewForm(forms.Form):
    """The outcome of a decision."""

    outcome = forms.ChoiceField(choices=Decision.Outcome.choices)
    note = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What happened, and what it shows about the reasons. Search includes this note.",
    )


class LinesField(forms.CharField):
    """Texts, one a line; empty lines count for nothing."""

    widget = forms.Textarea(attrs={"rows": 4})

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (super().to_python(value) or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value


class EpisodeForm(StoredForm, LabelsForm):
    """The description of an episode."""

    title = forms.CharField(max_length=200, required=False)
    summary = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text="Your text is kept. Background jobs replace only summaries that they created.",
    )
    active = forms.BooleanField(required=False, label="Shown in search and prompts")
    field_order = ("title", "summary", "tags", "importance", "active")


class EpisodeCloseForm(forms.Form):
    """The end of an episode."""

    outcome = forms.ChoiceField(choices=Episode.Outcome.choices, help_text="Leave empty if you do not know.")
    summary = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="If empty, a background job creates it from the transcript.",
    )
    lessons = LinesField(required=False, help_text="One per line.")
    ended_at = forms.DateTimeField(
        required=False, widget=MomentInput(), label="Ended", help_text="UTC. Empty means now."
    )


class ProcedureForm(StoredForm, ProjectForm, LabelsForm):
    """A way of doing something, as it is written down."""

    name = forms.CharField(max_length=200)
    description = forms.CharField(
        max_length=MAX_CONTENT_CHARACTERS, required=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    steps = LinesField(
        required=False, widget=forms.Textarea(attrs={"rows": 8}), help_text="One per line, in order; at most 40."
    )
    domain = forms.CharField(max_length=50, required=False, help_text="A lower-case word.")
    field_order = ("name", "description", "steps", "domain", "scope", "project", "task", "importance", "tags")


class SearchForm(forms.Form):
    """A search of an agent's memory by hand."""

    q = forms.CharField(
        max_length=MAX_QUERY_CHARACTERS,
        label="Question or words",
        widget=forms.TextInput(attrs={"type": "search", "autocomplete": "off", "data-key": SHORTCUTS["search"].key}),
    )
    type = forms.ChoiceField(required=False, choices=[("", "Every type"), *ItemType.choices], label="Type")
    project = forms.CharField(required=False, max_length=MAX_KEY_CHARACTERS, label="Project")
    task = forms.CharField(required=False, max_length=MAX_KEY_CHARACTERS, label="Task")
    user = forms.CharField(required=False, max_length=MAX_KEY_CHARACTERS, label="User")
