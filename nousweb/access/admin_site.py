"""Django's admin, restricted: it shows rows and changes none, since every change goes through a service.

Django's own site lets anybody with a permission for users make themselves superuser, and anybody with a permission for
django-q's schedules run any function. Here no permission allows that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

from django.apps import apps
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http.response import HttpResponseBase

from identity.models import AuditEvent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal

SHOWN = {
    "identity": "Agent IdentityVersion ChangeProposal ApiToken AuditEvent Webhook",
    "memory": "Event LongTermEntry LoopSummary Fact FactChange Subject Episode Decision Procedure Document Censor"
    " WorkingMemory MemoryReview Job JudgeCall FileRun",
    "context": "ContextRun ContextProfile Expectation ExpectationResult MemoryUsage",
}
"""By app the models that staff may look at by the rights of their role. Those of other packages are for superusers."""
HIDDEN = {"password", "digest", "former_digest", "secret", "former_secret", "token", "token_secret"}
"""Columns that nobody sees."""
DATES = {"auditevent": "at", "contextrun": "created_at"}
"""Indexed columns by whose dates a list is narrowed down."""
MAX_SEARCH_WORDS, MAX_COLUMNS = 20, 8
COLUMNS = (models.CharField, models.BooleanField, models.FloatField, models.IntegerField, models.DateTimeField)
LOGOUT = "/logout/"
"""The end of the one address here that takes a POST."""
View = TypeVar("View", bound=Callable[..., HttpResponseBase])


class ReadOnlyAdmin(ModelAdmin):
    """Lists and shows rows, whatever the permissions. `persona_path` leads from a row to its persona, if it has one."""

    persona_path = ""
    show_full_result_count, list_per_page, actions, list_select_related = False, 50, None, True

    def get_queryset(self, request: Any) -> Any:
        rows = super().get_queryset(request)
        kept = self.persona_path and not request.user.has_perm(VIEW_SUBCONSCIOUS)
        return rows.exclude(**{self.persona_path: Persona.SUBCONSCIOUS}) if kept else rows

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
        """The first words decide: each asks every searched column again, and thousands would take minutes."""
        return super().get_search_results(request, queryset, " ".join(search_term.split()[:MAX_SEARCH_WORDS]))

    def get_changelist_instance(self, request: Any) -> Any:
        """A year that no calendar has is refused as other lookups are that mean nothing."""
        try:
            return super().get_changelist_instance(request)
        except OverflowError as error:
            raise IncorrectLookupParameters("No such moment.") from error

    def get_exclude(self, request: Any, obj: Any = None) -> Any:
        sealed = isinstance(obj, AuditEvent) and not obj.shows_states(Principal.of_user(request.user))
        return [*HIDDEN, *(["before", "after"] if sealed else [])]

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    has_delete_permission = has_change_permission


def _page_of(model: type[models.Model]) -> type[ReadOnlyAdmin]:
    """The admin of a model of ours: its columns, filters and search follow from its fields."""
    common = {field.name for base in model.__bases__ if hasattr(base, "_meta") for field in base._meta.fields}
    columns = [
        field for field in model._meta.fields if field.name not in HIDDEN | {"author_id"} and not field.primary_key
    ]
    # What only this model has says most.
    columns.sort(key=lambda column: column.name in common)
    names = {column.name for column in columns}
    owner = next(
        (column.name for column in columns if column.is_relation and hasattr(column.related_model, "persona")), ""
    )
    plain = [column for column in columns if isinstance(column, COLUMNS)]
    texts = [
        column.name
        for column in columns
        if isinstance(column, models.CharField | models.TextField) and not column.choices
    ]
    agent = ["agent"] if "agent" in names and "agent_slug" not in names else []
    about = {
        "persona_path": "persona" if "persona" in names else f"{owner}__persona" if owner else "",
        "list_display": ["__str__", *agent, *(column.name for column in plain)][:MAX_COLUMNS],
        "list_filter": [
            *(column.name for column in plain if column.choices or isinstance(column, models.BooleanField)),
            *agent,
        ],
        "search_fields": texts[:MAX_COLUMNS],
        "date_hierarchy": DATES.get(model._meta.model_name or ""),
    }
    return type(f"{model.__name__}Admin", (ReadOnlyAdmin,), about)


def _is_superuser(request: Any) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)


class SuperuserOnly:
    """Shown to superusers only, whatever permissions anybody has."""

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return _is_superuser(request)

    has_module_permission = has_view_permission


class ClosedAdminSite(AdminSite):
    """Decides for each model, including those that third-party apps register, who sees it. Nobody changes any."""

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        for app, names in SHOWN.items():
            self.register([apps.get_model(app, each) for each in names.split()])

    def has_permission(self, request: Any) -> bool:
        """For owners, and staff whose role is for all agents: rows of all of them stand here beside each other."""
        limited = getattr(request.user, "limited_to", None) is not None
        return _is_superuser(request) or (super().has_permission(request) and not limited)

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Refuses every request that could change something, whatever the page and its actions."""
        shown = super().admin_view(view, cacheable)

        def read_only(request: Any, *args: Any, **kwargs: Any) -> Any:
            reads = request.method in ("GET", "HEAD", "OPTIONS") or request.path.endswith(LOGOUT)
            if not reads and self.has_permission(request):
                raise PermissionDenied("Django's admin changes nothing. Use the console's pages.")
            return shown(request, *args, **kwargs)

        return cast("View", update_wrapper(read_only, view))

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        given: Any = [model_or_iterable] if isinstance(model_or_iterable, type) else model_or_iterable
        for model in given:
            bases = (SuperuserOnly, ReadOnlyAdmin, admin_class or ModelAdmin)
            own = model._meta.app_label in SHOWN
            page = _page_of(model) if own else type(f"Closed{model.__name__}", bases, {"fieldsets": None})
            super().register(model, page, **options)
