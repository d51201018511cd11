"""Searches and expanded hits as an agent gets them: what reads like an instruction is left out.

Source: seed 005.1, D6 (the on-demand `recall_context`, which extends `expand`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import Model, Q, QuerySet, UUIDField

from identity.principal import Principal
from memory.models import (
    Episode,
    EpisodeEvent,
    Event,
    Fact,
    ItemType,
    Trust,
    keys_of,
)
from memory.persona import PersonaMemory
from memory.search.request import SearchRequest
from memory.search.result import SearchResult
from memory.search.search import search
from memory.services.trust import screening_class
from memory.types import MEMORY_TYPES, MemoryType, prompt_text
from nousweb.lib import Invalid, NotFound
from nousweb.lib.injection.pieces import scan_cached, scan_pieces
from nousweb.lib.json_texts import json_texts


def memory_search(view: PersonaMemory, request: SearchRequest, by: Principal) -> SearchResult:
    """As `search`, for the answer to `by`: tokens get no hit that reads like an instruction or holds a secret."""
    found = search(view, request)
    if by.is_person:
        return found
    kept = [
        hit
        for hit in found.items
        if hit.trust == Trust.PERSON
        or scan_cached(
            " ".join([hit.content, *json_texts(hit.metadata), hit.subject, *hit.tags]),
            screening_class(hit.trust, hit.type),
        )
        is None
    ]
    return replace(found, items=kept)


def places_refused(texts: Sequence[str], metadata: Sequence[Mapping[str, Any]], trusts: Sequence[str]) -> set[int]:
    """The positions of the texts that must not be given to an agent, by themselves, with their metadata or together."""
    classes = ["" if trust == Trust.PERSON else trust for trust in trusts]
    refused = {place for piece in scan_pieces(texts, classes) for place in piece.places}
    for place, (fields, trust) in enumerate(zip(metadata, classes, strict=True)):
        if trust and fields and scan_cached(" ".join(json_texts(fields)), trust):
            refused.add(place)
    return refused


Relation = Literal["before", "after", "part", "episode", "source", "replaces", "replaced_by"]
MOST_PARTS = 200
"""Events of an episode that are given."""
_ID_START = re.compile("[0-9a-fA-F]{8,32}")
_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class MemoryDetail:
    """A memory as stored. `relation` is its relation to the expanded memory, "" for the expanded memory itself."""

    type: str
    id: str
    relation: Relation | Literal[""]
    content: str
    kind: str
    active: bool
    project: str
    task: str
    user: str
    happened_at: datetime
    metadata: dict[str, Any]
    trust: str = Trust.AGENT


@dataclass(frozen=True, slots=True)
class Expansion:
    """A memory, what stands around it, and whether there is more of that than is given."""

    item: MemoryDetail
    related: list[MemoryDetail]
    more: bool


def memory_expand(memory: PersonaMemory, type_name: str, memory_id: str, *, around: int) -> Expansion:
    """The memory `memory_id` with what is related to it in `memory`, with no keys but its own and none.

    Of an event `around` events of its loop before and after it, and its episode; of an episode its events; of a fact
    where it comes from, what it replaced and what has replaced it. `memory_id` may be the beginning of an id. Raises
    NotFound, or Invalid if several ids begin so.
    """
    found = _row(memory, MEMORY_TYPES[type_name], memory_id)
    related: list[MemoryDetail] = []
    more = False
    if isinstance(found, Event):
        related, more = _around_event(memory, found, around)
    elif isinstance(found, Episode):
        events = list(memory.transcript(found)[: MOST_PARTS + 1])
        related, more = [_detail(event, "part") for event in events[:MOST_PARTS]], len(events) > MOST_PARTS
    elif isinstance(found, Fact):
        related = list(_around_fact(memory, found))
    return _screened(memory, Expansion(_detail(found, ""), related, more))


def _screened(memory: PersonaMemory, expansion: Expansion) -> Expansion:
    """The expansion without texts that read like an instruction, by themselves or side by side. Raises NotFound if that
    is the memory itself."""
    before = [memory for memory in expansion.related if memory.relation == "before"]
    shown = [*before, expansion.item, *expansion.related[len(before) :]]
    ids = [int(one.id) for one in shown if one.type == ItemType.EVENT]
    trusts = dict(memory.long_term.filter(event__in=ids).values_list("event", "origin")) if ids else {}
    classes = [
        trusts.get(int(one.id), one.trust) if one.type == ItemType.EVENT else screening_class(one.trust, one.type)
        for one in shown
    ]
    refused = places_refused([one.content for one in shown], [one.metadata for one in shown], classes)
    if len(before) in refused:
        raise NotFound(f"There is no such {MEMORY_TYPES[expansion.item.type].name}.")
    related = [one for place, one in enumerate(shown) if place not in refused and one is not expansion.item]
    return replace(expansion, related=related)


def _row(memory: PersonaMemory, type_: MemoryType, memory_id: str) -> Any:
    """The memory with an id, or with the unique beginning of an id. Raises NotFound or Invalid."""
    rows: QuerySet[Model] = memory.rows(type_.model)
    if isinstance(type_.model._meta.pk, UUIDField) and (digits := _ID_START.fullmatch(memory_id.replace("-", ""))):
        start = digits.group().lower()
        first, last = UUID(start.ljust(32, "0")), UUID(start.ljust(32, "f"))
        found = list(rows.filter(pk__gte=first, pk__lte=last).order_by("pk")[:2])
    else:
        found = list(rows.filter(pk=int(memory_id))[:1]) if _NUMBER.fullmatch(memory_id) else []
    if len(found) > 1:
        raise Invalid(
            f"More than one {type_.name} has an id that begins with {memory_id[:40]!r}: give all of it.",
            field="memory_id",
        )
    if not found:
        raise NotFound(f"There is no such {type_.name}.")
    return found[0]


def _around_event(memory: PersonaMemory, event: Event, around: int) -> tuple[list[MemoryDetail], bool]:
    same_keys = Q(**{f"{name}__in": ("", key) for name, key in keys_of(event).items()})
    loop = memory.events.filter(same_keys, loop_id=event.loop_id, persona=event.persona)
    earlier = Q(ts__lt=event.ts) | Q(ts=event.ts, pk__lt=event.pk)
    later = Q(ts__gt=event.ts) | Q(ts=event.ts, pk__gt=event.pk)
    before = list(loop.filter(earlier).order_by("-ts", "-pk")[: around + 1])
    after = list(loop.filter(later).order_by("ts", "pk")[: around + 1])
    episodes = memory.episodes.filter(pk__in=EpisodeEvent.objects.filter(event=event).values("episode"))
    related = [
        *(_detail(one, "before") for one in reversed(before[:around])),
        *(_detail(one, "after") for one in after[:around]),
        *(_detail(episode, "episode") for episode in episodes.order_by("started_at")),
    ]
    return related, max(len(before), len(after)) > around


def _around_fact(memory: PersonaMemory, fact: Fact) -> Iterator[MemoryDetail]:
    if fact.source_event_id is not None:
        yield from (_detail(event, "source") for event in memory.events.filter(pk=fact.source_event_id))
    if fact.source_episode_id is not None:
        yield from (_detail(episode, "source") for episode in memory.episodes.filter(pk=fact.source_episode_id))
    yield from (_detail(one, "replaces") for one in memory.facts.filter(superseded_by=fact).order_by("recorded_at"))
    if fact.superseded_by_id is not None:
        yield from (_detail(one, "replaced_by") for one in memory.facts.filter(pk=fact.superseded_by_id))


def _detail(row: Any, relation: Relation | Literal[""]) -> MemoryDetail:
    type_ = next(memory_type for memory_type in MEMORY_TYPES.values() if memory_type.model is type(row))
    content = prompt_text(row)
    if type_.key == ItemType.EPISODE and not relation and row.detail and row.summary:
        content = f"{content}\n\n{row.detail}"
    moments = (getattr(row, name, None) for name in ("ts", "started_at", "valid_from", "recorded_at", "created_at"))
    return MemoryDetail(
        type=type_.key.value,
        id=str(row.pk),
        relation=relation,
        content=content,
        kind=getattr(row, "kind", ""),
        active=row.is_current if isinstance(row, Fact) else getattr(row, "active", True),
        **keys_of(row),
        happened_at=next(moment for moment in moments if moment is not None),
        metadata=dict(type_.metadata(row)),
        trust=getattr(row, "trust", Trust.AGENT),
    )
