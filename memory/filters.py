"""The filters of lists of memories, read from the address."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet

from memory.models import Fact
from memory.policy import PROFILE_CATEGORIES

STATES = {"active": "Active", "retired": "Retired", "all": "All"}
SORTS = {
    "newest": ("Newest first", ("-recorded_at", "-id")),
    "oldest": ("Oldest first", ("recorded_at", "id")),
    "surest": ("Surest first", ("-confidence", "-importance", "-recorded_at", "id")),
    "importance": ("Most important first", ("-importance", "-confidence", "-recorded_at", "id")),
    "subject": ("By subject", ("subject", "-recorded_at", "id")),
}
DEFAULT_SORT = "newest"
PROFILE = "profile"


class FactFilter(django_filters.FilterSet):
    """Which facts of one agent are shown. Retired ones are shown only when asked for."""

    q = django_filters.CharFilter(method="filter_words", label="Words")
    category = django_filters.ChoiceFilter(method="filter_category", empty_label="Any category", label="Category")
    state = django_filters.ChoiceFilter(
        method="filter_state", choices=list(STATES.items()), empty_label=None, label="State"
    )
    subject = django_filters.CharFilter(lookup_expr="iexact", label="Subject")
    sort = django_filters.ChoiceFilter(
        method="filter_sort",
        choices=[(name, label) for name, (label, _) in SORTS.items()],
        empty_label=None,
        label="Order",
    )

    class Meta:
        model = Fact
        fields: list[str] = []

    def __init__(self, data: Any, *, categories: list[str], **kwargs: Any) -> None:
        data = data.copy()
        data.setdefault("state", "active")
        data.setdefault("sort", DEFAULT_SORT)
        super().__init__(data, **kwargs)
        self.filters["category"].extra["choices"] = [
            (PROFILE, "Always in the prompt"),
            *((name, f"{name} · always" if name in PROFILE_CATEGORIES else name) for name in categories),
        ]

    @property
    def narrowed(self) -> bool:
        """Whether anything is left out that the page shows by itself."""
        given = self.form.cleaned_data if self.form.is_valid() else {}
        return bool(given.get("q") or given.get("category") or given.get("subject") or given.get("state") != "active")

    def filter_words(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.filter(Q(content__icontains=value) | Q(subject__icontains=value))

    def filter_category(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.filter(category__in=PROFILE_CATEGORIES if value == PROFILE else [value])

    def filter_state(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset if value == "all" else queryset.filter(active=value == "active")

    def filter_sort(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.order_by(*SORTS[value][1])
