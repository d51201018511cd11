"""The playground: talk to an agent, and see which memories its answer rests on. Nothing is kept unless it is wanted."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from context.engine.analysis.request import Message
from context.services.playground import TALK, PlaygroundTurn, playground_model, playground_turn
from identity.models import Agent
from identity.principal import Principal
from identity.selectors import agent_get
from memory.types import MEMORY_TYPES
from nousweb.console.common.view_helpers import form_refuse, principal_of
from nousweb.console.context.contested_links import contested_links
from nousweb.console.context.playground_form import PlaygroundForm, conversation_json, session_new
from nousweb.console.context.presentation import CheckView, PromptView
from nousweb.console.context.views.inspector import MAX_ADDRESS_CHARACTERS
from nousweb.lib.errors import Invalid

LEFT_OUT_SHOWN = 10


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn with the other values of its page."""

    turn: PlaygroundTurn
    shown: PromptView
    inspector_url: str

    @property
    def entered(self) -> list[dict[str, Any]]:
        """The memories in the prompt, in its order, with the section of each."""
        return [
            {"label": row.label, "text": piece.text.removeprefix("- "), "url": piece.url, "tokens": piece.tokens}
            for row in self.shown.rows
            for piece in row.pieces
            if piece.type in MEMORY_TYPES
        ]

    @property
    def left_out(self) -> list[dict[str, Any]]:
        """The memories that were considered and are not in the prompt, the nearest to it first."""
        return [one for one in self.shown.table() if one["verdict"] != "included"]

    @property
    def nearest(self) -> list[dict[str, Any]]:
        return self.left_out[:LEFT_OUT_SHOWN]

    @property
    def answer_check(self) -> CheckView | None:
        """The check of the answer, if there is one."""
        check = self.turn.answer_check
        return CheckView(self.shown.slug, check) if check else None


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_playground(request: HttpRequest, slug: str) -> HttpResponse:
    """The conversation so far and the next message; the conversation travels with the form, so that none is stored."""
    by = principal_of(request)
    by.require(TALK)
    agent = agent_get(slug, by)
    by.require(TALK, agent)
    said: tuple[Message, ...] = ()
    last: TurnView | None = None
    if request.method == "POST":
        form = PlaygroundForm(request.POST)
        if form.is_valid():
            said = form.cleaned_data["conversation"]
            last = _turn(form, agent, by)
            if last is not None and last.turn.answer is not None and not last.turn.blocked:
                form = _next(form, last.turn.answer.text)
        elif "conversation" in form.errors:
            # An invalid value would be refused with each later message too.
            form.data = {**request.POST.dict(), "conversation": ""}
        else:
            said = form.cleaned_data["conversation"]
    else:
        given = {name: request.GET[name] for name in ("profile", "project", "session") if request.GET.get(name)}
        form = PlaygroundForm(initial={"session": session_new(), **given})
    if request.htmx:  # type: ignore[attr-defined]
        # The next message is typed where this one was.
        form.fields["input"].widget.attrs["autofocus"] = True
    context = {
        "agent": agent,
        "form": form,
        "talk": {"said": said, "last": last, "model": playground_model()},
    }
    whole = "context/playground.html"
    part = "context/_playground.html"
    template = part if request.htmx else whole  # type: ignore[attr-defined]
    return render(request, template, context, status=422 if form.errors else 200)


def _turn(form: PlaygroundForm, agent: Agent, by: Principal) -> TurnView | None:
    """Run one turn; None if the form has an error, which it then shows."""
    try:
        request = form.as_request()
        turn = playground_turn(agent=agent, request=request, keep=form.cleaned_data["keep"], by=by)
    except Invalid as error:
        form_refuse(form, error, session_id="session")
        return None
    shown = PromptView(agent.slug, turn.record, contested_links(turn.record, agent, by))
    query = form.inspector_query(MAX_ADDRESS_CHARACTERS)
    return TurnView(turn, shown, f"{reverse('agent_context', args=[agent.slug])}?{query}")


def _next(form: PlaygroundForm, answer: str) -> PlaygroundForm:
    """The form for the next message, with this one and its answer in the conversation."""
    given = form.cleaned_data
    said = (*given["conversation"], Message("user", given["input"]), Message("assistant", answer))
    kept = {name: given[name] for name in ("profile", "project", "session", "keep")}
    return PlaygroundForm(initial={**kept, "conversation": conversation_json(said)})
