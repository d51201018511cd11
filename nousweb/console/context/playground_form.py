"""The form of the playground: a message, what the agent's client would say with it, and the conversation so far."""

import json
import secrets
from typing import Any
from urllib.parse import urlencode

from django import forms

from context.engine.analysis.request import ContextRequest, Message
from context.models import ContextProfile
from nousweb.console.context.forms import conversation_write
from nousweb.lib.constrained_types import MAX_KEY_CHARACTERS
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import unstorable_reason

MAX_MESSAGE_CHARACTERS = 20_000
MAX_TALK_MESSAGES = 60
MAX_TALK_CHARACTERS = 200_000
ROLES = ("user", "assistant")


def session_new() -> str:
    """The name of a session that nobody has used."""
    return f"playground-{secrets.token_hex(4)}"


class PlaygroundForm(forms.Form):
    """One message to an agent; `conversation` is what was said before it, as this page itself wrote it."""

    input = forms.CharField(
        max_length=MAX_MESSAGE_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "Your message to the agent"}),
        label="Message",
    )
    profile = forms.ChoiceField(required=False, label="Profile")
    project = forms.CharField(required=False, label="Project", max_length=MAX_KEY_CHARACTERS)
    session = forms.CharField(required=False, label="Session", max_length=100)
    keep = forms.BooleanField(
        required=False,
        label="Keep this conversation",
        help_text="Logs context, messages and answers as the agent's own client would. The agent remembers them.",
    )
    conversation = forms.CharField(required=False, max_length=2 * MAX_TALK_CHARACTERS, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        profiles = [(slug, name) for slug, name in ContextProfile.objects.values_list("slug", "name")[:200]]
        self.fields["profile"] = forms.ChoiceField(
            required=False, label="Profile", choices=[("", "As assigned"), *profiles]
        )

    def clean_conversation(self) -> tuple[Message, ...]:
        """What was said before. It comes from the browser, so nothing of it is taken for granted."""
        try:
            given = json.loads(self.cleaned_data["conversation"] or "[]")
            said = tuple(Message(str(one["role"]), str(one["content"])) for one in given)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise forms.ValidationError("The conversation cannot be read. Send again to begin a new one.") from error
        if any(
            one.role != ROLES[place % 2] or not one.content.strip() or unstorable_reason(one.content)
            for place, one in enumerate(said)
        ):
            raise forms.ValidationError("The conversation cannot be read. Send again to begin a new one.")
        if len(said) > MAX_TALK_MESSAGES or sum(len(one.content) for one in said) > MAX_TALK_CHARACTERS:
            raise forms.ValidationError("The conversation is too long. Send again to begin a new one.")
        return said

    def as_request(self) -> ContextRequest:
        """The message as a request of the agent's client. Raises Invalid, naming the field."""
        given = self.cleaned_data
        if not given["session"]:
            raise Invalid("Enter a name for the session.", field="session_id")
        return ContextRequest(
            session_id=given["session"],
            input=given["input"],
            profile=given["profile"] or None,
            project=given["project"],
            conversation=given["conversation"],
        )

    def inspector_query(self, most: int) -> str:
        """The query by which the inspector asks the same, without the conversation where it is longer than `most`."""
        given = self.cleaned_data
        values = {name: given[name] for name in ("input", "profile", "project", "session") if given[name]}
        with_talk = {**values, "conversation": conversation_write(given["conversation"])}
        query = urlencode(with_talk if given["conversation"] else values)
        return query if len(query) <= most else urlencode(values)[:most]


def conversation_json(said: tuple[Message, ...]) -> str:
    """Messages as the form's hidden field holds them."""
    return json.dumps([{"role": one.role, "content": one.content} for one in said])
