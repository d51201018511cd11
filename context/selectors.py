"""Selectors of the log of contexts sent to agents."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from context.models import REPORT, VIEW_RUN, ContextRun
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from nousweb.lib.errors import NotFound


def run_in_reach(run: ContextRun, by: Principal) -> bool:
    """Whether a run is within the projects of a token: it and its recalls requested no other projects, and no memory of
    others was expanded in it. Older runs count as runs for global memory."""
    if by.projects is None:
        return True
    recalls = list(run.recalls.values_list("request", "items"))
    if not all(_asks_within(request, by) for request in (run.request, *(request for request, _ in recalls))):
        return False
    # An expansion names a memory, and no project.
    return all(by.reads_project(item.get("project", "")) for _, items in recalls for item in items)


def _asks_within(request: Mapping[str, Any], by: Principal) -> bool:
    asked = (request.get("project") or "", *(request.get("include_projects") or ()))
    return not request.get("all_projects") and all(map(by.reads_project, asked))


def run_called(by: Principal, run_id: UUID) -> ContextRun:
    """A logged run of the caller's own agent and persona; people see the subconscious's with the right to it.

    Raises NotFound.
    """
    run = ContextRun.objects.select_related("agent").filter(pk=run_id).first()
    hidden = run is None or (
        (by.token.agent_id != run.agent_id or by.persona != run.persona)
        if by.token
        else run.persona == Persona.SUBCONSCIOUS and not by.may(VIEW_SUBCONSCIOUS)
    )
    if run is None or hidden or not run_in_reach(run, by):
        raise NotFound("There is no such context. Runs are deleted when their retention ends.")
    return run


def outcomes_view_check(agent: Agent, by: Principal) -> None:
    """Raise unless `by` may know how runs of `agent` ended: a token that reports it, people who see the log."""
    by.require(VIEW_RUN if by.token is None else REPORT, agent)
    by.require_all_projects()


def run_get(agent: Agent, by: Principal, key: UUID) -> ContextRun:
    """One logged run with its agent. Raises NotAllowed, and NotFound also for one that `by` may not see."""
    by.require(VIEW_RUN, agent)
    run = ContextRun.objects.visible_to(by).filter(agent=agent).select_related("agent").filter(pk=key).first()
    if run is None:
        raise NotFound("There is no such run. Runs are deleted when their retention ends.")
    return run
