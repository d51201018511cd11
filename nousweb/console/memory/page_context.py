"""Template variables of the pages of memory: of every page, of a list and of a form."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast

from django import forms
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import urlencode

from context.expectations.policy import ADD
from context.models import ASSEMBLE, VIEW_RUN, ContextPin, ContextRun
from context.selectors import runs_with_memory
from context.services.agent_settings import PIN, UNPIN
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import Event, Fact, ItemType, Memory, SearchItem
from memory.persona import PersonaMemory, memory_of, subconscious_memory_of
from memory.policy import PROFILE_CATEGORIES
from memory.search.as_of import METADATA_FIELDS, facts_as_of, rows_as_of
from memory.selectors.filters import MemoryFilter
from nousweb.console.common import (
    READ,
    TYPE_PAGES,
    ListExport,
    ListPage,
    View,
    agent_page,
    export_format,
    form_page,
    keyset_rows,
    list_export,
    model_columns,
    past_of,
    query_without,
    uuid_of,
)
from nousweb.console.common.provenance import account_file, memory_provenance, share_of
from nousweb.lib import clock
from nousweb.lib.errors import NotFound
from nousweb.lib.keyset_page import KeysetPage

BACK = "back"
"""The parameter of an address that has the query of the inspector's preview from which a person came."""
MAX_BACK_CHARACTERS = 2_000
DEMANDS = (("present", "Expect in prompt"), ("absent", "Expect not in prompt"))
ONLY_ONE = ("only_of_subject", "Expect as only fact of its subject")
"""Requirements of an expectation, with the labels of their buttons."""


def in_prompts(request: HttpRequest, memory: Any, by: Principal) -> dict[str, Any] | None:
    """Whether a memory is pinned, and what `by` may do about its place in prompts; None for what is no memory of
    prompts, or for people who may not see prompts. `back` is the query of the preview that they came from, and
    `question` its input; `item` is "fact <id>". `is_core`: no question needs to ask for it; `impact_url`: what prompts
    would be without it."""
    noun = memory._meta.model_name
    if noun not in ItemType.values or not by.may(ASSEMBLE):
        return None
    item, slug = (noun, str(memory.pk)), memory.agent.slug
    back = request.GET.get(BACK, "")[:MAX_BACK_CHARACTERS]
    is_active = getattr(memory, "is_current", getattr(memory, "active", True)) and getattr(memory, "text", "-") != ""
    is_active = is_active and not getattr(memory, "quarantined", False)
    pin_url = reverse("agent_context_item", args=[slug, *item])
    return {
        "item": " ".join(item),
        "pin": ContextPin.objects.filter(agent=memory.agent_id, item_type=item[0], item_id=item[1]).first(),
        "pin_url": f"{pin_url}?{urlencode({BACK: back})}" if back else pin_url,
        "inspector_url": f"{reverse('agent_context', args=[slug])}{'?' if back else ''}{back}",
        "may_pin": is_active and by.may(PIN),
        "may_unpin": by.may(UNPIN),
        "may_expect": by.may(ADD),
        "is_active": is_active,
        "is_core": getattr(memory, "category", "") in PROFILE_CATEGORIES and noun == ItemType.FACT,
        "demands": (*DEMANDS, ONLY_ONE) if getattr(memory, "subject", "") else DEMANDS,
        "back": back,
        "question": QueryDict(back).get("input", "") or "",
        "impact_url": f"{reverse('agent_context_blast', args=[slug])}?fact={memory.pk}"
        if noun == ItemType.FACT and is_active and by.may(VIEW_RUN)
        else "",
    }


Row = TypeVar("Row", bound=Model)
Rows = TypeVar("Rows", bound=QuerySet[Any])
BEGUN: dict[type[Model], str] = {Fact: "recorded_at", Event: "ts"}
"""The column of the moment since when an agent knows of a row, where it is not `created_at`."""
FACT_FIELDS = (*METADATA_FIELDS, "active", "retired_at", "invalidated_at", "confirmation_count", "last_confirmed_at")
"""What a page shows of a fact as it was; its valid time is the one that is known today."""


