"""Template variables of the pages of memory: of every page, of a list and of a form."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from memory.models import Episode, IndexStatus, Procedure, SearchItem
from nousweb.console.common.memory_types import TYPE_PAGES
from nousweb.console.common.view_helpers import form_refuse
from nousweb.console.memory.persona_scope import PersonaScope, persona_tabs
from nousweb.lib.errors import Conflict, Invalid

STATUS_KINDS: dict[str, str] = {IndexStatus.READY: "ok", IndexStatus.PENDING: "warn", IndexStatus.FAILED: "removed"}


def base_context(request: HttpRequest, scope: PersonaScope, **more: Any) -> dict[str, Any]:
    """Template variables that every page of memory needs."""
    return {"agent": scope.agent, "shown": scope, "persona_tabs": persona_tabs(request, scope), **more}


def memory_context(request: HttpRequest, scope: PersonaScope, memory: Any, **more: Any) -> dict[str, Any]:
    """Template variables of the page of one memory, which has the name of its model there too, and its state in the
    search index: None if it has no row."""
    noun = memory._meta.model_name
    rows = SearchItem.objects.filter(agent=scope.agent, persona=memory.persona, item_type=noun, item_id=str(memory.pk))
    found = rows.values("status", "model", "attempts", "error", "due_at").first()
    index = {**found, "kind": STATUS_KINDS[found["status"]]} if found else None
    return base_context(request, scope, memory=memory, noun=noun, index=index, **{noun: memory}, **more)


def edit_page(
    request: HttpRequest,
    scope: PersonaScope,
    memory: Episode | Procedure,
    form: forms.Form,
    change: Callable[[dict[str, Any]], object],
    *,
    title: str,
    done: str,
    note: str = "",
    button: str = "Save",
) -> HttpResponse:
    """Show the form of a change to one memory, or make the change. A refused form is shown again with its values."""
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
            return redirect(memory.get_absolute_url() + scope.suffix)
    pages = next(one for one in TYPE_PAGES.values() if one.model is type(memory))
    context = base_context(request, scope, pages=pages, memory=memory, form=form, refusal=refusal)
    context |= {"title": title, "note": note, "button": button}
    return render(request, "memory/memory_edit.html", context, status=409 if refusal else 422 if form.errors else 200)


def changed_fields(form: forms.Form, *names: str) -> dict[str, Any]:
    """The values that differ from the initial ones, of all fields or of `names`; line ends do not count."""
    typed = {
        name: value.replace("\r\n", "\n") if isinstance(value, str) else value
        for name, value in form.cleaned_data.items()
        if not names or name in names
    }
    return {name: value for name, value in typed.items() if value != form.initial.get(name)}
