"""Procedures that an agent has learned."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from memory.models import Procedure
from memory.selectors.filters import ProcedureFilter
from memory.services.procedures import procedure_update
from nousweb.console.common import FORM, POST, Column, Title, act
from nousweb.console.memory.forms import ProcedureForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    edit_page,
    memory_context,
    memory_list,
    memory_page,
)

agent_procedures = memory_list(
    MemoryList(
        title="Procedures",
        noun="procedure",
        about="How the agent does things, and how often that helped.",
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
            Column("Failed", "failure_count", "count", is_usual=lambda procedure: not procedure.failure_count),
            Column("Effectiveness", look="memory/_effectiveness.html"),
            Column("Last used", "last_activated_at", "time", is_last=True),
        ),
    )
)
"""Ways of doing things, by name."""


@memory_page("memory.view_procedure", of=Procedure, past=True)
def agent_procedure(request: HttpRequest, scope: PersonaScope, procedure: Procedure) -> HttpResponse:
    """One procedure: its steps, and how often it helped."""
    context = memory_context(request, scope, procedure, may_change=scope.by.may("memory.change_procedure"))
    return render(request, "memory/procedure.html", context)


@memory_page("memory.view_procedure", "memory.change_procedure", of=Procedure, methods=FORM)
def agent_procedure_edit(request: HttpRequest, scope: PersonaScope, procedure: Procedure) -> HttpResponse:
    """Rewrite a procedure; its counts stay."""
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


@memory_page("memory.view_procedure", of=Procedure, methods=POST)
def agent_procedure_use(request: HttpRequest, scope: PersonaScope, procedure: Procedure) -> HttpResponse:
    """Take a procedure out of use, or bring it back."""
    active = request.POST.get("active") == "yes"
    done = "The procedure is in use again." if active else "Retired. The agent no longer gets this procedure."
    return act(
        request,
        lambda: procedure_update(procedure=procedure, by=scope.by, active=active),
        scope.url(procedure),
        done,
    )
