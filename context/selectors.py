"""Reading the log of the contexts sent to agents."""

from uuid import UUID

from django.db.models import QuerySet

from context.models import ContextRun
from identity.models import Agent, Persona
from identity.principal import Principal
from memory.persona import VIEW_SUBCONSCIOUS
from nousweb.lib.errors import NotFound

VIEW_RUN = "context.view_contextrun"


def runs_of(agent: Agent, by: Principal) -> QuerySet[ContextRun]:
    """The logged runs of an agent that `by` may see: those of the subconscious only with the right to it."""
    runs = ContextRun.objects.filter(agent=agent)
    return runs if by.may(VIEW_SUBCONSCIOUS) else runs.filter(persona=Persona.ACTOR)


def run_get(agent: Agent, by: Principal, key: UUID) -> ContextRun:
    """One logged run with its agent. Raises NotAllowed, and NotFound also for one that `by` may not see."""
    by.require(VIEW_RUN, agent)
    run = runs_of(agent, by).select_related("agent").filter(pk=key).first()
    if run is None:
        raise NotFound("There is no such run. Runs are deleted when their retention ends.")
    return run
