"""Actions of reviewers on a fact: each has a form of its own, and calls the service of the same name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from identity.principal import Principal
from memory.models import Fact, FactChange
from memory.selectors.filters import SupersessionFilter
from memory.services.facts import (
    fact_confirm,
    fact_edit,
    fact_invalidate,
    fact_replace,
    fact_restore,
)
from memory.services.reviews.states import REVIEW
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common.pagination import query_without
from nousweb.console.common.view_helpers import form_refuse
from nousweb.console.memory.forms import FactEditForm, FactRestoreForm, FactSupersedeForm, RemarkForm
from nousweb.console.memory.memory_list import MemoryList, memory_list
from nousweb.console.memory.page_context import base_context
from nousweb.console.memory.persona_scope import PersonaScope, persona_scope
from nousweb.lib.errors import Conflict, DomainError, Invalid, NotFound
from nousweb.lib.textdiff import diff_texts


def _superseded(scope: PersonaScope) -> QuerySet[FactChange]:
    return FactChange.objects.filter(action=FactChange.Action.SUPERSEDED, fact__in=scope.memory.facts)


agent_supersessions = memory_list(
    MemoryList(
        title="Supersessions",
        noun="supersession",
        empty="Supersessions appear here when a rule, the judge or a person replaces an older fact with a newer one.",
        moment="at",
        is_exported=False,
        template="memory/supersessions.html",
        model=FactChange,
        filter=SupersessionFilter,
        select=_superseded,
        narrow=lambda changes: changes.select_related("fact", "other__source_event"),
        more=lambda request, scope, rows: {
            "rows": [
                (
                    change,
                    diff_texts(change.fact.content, change.other.content if change.other else ""),
                    _undoable(change),
                )
                for change in rows
            ],
            "may_undo": scope.by.may(REVIEW),
        },
    )
)
"""Every fact that took another one's place, latest first."""


@require_POST
def agent_supersession_undo(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Let a superseded fact hold again, as a new change."""
    scope = persona_scope(request, slug, REVIEW)
    change = scope.row(_superseded(scope).select_related("fact__agent"), pk, "supersession")
    try:
        if not _undoable(change):
            raise NotFound("This supersession has been undone already.")
        supersession_undo(fact=change.fact, by=scope.by, reason=request.POST.get("reason", ""))
        messages.success(request, "The old fact was restored. Both facts are active now.")
    except DomainError as error:
        messages.error(request, error.detail)
    return redirect(f"{reverse('agent_supersessions', args=[slug])}?{query_without(request)}")


def _undoable(change: FactChange) -> bool:
    return not change.fact.active and change.fact.superseded_by_id == change.other_id


def _confirm(fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    return fact_confirm(fact=fact, by=by, reason=fields["reason"])


def _supersede(fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    stated = {name: fields[name] for name in ("attribute", "value") if fields[name]}
    new = {"content": fields["content"], **stated, "source": f"console: {by.name}"}
    return fact_replace(old=fact, fields=new, by=by, reason=fields["reason"], at=fields["at"]).new


def _invalidate(fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    return fact_invalidate(fact=fact, by=by, reason=fields["reason"])


def _restore(fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    return fact_restore(fact=fact, by=by, **fields)


def _edit(fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    return fact_edit(fact=fact, by=by, **fields)


@dataclass(frozen=True, slots=True)
class FactAction:
    """One action on a fact, with the texts of its page."""

    title: str
    meaning: str
    button: str
    done: str
    form: type[forms.Form]
    run: Callable[[Fact, Principal, dict[str, Any]], Fact]
    permission: str = "memory.change_fact"
    danger: bool = False


FACT_ACTIONS: dict[str, FactAction] = {
    "confirm": FactAction(
        "Confirm",
        "Use this if the fact was reported again or you checked it. Only the number of confirmations changes.",
        "Confirm fact",
        "The fact was confirmed.",
        RemarkForm,
        _confirm,
        "memory.add_fact",
    ),
    "supersede": FactAction(
        "Supersede",
        "Use this if the fact was true and another is true now. The old fact stays in the history with its end.",
        "Supersede fact",
        "Superseded. This is the new fact.",
        FactSupersedeForm,
        _supersede,
        "memory.add_fact",
    ),
    "invalidate": FactAction(
        "Mark as wrong",
        "Use this if the fact was never true. No prompt and no view of the valid past includes it. The record that the "
        "agent believed it is kept, and the fact can be restored.",
        "Mark as wrong",
        "Marked as wrong. No prompt includes it from now on.",
        RemarkForm,
        _invalidate,
        danger=True,
    ),
    "restore": FactAction(
        "Restore",
        "Use this if the fact is true after all. It is restored as it was. A fact that replaced it is kept too.",
        "Restore fact",
        "The fact was restored.",
        FactRestoreForm,
        _restore,
    ),
    "edit": FactAction(
        "Recategorise",
        "Its category, scope, project, task, tags and importance. To change the text, supersede the fact instead.",
        "Save",
        "The fact's category and metadata were saved.",
        FactEditForm,
        _edit,
    ),
}


METADATA_FIELDS = ", ".join(f"#id_{name}" for name in FactEditForm.field_order if name != "reason")
"""Selectors of the fields of a recategorisation that its blast radius uses."""


@require_http_methods(["GET", "HEAD", "POST"])
def agent_fact_change(request: HttpRequest, slug: str, pk: UUID, change: str) -> HttpResponse:
    """The form of one action, and the action itself."""
    if change not in FACT_ACTIONS:
        raise NotFound(f"A fact has no change {change[:60]!r}; there are {', '.join(FACT_ACTIONS)}.")
    what = FACT_ACTIONS[change]
    scope = persona_scope(request, slug, "memory.view_fact")
    scope.by.require(what.permission, scope.agent)
    fact: Fact = scope.row(scope.memory.facts.select_related("agent"), pk, "fact")
    form = what.form(request.POST if request.method == "POST" else None, initial=_initial(fact))
    refusal = ""
    if request.method == "POST" and form.is_valid():
        try:
            changed = what.run(fact, scope.by, form.cleaned_data)
        except Invalid as error:
            form_refuse(form, error)
        except Conflict as error:
            refusal = error.detail
        else:
            messages.success(request, what.done)
            return redirect(reverse("agent_fact", args=[slug, changed.pk]) + scope.suffix)
    context = base_context(
        request,
        scope,
        fact=fact,
        change=change,
        what=what,
        form=form,
        refusal=refusal,
        metadata_fields=METADATA_FIELDS,
    )
    status = 409 if refusal else 422 if form.errors else 200
    return render(request, "memory/fact_change.html", context, status=status)


def _initial(fact: Fact) -> dict[str, Any]:
    return {
        "content": fact.content,
        "tags": ", ".join(fact.tags),
        "importance": fact.importance,
        "category": fact.category,
        "scope": fact.scope,
        "project": fact.project,
        "task": fact.task,
    }
