"""The filters of lists of memories, read from the address."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, TypeVar, cast

import django_filters
from django import forms
from django.db.models import Exists, F, FloatField, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Lower, NullIf

from identity.selectors.filters import DateInput, ListFilter, period_filter
from memory.models import (
    Censor,
    Decision,
    Document,
    DocumentQuerySet,
    Episode,
    Event,
    EventKind,
    Fact,
    FactChange,
    FactQuerySet,
    ItemType,
    Job,
    MemoryReview,
    Procedure,
    Scope,
    SearchItem,
    Subject,
    SubjectAlias,
    Trust,
    Validity,
    expired_q,
)
from memory.policy import KNOWN_CATEGORIES, PROFILE_CATEGORIES
from memory.subjects.name_similarity import key_of, meaning_of
from nousweb.lib import clock

STATES = {
    "active": "Active",
    "expired": Validity.EXPIRED.label,
    "not_yet_valid": Validity.NOT_YET_VALID.label,
    "retired": "Retired",
    "superseded": "Replaced",
    "wrong": "Marked as wrong",
    "all": "All",
}
SORTS = {
    "newest": ("Newest first", ("-recorded_at", "-id")),
    "oldest": ("Oldest first", ("recorded_at", "id")),
    "surest": ("Highest confidence first", ("-confidence", "-importance", "-recorded_at", "id")),
    "importance": ("Most important first", ("-importance", "-confidence", "-recorded_at", "id")),
    "subject": ("By subject", ("subject", "-recorded_at", "id")),
}
DEFAULT_SORT = "newest"
PROFILE = "profile"

Rows = TypeVar("Rows", bound=QuerySet[Any])


class MomentInput(forms.DateTimeInput):
    input_type = "datetime-local"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%dT%H:%M")


def filter_words(*columns: str) -> Callable[[QuerySet[Any], str, str], QuerySet[Any]]:
    """The `method` of a filter for rows with the words of its value in one of the columns, in any case."""

    def method(queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(reduce(or_, (Q(**{f"{column}__ilike": value}) for column in columns)))

    return method


def filter_tag(queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
    """Rows with the tag `value`."""
    return queryset.filter(tags__contains=[value])


def _in_use(queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
    return queryset if value == "all" else queryset.filter(active=value == "active")


def _open(column: str) -> Callable[[QuerySet[Any], str, str], QuerySet[Any]]:
    """ "open": rows whose `column` is still empty; "all": every row; else those that have it."""

    def method(queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset if value == "all" else queryset.filter(**{f"{column}__isnull": value == "open"})

    return method


class MemoryFilter(ListFilter):
    """The filters of one list of memories: a form in the console, `narrow` in the API.

    A method is a function, so that `narrow` needs no form. A list is narrowed by `at_first` until others are chosen.
    """

    at_first: Mapping[str, str] = {}

    def __init__(self, data: Any, **kwargs: Any) -> None:
        data = data.copy()
        for name, value in self.at_first.items():
            data.setdefault(name, value)
        super().__init__(data, **kwargs)

    @property
    def is_filtered(self) -> bool:
        """Whether anything is left out that the page shows by itself."""
        if not self.form.is_valid():
            return bool(self.at_first)
        given = self.form.cleaned_data.items()
        return any(value and name != "sort" and value != self.at_first.get(name) for name, value in given)

    @classmethod
    def narrow(cls, queryset: Rows, **values: Any) -> Rows:
        """The rows that pass the filters named, whose values have been checked; an empty value lets everything pass."""
        for name, value in values.items():
            queryset = cls.base_filters[name].filter(queryset, value)
        return queryset


def _of_trust(queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
    if queryset.model is Event:
        return queryset.filter(long_term__origin=value)
    if value == Trust.PERSON:
        return queryset.filter(Q(endorsed=True) | Q(origin=value))
    return queryset.filter(endorsed=False, origin=value)


class KeyedFilter(MemoryFilter):
    """Of memories that carry the keys of a project, a task and a user, and whose words come from somewhere."""

    project = django_filters.CharFilter(label="Project")
    task = django_filters.CharFilter(label="Task")
    user = django_filters.CharFilter(label="User")
    trust = django_filters.ChoiceFilter(method=_of_trust, choices=Trust.choices, empty_label="Any trust", label="Trust")


def _of_category(queryset: QuerySet[Fact], name: str, value: str) -> QuerySet[Fact]:
    # Facts of a moment of the past have the category of then.
    column = "category_as_of" if "category_as_of" in queryset.query.annotations else "category"
    return queryset.filter(**{f"{column}__in": PROFILE_CATEGORIES if value == PROFILE else [value]})


def _of_state(queryset: QuerySet[Fact], name: str, value: str) -> QuerySet[Fact]:
    if value == "active":
        return cast(FactQuerySet, queryset).current()
    conditions = {
        Validity.EXPIRED: Q(expired_q(Fact, clock.now()), active=True),
        Validity.NOT_YET_VALID: Q(valid_from__gt=clock.now(), active=True),
        "superseded": Q(superseded_by__isnull=False),
        "wrong": Q(invalidated_at__isnull=False),
    }
    return queryset.filter(conditions[value]) if value in conditions else _in_use(queryset, name, value)


def _of_subject(queryset: QuerySet[Fact], name: str, value: str) -> QuerySet[Fact]:
    """Facts about what `value` means, whatever they call it."""
    asked = Q(key=key_of(value)) | Q(meaning=meaning_of(value))
    same = {"agent": OuterRef("agent"), "persona": OuterRef("persona")}
    named = SubjectAlias.objects.filter(asked, **same).filter(subject=OuterRef("subject_alias__subject"))
    return queryset.filter(Exists(named))


class FactFilter(KeyedFilter):
    """The filter of an agent's facts. Retired facts and facts that are not valid are shown only on request."""

    at_first = {"state": "active", "sort": DEFAULT_SORT}
    q = django_filters.CharFilter(method=filter_words("content", "subject"), label="Search")
    category = django_filters.ChoiceFilter(method=_of_category, empty_label="Any category", label="Category")
    state = django_filters.ChoiceFilter(method=_of_state, choices=list(STATES.items()), empty_label=None, label="State")
    scope = django_filters.ChoiceFilter(choices=Scope.choices, empty_label="Any scope", label="Scope")
    tag = django_filters.CharFilter(method=filter_tag, label="Tag")
    subject = django_filters.CharFilter(method=_of_subject, label="Subject")
    sort = django_filters.ChoiceFilter(
        method=lambda queryset, name, value: queryset.order_by(*SORTS[value][1]),
        choices=[(name, label) for name, (label, _) in SORTS.items()],
        empty_label=None,
        label="Order",
    )

    def __init__(self, data: Any, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        asked = data.get("category", "")
        # Agents may use categories of their own; a link may name one that the list does not offer.
        categories = dict.fromkeys([*KNOWN_CATEGORIES, *([asked] if asked.isidentifier() else [])])
        self.filters["category"].extra["choices"] = [
            (PROFILE, "Always in the prompt"),
            *((name, f"{name} · always" if name in PROFILE_CATEGORIES else name) for name in categories),
        ]


def _subject_words(queryset: QuerySet[Subject], name: str, value: str) -> QuerySet[Subject]:
    spelled = SubjectAlias.objects.filter(agent=OuterRef("agent"), subject=OuterRef("pk"), spelling__icontains=value)
    return queryset.filter(Exists(spelled) | Q(name__icontains=value))


def _decided_by(queryset: QuerySet[FactChange], name: str, value: str) -> QuerySet[FactChange]:
    by_judge = Q(evidence__has_key="judge")
    if value == "judge":
        return queryset.filter(by_judge)
    by_person = Q(author_kind="person")
    return queryset.filter(by_person) if value == "person" else queryset.exclude(by_person).exclude(by_judge)


class SupersessionFilter(MemoryFilter):
    subject = django_filters.CharFilter(field_name="fact__subject", lookup_expr="icontains", label="Subject")
    way = django_filters.ChoiceFilter(
        method=_decided_by,
        choices=[("judge", "By the judge"), ("rule", "By the rules"), ("person", "By a person")],
        empty_label="Anybody",
        label="Decided",
    )
    period = period_filter("at")
    since = django_filters.DateFilter(field_name="at", lookup_expr="date__gte", label="From", widget=DateInput())
    until = django_filters.DateFilter(field_name="at", lookup_expr="date__lte", label="To", widget=DateInput())


SUBJECT_SORTS = {
    "name": ("By name", ("-is_contradicted", Lower("name"), "id")),
    "facts": ("Most facts first", ("-facts", Lower("name"), "id")),
    "newest": ("Newest fact first", (F("newest_at").desc(nulls_last=True), "id")),
    "oldest": ("Oldest fact first", (F("newest_at").asc(nulls_last=True), "id")),
}


class SubjectFilter(MemoryFilter):
    """The filter of subjects, which have the number of their facts, when the newest was learned (`newest_at`), and
    whether facts about them contradict each other (`is_contradicted`)."""

    at_first = {"sort": "name"}
    q = django_filters.CharFilter(method=_subject_words, label="Search")
    kind = django_filters.ChoiceFilter(choices=Subject.Kind.choices, empty_label="Any kind", label="Kind")
    state = django_filters.ChoiceFilter(
        method=lambda queryset, name, value: queryset.filter(is_contradicted=True),
        choices=[("contradicted", "Contradicted")],
        empty_label="Any state",
        label="State",
    )
    sort = django_filters.ChoiceFilter(
        method=lambda queryset, name, value: queryset.order_by(*SUBJECT_SORTS[value][1]),
        choices=[(name, label) for name, (label, _) in SUBJECT_SORTS.items()],
        empty_label=None,
        label="Order",
    )


VISIBILITIES = (("public", "Public"), ("internal", "Internal"), ("private", "Private"))


class EventFilter(KeyedFilter):
    """The filter of events. Visibility offers the known words; an address may name another."""

    q = django_filters.CharFilter(method=filter_words("content"), label="Search")
    kind = django_filters.ChoiceFilter(choices=EventKind.choices, empty_label="Any kind")
    loop = django_filters.CharFilter(field_name="loop_id", lookup_expr="icontains", label="Session")
    visibility = django_filters.ChoiceFilter(empty_label="Any visibility")
    period = period_filter("ts")
    since = django_filters.DateFilter(field_name="ts", lookup_expr="date__gte", label="From", widget=DateInput())
    until = django_filters.DateFilter(field_name="ts", lookup_expr="date__lte", label="To", widget=DateInput())

    def __init__(self, data: Any, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        given = data.get("visibility", "")
        words = dict(VISIBILITIES)
        if given and given.isascii() and given.isidentifier():
            words.setdefault(given, given)
        self.filters["visibility"].extra["choices"] = list(words.items())


class EpisodeFilter(KeyedFilter):
    q = django_filters.CharFilter(method=filter_words("title", "summary", "detail"), label="Search")
    outcome = django_filters.ChoiceFilter(choices=Episode.Outcome.choices, empty_label="Any outcome")
    state = django_filters.ChoiceFilter(
        method=_open("ended_at"),
        choices=[("open", "Open"), ("closed", "Closed")],
        empty_label="Any state",
        label="State",
    )
    tag = django_filters.CharFilter(method=filter_tag, label="Tag")
    summary = django_filters.ChoiceFilter(
        field_name="summary_kind", choices=Episode.SummaryKind.choices, empty_label="Any summary", label="Summary"
    )
    period = period_filter("started_at")
    since = django_filters.DateFilter(
        field_name="started_at", lookup_expr="date__gte", label="From", widget=DateInput()
    )
    until = django_filters.DateFilter(field_name="started_at", lookup_expr="date__lte", label="To", widget=DateInput())


class DecisionFilter(KeyedFilter):
    q = django_filters.CharFilter(method=filter_words("description", "context"), label="Search")
    stakes = django_filters.ChoiceFilter(choices=Decision.Stakes.choices, empty_label="Any stakes")
    outcome = django_filters.ChoiceFilter(choices=Decision.Outcome.choices, empty_label="Any outcome")
    category = django_filters.CharFilter(lookup_expr="iexact", label="Category")
    tag = django_filters.CharFilter(method=filter_tag, label="Tag")
    review = django_filters.ChoiceFilter(
        method=_open("reviewed_at"),
        choices=[("open", "Not reviewed"), ("done", "Reviewed")],
        empty_label="Reviewed or not",
        label="Review",
    )


USES = {"active": "In use", "retired": "Retired"}


def _effective_from(queryset: QuerySet[Procedure], name: str, value: Decimal | float) -> QuerySet[Procedure]:
    """Procedures with reported outcomes, of which at least this share are successes."""
    known = NullIf(F("success_count") + F("failure_count"), Value(0))
    rated = queryset.alias(effective=Cast("success_count", FloatField()) / Cast(known, FloatField()))
    return rated.filter(effective__gte=float(value))


class ProcedureFilter(KeyedFilter):
    q = django_filters.CharFilter(method=filter_words("name", "description"), label="Search")
    domain = django_filters.CharFilter(lookup_expr="iexact", label="Domain")
    tag = django_filters.CharFilter(method=filter_tag, label="Tag")
    min_effectiveness = django_filters.NumberFilter(
        method=_effective_from, label="Minimum effectiveness (0 to 1)", min_value=0, max_value=1
    )
    state = django_filters.ChoiceFilter(
        method=_in_use, choices=list(USES.items()), empty_label="Any state", label="State"
    )


DOCUMENT_STATES = {
    "active": "Active",
    "expired": "Expired",
    "retired": "Retired",
    "superseded": "Earlier versions",
    "all": "All",
}


def _of_version(queryset: QuerySet[Document], name: str, value: str) -> QuerySet[Document]:
    if value == "active":
        return cast(DocumentQuerySet, queryset).current()
    conditions = {
        "superseded": Q(superseded_by__isnull=False),
        "retired": Q(active=False, superseded_by__isnull=True),
        "expired": Q(expired_q(Document, clock.now()), active=True),
    }
    return queryset.filter(conditions[value]) if value in conditions else _in_use(queryset, name, value)


def _of_path(queryset: QuerySet[Document], name: str, value: str) -> QuerySet[Document]:
    return cast(DocumentQuerySet, queryset).within([label.strip() for label in value.split("/") if label.strip()])


class DocumentFilter(KeyedFilter):
    """The filter of documents. Retired documents and earlier versions are shown only on request."""

    at_first = {"state": "active"}
    q = django_filters.CharFilter(method=filter_words("key", "text"), label="Search")
    namespace = django_filters.CharFilter(method=_of_path, label="Namespace (a / b)")
    tag = django_filters.CharFilter(method=filter_tag, label="Tag")
    state = django_filters.ChoiceFilter(
        method=_of_version, choices=list(DOCUMENT_STATES.items()), empty_label=None, label="State"
    )


ENDING_DAYS = {"7": "Within 7 days", "30": "Within 30 days", "90": "Within 90 days"}


def _ending_within(queryset: QuerySet[SearchItem], name: str, value: str) -> QuerySet[SearchItem]:
    now = clock.now()
    if value == "ended":
        return queryset.filter(valid_until__lte=now, valid_until__gt=now - timedelta(days=30)).order_by("-valid_until")
    rows = queryset.filter(valid_until__gt=now).order_by("valid_until", "id")
    return rows if value == "all" else rows.filter(valid_until__lte=now + timedelta(days=int(value)))


class EndingFilter(MemoryFilter):
    """Rows of the index with an end: of which type, and when."""

    at_first = {"when": "30"}
    TYPES = (ItemType.FACT, ItemType.DOCUMENT)
    type = django_filters.ChoiceFilter(
        field_name="item_type",
        choices=[(one.value, one.label) for one in TYPES],
        empty_label="Any type",
        label="Type",
    )
    when = django_filters.ChoiceFilter(
        method=_ending_within,
        choices=[*ENDING_DAYS.items(), ("all", "At any time"), ("ended", "Ended in the last 30 days")],
        empty_label=None,
        label="Ends",
    )


class CensorFilter(MemoryFilter):
    q = django_filters.CharFilter(method=filter_words("pattern", "reason"), label="Search")
    severity = django_filters.ChoiceFilter(choices=Censor.Severity.choices, empty_label="Any severity")
    match = django_filters.ChoiceFilter(choices=Censor.Match.choices, empty_label="Any match")
    domain = django_filters.CharFilter(lookup_expr="iexact", label="Domain")
    state = django_filters.ChoiceFilter(
        method=_in_use, choices=list(USES.items()), empty_label="Any state", label="State"
    )


class WorkingFilter(MemoryFilter):
    q = django_filters.CharFilter(method=filter_words("session_id", "task"), label="Search")


class ReviewFilter(MemoryFilter):
    status = django_filters.ChoiceFilter(choices=MemoryReview.Status.choices)
    kind = django_filters.ChoiceFilter(choices=MemoryReview.Kind.choices)
    agent = django_filters.CharFilter(field_name="agent__slug")


class JobFilter(MemoryFilter):
    status = django_filters.ChoiceFilter(choices=Job.Status.choices)
    handler = django_filters.CharFilter()
