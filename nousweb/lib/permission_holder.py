"""What a query needs to know of whoever asks."""

from typing import Protocol, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


class PermissionHolder(Protocol):
    """A person, a token or the product itself, of whom only rights matter."""

    @property
    def agents(self) -> frozenset[int] | None:
        """The keys of the agents to which the rights are limited; None for all."""

    def may(self, permission: str) -> bool:
        """Whether it holds `permission` ("app.codename")."""


def of_seen_agents(rows: QuerySet[Row], by: PermissionHolder, agent: str = "agent_id") -> QuerySet[Row]:
    """Those of `rows` whose agent, the column `agent`, `by` may know of; for all that lists several agents' rows."""
    return rows if by.agents is None else rows.filter(**{f"{agent}__in": by.agents})
