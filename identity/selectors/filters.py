"""The filters of lists, read from the address."""

from datetime import timedelta
from typing import Any

import django_filters
from django import forms
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT

from identity.models import Agent, AuditEvent, AuthorFields, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from nousweb.lib import clock, ilike_lookup  # noqa: F401 - registers the lookup of words
from nousweb.lib.transactions import sql_rows


def agent_choices(by: Principal) -> list[tuple[str, str]]:
    """Agents that `by` may choose from; a select with more of them helps nobody."""
    return list(Agent.objects.visible_to(by).values_list("slug", "name")[:500])


def audit_actions(by: Principal) -> list[str]:
    """Every action in the part of the audit trail that `by` may see, by hopping along its index: cheap however long
    the trail is."""
    table = connection.ops.quote_name(AuditEvent._meta.db_table)
    seen = "true" if by.may(VIEW_SUBCONSCIOUS) else f"persona <> '{Persona.SUBCONSCIOUS.value}'"
    if by.agents is not None:
        seen += f" AND agent_id = ANY('{{{','.join(str(int(key)) for key in by.agents)}}}'::bigint[])"
    return [
        action
        for (action,) in sql_rows(
            f"""
            WITH RECURSIVE hop AS (
                (SELECT action FROM {table} WHERE {seen} ORDER BY action LIMIT 1)
                UNION ALL
                SELECT (SELECT action FROM {table} WHERE {seen} AND action > hop.action ORDER BY action LIMIT 1)
                FROM hop WHERE hop.action IS NOT NULL
            )
            SELECT action FROM hop WHERE action IS NOT NULL
            """  # noqa: S608
        )
    ]


class DateInput(forms.DateInput):
    input_type = "date"


PERIODS = (("1", "Last 24 hours"), ("7", "Last 7 days"), ("30", "Last 30 days"), ("90", "Last 90 days"))
"""Numbers of days before now, by which a list of what happened is narrowed first."""


def period_filter(column: str) -> django_filters.ChoiceFilter:
    """A filter of the rows of one of PERIODS by their moment `column`."""

    def method(queryset: QuerySet[Any], name: str, value: str) -> QuerySet[Any]:
        return queryset.filter(**{f"{column}__gte": clock.now() - timedelta(days=int(value))})

    return django_filters.ChoiceFilter(choices=PERIODS, method=method, empty_label="Any time", label="Period")


class ListFilter(django_filters.FilterSet):
    """What a list of the console can be filtered by."""

    @property
    def is_filtered(self) -> bool:
        """Whether anything is left out."""
        return bool(self.form.is_valid() and any(self.form.cleaned_data.values()))

    @property
    def results(self) -> Any:
        """The rows that pass, and none where a filter could not be read."""
        return self.qs if self.form.is_valid() else self.queryset.none()


AUDIT_AREAS = {
    "identity": ("Identity", ("identity", "proposal")),
    "memory": (
        "Memory",
        (
            *(
                "fact",
                "decision",
                "episode",
                "procedure",
                "document",
                "events",
                "loop",
                "working",
                "subject",
                "project",
            ),
            *("memory", "memory_review", "memory_import", "memory_export", "knownsource", "index", "screening"),
        ),
    ),
    "prompts": ("Prompts", ("censor", "context", "expectation", "playground")),
    "access": ("Access", ("invitation", "login", "oauth_client", "second_factor", "secret", "token", "user")),
    "settings": ("Settings", ("agent", "profile", "schedule", "webhook")),
    "all": ("Everything", ()),
}
"""What records are about: the words, and the first words of their actions; all of them without any."""


class AuditFilter(ListFilter):
    """Filters of the audit trail: who did what, when, to what."""

    agent = django_filters.ChoiceFilter(field_name="agent_slug", choices=[], empty_label="Any agent", label="Agent")
    action = django_filters.ChoiceFilter(choices=[], empty_label="Any action")
    kind = django_filters.ChoiceFilter(
        field_name="author_kind", choices=AuthorFields.Kind.choices, empty_label="Anybody", label="By"
    )
    channel = django_filters.ChoiceFilter(
        choices=[*AuditEvent.CHANNELS, ("itself", "Nous itself")],
        method="filter_channel",
        empty_label="Any channel",
        label="Channel",
    )
    author = django_filters.CharFilter(field_name="author_name", lookup_expr="icontains", label="Name")
    q = django_filters.CharFilter(method="filter_words", label="Search, or an id")
    period = period_filter("at")
    since = django_filters.DateFilter(field_name="at", lookup_expr="date__gte", label="From", widget=DateInput())
    until = django_filters.DateFilter(field_name="at", lookup_expr="date__lte", label="To", widget=DateInput())
    about = django_filters.ChoiceFilter(
        choices=[(key, label) for key, (label, _) in AUDIT_AREAS.items()],
        method="filter_about",
        widget=forms.HiddenInput,
    )
    # Chosen from a row: nobody knows an id by heart. One that a log has goes into the field of words.
    object = django_filters.CharFilter(method="filter_object", label="Object", widget=forms.HiddenInput)
    request = django_filters.CharFilter(field_name="request_id", label="Request id", widget=forms.HiddenInput)

    class Meta:
        model = AuditEvent
        fields: list[str] = []

    def __init__(self, *args: Any, by: Principal, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.filters["agent"].extra["choices"] = agent_choices(by)
        self.filters["action"].extra["choices"] = [(name, name) for name in audit_actions(by)]

    def filter_about(self, queryset: QuerySet[AuditEvent], name: str, value: str) -> Any:
        nouns = AUDIT_AREAS[value][1]
        actions = [action for action, _ in self.filters["action"].extra["choices"] if action.partition(".")[0] in nouns]
        return queryset.filter(action__in=actions) if nouns else queryset

    def filter_channel(self, queryset: QuerySet[AuditEvent], name: str, value: str) -> Any:
        return queryset.filter(channel="" if value == "itself" else value)

    def filter_words(self, queryset: QuerySet[AuditEvent], name: str, value: str) -> Any:
        """A part of the label or the message, or of the pattern of a censor, whose label is its reason; or the whole id
        of the object or of the request, as logs have it."""
        of_censors = AuditEvent.objects.filter(object_type="censor").alias(pattern=KT("after__pattern"))
        words = Q(object_label__ilike=value) | Q(message__ilike=value)
        words |= Q(object_type="censor", object_id__in=of_censors.filter(pattern__ilike=value).values("object_id"))
        return queryset.filter(words | Q(object_id=value) | Q(request_id=value))

    def filter_object(self, queryset: QuerySet[AuditEvent], name: str, value: str) -> Any:
        """Either "type:id", as the rows link to it, or an id alone."""
        object_type, _, object_id = value.rpartition(":")
        found = queryset.filter(object_id=object_id)
        return found.filter(object_type=object_type) if object_type else found
