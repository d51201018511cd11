"""Forms of the context console."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.utils import timezone

from context.engine.analysis.frames import FRAMES
from context.engine.analysis.profiles import MODE_WEIGHTS
from context.engine.analysis.request import MAX_INPUT_CHARACTERS, ContextRequest, Message
from context.engine.section_budgets import MAX_TOTAL
from context.expectations import policy
from context.models import ContextProfile, ContextRun, Expectation
from identity.models import Persona
from memory.models import ItemType
from memory.selectors.filters import MomentInput
from nousweb.console.common import section_label
from nousweb.console.context.presentation import SORTS, VERDICT_FILTERS
from nousweb.lib import clock
from nousweb.lib.bounds import MAX_KEY_CHARACTERS
from nousweb.lib.errors import Invalid, existing

_KEY = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{1,19}"
_MEMORY = re.compile(rf"(?P<type>{'|'.join(ItemType.values)})s?[ /:]+(?P<id>{_KEY})")
_MESSAGE = re.compile(r"^(?P<role>[A-Za-z][\w -]{0,49}):[ \t]?(?P<content>.*)$")


def conversation_read(text: str) -> tuple[Message, ...]:
    """Messages from lines "role: text"; a line that begins with a blank continues the one before.

    Raises Invalid, naming the line.
    """
    messages: list[Message] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        if line[0].isspace() and messages:
            last = messages.pop()
            messages.append(Message(last.role, f"{last.content}\n{line.strip()}"))
            continue
        found = existing(
            _MESSAGE.match(line.strip()),
            Invalid(
                f"Line {number} has no speaker: write “user: …” or “assistant: …”; start a line with a space to "
                "continue the previous message.",
                field="conversation",
            ),
        )
        messages.append(Message(found["role"].strip().lower(), found["content"].strip()))
    return tuple(messages)


def conversation_write(messages: tuple[Message, ...]) -> str:
    """Messages as `conversation_read` reads them."""
    return "\n".join(f"{message.role or 'user'}: " + message.content.replace("\n", "\n  ") for message in messages)


def words_read(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in re.split(r"[,\n]", text) if word.strip()))


def profile_choices() -> list[tuple[str, str]]:
    """The profiles to choose from; those of a kind of agents with what these do."""
    return [
        (one.slug, one.name + (f": {one.get_kind_display().rpartition(': ')[2]}" if one.kind else ""))
        for one in ContextProfile.objects.all()[:200]
    ]


class SettingsField(forms.JSONField):
    """JSON that is empty where there is none: the plain field writes "null" or quotes."""

    def prepare_value(self, value: Any) -> Any:
        return super().prepare_value(value) if value else ""


class OrderForm(forms.Form):
    """Which of the memories that were considered are shown, and their order."""

    verdict = forms.ChoiceField(required=False, label="Show", choices=[("", "As usual"), *VERDICT_FILTERS.items()])
    sort = forms.ChoiceField(required=False, label="Order", choices=list(SORTS.items()))


class CandidatesForm(OrderForm):
    """The same of a logged prompt, whose memories can be searched."""

    q = forms.CharField(
        required=False,
        label="With the words",
        max_length=200,
        widget=forms.TextInput({"type": "search", "placeholder": "With the words"}),
    )


class InspectorForm(OrderForm):
    """One question to the engine, as a person asks it."""

    input = forms.CharField(
        max_length=MAX_INPUT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 1, "placeholder": "A message to the agent"}),
        label="Input",
    )
    conversation = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "user: …\nassistant: …"}),
        label="Conversation so far",
        help_text="One message per line, with its speaker.",
    )
    frame = forms.ChoiceField(
        required=False,
        label="Kind of question",
        choices=[("", "Automatic"), *((key, frame.label) for key, frame in FRAMES.items())],
    )
    profile = forms.ChoiceField(required=False, label="Profile")
    project = forms.CharField(required=False, label="Project", max_length=MAX_KEY_CHARACTERS)
    task = forms.CharField(required=False, label="Task", max_length=MAX_KEY_CHARACTERS)
    user = forms.CharField(required=False, label="User", max_length=MAX_KEY_CHARACTERS)
    included = forms.CharField(
        required=False, label="Other projects too", widget=forms.TextInput(attrs={"placeholder": "atlas, borealis"})
    )
    mode = forms.ChoiceField(
        required=False,
        label="Task mode",
        choices=[("", "None"), *((mode, mode.replace("_", " ").capitalize()) for mode in MODE_WEIGHTS)],
    )
    budget = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_TOTAL,
        label="Total budget",
        widget=forms.NumberInput(attrs={"placeholder": "automatic", "title": "In tokens", "step": 1}),
    )
    fill = forms.BooleanField(
        required=False, label="Fill the budget", help_text="Adds less relevant memories while there is room."
    )
    pending = forms.BooleanField(required=False, label="Pending memories too", help_text="Those that wait for consent.")
    profile_override = SettingsField(
        required=False,
        label="Instead of the profile’s settings",
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": '{"min_importance": 0.2}', "spellcheck": "false"}),
        help_text="As JSON, for this prompt only: nothing is saved.",
        error_messages={"invalid": 'This is not valid JSON. Write settings like {"min_importance": 0.2}.'},
    )
    tags = forms.CharField(required=False, label="Task tags", widget=forms.TextInput(attrs={"placeholder": "a, b"}))
    paths = forms.CharField(
        required=False, label="Task files", widget=forms.TextInput(attrs={"placeholder": "src/a.py, b.md"})
    )
    session = forms.CharField(
        max_length=200, required=False, label="Session", widget=forms.TextInput(attrs={"placeholder": "preview"})
    )
    persona = forms.ChoiceField(
        required=False,
        label="Persona",
        choices=Persona.choices,
        widget=forms.Select(attrs={"title": "The actor answers people; the subconscious keeps memories of its own"}),
    )

    missing = forms.CharField(
        required=False,
        max_length=200,
        label="Why not this memory?",
        # Without the attribute, what is typed while an answer comes would be lost.
        widget=forms.TextInput(attrs={"placeholder": "Words of it", "hx-preserve": "true"}),
    )

    def __init__(self, *args: Any, subconscious: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["profile"].choices = [("", "As assigned"), *profile_choices()]  # type: ignore[attr-defined]
        if not subconscious:
            del self.fields["persona"]

    @property
    def uses_more(self) -> bool:
        """Whether a field that is folded away has a value of its own, or an error."""
        first = ("input", "persona", "frame", "budget", "verdict", "sort", "missing")
        others = [self[name] for name in self.fields if name not in first]
        return any(field.errors or field.value() not in (None, "", False, "preview") for field in others)

    def clean_profile_override(self) -> dict[str, Any]:
        given = self.cleaned_data["profile_override"]
        if given is not None and not isinstance(given, dict):
            raise forms.ValidationError("Write the settings as an object, by name.")
        return given or {}

    def clean_conversation(self) -> tuple[Message, ...]:
        try:
            return conversation_read(self.cleaned_data["conversation"])
        except Invalid as error:
            raise forms.ValidationError(error.detail) from error

    def as_request(self, as_of: datetime | None = None) -> ContextRequest:
        """The question, for a preview that leaves no trace. Raises Invalid, naming the field."""
        given = self.cleaned_data
        return ContextRequest(
            session_id=given["session"] or "preview",
            input=given["input"],
            frame=given["frame"] or None,
            profile=given["profile"] or None,
            conversation=given["conversation"],
            mode=given["mode"] or None,
            tags=words_read(given["tags"]),
            files=words_read(given["paths"]),
            budget=given["budget"],
            profile_override=given["profile_override"],
            fill=given["fill"],
            as_of=given.get("as_of", as_of),
            project=given["project"],
            task=given["task"],
            user=given["user"],
            include_projects=words_read(given["included"]),
            dry_run=True,
            explain=True,
        )


class ExpectationForm(InspectorForm):
    """A question, and the requirement on its prompt."""

    missing = None  # type: ignore[assignment]  # Django: a field less
    as_of = forms.DateTimeField(required=False, label="As of (UTC)", widget=MomentInput())
    target = forms.ChoiceField(
        choices=[
            (Expectation.Target.MEMORY, "A memory"),
            (Expectation.Target.TEXT, "Words"),
            (Expectation.Target.SECTION, "A section"),
        ],
        initial=Expectation.Target.MEMORY,
        label="What it is about",
        widget=forms.RadioSelect,
    )
    requirement = forms.ChoiceField(choices=Expectation.Requirement.choices, label="Requirement")
    item = forms.CharField(
        required=False,
        max_length=500,
        label="Memory",
        widget=forms.TextInput(attrs={"placeholder": "Words of it, or the address of its page"}),
    )
    text = forms.CharField(required=False, max_length=policy.MAX_TEXT_CHARACTERS, label="Words")
    section = forms.ChoiceField(
        required=False,
        label="Section",
        choices=[("", "None"), *((name, section_label(name)) for name in policy.SECTIONS)],
    )
    reason = forms.CharField(
        required=False,
        max_length=policy.MAX_REASON_CHARACTERS,
        label="Why",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["input"].label = "Question"
        for name in ("verdict", "sort"):
            del self.fields[name]

    def clean_as_of(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["as_of"]
        if moment and moment > clock.now():
            raise forms.ValidationError("This moment is in the future.")
        return moment

    def as_demand(self, named: Callable[[str], Sequence[tuple[str, str]]]) -> dict[str, Any]:
        """The fields for the services of expectations.

        `named` finds memories by words, each as "fact <id>" and its text. Raises Invalid if `item` contains words: the
        field then becomes a choice of the found memories.
        """
        given = self.cleaned_data
        target = given["target"]
        demand = {name: given[name] for name in ("requirement", "target", "reason")}
        demand |= {"item_type": "", "item_id": "", "text": "", "section": ""}
        if target == Expectation.Target.MEMORY:
            found = _MEMORY.search(given["item"])
            if found is None:
                offered = named(given["item"])
                if not offered:
                    raise Invalid("No memory contains these words.", field="item")
                self.fields["item"].widget = forms.RadioSelect(choices=offered)
                raise Invalid("Choose a memory.", field="item")
            demand |= {"item_type": found["type"], "item_id": found["id"]}
        elif target == Expectation.Target.TEXT:
            demand["text"] = given["text"]
        else:
            demand["section"] = given["section"]
        return {**demand, "request": self.as_request()}


def expectation_values(expectation: Expectation) -> dict[str, Any]:
    """An expectation as values of ExpectationForm."""
    item = f"{expectation.item_type} {expectation.item_id}".strip()
    names = ("requirement", "target", "text", "section", "reason")
    own = {"item": item, "profile_override": ContextRequest.of_json(expectation.request).profile_override}
    return {**inspector_values(expectation), **own, **{name: getattr(expectation, name) for name in names}}


def inspector_values(run: ContextRun | Expectation) -> dict[str, Any]:
    """A logged or an expected request as values of InspectorForm."""
    request = ContextRequest.of_json(run.request)
    return {
        "input": request.input,
        "conversation": conversation_write(request.conversation),
        "frame": request.frame or "",
        "profile": request.profile or "",
        "mode": request.mode or "",
        "project": request.project,
        "task": request.task,
        "user": request.user,
        "included": ", ".join(request.include_projects),
        "budget": request.budget or "",
        "fill": "on" if request.fill else "",
        "profile_override": json.dumps(request.profile_override) if request.profile_override else "",
        "tags": ", ".join(request.tags),
        "paths": ", ".join(request.files),
        "as_of": timezone.localtime(request.as_of).strftime("%Y-%m-%dT%H:%M") if request.as_of else "",
        "session": request.session_id,
        "persona": run.persona,
    }
