"""Agents, their personas and kinds, and the base classes of rows that belong to an agent or have an author."""

from typing import Any, Self

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.fields.related_descriptors import ReverseManyToOneDescriptor
from django.db.models.lookups import Exact
from django.urls import reverse
from django.utils.functional import cached_property

from identity.policy.permissions import VIEW_SUBCONSCIOUS
from nousweb.lib import clock
from nousweb.lib.permission_holder import PermissionHolder, for_visible_agents


class Persona(models.TextChoices):
    ACTOR = "actor", "Actor"
    SUBCONSCIOUS = "subconscious", "Subconscious"


class AgentKind(models.TextChoices):
    """The role an agent plays, which chooses its context profile."""

    KNIGHT = "knight", "Knight: carries work out"
    SQUIRE = "squire", "Squire: reviews and helps"
    ROYALTY = "royalty", "Royalty: plans and delegates"
    PEASANT = "peasant", "Peasant: one narrow helper task"


SLUG_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,49}$"
validate_slug = RegexValidator(
    SLUG_PATTERN,
    "Use 1 to 50 lower-case letters, digits, - or _, beginning with a letter or digit.",
)


class PersonaQuerySet(models.QuerySet[Any]):
    """Rows that name an agent and a persona."""

    def visible_to(self, by: PermissionHolder) -> Self:
        """The rows that `by` may see. Rows of the subconscious require its permission. Rows without an agent require
        access to all agents, since they name some."""
        seen: Any = for_visible_agents(self, by)
        return seen if by.may(VIEW_SUBCONSCIOUS) else seen.exclude(persona=Persona.SUBCONSCIOUS)


class AgentQuerySet(models.QuerySet["Agent"]):
    def visible_to(self, by: PermissionHolder) -> "AgentQuerySet":
        """The agents that `by` may see. Every page that lists agents starts with this."""
        return for_visible_agents(self, by, "pk")  # type: ignore[return-value]

    def with_waiting(self, by: PermissionHolder) -> "AgentQuerySet":
        """Annotate `waiting`: the number of pending proposals that `by` may see."""
        pending = Q(proposals__status="pending")
        if not by.may(VIEW_SUBCONSCIOUS):
            pending &= ~Q(proposals__persona=Persona.SUBCONSCIOUS)
        return self.annotate(waiting=models.Count("proposals", filter=pending))


class Agent(models.Model):
    slug = models.CharField(max_length=50, unique=True, validators=[validate_slug])
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=AgentKind, default=AgentKind.SQUIRE)
    config = models.JSONField(default=dict, blank=True)
    # A moment and not a state machine: initiation is one transaction, so nothing can be left half-way.
    initiated_at = models.DateTimeField(null=True, blank=True)
    # A writer of data that it read before can tell by this number whether anything was erased in between.
    erasures = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        permissions = [("reinitiate_agent", "Can seed an agent's identity again")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("agent_identity", args=[self.slug])

    @property
    def initiation_state(self) -> str:
        return "initiated" if self.initiated_at else "new"


class AgentRow(models.Model):
    """A model with a foreign key `agent`: rows are saved and reloaded by key and agent."""

    agent_id: int

    class Meta:
        abstract = True

    def _do_update(self, base_qs: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._do_update(_of_agent(self, base_qs), *args, **kwargs)

    def put(self, **values: Any) -> None:
        """Give these fields these values, and store them alone."""
        for name, value in values.items():
            setattr(self, name, value)
        self.save(update_fields=[*values])

    def refresh_from_db(self, using: str | None = None, fields: Any = None, from_queryset: Any = None) -> None:
        """Read the row again, as Django does."""
        rows = type(self)._base_manager.db_manager(using) if from_queryset is None else from_queryset
        super().refresh_from_db(using, fields, _of_agent(self, rows))


def _of_agent(row: Any, rows: Any) -> Any:
    return rows if row.agent_id is None else rows.filter(agent=row.agent_id)


class _WithinAgent:
    """Adds to a foreign key between rows of one agent the condition that their agents are equal."""

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        """As Django's own field: in the database it is no other."""
        name, path, args, kwargs = super().deconstruct()  # type: ignore[misc]
        return name, f"django.db.models.{path.rpartition('.Agent')[2]}", args, kwargs

    def get_extra_restriction(self: Any, alias: str | None, related_alias: str | None) -> Any:
        """The condition of a join; `alias` is of the table that is referred to, `related_alias` of this one."""
        other = self.related_model._meta.get_field("agent").get_col(alias)
        return Exact(other, self.model._meta.get_field("agent").get_col(related_alias))

    def get_extra_descriptor_filter(self, instance: Any) -> dict[str, int]:
        """The condition besides the key for loading the row that `instance` refers to."""
        return {"agent_id": instance.agent_id}

    def get_forward_related_filter(self, obj: Any) -> dict[str, Any]:
        """The condition for loading the one row that refers to `obj`."""
        return {**super().get_forward_related_filter(obj), "agent_id": obj.agent_id}  # type: ignore[misc]


class _RowsOfAgent(ReverseManyToOneDescriptor):
    """The rows that refer to a row, as the attribute of that row: they are of its agent."""

    @cached_property
    def related_manager_cls(self) -> Any:
        ordinary: Any = super().related_manager_cls

        class Manager(ordinary):
            def __init__(self, instance: Any) -> None:
                super().__init__(instance)
                self.core_filters["agent"] = instance.agent_id

            def get_prefetch_querysets(self, instances: Any, querysets: Any = None) -> Any:
                rows = querysets[0] if querysets else self.model._default_manager.all()
                agents = {instance.agent_id for instance in instances}
                return super().get_prefetch_querysets(instances, [rows.filter(agent__in=agents)])

        return Manager


class AgentForeignKey(_WithinAgent, models.ForeignKey):
    """A foreign key to another row of the same agent."""

    related_accessor_class = _RowsOfAgent


class AgentOneToOneField(_WithinAgent, models.OneToOneField):
    """A one-to-one reference to another row of the same agent."""


class AuthorFields(models.Model):
    """The author, stored as text so that a record outlives the person or token."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        TOKEN = "token", "Agent"
        SYSTEM = "system", "System"

    author_kind = models.CharField(max_length=10, choices=Kind)
    author_id = models.CharField(max_length=100)
    author_name = models.CharField(max_length=200)

    class Meta:
        abstract = True
