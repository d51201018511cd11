"""Impact of a consent policy: the memories of the last prompts that would have waited for people. Writes nothing."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from context.models import VIEW_RUN, ContextRun
from identity.models import Agent, AuditEvent
from identity.principal import Principal
from memory.models import Fact, LongTermEntry, OriginFields, Trust
from memory.policy.oversight import ConsentAction, ConsentPolicy, NewMemory
from memory.services.quarantine.requests import instructs
from memory.types import MEMORY_TYPES

LAST_RUNS = 100
HELD = (ConsentAction.PENDING, ConsentAction.REFUSE)


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """A memory that the policy would have kept back, its text as prompts have it, and the number of prompts with it."""

    action: ConsentAction
    text: str
    prompts: int


@dataclass(frozen=True, slots=True)
class ConsentImpact:
    """Of the last `prompts`, `changed` ones had memories that the policy would have kept back, the most frequent first.

    Whether somebody would have allowed them is not known.
    """

    prompts: int
    changed: int
    memories: tuple[HeldMemory, ...]


def consent_impact(*, agent: Agent, policy: ConsentPolicy, by: Principal) -> ConsentImpact:
    """What `policy` would have kept back of the last LAST_RUNS prompts. Raises NotAllowed."""
    by.require(VIEW_RUN, agent)
    runs = ContextRun.objects.visible_to(by).filter(agent=agent).order_by("-created_at", "-pk")
    shown: list[set[tuple[str, str]]] = []
    texts: dict[tuple[str, str], str] = {}
    for sections in runs.values_list("sections", flat=True)[:LAST_RUNS]:
        items = {(item["type"], str(item["id"])): item["text"] for one in sections for item in one["items"]}
        shown.append(set(items))
        texts |= items
    held = _held(agent, policy, set(texts))
    numbers = Counter(key for keys in shown for key in keys if key in held)
    return ConsentImpact(
        prompts=len(shown),
        changed=sum(not held.keys().isdisjoint(keys) for keys in shown),
        memories=tuple(
            HeldMemory(held[key], texts[key].removeprefix("- "), number) for key, number in numbers.most_common()
        ),
    )


def _held(agent: Agent, policy: ConsentPolicy, keys: set[tuple[str, str]]) -> dict[tuple[str, str], ConsentAction]:
    """Those of these memories that the policy keeps back. What people wrote, verified or allowed is not among them."""
    found: dict[tuple[str, str], ConsentAction] = {}
    for name, memory_type in MEMORY_TYPES.items():
        ids = [key for kind, key in keys if kind == name]
        is_event = name == "event"
        if not ids or not (is_event or issubclass(memory_type.model, OriginFields)):
            continue
        writers = _writers(agent, name, ids)
        rows: Any = (
            LongTermEntry.objects.select_related("event").filter(agent=agent, event__in=map(int, ids))
            if is_event
            else memory_type.model._default_manager.filter(agent=agent, pk__in=ids)
        )
        for row in rows:
            key = str(row.event_id if is_event else row.pk)
            kind, writer = writers.get(key, ("token", ""))
            if kind == "person" or row.trust == Trust.PERSON:
                continue
            action = policy.rule_of(_as_new(name, row, writer)).action
            if action in HELD:
                found[name, key] = action
    return found


def _as_new(name: str, row: Any, writer: str) -> NewMemory:
    is_fact = isinstance(row, Fact)
    project = (row.event if isinstance(row, LongTermEntry) else row).project
    return NewMemory(
        category=row.category if is_fact else name,
        trust=row.trust,
        writer=writer,
        project=project,
        instructs=lambda: is_fact and instructs(row.content),
    )


def _writers(agent: Agent, name: str, keys: list[str]) -> dict[str, tuple[str, str]]:
    """Who wrote these memories first, by their ids: the kind of author, and the name of the token."""
    records = AuditEvent.objects.filter(agent=agent, object_type=name, object_id__in=keys).order_by("-id")
    written = records.values_list("object_id", "author_kind", "author_name")
    return {key: (kind, author.removeprefix(f"{agent.slug} · ")) for key, kind, author in written}
