"""The lock of an agent: writers share it, and an erasure has it exclusively, so that no writer overlaps an erasure.

A transaction that writes anything derived from an agent's memory takes the shared lock first and keeps it until its
end. So either the erasure finds the written rows, or the writer starts after the erasure and reads what is left. Data
that was read *before* the transaction may have been erased meanwhile: a writer of such data compares `Agent.erasures`,
as it was before reading, with the value that `agent_lock_shared` yields.

A transaction takes its locks in this order:

1. the agent, here; 2. its row (`Agent`), to number or change it; 3. the job; 4. the lock of learning for one memory
(`learning_lock`), of proposing for one persona (`proposing_lock`) or of one key of a document or session; 5. the review
(`MemoryReview`); 6. facts and other memories by primary key; 7. rows of the index by their keys. The numbers of a
persona's events are a lock too (`event_ids_reserve`): actions of the subconscious are logged in a transaction of their
own, after the job.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Model, QuerySet

from identity.models import Agent, Persona
from nousweb.lib import NotFound, existing
from nousweb.lib.transactions import sql_change, sql_row, transaction_retried

P = ParamSpec("P")
T = TypeVar("T")
Row = TypeVar("Row", bound=Model)

_locked: ContextVar[dict[int, int]] = ContextVar("agents_locked")
"""The erasures of each agent whose shared lock this context has, by its key."""


@contextmanager
def agent_lock_shared(agent_id: int) -> Iterator[int]:
    """Take the shared lock of an agent until the end of the open transaction; yields the number of its erasures so far.

    Raises NotFound if the agent is gone.
    """
    locked = _locked.get({})
    if agent_id in locked:
        yield locked[agent_id]
        return
    (erasures,) = sql_row("SELECT nous_agent_hold(%s)", [agent_id])
    if erasures is None:
        raise NotFound("There is no such agent.")
    token = _locked.set(locked | {agent_id: erasures})
    try:
        yield erasures
    finally:
        _locked.reset(token)


def agent_transaction(of: str = "agent") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Run a service in one transaction with the shared lock of an agent. Its keyword `of` is the agent, or a row of it.

    If no other transaction is open, the service is retried after a deadlock, so it must not change its arguments
    before it has reloaded them.
    """

    def decorate(service: Callable[P, T]) -> Callable[P, T]:
        @wraps(service)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            row: Any = kwargs[of]
            agent_id = row.pk if isinstance(row, Agent) else row.agent_id

            def work() -> T:
                with transaction.atomic(), agent_lock_shared(agent_id):
                    return service(*args, **kwargs)

            return transaction_retried(work)

        return run

    return decorate


def agent_reload(agent: Agent) -> Agent:
    """Reload the agent. Raises NotFound if it is gone."""
    return existing(Agent.objects.filter(pk=agent.pk).first(), "There is no such agent.")


def agent_lock_exclusive(agent: Agent, *, whole: bool = False) -> Agent:
    """Take the exclusive lock of an agent in the open transaction of an erasure, and count the erasure.

    With `whole`, the row is locked against new references too. Raises NotFound if the agent is gone.
    """
    sql_change("SELECT nous_agent_hold(%s, alone => true)", [agent.pk])
    found = existing(
        Agent.objects.select_for_update(no_key=not whole).filter(pk=agent.pk).first(), "There is no such agent."
    )
    found.erasures += 1
    found.save(update_fields=["erasures"])
    return found


def first_of_personas(rows: QuerySet[Row], most: int) -> list[Row]:
    """The first `most` of these rows of each persona, locked, with their agents; but for those that somebody else has
    locked. One statement an agent."""
    found: dict[int, list[UUID]] = defaultdict(list)
    for persona in Persona.values:
        for agent_id, key in rows.filter(persona=persona).values_list("agent", "pk")[:most]:
            found[agent_id].append(key)
    free = rows.select_related("agent").select_for_update(of=("self",), skip_locked=True)
    return [row for agent_id, keys in found.items() for row in free.filter(agent=agent_id, pk__in=keys)]