@dataclass(frozen=True, slots=True)
class PersonaScope:
    """The memory that a page shows, and to whom; `past`: as of a moment, to which the clock of the view is set then.
    Links carry `suffix`, so that the next page shows the same."""

    agent: Agent
    by: Principal
    memory: PersonaMemory
    may_switch: bool
    past: datetime | None = None

    @property
    def both(self) -> bool:
        """Whether the page shows the subconscious too."""
        return self.memory.persona == Persona.SUBCONSCIOUS

    @property
    def suffix(self) -> str:
        return "?persona=subconscious" if self.both else ""

    def then(self, rows: Rows, moment: str = "created_at") -> Rows:
        """The rows that may have been in use at the moment of the past, where the page tells of one: all whose column
        `moment` had come, but for those that were retired before."""
        if self.past is None:
            return rows
        if issubclass(rows.model, Fact):
            return cast(Any, rows).as_of(self.past).with_category_as_of(self.past)
        if issubclass(rows.model, Memory):
            rows = rows.filter(Q(active=True) | Q(retired_at__gt=self.past), created_at__lte=self.past)
        return rows.filter(**{f"{moment}__lte": self.past})

    def as_then(self, rows: list[Any]) -> list[Any]:
        """`rows`, as they were at the moment of the past, where the page tells of one."""
        if self.past is None or not rows:
            return rows
        if isinstance(rows[0], Fact):
            return list(facts_as_of(self.memory, rows, self.past, FACT_FIELDS))
        return list(rows_as_of(rows, self.past)) if isinstance(rows[0], Memory) else rows

    def row(self, rows: QuerySet[Row], key: object) -> Row:
        """The row with this key. Raises NotFound, also for a row that this page may not show."""
        return get_object_or_404(rows, pk=key)

    def url(self, memory: Any) -> str:
        """The page of a memory, in the same scope."""
        return f"{memory.get_absolute_url()}{self.suffix}"


def memory_page(
    *permissions: str,
    of: type[Model] | None = None,
    related: tuple[str, ...] = (),
    methods: Callable[[View], View] = READ,
    past: bool = False,
) -> Callable[[View], View]:
    """Declare a view of an agent's memory: of the actor's, or with ?persona=subconscious of both.

    The view gets the scope, and with `of` the row of that model in place of its key; with `past`, as of the moment of
    the past that the address names. Raises NotAllowed and NotFound.
    """

    def declared(view: View) -> View:
        @wraps(view)
        def of_memory(request: HttpRequest, by: Principal, agent: Agent, **address: Any) -> HttpResponseBase:
            asked = request.GET.get("persona") == Persona.SUBCONSCIOUS
            memory = (subconscious_memory_of if asked else memory_of)(agent, by, include_quarantined=True)
            moment = past_of(request)
            scope = PersonaScope(agent, by, memory, by.may(VIEW_SUBCONSCIOUS), moment)
            with clock.at(moment) if moment else nullcontext():
                if of is None:
                    return view(request, scope, **address)
                row: Any = scope.row(memory.rows(of).select_related(*related), address.pop("pk"))
                if moment and (begun := getattr(row, BEGUN.get(of, "created_at"))) > moment:
                    raise NotFound(f"The agent learned of this later, on {begun:%Y-%m-%d at %H:%M} UTC.")
                (row,) = scope.as_then([row])
                row.agent = agent
                if methods is READ and request.GET.get("format") == "text":
                    return account_file(request, memory_provenance(row, by))
                return view(request, scope, row, **address)

        return agent_page(*permissions, methods=methods, past=past)(of_memory)

    return declared


def persona_tabs(request: HttpRequest, scope: PersonaScope) -> list[dict[str, Any]]:
    """The tabs for the actor's memory and for both; empty for people who may not see both."""
    if not scope.may_switch:
        return []
    rest = query_without(request, "persona")
    both = "&".join(part for part in (rest, "persona=subconscious") if part)
    return [
        {"label": "Actor", "url": f"?{rest}", "active": not scope.both},
        {"label": "Both personas", "url": f"?{both}", "active": scope.both},
    ]


def base_context(request: HttpRequest, scope: PersonaScope, **more: Any) -> dict[str, Any]:
    """Template variables that every page of memory needs."""
    return {"agent": scope.agent, "shown": scope, "persona_tabs": persona_tabs(request, scope), **more}


def memory_context(request: HttpRequest, scope: PersonaScope, memory: Any, **more: Any) -> dict[str, Any]:
    """Template variables of the page of one memory, which has the name of its model there too, and its state in the
    search index: None if it has no row."""
    noun = memory._meta.model_name
    rows = SearchItem.objects.filter(agent=scope.agent, persona=memory.persona, item_type=noun, item_id=str(memory.pk))
    index = rows.values("status", "error", "due_at").first()
    origin = memory_provenance(memory, scope.by)
    more |= {"provenance": origin, "share": share_of(request, origin), "records": f"?object={noun}:{memory.pk}"}
    more |= {"prompts": in_prompts(request, memory, scope.by) if scope.past is None else None}
    return base_context(request, scope, memory=memory, noun=noun, index=index, **{noun: memory}, **more)


