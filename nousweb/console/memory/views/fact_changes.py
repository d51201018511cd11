"""Actions of reviewers on a fact: each has a form of its own, and calls the service of the same name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from context.models import ASSEMBLE, VIEW_RUN, ContextRun
from context.selectors import runs_with_memory
from context.what_if.change_overrides import invalidation_overrides
from context.what_if.impact import records_of
from identity.principal import Principal
from memory.models import Fact, FactChange
from memory.selectors.filters import SupersessionFilter
from memory.services.facts import (
    fact_confirm,
    fact_edit,
    fact_expiry_set,
    fact_invalidate,
    fact_replace,
    fact_restore,
)
from memory.services.reviews.states import REVIEW
from memory.services.reviews.undo import supersession_undo
from nousweb.console.common import FORM, POST, act, form_page, next_prompt_link, query_without
from nousweb.console.context.views.compare_runs import SaidBy, is_logged, repeats_of
from nousweb.console.memory.forms import ExpiryForm, FactEditForm, FactRestoreForm, FactSupersedeForm, RemarkForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    base_context,
    memory_list,
    memory_page,
    origin_run,
)
from nousweb.lib.errors import Conflict, DomainError, Invalid, NotFound, existing
from nousweb.lib.textdiff import diff_texts


def _superseded(scope: PersonaScope) -> QuerySet[FactChange]:
    return FactChange.objects.filter(action=FactChange.Action.SUPERSEDED, fact__in=scope.memory.facts)


agent_supersessions = memory_list(
    MemoryList(
        title="Replaced facts",
        noun="replaced fact",
        about="Facts that were true until a newer one replaced them.",
        empty="A fact appears here when a rule, the judge or a person replaces it with a newer one.",
        moment="at",
        is_exported=False,
        template="memory/supersessions.html",
        model=FactChange,
        filter=SupersessionFilter,
        select=_superseded,
        narrow=lambda changes: changes.select_related("fact", "other__source_event", "other__source_episode"),
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


@memory_page(REVIEW, methods=POST)
def agent_supersession_undo(request: HttpRequest, scope: PersonaScope, pk: int) -> HttpResponse:
    """Let a superseded fact hold again, as a new change."""
    change = scope.row(_superseded(scope).select_related("fact__agent"), pk)

    def undo() -> None:
        if not _undoable(change):
            raise Conflict("This supersession has been undone already.")
        supersession_undo(fact=change.fact, by=scope.by, reason=request.POST.get("reason", ""))

    back = f"{reverse('agent_supersessions', args=[scope.agent.slug])}?{query_without(request)}"
    done = "The old fact was restored. Both facts are active now."
    return act(request, undo, back, done, refusals=(DomainError,))


def _undoable(change: FactChange) -> bool:
    return not change.fact.active and change.fact.superseded_by_id == change.other_id


def _plain(service: Callable[..., Fact], fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    return service(fact=fact, by=by, **fields)


def _supersede(fact: Fact, by: Principal, fields: dict[str, Any]) -> Fact:
    stated = {name: fields[name] for name in ("attribute", "value") if fields[name]}
    new = {"content": fields["content"], **stated, "source": f"console: {by.name}"}
    return fact_replace(old=fact, fields=new, by=by, reason=fields["reason"], at=fields["at"]).new


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
    look: str = "btn-primary"


FACT_ACTIONS: dict[str, FactAction] = {
    "confirm": FactAction(
        "Confirm",
        "Use this if the fact was reported again or you checked it. Only the number of confirmations changes.",
        "Confirm fact",
        "The fact was confirmed.",
        RemarkForm,
        partial(_plain, fact_confirm),
        "memory.add_fact",
    ),
    "supersede": FactAction(
        "Replace",
        "Use this if the fact was true and another is true now. The old fact stays in the history with its end.",
        "Replace fact",
        "The new fact replaced the old one.",
        FactSupersedeForm,
        _supersede,
        "memory.add_fact",
    ),
    "invalidate": FactAction(
        "Mark as wrong",
        "Use this if the fact was never true. No prompt and no view of the valid past includes it. The record that the "
        "agent believed it is kept, and the fact can be restored.",
        "Mark as wrong",
        "Marked as wrong. No prompt includes this fact from now on.",
        RemarkForm,
        partial(_plain, fact_invalidate),
        look="btn-danger is-final",
    ),
    "restore": FactAction(
        "Restore",
        "Use this if the fact is true after all. It is restored as it was. A fact that replaced it is kept too.",
        "Restore fact",
        "The fact was restored.",
        FactRestoreForm,
        partial(_plain, fact_restore),
    ),
    "expiry": FactAction(
        "Change its end",
        "From its end on, no prompt or search includes the fact, and it is erased after the retention. Leave the end "
        "empty to keep the fact.",
        "Save",
        "The end of the fact was saved.",
        ExpiryForm,
        partial(_plain, fact_expiry_set),
        "memory.add_fact",
    ),
    "edit": FactAction(
        "Recategorise",
        "Its category, scope, project, task, tags and importance. To change the text, replace the fact instead.",
        "Save",
        "The fact's category and metadata were saved.",
        FactEditForm,
        partial(_plain, fact_edit),
    ),
}


PROOFS = 3
"""The latest runs whose prompts had a fact that are asked what else says it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The run that shows what a change does, if any, and what says the same in its prompt as it would be without the
    fact: the words of a sentence, and the memories."""

    run: ContextRun | None = None
    still: str = ""
    repeats: tuple[SaidBy, ...] = ()


def _proof(scope: PersonaScope, fact: Fact, change: str, origin: ContextRun | None) -> Proof:
    """That of `origin`, else of the latest run whose prompt had the fact, before others one where something still says
    it once the fact is marked as wrong."""
    if change == "confirm" or not scope.by.may(VIEW_RUN) or not scope.by.may(ASSEMBLE):
        return Proof()
    latest = runs_with_memory(scope.agent, "fact", str(fact.pk), scope.by).order_by("-created_at")
    runs = [origin] if origin else list(latest[:PROOFS])
    for run in [run for run in runs if change == "invalidate" and run.as_of is None]:
        try:
            _, after = records_of(scope.agent, run, [invalidation_overrides(fact)], scope.by)
        except (Invalid, NotFound, KeyError):
            # The request has an older format, or its profile was deleted.
            continue
        still, repeats = repeats_of(fact, scope.agent.slug, after)
        if still:
            return Proof(run, still, repeats)
    return Proof(next(iter(runs), None))


def _done(scope: PersonaScope, fact: Fact, change: str, origin: ContextRun | None) -> str:
    """What a change did, what still says it, and a link to the proof: the next prompt."""
    done, proof = FACT_ACTIONS[change].done, _proof(scope, fact, change, origin)
    if proof.run is None:
        return done
    done += f" But {proof.still}." if proof.still else ""
    return format_html("{} {}", done, next_prompt_link(scope.agent.slug, proof.run, str(fact.pk)))


METADATA_FIELDS = ", ".join(f"#id_{name}" for name in FactEditForm.field_order if name != "reason")
"""Selectors of the fields of a recategorisation that its impact uses."""


@memory_page("memory.view_fact", of=Fact, methods=FORM)
def agent_fact_change(request: HttpRequest, scope: PersonaScope, fact: Fact, change: str) -> HttpResponse:
    """The form of one action, and the action itself."""
    unknown = f"A fact has no change {change[:60]!r}; there are {', '.join(FACT_ACTIONS)}."
    what = existing(FACT_ACTIONS.get(change), unknown)
    scope.by.require(what.permission, scope.agent)
    origin = origin_run(request, scope, "fact", str(fact.pk))
    names = ("content", "expires_at", "tags", "importance", "category", "scope", "project", "task")
    initial = {name: getattr(fact, name) for name in names}
    asks = change == "invalidate" and request.method == "GET"
    proof = _proof(scope, fact, change, origin) if asks else Proof()
    return form_page(
        request,
        "memory/fact_change.html",
        what.form(request.POST if request.method == "POST" else None, initial=initial),
        lambda fields: what.run(fact, scope.by, fields),
        done=lambda _: _done(scope, fact, change, origin),
        back=origin or scope.url,
        context=base_context(
            request,
            scope,
            fact=fact,
            change=change,
            what=what,
            metadata_fields=METADATA_FIELDS,
            back=origin.get_absolute_url() if origin else scope.url(fact),
            may_replace=fact.active and fact.persona == scope.by.persona and scope.by.may("memory.add_fact"),
            proof=proof,
            logged=is_logged(proof.repeats),
            query=f"?{query_without(request)}",
        ),
        conflict="refusal",
    )
