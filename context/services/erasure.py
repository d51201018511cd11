"""Erase logged contexts, and expectations that quote erased memories."""

import json
from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from context.models import ContextPin, ContextRecall, ContextRun, Expectation, MemoryUsage
from memory.services.erasure import Erasure, quoting_keys


def expectations_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the expectations that quote an erased memory in their question, conversation, text or reason, with their
    results, and those that ask for an erased project or user: they would pass for want of it. One that names a memory
    by its id alone stays, and says from then on that it was erased."""
    if erasure.of_agent:
        return {}
    ids = {one for found in erasure.items.values() for one in found}
    needles = [needle for needle in erasure.needles if needle not in ids]
    rows = Expectation.objects.filter(agent=erasure.agent).order_by("pk").select_for_update()
    quoting = [
        row.pk
        for row in rows
        if any(
            needle in json.dumps(text, ensure_ascii=False)
            for text in (row.request, row.text, row.reason)
            for needle in needles
        )
        or _asks_for(row, erasure)
    ]
    Expectation.objects.filter(agent=erasure.agent, pk__in=quoting).delete()
    return {"expectation": len(quoting)}


def _asks_for(row: Expectation, erasure: Erasure) -> bool:
    """Whether an expectation asks for an erased project or user."""
    more = {"project": row.request.get("include_projects") or ()}
    return any(key in (row.request.get(name), *more.get(name, ())) for name, key in erasure.keys.items())


def context_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the logged contexts that showed an erased memory, in the prompt or recalled, and its pin; for a project
    or user, those that requested it or showed anything of it. Contexts of an erased agent are deleted with it."""
    quoting_ids: list[Any] = []
    if erasure.items:
        recalls = ContextRecall.objects.filter(pk__in=quoting_keys(ContextRecall, erasure))
        quoting_ids = [*{*quoting_keys(ContextRun, erasure), *recalls.values_list("run", flat=True)}]
    if erasure.keys:
        quoting_ids = [*{*quoting_ids, *_runs_of_key(erasure)}]
    ContextRun.objects.filter(pk__in=quoting_ids).delete()
    pins = 0
    for item_type, ids in erasure.items.items():
        MemoryUsage.objects.filter(agent=erasure.agent, item_type=item_type, item_id__in=ids).delete()
        pins += ContextPin.objects.filter(agent=erasure.agent, item_type=item_type, item_id__in=ids).delete()[0]
    return {"contextrun": len(quoting_ids), "contextpin": pins}


def _runs_of_key(erasure: Erasure) -> list[Any]:
    """Runs whose request names the project, all projects or the user, or whose log has an item with its key."""
    [(name, value)] = erasure.keys.items()
    key = json.dumps(value)
    shown = f"$[*].items[*] ? (@.{name} == {key})", f"$[*] ? (@.{name} == {key})"
    asked = Q(**{f"request__{name}": value})
    if erasure.project:
        asked |= Q(request__include_projects__contains=[value]) | Q(request__all_projects=True)
    rows = ContextRun.objects.filter(agent=erasure.agent).filter(asked)
    carrying = ContextRun.objects.filter(agent=erasure.agent).extra(
        where=["sections @? %s::jsonpath OR candidates @? %s::jsonpath"], params=list(shown)
    )
    recalls = ContextRecall.objects.filter(agent=erasure.agent)
    recalled = recalls.filter(asked) | recalls.filter(items__contains=[{name: value}])
    return [
        *rows.values_list("pk", flat=True),
        *carrying.values_list("pk", flat=True),
        *recalled.values_list("run", flat=True),
    ]
