"""The users whom an agent serves: who there are, and whose the memories from before are."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Count, Model, Q, Value

from identity.models import Agent, ApiToken, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.agent_lock import agent_lock_exclusive
from identity.services.audit import audit_record
from memory.models import (
    Document,
    Episode,
    EpisodeEvent,
    Event,
    KnownSource,
    LoopSummary,
    SearchItem,
    WorkingMemory,
    document_address,
    reader_check,
)
from memory.persona import VIEWS
from memory.registrations import request_logs
from memory.types import MEMORY_TYPES
from nousweb.lib import Invalid, text_check
from nousweb.lib.bounds import UNASSIGNED
from nousweb.lib.transactions import sql_row

MANAGE = "memory.manage_user"
CHANGE = "identity.change_agent"
TYPES: Mapping[str, type[Model]] = {
    **{name: one.model for name, one in MEMORY_TYPES.items() if one.has_project and one.model is not Event},
    "loop": LoopSummary,
    "session": WorkingMemory,
}
"""What is assigned to a user, by name. A loop takes its events along, and so does an episode."""
KEYED: Mapping[str, type[Model]] = {**TYPES, "event": Event}
"""What carries the keys of users and projects."""
WORDS: Mapping[str, Sequence[str]] = {
    "fact": ("content", "subject"),
    "episode": ("title", "summary", "detail"),
    "decision": ("description", "context"),
    "procedure": ("name", "description"),
    "document": ("key", "text"),
    "loop": ("loop_id", "summary"),
    "session": ("session_id", "task"),
}
"""The columns in which words are looked for."""
BATCH = 500


def user_counts(
    agents: Sequence[Agent], user: str = "", personas: Sequence[str] = Persona.values
) -> dict[tuple[int, str], Counter[str]]:
    """Numbers of memories by agent and user, and type; UNASSIGNED is a user, everybody's ("") is none. Of one
    `user` if it is named."""
    parts: list[Any] = []
    for name, model in KEYED.items():
        rows: Any = model._default_manager.filter(agent__in=agents, persona__in=personas).exclude(user="").order_by()
        rows = rows.filter(user=user) if user else rows
        rows = rows.values("agent", "user").annotate(count=Count("pk"), name=Value(name))
        parts.append(rows.values_list("agent", "user", "count", "name"))
    found: dict[tuple[int, str], Counter[str]] = {}
    for agent_id, named, count, name in parts[0].union(*parts[1:], all=True):
        found.setdefault((agent_id, named), Counter())[name] += count
    return found


def personas_of(by: Principal) -> tuple[str, ...]:
    """The personas of which `by` is told what they know of users."""
    return VIEWS[Persona.SUBCONSCIOUS if by.is_person and by.may(VIEW_SUBCONSCIOUS) else by.persona].personas


def users_separate(*, agent: Agent, by: Principal) -> int:
    """Let memories without a user be nobody's until people assign them: the agent begins to serve many users.

    Returns the number of rows. Call it in a transaction. Raises NotAllowed.
    """
    by.require(CHANGE, agent)
    agent = agent_lock_exclusive(agent)
    return sum(_moved(agent, name, None, "", UNASSIGNED) for name in TYPES) + _rest_moved(agent, UNASSIGNED)


@transaction.atomic
def memories_assign(
    *, agent: Agent, by: Principal, user: str, types: Sequence[str] = (), words: str = ""
) -> dict[str, int]:
    """Assign memories that are nobody's to `user`, or with "*" to everybody: those of these `types` (names of TYPES,
    all without any) that contain `words`, all without any. Returns numbers by type.

    Raises Invalid, naming the field, or NotAllowed.
    """
    by.require(CHANGE, agent)
    if not user:
        raise Invalid('Name a user, or "*" for everybody.', field="user")
    named = reader_check("user", user)
    words = text_check("words", words, 200)
    if unknown := set(types) - TYPES.keys():
        raise Invalid(f"There is no type {min(unknown)[:40]!r}.", field="types")
    agent = agent_lock_exclusive(agent)
    counts = {}
    for name in types or TYPES:
        condition = Q()
        for column in WORDS[name] if words else ():
            condition |= Q(**{f"{column}__icontains": words})
        if count := _moved(agent, name, condition, UNASSIGNED, named):
            counts[name] = count
    if not types and not words:
        _rest_moved(agent, named, former=UNASSIGNED)
    if counts:
        after = {"user": named or "everybody", "words": words, **counts}
        audit_record(by=by, action="user.assign", target=agent, agent=agent, after=after)
    return counts


def _moved(agent: Agent, name: str, condition: Q | None, former: str, user: str) -> int:
    """Give memories of one type to another user; None for all of them. Returns how many."""
    model = TYPES[name]
    rows: Any = model._default_manager.filter(agent=agent, user=former)
    keys = None if condition is None else list(rows.filter(condition).values_list("pk", flat=True))
    if keys is not None:
        rows = model._default_manager.filter(agent=agent, pk__in=keys)
    if model is Document:
        return _documents_moved(agent, [*rows], user)
    if model is LoopSummary:
        _events_moved(agent, None if keys is None else list(rows.values_list("loop_id", flat=True)), former, user)
    if model is Episode and keys:
        _events_of_episodes_moved(agent, keys, former, user)
    index = SearchItem.objects.filter(agent=agent, item_type=name, user=former)
    (index if keys is None else index.filter(item_id__in=map(str, keys))).update(user=user)
    return rows.update(user=user)


def _events_moved(agent: Agent, loops: list[str] | None, former: str, user: str) -> None:
    sql_row("SELECT nous_assign_events(%s, %s, %s, %s)", [agent.pk, loops, former, user])
    index = SearchItem.objects.filter(agent=agent, item_type="event", user=former)
    (index if loops is None else index.filter(loop_id__in=loops)).update(user=user)


def _events_of_episodes_moved(agent: Agent, episodes: Sequence[uuid.UUID], former: str, user: str) -> None:
    members = EpisodeEvent.objects.filter(agent=agent, episode__in=episodes).values("event")
    loops = list(Event.objects.filter(agent=agent, pk__in=members, user=former).values_list("loop_id", flat=True))
    _events_moved(agent, loops, former, user)
    LoopSummary.objects.filter(agent=agent, user=former, loop_id__in=loops).update(user=user)


def _documents_moved(agent: Agent, documents: list[Document], user: str) -> int:
    """The addresses of documents name their user. A document whose address is taken by then stays where it is."""
    taken = set(Document.objects.filter(agent=agent, user=user).values_list("persona", "address"))
    moved = []
    for one in documents:
        address = document_address(one.namespace, one.key, one.project, one.task, user)
        if (one.persona, address) not in taken:
            one.user, one.address = user, address
            moved.append(one)
    Document.objects.bulk_update(moved, ["user", "address"], batch_size=BATCH)
    index: Any = SearchItem.objects.filter(agent=agent, item_type="document")
    index.filter(item_id__in=[str(one.pk) for one in moved]).update(user=user)
    return len(moved)


def _rest_moved(agent: Agent, user: str, former: str = "") -> int:
    """What people do not assign by itself: sources that were read, and events whose loop has no row."""
    _events_moved(agent, None, former, user)
    known = set(KnownSource.objects.filter(agent=agent, user=user).values_list("persona", "project", "locator"))
    rows = KnownSource.objects.filter(agent=agent, user=former)
    free = [row.pk for row in rows if (row.persona, row.project, row.locator) not in known]
    return KnownSource.objects.filter(agent=agent, pk__in=free).update(user=user)


def agents_of_user(agents: Sequence[Agent], user: str, personas: Sequence[str] = Persona.values) -> list[Agent]:
    """Those of the agents that know anything of a user in these personas, were asked for them, or have a token for
    them."""
    known = {agent_id for agent_id, name in user_counts(agents, user, personas)}
    logs = (model._default_manager.filter(persona__in=personas, request__user=user) for model in request_logs)
    named = [rows.filter(agent__in=agents).order_by() for rows in (ApiToken.objects.filter(user=user), *logs)]
    first, *rest = (rows.values_list("agent", flat=True) for rows in named)
    known.update(first.union(*rest))
    return [agent for agent in agents if agent.pk in known and user]
