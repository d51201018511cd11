"""Read-only pages of the product's own rows in Django's admin.

Every change of what agents remember, believe or are told goes through a service, and rows of the subconscious require
its permission, here as everywhere.
"""

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest

from identity.models import Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS

MAX_SEARCH_WORDS = 20


class ReadOnlyAdmin(admin.ModelAdmin):
    """Lists and shows rows, and never adds, changes or deletes them, whatever the permissions.

    `persona_path` leads from a row to its persona, for rows that have one.
    """

    persona_path = ""
    show_full_result_count = False
    list_per_page = 50
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        if not self.persona_path or request.user.has_perm(VIEW_SUBCONSCIOUS):
            return rows
        return rows.exclude(**{self.persona_path: Persona.SUBCONSCIOUS})

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        """The first words decide: each asks every searched column again, and thousands would take minutes."""
        words = search_term.split()[:MAX_SEARCH_WORDS]
        return super().get_search_results(request, queryset, " ".join(words))

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """A year that no calendar has is refused as other lookups are that mean nothing."""
        try:
            return super().get_changelist_instance(request)
        except OverflowError as error:
            raise IncorrectLookupParameters("No such moment.") from error

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
