"""The playground: talk to an agent, and see which memories its answer rests on. Nothing is kept unless it is wanted."""

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from context.engine.analysis.request import ContextRequest, Message
from context.models import VIEW_RUN, ContextRun
from context.services.context import context_assemble
from context.services.playground import TALK, PlaygroundTurn, playground_turn
from identity.models import Agent, Persona
from identity.principal import Principal
from memory.services.model_chat import ChatAnswer, chat_model, chat_model_place
from nousweb.console.common import FORM, agent_page, refused_on
from nousweb.console.context.forms import conversation_write, profile_choices
from nousweb.console.context.presentation import PromptView, check_view, contested_links
from nousweb.console.context.views.inspector import MAX_ADDRESS_CHARACTERS, questions_asked
from nousweb.lib.bounds import MAX_KEY_CHARACTERS
from nousweb.lib.errors import Invalid
from nousweb.lib.validation import unstorable_reason

MAX_MESSAGE_CHARACTERS = 20_000
MAX_TALK_MESSAGES = 60
MAX_TALK_CHARACTERS = 200_000
ROLES = ("user", "assistant")
GIVEN = ("input", "profile", "project", "user", "session")
"""The fields that an address may fill."""
PREVIEW = "preview"
"""The session of a prompt that no message asks for."""


class PlaygroundForm(forms.Form):
    """One message to an agent; `conversation` has the messages before, as this page itself wrote them."""

    input = forms.CharField(
        max_length=MAX_MESSAGE_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "Your message to the agent"}),
        label="Message",
    )
    profile = forms.ChoiceField(
        required=False, label="Profile", choices=lambda: [("", "As assigned"), *profile_choices()]
    )
    project = forms.CharField(required=False, label="Project", max_length=MAX_KEY_CHARACTERS)
    user = forms.CharField(required=False, label="User", max_length=MAX_KEY_CHARACTERS)
    session = forms.CharField(required=False, label="Session", max_length=100)
    keep = forms.BooleanField(
        required=False,
        label="Keep this conversation",
        help_text="The agent then remembers it. Otherwise only the number of tokens is recorded.",
    )
    conversation = forms.CharField(required=False, max_length=2 * MAX_TALK_CHARACTERS, widget=forms.HiddenInput)

    def clean_conversation(self) -> tuple[Message, ...]:
        return self.read("conversation")

    def read(self, name: str) -> tuple[Message, ...]:
        """Validate a conversation. It comes from the browser, so nothing of it is trusted."""
        try:
            fields = json.loads(self.cleaned_data[name] or "[]")
            messages = tuple(Message(str(field["role"]), str(field["content"])) for field in fields)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise forms.ValidationError("The conversation cannot be read. Send again to begin a new one.") from error
        if any(
            one.role != ROLES[place % 2] or not one.content.strip() or unstorable_reason(one.content)
            for place, one in enumerate(messages)
        ):
            raise forms.ValidationError("The conversation cannot be read. Send again to begin a new one.")
        if len(messages) > MAX_TALK_MESSAGES or sum(len(message.content) for message in messages) > MAX_TALK_CHARACTERS:
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
            user=fields["user"],
            conversation=fields["conversation"],
        )

    def inspector_query(self, max_length: int) -> str:
        """The query of the same request for the inspector, without the conversation if it exceeds `max_length`."""
        fields = self.cleaned_data
        values = {name: fields[name] for name in ("input", "profile", "project", "user", "session") if fields[name]}
        with_talk = {**values, "conversation": conversation_write(fields["conversation"])}
        query = urlencode(with_talk if fields["conversation"] else values)
        return query if len(query) <= max_length else urlencode(values)[:max_length]


@dataclass(frozen=True, slots=True)
class PromptPane:
    """A prompt with the memories in it and the nearest that are not, as it stands beside a conversation."""

    shown: PromptView
    inspector_url: str

    @property
    def found(self) -> list[dict[str, Any]]:
        """The memories in the prompt that were searched for the message."""
        return [one for one in self.shown.memories if not one["always"]]

    @property
    def found_tokens(self) -> int:
        return sum(one["tokens"] for one in self.found)

    @property
    def rest(self) -> int:
        """The tokens of the prompt that are neither of these memories nor in every prompt."""
        always = sum(part["tokens"] for part in self.shown.always)
        return max(self.shown.record.tokens - self.found_tokens - always, 0)


@dataclass(frozen=True, slots=True)
class TurnView(PromptPane):
    """A turn with the other values of its page."""

    turn: PlaygroundTurn

    @property
    def answer_check(self) -> dict[str, Any] | None:
        """The check of the answer, if there is one."""
        return check_view(self.shown.slug, self.turn.answer_check)


