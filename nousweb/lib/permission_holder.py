"""Protocol of anything that holds permissions: a person, a token or the product itself."""

from typing import Protocol, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


class PermissionHolder(Protocol):
    """A person, a token or the product itself, with its permissions and nothing else."""

    @property
    def agents(self) -> frozenset[int] | None:
        """The keys of the agents to which the rights are limited; None for all."""

    def may(self, permission: str) -> bool:
        """Whether it holds `permission` ("app.codename")."""


def for_visible_agents(rows: QuerySet[Row], by: PermissionHolder, agent: str = "agent_id") -> QuerySet[Row]:
    """Limit `rows` to the agents that `by` may see. `agent` is the column of the agent's key."""
    return rows if by.agents is None else rows.filter(**{f"{agent}__in": by.agents})
