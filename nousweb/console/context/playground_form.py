"""The form of the playground: a message, the other fields of a client's request, and the conversation so far."""

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
    """One message to an agent; `conversation` has the messages before, as this page itself wrote them."""

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
        """Validate the conversation. It comes from the browser, so nothing of it is trusted."""
        try:
            fields = json.loads(self.cleaned_data["conversation"] or "[]")
            messages = tuple(Message(str(one["role"]), str(one["content"])) for one in fields)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise forms.ValidationError("The conversation cannot be read. Send again to begin a new one.") from error
        if any(
            one.role != ROLES[place % 2] or not one.content.strip() or unstorable_reason(one.content)
            for place, one in enumerate(messages)
        ):
            raise forms.ValidationError("The conversation cannot be read. Send again to begin a new one.")
        if len(messages) > MAX_TALK_MESSAGES or sum(len(one.content) for one in messages) > MAX_TALK_CHARACTERS:
            raise forms.ValidationError("The conversation is too long. Send again to begin a new one.")
        return messages

    def as_request(self) -> ContextRequest:
        """The message as a request of the agent's client. Raises Invalid, naming the field."""
        fields = self.cleaned_data
        if not fields["session"]:
            raise Invalid("Enter a name for the session.", field="session_id")
        return ContextRequest(
            session_id=fields["session"],
            input=fields["input"],
            profile=fields["profile"] or None,
            project=fields["project"],
            conversation=fields["conversation"],
        )

    def inspector_query(self, max_length: int) -> str:
        """The query of the same request for the inspector, without the conversation if it exceeds `max_length`."""
        fields = self.cleaned_data
        values = {name: fields[name] for name in ("input", "profile", "project", "session") if fields[name]}
        with_talk = {**values, "conversation": conversation_write(fields["conversation"])}
        query = urlencode(with_talk if fields["conversation"] else values)
        return query if len(query) <= max_length else urlencode(values)[:max_length]


def conversation_json(messages: tuple[Message, ...]) -> str:
    """Messages as JSON for the form's hidden field."""
    return json.dumps([{"role": one.role, "content": one.content} for one in messages])
