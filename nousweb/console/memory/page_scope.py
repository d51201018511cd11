"""What the console's pages of memory share: whose memory is shown, and pages whose cost does not grow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.contrib import messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from identity.models import Agent, Persona
from identity.principal import Principal
from identity.selectors import agent_get
from memory.filters import MemoryFilter
from memory.models import IndexStatus, SearchItem
from memory.persona import VIEW_SUBCONSCIOUS, PersonaMemory, memory_of, subconscious_memory_of
from nousweb.console.pagination import query_without
from nousweb.console.requests import form_refuse, principal_of
from nousweb.lib.errors import Conflict, Invalid, NotFound

STATUS_KINDS: dict[str, str] = {IndexStatus.READY: "ok", IndexStatus.PENDING: "warn", IndexStatus.FAILED: "removed"}
OUTCOME_KINDS = {"success": "ok", "partial": "warn", "failure": "removed"}
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class PageScope:
    """Whose memory a page shows, and to whom. `suffix` goes on addresses so that the next page shows the same."""

    agent: Agent
    by: Principal
    memory: PersonaMemory
    may_switch: bool

    @property
    def both(self) -> bool:
        """Whether the subconscious is shown beside the actor."""
        return self.memory.persona == Persona.SUBCONSCIOUS

    @property
    def suffix(self) -> str:
        return "?persona=subconscious" if self.both else ""

    def row(self, rows: QuerySet[Row], key: object, noun: str) -> Row:
        """The row with this key. Raises NotFound, also for one that this page may not show."""
        found = rows.filter(pk=key).first()
        if found is None:
            raise NotFound(f"There is no such {noun}.")
        return found


def shown_memory(request: HttpRequest, slug: str, permission: str) -> PageScope:
    """The memory that a page is about: the actor's, or with ?persona=subconscious both, for those who may.

    Raises NotAllowed and NotFound.
    """
    by = principal_of(request)
    by.require(permission)
    agent = agent_get(slug)
    asked = request.GET.get("persona") == Persona.SUBCONSCIOUS
    memory = subconscious_memory_of(agent, by) if asked else memory_of(agent, by)
    return PageScope(agent, by, memory, by.may(VIEW_SUBCONSCIOUS))


def index_state(persona: str, item_type: str, item_id: object) -> dict[str, Any] | None:
    """What the search index holds of one memory, for a badge with its reason; None when it has no row."""
    found = (
        SearchItem.objects.filter(persona=persona, item_type=item_type, item_id=str(item_id))
        .values("status", "model", "attempts", "error", "due_at")
        .first()
    )
    return {**found, "kind": STATUS_KINDS[found["status"]]} if found else None


def persona_tabs(request: HttpRequest, shown: PageScope) -> list[dict[str, Any]]:
    """The switch between the actor's memory and both; empty for those who have no choice."""
    if not shown.may_switch:
        return []
    rest = query_without(request, "persona")
    both = "&".join(part for part in (rest, "persona=subconscious") if part)
    return [
        {"label": "Actor", "url": f"?{rest}", "active": not shown.both},
        {"label": "Both personas", "url": f"?{both}", "active": shown.both},
    ]


def base_context(request: HttpRequest, shown: PageScope, **more: Any) -> dict[str, Any]:
    """Template variables that every page of memory needs."""
    return {"agent": shown.agent, "shown": shown, "persona_tabs": persona_tabs(request, shown), **more}


def list_context(request: HttpRequest, shown: PageScope, found: MemoryFilter, page: Any, **more: Any) -> dict[str, Any]:
    """Template variables of a page that lists what a filter `found`, with `page` the part of it that is shown."""
    return base_context(
        request, shown, form=found.form, is_filtered=found.is_filtered, query=query_without(request), page=page, **more
    )


def form_page(
    request: HttpRequest,
    shown: PageScope,
    form: forms.Form,
    change: Callable[[dict[str, Any]], object],
    template: str,
    done_url: str,
    done: str,
    **more: Any,
) -> HttpResponse:
    """A form and the change that it makes; a refusal shows it again with what was typed."""
    refusal = ""
    if request.method == "POST" and form.is_valid():
        try:
            change(form.cleaned_data)
        except Invalid as error:
            form_refuse(form, error)
        except Conflict as error:
            refusal = error.detail
        else:
            messages.success(request, done)
            return redirect(done_url + shown.suffix)
    context = base_context(request, shown, form=form, refusal=refusal, **more)
    return render(request, template, context, status=409 if refusal else 422 if form.errors else 200)


def changed(form: forms.Form, *names: str) -> dict[str, Any]:
    """What was typed and differs from what was there, of all fields or of `names`, whatever ends the lines."""
    typed = {
        name: value.replace("\r\n", "\n") if isinstance(value, str) else value
        for name, value in form.cleaned_data.items()
        if not names or name in names
    }
    return {name: value for name, value in typed.items() if value != form.initial.get(name)}
