"""The filters of lists of memories, read from the address."""

from datetime import datetime
from typing import Any, cast

import django_filters
from django import forms
from django.db.models import Q, QuerySet

from identity.filters import DateInput
from memory.models import Censor, Decision, Episode, Event, EventKind, Fact, Procedure, Scope, WorkingMemory
from memory.models.facts import FactQuerySet
from memory.policy import PROFILE_CATEGORIES
from memory.validation import moment_check

STATES = {"active": "Active", "retired": "Retired", "superseded": "Superseded", "wrong": "Found wrong", "all": "All"}
SORTS = {
    "newest": ("Newest first", ("-recorded_at", "-id")),
    "oldest": ("Oldest first", ("recorded_at", "id")),
    "surest": ("Surest first", ("-confidence", "-importance", "-recorded_at", "id")),
    "importance": ("Most important first", ("-importance", "-confidence", "-recorded_at", "id")),
    "subject": ("By subject", ("subject", "-recorded_at", "id")),
}
DEFAULT_SORT = "newest"
PROFILE = "profile"


class MomentInput(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%dT%H:%M")


class StoreFilter(django_filters.FilterSet):
    """What the filters of all stores share: `narrowed` says whether anything is left out."""

    @property
    def is_filtered(self) -> bool:
        return bool(self.form.is_valid() and any(self.form.cleaned_data.values()))

    @property
    def found(self) -> Any:
        """The rows that pass, and none where a filter could not be read."""
        return self.qs if self.form.is_valid() else self.queryset.none()


class FactFilter(django_filters.FilterSet):
    """Which facts of one agent are shown. Retired ones are shown only when asked for."""

    q = django_filters.CharFilter(method="filter_words", label="Words")
    category = django_filters.ChoiceFilter(method="filter_category", empty_label="Any category", label="Category")
    state = django_filters.ChoiceFilter(
        method="filter_state", choices=list(STATES.items()), empty_label=None, label="State"
    )
    scope = django_filters.ChoiceFilter(choices=Scope.choices, empty_label="Any scope", label="Scope")
    tag = django_filters.CharFilter(method="filter_tag", label="Tag")
    subject = django_filters.CharFilter(lookup_expr="iexact", label="Subject")
    as_of = django_filters.IsoDateTimeFilter(
        method="filter_as_of", label="Known and true at (UTC)", widget=MomentInput()
    )
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
    def is_filtered(self) -> bool:
        """Whether anything is left out that the page shows by itself."""
        given = self.form.cleaned_data if self.form.is_valid() else {}
        return bool(
            any(given.get(name) for name in ("q", "category", "scope", "tag", "subject", "as_of"))
            or given.get("state") != "active"
        )

    def filter_words(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.filter(Q(content__icontains=value) | Q(subject__icontains=value))

    def filter_category(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.filter(category__in=PROFILE_CATEGORIES if value == PROFILE else [value])

    def filter_state(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        # A look at a moment shows what was held to be true then, whatever became of it.
        if value == "all" or self.form.cleaned_data.get("as_of"):
            return queryset
        if value == "superseded":
            return queryset.filter(superseded_by__isnull=False)
        if value == "wrong":
            return queryset.filter(invalidated_at__isnull=False)
        return queryset.filter(active=value == "active")

    def filter_tag(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.filter(tags__contains=[value])

    def filter_as_of(self, queryset: QuerySet[Fact], name: str, value: datetime) -> Any:
        moment = moment_check("as_of", value)
        return cast(FactQuerySet, queryset).as_of(moment) if moment else queryset

    def filter_sort(self, queryset: QuerySet[Fact], name: str, value: str) -> Any:
        return queryset.order_by(*SORTS[value][1])


VISIBILITIES = (("public", "Public"), ("internal", "Internal"), ("private", "Private"))


class EventFilter(StoreFilter):
    """Which events are shown. Visibility offers the known words; an address may name another."""

    q = django_filters.CharFilter(field_name="content", lookup_expr="icontains", label="Words")
    kind = django_filters.ChoiceFilter(choices=EventKind.choices, empty_label="Any kind")
    loop = django_filters.CharFilter(field_name="loop_id", lookup_expr="icontains", label="Loop")
    visibility = django_filters.ChoiceFilter(empty_label="Any visibility")
    since = django_filters.DateFilter(field_name="ts", lookup_expr="date__gte", label="From", widget=DateInput())
    until = django_filters.DateFilter(field_name="ts", lookup_expr="date__lte", label="To", widget=DateInput())

    class Meta:
        model = Event
        fields: list[str] = []

    def __init__(self, data: Any, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        given = data.get("visibility", "")
        words = dict(VISIBILITIES)
        if given and given.isascii() and given.isidentifier():
            words.setdefault(given, given)
        self.filters["visibility"].extra["choices"] = list(words.items())


class EpisodeFilter(StoreFilter):
    q = django_filters.CharFilter(method="filter_words", label="Words")
    outcome = django_filters.ChoiceFilter(choices=Episode.Outcome.choices, empty_label="Any outcome")
    state = django_filters.ChoiceFilter(
        method="filter_state",
        choices=[("open", "Open"), ("closed", "Closed")],
        empty_label="Open or closed",
        label="State",
    )
    summary = django_filters.ChoiceFilter(
        field_name="summary_kind", choices=Episode.SummaryKind.choices, empty_label="Any summary", label="Summary"
    )
    since = django_filters.DateFilter(
        field_name="started_at", lookup_expr="date__gte", label="From", widget=DateInput()
    )
    until = django_filters.DateFilter(field_name="started_at", lookup_expr="date__lte", label="To", widget=DateInput())

    class Meta:
        model = Episode
        fields: list[str] = []

    def filter_words(self, queryset: QuerySet[Episode], name: str, value: str) -> Any:
        return queryset.filter(Q(title__icontains=value) | Q(summary__icontains=value) | Q(detail__icontains=value))

    def filter_state(self, queryset: QuerySet[Episode], name: str, value: str) -> Any:
        return queryset.filter(ended_at__isnull=value == "open")


class DecisionFilter(StoreFilter):
    q = django_filters.CharFilter(method="filter_words", label="Words")
    stakes = django_filters.ChoiceFilter(choices=Decision.Stakes.choices, empty_label="Any stakes")
    outcome = django_filters.ChoiceFilter(choices=Decision.Outcome.choices, empty_label="Any outcome")
    category = django_filters.CharFilter(lookup_expr="iexact", label="Category")
    review = django_filters.ChoiceFilter(
        method="filter_review",
        choices=[("open", "Not reviewed"), ("done", "Reviewed")],
        empty_label="Reviewed or not",
        label="Review",
    )

    class Meta:
        model = Decision
        fields: list[str] = []

    def filter_words(self, queryset: QuerySet[Decision], name: str, value: str) -> Any:
        return queryset.filter(Q(description__icontains=value) | Q(context__icontains=value))

    def filter_review(self, queryset: QuerySet[Decision], name: str, value: str) -> Any:
        return queryset.filter(reviewed_at__isnull=value == "open")


USES = {"active": "In use", "retired": "Retired"}


def _by_use(queryset: QuerySet[Any], name: str, value: str) -> Any:
    return queryset.filter(active=value == "active")


class ProcedureFilter(StoreFilter):
    q = django_filters.CharFilter(method="filter_words", label="Words")
    domain = django_filters.CharFilter(lookup_expr="iexact", label="Domain")
    state = django_filters.ChoiceFilter(
        method=_by_use, choices=list(USES.items()), empty_label="In use or retired", label="State"
    )

    class Meta:
        model = Procedure
        fields: list[str] = []

    def filter_words(self, queryset: QuerySet[Procedure], name: str, value: str) -> Any:
        return queryset.filter(Q(name__icontains=value) | Q(description__icontains=value))


class CensorFilter(StoreFilter):
    q = django_filters.CharFilter(method="filter_words", label="Words")
    severity = django_filters.ChoiceFilter(choices=Censor.Severity.choices, empty_label="Any severity")
    match = django_filters.ChoiceFilter(choices=Censor.Match.choices, empty_label="Pattern or meaning")
    domain = django_filters.CharFilter(lookup_expr="iexact", label="Domain")
    state = django_filters.ChoiceFilter(
        method=_by_use, choices=list(USES.items()), empty_label="In use or retired", label="State"
    )

    class Meta:
        model = Censor
        fields: list[str] = []

    def filter_words(self, queryset: QuerySet[Censor], name: str, value: str) -> Any:
        return queryset.filter(Q(pattern__icontains=value) | Q(reason__icontains=value))


class WorkingFilter(StoreFilter):
    q = django_filters.CharFilter(method="filter_words", label="Words")

    class Meta:
        model = WorkingMemory
        fields: list[str] = []

    def filter_words(self, queryset: QuerySet[WorkingMemory], name: str, value: str) -> Any:
        return queryset.filter(Q(session_id__icontains=value) | Q(task__icontains=value))
