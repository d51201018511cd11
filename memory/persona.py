"""The only ways to read memory: a view per persona, which cannot be widened by anything in a request.

Source: seed "Agentic Memory System", Isolation Enforcement.
"""

from typing import ClassVar, Protocol, TypeVar

from django.db.models import Model, QuerySet

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import (
    Censor,
    Decision,
    Episode,
    EpisodeEvent,
    Event,
    Fact,
    Job,
    LongTermEntry,
    LoopSummary,
    MemoryReview,
    Procedure,
    WorkingMemory,
)
from memory.models.censors import CensorQuerySet
from memory.models.decisions import DecisionQuerySet
from memory.models.episodes import EpisodeQuerySet
from memory.models.events import EventQuerySet, LoopSummaryQuerySet
from memory.models.facts import FactQuerySet
from memory.models.jobs import JobQuerySet
from memory.models.procedures import ProcedureQuerySet
from memory.models.reviews import MemoryReviewQuerySet
from nousweb.lib.errors import NotAllowed, NotFound

Row = TypeVar("Row", bound=Model)


class PersonaMemory:
    """What one persona of one agent may read: its own rows, and for the subconscious the actor's too."""

    persona: ClassVar[str]
    personas: ClassVar[tuple[str, ...]]
    search_tables: ClassVar[tuple[str, ...]]
    """The physical collections that searches of this view touch."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def rows(self, model: type[Row]) -> QuerySet[Row]:
        """The rows of a table of memory: one that names its agent and persona."""
        return model._default_manager.filter(agent=self.agent, persona__in=self.personas)

    @property
    def events(self) -> EventQuerySet:
        return Event.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def long_term(self) -> QuerySet[LongTermEntry]:
        return LongTermEntry.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def loops(self) -> LoopSummaryQuerySet:
        return LoopSummary.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def facts(self) -> FactQuerySet:
        return Fact.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def episodes(self) -> EpisodeQuerySet:
        return Episode.objects.filter(agent=self.agent, persona__in=self.personas)

    def transcript(self, episode: Episode) -> EventQuerySet:
        """The events of an episode in the order in which they happened; others have theirs in `detail`."""
        members = EpisodeEvent.objects.filter(episode=episode).values("event")
        return self.events.filter(pk__in=members).order_by("ts", "id")

    @property
    def decisions(self) -> DecisionQuerySet:
        return Decision.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def procedures(self) -> ProcedureQuerySet:
        return Procedure.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def censors(self) -> CensorQuerySet:
        return Censor.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def working(self) -> QuerySet[WorkingMemory]:
        return WorkingMemory.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def reviews(self) -> MemoryReviewQuerySet:
        return MemoryReview.objects.filter(agent=self.agent, persona__in=self.personas)

    @property
    def jobs(self) -> JobQuerySet:
        return Job.objects.filter(agent=self.agent, persona__in=self.personas)


class ActorMemory(PersonaMemory):
    """The interactive persona: never sees or infers anything of the subconscious."""

    persona = Persona.ACTOR
    personas = (Persona.ACTOR,)
    search_tables = ("memory_searchitem_actor",)


class SubconsciousMemory(PersonaMemory):
    """The maintenance persona: sees all layers of both."""

    persona = Persona.SUBCONSCIOUS
    personas = (Persona.ACTOR, Persona.SUBCONSCIOUS)
    search_tables = ("memory_searchitem_actor", "memory_searchitem_subconscious")


VIEWS: dict[str, type[PersonaMemory]] = {Persona.ACTOR: ActorMemory, Persona.SUBCONSCIOUS: SubconsciousMemory}


def memory_of(agent: Agent, by: Principal) -> PersonaMemory:
    """The memory that `by` may read: a token's persona decides, and nothing in the request.

    People read the actor's memory here; `subconscious_memory_of` is for those with the right to more.
    """
    return VIEWS[by.persona](agent)


def subconscious_memory_of(agent: Agent, by: Principal) -> SubconsciousMemory:
    """All of an agent's memory, for people with the permission of its own."""
    by.require(VIEW_SUBCONSCIOUS, agent)
    return SubconsciousMemory(agent)


class Owned(Protocol):
    """Any row of memory: it belongs to one persona of one agent."""

    agent: Agent
    persona: str


def change_check(memory: Owned, by: Principal, permission: str) -> None:
    """Raise unless `by` holds `permission` and may change `memory`: a token changes only its own persona's.

    The subconscious may read the actor's memory, but a change by it would carry what it knows across.
    Raises NotFound for what `by` must not even know of, else NotAllowed.
    """
    by.require(permission, memory.agent)
    if by.kind == "system" or memory.persona == by.persona:
        return
    if memory.persona not in VIEWS[by.persona].personas:
        if by.is_person and by.may(VIEW_SUBCONSCIOUS):
            return
        raise NotFound("There is no such memory.")
    raise NotAllowed(f"This belongs to the {memory.persona}; a token changes only its own persona's memory.")
