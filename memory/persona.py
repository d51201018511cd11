"""Access to memory: one class per persona. Nothing in a request can widen it, and memory is read in no other way.

Source: seed "Agentic Memory System", Isolation Enforcement.
"""

from collections.abc import Collection
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from django.db.models import Model, Q, QuerySet

from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import (
    Censor,
    CensorQuerySet,
    Decision,
    Document,
    DocumentQuerySet,
    Episode,
    EpisodeEvent,
    Event,
    EventQuerySet,
    Fact,
    FactQuerySet,
    Job,
    JobQuerySet,
    Keys,
    LongTermEntry,
    LoopSummary,
    LoopSummaryQuerySet,
    MemoryQuerySet,
    MemoryReview,
    MemoryReviewQuerySet,
    OriginFields,
    Procedure,
    WorkingMemory,
    serves_users,
)
from nousweb.lib import NotAllowed, NotFound
from nousweb.lib.bounds import UNASSIGNED

Row = TypeVar("Row", bound=Model)
Rows = TypeVar("Rows", bound=QuerySet)


class Readable(Generic[Rows]):
    """The readable rows of a model, as an attribute of a memory."""

    def __init__(self, model: type[Model]) -> None:
        self.model = model

    def __get__(self, memory: "PersonaMemory", owner: object = None) -> Rows:
        return cast("Rows", memory.rows(self.model))


class PersonaMemory:
    """The memory that one persona of one agent may read: its own rows, and for the subconscious the actor's too."""

    events: Readable[EventQuerySet] = Readable(Event)
    long_term: Readable[QuerySet[LongTermEntry]] = Readable(LongTermEntry)
    loops: Readable[LoopSummaryQuerySet] = Readable(LoopSummary)
    facts: Readable[FactQuerySet] = Readable(Fact)
    episodes: Readable[MemoryQuerySet[Episode]] = Readable(Episode)
    decisions: Readable[MemoryQuerySet[Decision]] = Readable(Decision)
    documents: Readable[DocumentQuerySet] = Readable(Document)
    procedures: Readable[MemoryQuerySet[Procedure]] = Readable(Procedure)
    censors: Readable[CensorQuerySet] = Readable(Censor)
    working: Readable[QuerySet[WorkingMemory]] = Readable(WorkingMemory)
    reviews: Readable[MemoryReviewQuerySet] = Readable(MemoryReview)
    jobs: Readable[JobQuerySet] = Readable(Job)

    persona: ClassVar[str]
    personas: ClassVar[tuple[str, ...]]
    search_tables: ClassVar[tuple[str, ...]]
    """The search index tables that searches read."""

    def __init__(
        self,
        agent: Agent,
        projects: Collection[str] | None = None,
        *,
        user: str = "",
        for_token: bool = False,
        include_quarantined: bool = False,
    ) -> None:
        self.agent = agent
        self.projects = projects
        """The projects that a token may read, besides global memory; None for all."""
        self.user = user
        """The user whose memory a token may read, besides everybody's; "" for all users."""
        self.for_token = for_token
        """Whether what is assigned to no user is left out, as for tokens of an agent that serves many."""
        self.include_quarantined = include_quarantined
        """Whether quarantined memories are included: on pages for people, never in prompts and for agents."""

    def shows(self, keys: Keys) -> bool:
        """Whether memory with these keys may be read; "" is global memory, and everybody's."""
        own_project = self.projects is None or not keys.project or keys.project in self.projects
        own_user = keys.user in ("", self.user) if self.user else not (self.for_token and keys.user == UNASSIGNED)
        return own_project and own_user

    def rows(self, model: type[Row]) -> QuerySet[Row]:
        """The readable rows of a model with the fields `agent` and `persona`."""
        return model._default_manager.filter(self._within(model), agent=self.agent, persona__in=self.personas)

    def _within(self, model: type[Model]) -> Q:
        """The condition on rows: no quarantined ones, and only readable projects and users (also of a row's event)."""
        within = Q() if self.include_quarantined else self._not_quarantined(model)
        shown = {}
        if self.projects is not None:
            shown["project"] = ("", *sorted(self.projects))
        if self.user:
            shown["user"] = ("", self.user)
        names = {key.name for key in model._meta.get_fields()}
        for name, keys in shown.items():
            if name in names or "event" in names:
                within &= Q(**{f"{name if name in names else f'event__{name}'}__in": keys})
        if self.for_token and not self.user and serves_users(self.agent) and ("user" in names or "event" in names):
            within &= ~Q(**{"user" if "user" in names else "event__user": UNASSIGNED})
        return within

    def _not_quarantined(self, model: type[Model]) -> Q:
        if issubclass(model, OriginFields):
            return Q(quarantined=False)
        if model is Event:
            return ~Q(pk__in=LongTermEntry.objects.filter(agent=self.agent, quarantined=True).values("event"))
        return Q()

    def transcript(self, episode: Episode) -> EventQuerySet:
        """The events of an episode, in order of time. Episodes without events have a text in `detail` instead."""
        members = EpisodeEvent.objects.filter(agent=self.agent, episode=episode).values("event")
        return self.events.filter(pk__in=members).order_by("ts", "id")


