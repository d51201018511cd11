"""One memory from the view of a prompt: pin it, change its category, mark it wrong, and try again."""

from typing import Any
from urllib.parse import parse_qsl

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from context.engine.retrieval.pins import pins_of
from context.expectations.policy import ADD
from context.models import ASSEMBLE, ContextPin
from context.services.pins import MAX_PINS, PIN, UNPIN, context_pin, context_unpin, item_check
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.selectors import agent_get
from memory.models import Fact, SearchItem
from memory.persona import PersonaMemory, persona_memory
from memory.policy.categories import KNOWN_CATEGORIES
from memory.search.memory_loader import memories_load
from memory.services.facts import fact_edit, fact_invalidate
from memory.types import MEMORY_TYPES
from nousweb.console.common.view_helpers import principal_of
from nousweb.console.context.forms import InspectorForm
from nousweb.console.context.links import memory_item_url
from nousweb.console.context.views.inspector import MAX_ADDRESS_CHARACTERS
from nousweb.lib.errors import Conflict, Invalid, NotFound

CHANGE_FACT = "memory.change_fact"


class RecategoriseForm(forms.Form):
    """The category of a fact."""

    category = forms.ChoiceField()

    def __init__(self, *args: Any, current: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = dict.fromkeys([*KNOWN_CATEGORIES, current])
        self.fields["category"] = forms.ChoiceField(choices=[(name, name) for name in names], initial=current)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_context_item(request: HttpRequest, slug: str, item_type: str, item_id: str) -> HttpResponse:
    """Actions on a candidate. ?back= is the query of the preview that it came from."""
    by = principal_of(request)
    by.require(ASSEMBLE)
    agent = agent_get(slug, by)
    persona = Persona.SUBCONSCIOUS if by.may(VIEW_SUBCONSCIOUS) else None
    item_check(item_type, item_id)
    view = persona_memory(agent, by, persona)
    fact = view.facts.filter(pk=item_id).first() if item_type == "fact" else None
    text = fact.content if fact else memories_load(view, [(item_type, item_id)]).get((item_type, item_id), ("",))[0]
    if not text:
        return _retired(request, view, slug, item_type, item_id)
    back = request.GET.get("back", "")[:MAX_ADDRESS_CHARACTERS]
    refusal = ""
    if request.method == "POST":
        try:
            done = _act(request, agent, item_type, item_id, fact, persona)
        except (Conflict, Invalid) as error:
            refusal = error.detail
        else:
            messages.success(request, done)
            here = reverse("agent_context_item", args=[slug, item_type, item_id])
            return redirect(f"{here}?{urlencode({'back': back})}" if back else here)
    pin = ContextPin.objects.filter(agent=agent, item_type=item_type, item_id=item_id).first()
    impact = reverse("agent_context_blast", args=[slug])
    return render(
        request,
        "context/memory.html",
        {
            "agent": agent,
            "item_type": item_type,
            "item_id": item_id,
            "text": text,
            "fact": fact,
            "pin": pin,
            "may_pin": by.may(PIN),
            "may_unpin": by.may(UNPIN),
            "may_change": bool(fact and by.may(CHANGE_FACT)),
            "asked": _asked(back) if by.may(ADD) else None,
            "form": RecategoriseForm(current=fact.category) if fact else None,
            "memory_url": _own_page(slug, item_type, item_id, _persona(agent, item_type, item_id)),
            "impact_url": f"{impact}?{urlencode({'fact': item_id})}" if fact and fact.active else "",
            "again": f"{reverse('agent_context', args=[slug])}{'?' if back else ''}{back}",
            "back": back,
            "refusal": refusal,
        },
        status=409 if refusal else 200,
    )


def _asked(back: str) -> dict[str, Any]:
    """The input and the other values of the preview that the person came from, for an expectation of it."""
    given = dict(parse_qsl(back))
    others = {name: given[name] for name in InspectorForm.base_fields if given.get(name) and name != "input"}
    return {"input": given.get("input", ""), "others": others}


def _retired(request: HttpRequest, view: PersonaMemory, slug: str, item_type: str, item_id: str) -> HttpResponse:
    """Lead to the page of a memory that a context of the past included, or a logged one, and that is retired since."""
    store = MEMORY_TYPES[item_type]
    row: Any = None
    if store.is_store and request.method != "POST":
        row = view.rows(store.model).filter(pk=item_id).first()
    if row is None:
        raise NotFound("There is no such memory, or it is retired.")
    messages.info(request, "This memory is retired, so no prompt includes it today. This is its own page.")
    return redirect(_own_page(slug, item_type, item_id, row.persona))


def _persona(agent: Agent, item_type: str, item_id: str) -> str | None:
    """The persona of a memory, by the index."""
    found = SearchItem.objects.filter(agent=agent, item_type=item_type, item_id=item_id)
    return found.values_list("persona", flat=True).first()


def _own_page(slug: str, item_type: str, item_id: str, persona: str | None) -> str:
    """The memory's page, for people who may see this persona."""
    both = "?persona=subconscious" if persona == Persona.SUBCONSCIOUS else ""
    return memory_item_url(slug, item_type, item_id) + both


def _act(
    request: HttpRequest, agent: Agent, item_type: str, item_id: str, fact: Fact | None, persona: str | None
) -> str:
    """Run the action of the form's button; returns a message. Services check the permissions."""
    by = principal_of(request)
    action = request.POST.get("action", "")
    if action == "pin":
        context_pin(agent=agent, item_type=item_type, item_id=item_id, by=by, persona=persona)
        return "Pinned. It comes first in its section from now on."
    if action == "unpin":
        context_unpin(agent=agent, item_type=item_type, item_id=item_id, by=by)
        return "The pin was removed."
    if fact is not None and action == "wrong":
        fact_invalidate(fact=fact, by=by, reason=request.POST.get("reason", ""))
        return "Marked as wrong. Prompts no longer include it. You can restore it on its own page."
    if fact is not None and action == "category":
        fact_edit(fact=fact, by=by, category=request.POST.get("category", ""), reason=request.POST.get("reason", ""))
        return "The category was changed."
    raise Invalid("Unknown action.", field="action")


@require_safe
def agent_context_pins(request: HttpRequest, slug: str) -> HttpResponse:
    """The pins of an agent."""
    by = principal_of(request)
    by.require(ASSEMBLE)
    agent = agent_get(slug, by)
    view: PersonaMemory = persona_memory(agent, by, Persona.SUBCONSCIOUS if by.may(VIEW_SUBCONSCIOUS) else None)
    loaded = memories_load(view, sorted(pins_of(agent)))
    pins = [
        {
            "pin": pin,
            "text": loaded.get((pin.item_type, pin.item_id), ("",))[0],
            "url": reverse("agent_context_item", args=[slug, pin.item_type, pin.item_id]),
        }
        for pin in ContextPin.objects.filter(agent=agent)
    ]
    return render(
        request,
        "context/pins.html",
        # Memories that are not readable here, or retired, are counted and not named.
        {
            "agent": agent,
            "pins": [one for one in pins if one["text"]],
            "hidden": sum(not one["text"] for one in pins),
            "most": MAX_PINS,
        },
    )
