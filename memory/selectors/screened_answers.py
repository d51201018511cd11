"""Screen what an agent is given once more: the exact texts of an answer, whatever a write let pass."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from identity.principal import Principal
from memory.models import Trust
from memory.persona import PersonaMemory
from memory.search import SearchRequest, search
from memory.search.result import SearchResult
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
        or scan_cached(" ".join([hit.content, *json_texts(hit.metadata), hit.subject, *hit.tags]), hit.trust) is None
    ]
    return replace(found, items=kept)


def places_refused(texts: Sequence[str], metadata: Sequence[Mapping[str, Any]], trusts: Sequence[str]) -> set[int]:
    """The positions of the texts that must not be given to an agent, by themselves, with their metadata or together."""
    classes = ["" if trust == Trust.PERSON else trust for trust in trusts]
    refused = {place for one in scan_pieces(texts, classes) for place in one.places}
    for place, (fields, trust) in enumerate(zip(metadata, classes, strict=True)):
        if trust and fields and scan_cached(" ".join(json_texts(fields)), trust):
            refused.add(place)
    return refused
