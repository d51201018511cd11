"""Transactions that write what belongs to an agent, and the erasures that none of them overlaps.

Whoever writes what tells of an agent's memory *holds* the agent first: a lock of the whole transaction that holders
share, and that an erasure has for itself. So either the erasure finds what was written, or the writer begins after it
and reads what the erasure left. What was read *before* the transaction may be about what is gone meanwhile: who writes
such a thing compares `Agent.erasures`, as it was before reading, with what `agent_held` gives.

The one order in which a transaction takes its locks:

1. the agent, here; 2. its row (`Agent`), by what numbers or changes it; 3. the run of the lifecycle; 4. what learns for
one memory (`learning_lock`), proposes for one persona (`proposing_lock`) or writes under one key of a document; 5. the
review (`MemoryReview`); 6. facts and other memories by primary key; 7. rows of the index by their keys. The numbers of
a persona's events are a lock too (`event_ids_reserve`): what the subconscious did is logged in a transaction of its
own, after the job.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.db import connection, transaction

from identity.models import Agent
from nousweb.lib.errors import NotFound
from nousweb.lib.retrying import transaction_retried

P = ParamSpec("P")
T = TypeVar("T")

_held: ContextVar[dict[int, int]] = ContextVar("agents_held")


@contextmanager
def agent_held(agent_id: int) -> Iterator[int]:
    """Hold an agent until the end of the transaction that is open; gives the number of its erasures so far.

    Raises NotFound when the agent is gone.
    """
    held = _held.get({})
    if agent_id in held:
        yield held[agent_id]
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT nous_agent_hold(%s)", [agent_id])
        (erasures,) = cursor.fetchone()
    if erasures is None:
        raise NotFound("There is no such agent.")
    token = _held.set(held | {agent_id: erasures})
    try:
        yield erasures
    finally:
        _held.reset(token)


def agent_transaction(of: str = "agent") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a service one transaction that holds the agent of its keyword `of`: an agent, or a row of one.

    Where no other transaction is open it is tried again after a deadlock, so it must not change what it was given
    before it has read it again.
    """

    def decorate(service: Callable[P, T]) -> Callable[P, T]:
        @wraps(service)
        def run(*args: P.args, **given: P.kwargs) -> T:
            row: Any = given[of]
            agent_id = row.pk if isinstance(row, Agent) else row.agent_id

            def work() -> T:
                with transaction.atomic(), agent_held(agent_id):
                    return service(*args, **given)

            return transaction_retried(work)

        return run

    return decorate


def agent_again(agent: Agent) -> Agent:
    """The agent as it is now. Raises NotFound when it is gone."""
    found = Agent.objects.filter(pk=agent.pk).first()
    if found is None:
        raise NotFound("There is no such agent.")
    return found


def agent_erasing(agent: Agent, *, whole: bool = False) -> Agent:
    """The agent, locked against everyone who holds it, in the open transaction of an erasure, which is counted.

    A `whole` agent is locked against every row that would refer to it. Raises NotFound when it is gone.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT nous_agent_hold(%s, alone => true)", [agent.pk])
    found = Agent.objects.select_for_update(no_key=not whole).filter(pk=agent.pk).first()
    if found is None:
        raise NotFound("There is no such agent.")
    found.erasures += 1
    found.save(update_fields=["erasures"])
    return found