@agent_page(TALK, methods=FORM, fresh=True)
def agent_playground(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The conversation so far and the next message; the conversation travels with the form, so that none is stored.

    With `preview`, only the prompt that the message would get, while it is typed: nothing is sent.
    """
    if "preview" in request.POST:
        return _previewed(request, agent, by)
    said: tuple[Message, ...] = ()
    last: TurnView | None = None
    given = {name: request.GET[name][:MAX_MESSAGE_CHARACTERS] for name in GIVEN if request.GET.get(name)}
    if request.method == "POST":
        form = PlaygroundForm(request.POST)
        if form.is_valid():
            said = form.cleaned_data["conversation"]
            last = _turn(form, agent, by)
            if last is not None and not (last.turn.blocked or last.turn.failure):
                form = _next(form, last.turn)
        elif "conversation" in form.errors:
            # An invalid value would be refused with each later message too.
            form.data = {**request.POST.dict(), "conversation": ""}
        else:
            said = form.cleaned_data["conversation"]
    else:
        form = PlaygroundForm(initial={"session": f"playground-{secrets.token_hex(4)}", **given})
    if request.htmx:  # type: ignore[attr-defined]
        # The next message is typed where this one was.
        form.fields["input"].widget.attrs["autofocus"] = True
    questions = [] if said or last else questions_asked(agent, by)
    # Before the first message the prompt of the longest question, which asks for the most, is the example.
    longest = max(questions, key=lambda asked: len(asked[0]), default=("", "", 0))
    example, _, logged = ("", "", 0) if given.get("input") or form.is_bound else longest
    context = {
        "agent": agent,
        "form": form,
        "pane": last or _pane(ContextRequest(PREVIEW, given.get("input", example)), agent, by),
        "talk": {
            "example": example,
            "logged": logged,
            "said": said,
            "last": last,
            "model": (model := chat_model()),
            "before": None if model or not last else _answered_before(last.shown.record.request["input"], agent, by),
            "place": chat_model_place(),
            "questions": questions,
        },
    }
    template = f"context/{'_' if request.htmx else ''}playground.html"  # type: ignore[attr-defined]
    return render(request, template, context, status=422 if form.errors else 200)


def _answered_before(words: str, agent: Agent, by: Principal) -> ContextRun | None:
    """The latest prompt for a question whose answer was kept, as far as `by` may see it."""
    runs = ContextRun.objects.visible_to(by).filter(agent=agent, persona=Persona.ACTOR, input=words)
    return runs.exclude(response="").first() if by.may(VIEW_RUN) else None


def _previewed(request: HttpRequest, agent: Agent, by: Principal) -> HttpResponse:
    form = PlaygroundForm(request.POST)
    with suppress(Invalid):
        if form.is_valid():
            shown = {"agent": agent, "pane": _pane(form.as_request(), agent, by)}
            return render(request, "context/_playground_pane.html", shown)
    return HttpResponse(status=204)


def _pane(wanted: ContextRequest, agent: Agent, by: Principal) -> PromptPane:
    """The prompt of a request that is not sent. Leaves no trace. Raises Invalid."""
    record = context_assemble(agent=agent, request=replace(wanted, dry_run=True), by=by)
    shown = PromptView(agent.slug, record, contested_links(record, agent, by))
    return PromptPane(shown, f"{reverse('agent_context', args=[agent.slug])}?{urlencode({'input': wanted.input})}")


def _turn(form: PlaygroundForm, agent: Agent, by: Principal) -> TurnView | None:
    """Run one turn; None if the form has an error, which it then shows."""
    with refused_on(form, refusals=(), session_id="session"):
        turn = playground_turn(agent=agent, request=form.as_request(), keep=form.cleaned_data["keep"], by=by)
        return turn_view(form, turn, agent, by)
    return None


def turn_view(form: PlaygroundForm, turn: PlaygroundTurn, agent: Agent, by: Principal) -> TurnView:
    """The view of a turn of a valid form."""
    shown = PromptView(agent.slug, turn.record, contested_links(turn.record, agent, by))
    query = form.inspector_query(MAX_ADDRESS_CHARACTERS)
    return TurnView(shown, f"{reverse('agent_context', args=[agent.slug])}?{query}", turn)


def _next(form: PlaygroundForm, turn: PlaygroundTurn) -> PlaygroundForm:
    """The form for the next message, with this one and its answer, if there is one, in the conversation."""
    given = form.cleaned_data
    kept = {name: given[name] for name in ("profile", "project", "user", "session", "keep")}
    conversation = conversation_with(given["conversation"], given["input"], turn.answer)
    return PlaygroundForm(initial={**kept, "conversation": conversation})


def conversation_with(said: tuple[Message, ...], asked: str, answer: ChatAnswer | None) -> str:
    """A conversation and its next two messages, as the form carries it; without them where nobody answered."""
    if answer and answer.text:
        said = (*said, Message("user", asked), Message("assistant", answer.text))
    return json.dumps([{"role": message.role, "content": message.content} for message in said])