def origin_run(request: HttpRequest, scope: PersonaScope, item_type: str, key: str) -> ContextRun | None:
    """The run that ?run= names, from whose page one came, if its prompt had the memory."""
    asked = uuid_of(request.GET.get("run", ""))
    if not asked or not scope.by.may(VIEW_RUN):
        return None
    return runs_with_memory(scope.agent, item_type, key, scope.by).filter(pk=asked).first()


def edit_page(
    request: HttpRequest,
    scope: PersonaScope,
    memory: Memory | Event,
    form: forms.Form,
    change: Callable[[dict[str, Any]], object],
    *,
    done: str,
    back: Model | None = None,
    **texts: str,
) -> HttpResponse:
    """The form of a change to one memory, which leads to the page of `back` or of the memory. `texts` are those of its
    page: title, note, quote and button."""
    pages = next(page for page in TYPE_PAGES.values() if page.model is type(memory))
    return form_page(
        request,
        "memory/memory_edit.html",
        form,
        change,
        done=done,
        back=back or scope.url(memory),
        context=base_context(request, scope, pages=pages, memory=memory, **{"button": "Save", **texts}),
        conflict="refusal",
    )


def changed_fields(form: forms.Form, *names: str) -> dict[str, Any]:
    """The values that differ from the initial ones, of all fields or of `names`; line ends do not count."""
    typed = {
        name: value.replace("\r\n", "\n") if isinstance(value, str) else value
        for name, value in form.cleaned_data.items()
        if not names or name in names
    }
    return {name: value for name, value in typed.items() if value != form.initial.get(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryList(ListPage):
    """A list of the rows of a model in one memory.

    `narrow` makes the query of the page, which may leave columns out; `export` replaces the columns of the table.
    `more` are further variables of the template, or others of the same name. `tell` gives the rows of a page what
    their columns need besides.
    """

    model: type[Model]
    filter: Callable[..., MemoryFilter]
    tells_past: bool = True
    permission: str = ""
    select: Callable[[PersonaScope], QuerySet[Any]] | None = None
    narrow: Callable[[Any], Any] = lambda rows: rows
    export: ListExport | None = None
    more: Callable[[HttpRequest, PersonaScope, list[Any]], dict[str, Any]] = lambda request, scope, rows: {}
    tell: Callable[[PersonaScope, list[Any]], None] = lambda scope, rows: None

    @property
    def view_permission(self) -> str:
        return self.permission or f"memory.view_{self.model._meta.model_name}"

    def filtered(self, request: HttpRequest, scope: PersonaScope) -> MemoryFilter:
        rows = self.select(scope) if self.select else scope.memory.rows(self.model)
        found = self.filter(request.GET, queryset=scope.then(rows, self.moment))
        if scope.past:
            # What is in use today says nothing of what was then.
            found.filters.pop("state", None)
        return found

    def response(
        self, request: HttpRequest, scope: PersonaScope, found: MemoryFilter, rows: QuerySet[Any], **kept: str
    ) -> HttpResponseBase:
        """The page of `rows`, or all of them as a file where one is requested and the filter is valid."""
        if self.is_exported and not scope.past and export_format(request) and found.form.is_valid():
            export = self.export or ListExport(self.title, model_columns(self.model))
            return list_export(request, export, keyset_rows(rows, self.moment), agent=scope.agent, both=scope.both)
        kept = {**({"persona": "subconscious"} if scope.both else {}), **kept}
        page = self.page(request, self.narrow(rows))
        self.tell(scope, page.rows if isinstance(page, KeysetPage) else list(page))
        context = base_context(request, scope, **self.context(request, page, found.form, found.is_filtered, kept))
        context["rows"] = [
            row for row in scope.as_then(context["rows"]) if not scope.past or getattr(row, "active", True)
        ]
        for row in context["rows"]:
            # The address of a row names its agent, which this saves to read again.
            row.agent = scope.agent
        return render(request, self.template, context | self.more(request, scope, context["rows"]))


def memory_list(page: MemoryList) -> Callable[..., HttpResponseBase]:
    """The view of a list, by the agent's slug."""

    @memory_page(page.view_permission, past=page.tells_past)
    def view(request: HttpRequest, scope: PersonaScope) -> HttpResponseBase:
        found = page.filtered(request, scope)
        return page.response(request, scope, found, found.results)

    return view
