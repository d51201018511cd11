"""Erase quotes of erased memories from expectations and their results."""

import json
from collections.abc import Mapping

from context.models import Expectation
from memory.services.erasure import Erasure


def expectations_erase(erasure: Erasure) -> Mapping[str, int]:
    """Delete the expectations that quote an erased memory in their question, conversation, text or reason, with their
    results, and those that ask for an erased project: they would pass for want of it. One that names a memory by its id
    alone stays, and says from then on that it was erased."""
    if erasure.of_agent:
        return {}
    ids = {one for found in erasure.items.values() for one in found}
    needles = [needle for needle in erasure.needles if needle not in ids]
    rows = Expectation.objects.filter(agent=erasure.agent).order_by("pk").select_for_update()
    quoting = [
        row.pk
        for row in rows
        if any(needle in _words(text) for text in (row.request, row.text, row.reason) for needle in needles)
        or _asks_for(row, erasure.project)
    ]
    Expectation.objects.filter(agent=erasure.agent, pk__in=quoting).delete()
    return {"expectation": len(quoting)}


def _asks_for(row: Expectation, project: str) -> bool:
    """Whether an expectation asks for a project; "" is none."""
    return bool(project) and project in (row.request.get("project"), *(row.request.get("include_projects") or ()))


def _words(value: object) -> str:
    """As needles are written."""
    return json.dumps(value, ensure_ascii=False)
