"""Rows that belong to an agent: every statement about one names it, so that its table may be distributed by agent."""

from typing import Any

from django.db import models
from django.db.models.fields.related_descriptors import ReverseManyToOneDescriptor
from django.db.models.lookups import Exact
from django.utils.functional import cached_property


class AgentRow(models.Model):
    """A model with a foreign key `agent`: rows are saved and reloaded by key and agent."""

    agent_id: int

    class Meta:
        abstract = True

    def _do_update(self, base_qs: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._do_update(_of_agent(self, base_qs), *args, **kwargs)

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
                agents = {one.agent_id for one in instances}
                return super().get_prefetch_querysets(instances, [rows.filter(agent__in=agents)])

        return Manager


class AgentForeignKey(_WithinAgent, models.ForeignKey):
    """A foreign key to another row of the same agent."""

    related_accessor_class = _RowsOfAgent


class AgentOneToOneField(_WithinAgent, models.OneToOneField):
    """A one-to-one reference to another row of the same agent."""
