"""From rows of the index to the memories themselves, read through the persona's view once more.

The index may be behind by a moment; what the view does not show, or what is retired, never leaves here.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memory.models import Decision, Episode, Fact, ItemType, Procedure
from memory.persona import PersonaMemory

Loaded = tuple[str, Mapping[str, Any]]


def _events(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    rows = view.events.filter(pk__in=[int(item) for item in ids]).values_list("pk", "content", "metadata")
    return {str(pk): (content, metadata) for pk, content, metadata in rows}


def _facts(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    facts = view.facts.as_of(as_of) if as_of else view.facts.active()
    return {str(fact.pk): (fact.content, _about_fact(fact)) for fact in facts.filter(pk__in=ids)}


def _about_fact(fact: Fact) -> dict[str, Any]:
    return {
        "subject": fact.subject,
        "category": fact.category,
        "kind": fact.kind,
        "confidence": fact.confidence,
        "source": fact.source,
        "valid_from": fact.valid_from,
        "valid_until": fact.valid_until,
    }


def _episodes(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    found = view.episodes.active().filter(pk__in=ids)
    return {str(row.pk): (_episode_text(row), _about_episode(row)) for row in found}


def _episode_text(episode: Episode) -> str:
    return "\n".join(part for part in (episode.title, episode.summary or episode.detail) if part)


def _about_episode(episode: Episode) -> dict[str, Any]:
    return {
        "title": episode.title,
        "outcome": episode.outcome,
        "lessons": episode.lessons,
        "started_at": episode.started_at,
        "ended_at": episode.ended_at,
    }


def _procedures(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    found = view.procedures.active().filter(pk__in=ids)
    return {str(row.pk): (_procedure_text(row), _about_procedure(row)) for row in found}


def _procedure_text(procedure: Procedure) -> str:
    return "\n".join(part for part in (procedure.name, procedure.description, *procedure.steps) if part)


def _about_procedure(procedure: Procedure) -> dict[str, Any]:
    return {
        "name": procedure.name,
        "domain": procedure.domain,
        "steps": procedure.steps,
        "effectiveness": procedure.effectiveness,
    }


def _decisions(view: PersonaMemory, ids: Sequence[str], as_of: datetime | None) -> dict[str, Loaded]:
    found = view.decisions.active().filter(pk__in=ids)
    return {str(row.pk): (row.description, _about_decision(row)) for row in found}


def _about_decision(decision: Decision) -> dict[str, Any]:
    return {
        "category": decision.category,
        "confidence": decision.confidence,
        "stakes": decision.stakes,
        "reasons": decision.reasons,
        "outcome": decision.outcome,
        "outcome_note": decision.outcome_note,
    }


_LOADERS: dict[str, Callable[[PersonaMemory, Sequence[str], datetime | None], dict[str, Loaded]]] = {
    ItemType.EVENT: _events,
    ItemType.FACT: _facts,
    ItemType.EPISODE: _episodes,
    ItemType.PROCEDURE: _procedures,
    ItemType.DECISION: _decisions,
}


def memories_load(
    view: PersonaMemory, items: Sequence[tuple[str, str]], as_of: datetime | None = None
) -> dict[tuple[str, str], Loaded]:
    """Content and metadata by (type, id), one query for each type; what may not be shown is missing."""
    wanted: dict[str, list[str]] = {}
    for item_type, item_id in items:
        wanted.setdefault(item_type, []).append(item_id)
    return {
        (item_type, item_id): loaded
        for item_type, ids in wanted.items()
        for item_id, loaded in _LOADERS[item_type](view, ids, as_of).items()
    }