class ActorMemory(PersonaMemory):
    """The interactive persona: it cannot read or infer anything of the subconscious."""

    persona = Persona.ACTOR
    personas = (Persona.ACTOR,)
    search_tables = ("memory_searchitem_actor",)


class SubconsciousMemory(PersonaMemory):
    """The maintenance persona: it reads the memory of both personas."""

    persona = Persona.SUBCONSCIOUS
    personas = (Persona.ACTOR, Persona.SUBCONSCIOUS)
    search_tables = ("memory_searchitem_actor", "memory_searchitem_subconscious")


VIEWS: dict[str, type[PersonaMemory]] = {Persona.ACTOR: ActorMemory, Persona.SUBCONSCIOUS: SubconsciousMemory}


def memory_of(agent: Agent, by: Principal, *, include_quarantined: bool = False) -> PersonaMemory:
    """The memory that `by` may read, by the persona, projects and user of the token; nothing in the request matters.

    People read the actor's memory here; `subconscious_memory_of` needs a permission of its own. With
    `include_quarantined`, people see quarantined memories too; use it only where nothing becomes part of a prompt.
    """
    shown = include_quarantined and by.is_person
    limits: dict[str, Any] = {"user": by.bound_user, "for_token": by.token is not None}
    return VIEWS[by.persona](agent, by.projects, **limits, include_quarantined=shown)


def subconscious_memory_of(agent: Agent, by: Principal, *, include_quarantined: bool = False) -> SubconsciousMemory:
    """All of an agent's memory, for people with the permission of its own; `include_quarantined` as for `memory_of`."""
    by.require(VIEW_SUBCONSCIOUS, agent)
    return SubconsciousMemory(agent, include_quarantined=include_quarantined and by.is_person)


def persona_memory(agent: Agent, by: Principal, persona: str | None = None) -> PersonaMemory:
    """The memory for a prompt for `by`. People with the permission may name the subconscious as `persona`."""
    if by.is_person and persona == Persona.SUBCONSCIOUS:
        return subconscious_memory_of(agent, by)
    return memory_of(agent, by)


class PersonaOwned(Protocol):
    """A row of memory, which belongs to one persona of one agent."""

    agent: Agent
    persona: str


def change_check(memory: PersonaOwned, by: Principal, permission: str) -> None:
    """Raise unless `by` has `permission` and may change `memory`: a token may only change memory of its own persona,
    projects and user.

    The subconscious may read the actor's memory but not change it, since a change could reveal its own knowledge.
    Raises NotFound if `by` may not know that the memory exists, else NotAllowed.
    """
    by.require(permission, memory.agent)
    keys = Keys(**{name: getattr(memory, name) for name in ("project", "user") if hasattr(memory, name)})
    if not by.reads(keys):
        raise NotFound("There is no such memory.")
    by.require_keys(keys)
    if by.kind == "system" or memory.persona == by.persona:
        return
    if memory.persona not in VIEWS[by.persona].personas:
        if by.is_person and by.may(VIEW_SUBCONSCIOUS):
            return
        raise NotFound("There is no such memory.")
    raise NotAllowed(f"This belongs to the {memory.persona}; a token can change only the memory of its own persona.")
