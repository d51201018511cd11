"""Lists of one memory: each is declared once, and has the switch of personas, its filter and its file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memory.selectors.filters import MemoryFilter
from nousweb.console.common.list_export import ListExport, export_format, keyset_rows, list_export, model_columns
from nousweb.console.common.list_page import ListPage
from nousweb.console.memory.page_context import base_context
from nousweb.console.memory.persona_scope import PersonaScope, persona_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryList(ListPage):
    """A list of the rows of a model in one memory.

    `narrow` makes the query of the page, which may leave columns out; `export` replaces the columns of the table.
    `more` are further variables of the template, or others of the same name.
    """

    model: type[Model]
    filter: Callable[..., MemoryFilter]
    permission: str = ""
    select: Callable[[PersonaScope], QuerySet[Any]] | None = None
    narrow: Callable[[Any], Any] = lambda rows: rows
    export: ListExport | None = None
    more: Callable[[HttpRequest, PersonaScope, list[Any]], dict[str, Any]] = lambda request, scope, rows: {}

    @property
    def view_permission(self) -> str:
        return self.permission or f"memory.view_{self.model._meta.model_name}"

    def filtered(self, request: HttpRequest, scope: PersonaScope) -> MemoryFilter:
        rows = self.select(scope) if self.select else scope.memory.rows(self.model)
        return self.filter(request.GET, queryset=rows)

    def response(
        self, request: HttpRequest, scope: PersonaScope, found: MemoryFilter, rows: QuerySet[Any], **kept: str
    ) -> HttpResponseBase:
        """The page of `rows`, or all of them as a file where one is requested and the filter is valid."""
        if self.is_exported and export_format(request) and found.form.is_valid():
            export = self.export or ListExport(self.title, model_columns(self.model))
            return list_export(request, export, keyset_rows(rows, self.moment), agent=scope.agent, both=scope.both)
        kept = {**({"persona": "subconscious"} if scope.both else {}), **kept}
        page = self.page(request, self.narrow(rows))
        context = base_context(request, scope, **self.context(request, page, found.form, found.is_filtered, kept))
        for row in context["rows"]:
            # The address of a row names its agent, which this saves to read again.
            row.agent = scope.agent
        context["actions"] = [action for action in self.actions if scope.by.may(action.permission)]
        return render(request, self.template, context | self.more(request, scope, context["rows"]))


def memory_list(page: MemoryList) -> Callable[..., HttpResponseBase]:
    """The view of a list, by the agent's slug."""

    @require_safe
    def view(request: HttpRequest, slug: str) -> HttpResponseBase:
        scope = persona_scope(request, slug, page.view_permission)
        found = page.filtered(request, scope)
        return page.response(request, scope, found, found.results)

    return view
