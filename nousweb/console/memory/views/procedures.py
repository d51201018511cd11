"""Procedures that an agent has learned."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from memory.models import Procedure
from memory.selectors.filters import ProcedureFilter
from memory.services.procedures import procedure_update
from nousweb.console.common.list_page import Column, Title
from nousweb.console.memory.forms import ProcedureForm
from nousweb.console.memory.memory_list import MemoryList, memory_list
from nousweb.console.memory.page_context import edit_page, memory_context
from nousweb.console.memory.persona_scope import persona_scope

agent_procedures = memory_list(
    MemoryList(
        title="Procedures",
        noun="procedure",
        about="procedures of the agent, and how often they helped",
        empty="The agent records its procedures for recurring tasks and counts how often they helped.",
        numbered=True,
        model=Procedure,
        filter=ProcedureFilter,
        row=Title("name", lambda procedure: [] if procedure.active else [("neutral", "retired")]),
        columns=(
            Column("Domain", "domain"),
            Column("Steps", lambda procedure: len(procedure.steps), "count"),
            Column("Used", "activation_count", "times"),
            Column("Helped", "success_count", "count"),
            Column("Failed", "failure_count", "count"),
            Column("Effectiveness", look="memory/_effectiveness.html"),
            Column("Last used", "last_activated_at", "time"),
        ),
    )
)
"""Ways of doing things, by name."""


@require_safe
def agent_procedure(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """One procedure: its steps, and how often it helped."""
    scope = persona_scope(request, slug, "memory.view_procedure")
    procedure: Procedure = scope.row(scope.memory.procedures, pk, "procedure")
    context = memory_context(
        request,
        scope,
        procedure,
        may_change=scope.by.may("memory.change_procedure"),
    )
    return render(request, "memory/procedure.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def agent_procedure_edit(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Rewrite a procedure; its counts stay."""
    scope = persona_scope(request, slug, "memory.view_procedure")
    scope.by.require("memory.change_procedure", scope.agent)
    procedure: Procedure = scope.row(scope.memory.procedures.select_related("agent"), pk, "procedure")
    initial = {name: getattr(procedure, name) for name in ProcedureForm.base_fields}
    return edit_page(
        request,
        scope,
        procedure,
        ProcedureForm(request.POST if request.method == "POST" else None, initial=initial),
        lambda fields: procedure_update(procedure=procedure, by=scope.by, **fields),
        title="Edit procedure",
        note="The counts of uses and successes do not change.",
        done="The procedure was saved.",
    )


@require_POST
def agent_procedure_use(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """Take a procedure out of use, or bring it back."""
    scope = persona_scope(request, slug, "memory.view_procedure")
    procedure: Procedure = scope.row(scope.memory.procedures.select_related("agent"), pk, "procedure")
    active = request.POST.get("active") == "yes"
    procedure_update(procedure=procedure, by=scope.by, active=active)
    messages.success(
        request, "The procedure is in use again." if active else "Retired. The agent no longer gets this procedure."
    )
    return redirect(reverse("agent_procedure", args=[slug, pk]) + scope.suffix)
