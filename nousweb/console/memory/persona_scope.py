"""The memory that a page shows: the actor's, or that of both personas for people with the permission."""

from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from memory.persona import PersonaMemory, memory_of, subconscious_memory_of
from nousweb.console.common.pagination import query_without
from nousweb.console.common.view_helpers import principal_of
from nousweb.lib.errors import NotFound

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class PersonaScope:
    """The memory that a page shows, and to whom. Links carry `suffix`, so that the next page shows the same."""

    agent: Agent
    by: Principal
    memory: PersonaMemory
    may_switch: bool

    @property
    def both(self) -> bool:
        """Whether the page shows the subconscious too."""
        return self.memory.persona == Persona.SUBCONSCIOUS

    @property
    def suffix(self) -> str:
        return "?persona=subconscious" if self.both else ""

    def row(self, rows: QuerySet[Row], key: object, noun: str) -> Row:
        """The row with this key. Raises NotFound, also for a row that this page may not show."""
        found = rows.filter(pk=key).first()
        if found is None:
            raise NotFound(f"There is no such {noun}.")
        return found


def persona_scope(request: HttpRequest, slug: str, permission: str) -> PersonaScope:
    """The scope of a page: the actor's memory, or with ?persona=subconscious both. Raises NotAllowed and NotFound."""
    by = principal_of(request)
    by.require(permission)
    agent = agent_get(slug, by)
    asked = request.GET.get("persona") == Persona.SUBCONSCIOUS
    read = subconscious_memory_of if asked else memory_of
    memory = read(agent, by, include_quarantined=True)
    return PersonaScope(agent, by, memory, by.may(VIEW_SUBCONSCIOUS))


def persona_tabs(request: HttpRequest, scope: PersonaScope) -> list[dict[str, Any]]:
    """The tabs for the actor's memory and for both; empty for people who may not see both."""
    if not scope.may_switch:
        return []
    rest = query_without(request, "persona")
    both = "&".join(part for part in (rest, "persona=subconscious") if part)
    return [
        {"label": "Actor", "url": f"?{rest}", "active": not scope.both},
        {"label": "Both personas", "url": f"?{both}", "active": scope.both},
    ]
