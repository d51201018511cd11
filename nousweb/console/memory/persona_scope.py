"""Whose memory a page shows: the actor's, or with the subconscious's beside it, for those who may."""

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
from nousweb.console.common.requests import principal_of
from nousweb.lib.errors import NotFound

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class PersonaScope:
    """Whose memory a page shows, and to whom. `suffix` goes on addresses so that the next page shows the same."""

    agent: Agent
    by: Principal
    memory: PersonaMemory
    may_switch: bool

    @property
    def both(self) -> bool:
        """Whether the subconscious is shown beside the actor."""
        return self.memory.persona == Persona.SUBCONSCIOUS

    @property
    def suffix(self) -> str:
        return "?persona=subconscious" if self.both else ""

    def row(self, rows: QuerySet[Row], key: object, noun: str) -> Row:
        """The row with this key. Raises NotFound, also for one that this page may not show."""
        found = rows.filter(pk=key).first()
        if found is None:
            raise NotFound(f"There is no such {noun}.")
        return found


def persona_scope(request: HttpRequest, slug: str, permission: str) -> PersonaScope:
    """The memory that a page is about: the actor's, or with ?persona=subconscious both, for those who may.

    Raises NotAllowed and NotFound.
    """
    by = principal_of(request)
    by.require(permission)
    agent = agent_get(slug, by)
    asked = request.GET.get("persona") == Persona.SUBCONSCIOUS
    read = subconscious_memory_of if asked else memory_of
    memory = read(agent, by, include_quarantined=True)
    return PersonaScope(agent, by, memory, by.may(VIEW_SUBCONSCIOUS))


def persona_tabs(request: HttpRequest, shown: PersonaScope) -> list[dict[str, Any]]:
    """The switch between the actor's memory and both; empty for those who have no choice."""
    if not shown.may_switch:
        return []
    rest = query_without(request, "persona")
    both = "&".join(part for part in (rest, "persona=subconscious") if part)
    return [
        {"label": "Actor", "url": f"?{rest}", "active": not shown.both},
        {"label": "Both personas", "url": f"?{both}", "active": shown.both},
    ]
