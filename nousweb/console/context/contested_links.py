"""Links from the contested facts of a prompt to their reviews, so that readers can resolve them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.urls import reverse

from context.engine.context_record import ContextRecord
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import MemoryReview

VIEW = "memory.view_memoryreview"
Kind, Status = MemoryReview.Kind, MemoryReview.Status


@dataclass(frozen=True, slots=True)
class ContestedLink:
    """The review of a contested fact: its page, and the note at the fact; `open` while it is pending."""

    url: str
    words: str
    open: bool


def contested_links(record: ContextRecord, agent: Agent, by: Principal) -> dict[str, ContestedLink]:
    """By id of a fact the review that contests it: an open one before one that has been decided since, then the latest.

    One statement where something is contested and `by` may see reviews, else none.
    """
    contested = {str(item["id"]): item for item in _contested(record)}
    keys = [key for key in contested if _is_key(key)]
    if not keys or not by.may(VIEW):
        return {}
    reviews = MemoryReview.objects.filter(
        Q(old__in=keys) | Q(new__in=keys), agent=agent, kind__in=(Kind.CONTRADICTION, Kind.DUPLICATE)
    )
    if not by.may(VIEW_SUBCONSCIOUS):
        reviews = reviews.filter(persona=Persona.ACTOR)
    links: dict[str, ContestedLink] = {}
    for review in reviews.order_by("created_at", "id"):
        is_open = review.status in MemoryReview.UNANSWERED
        for key, other in ((str(review.old_id), str(review.new_id)), (str(review.new_id), str(review.old_id))):
            known = links.get(key)
            if other not in contested.get(key, {}).get("contested_with", ()) or (known and known.open and not is_open):
                continue
            words = f"contested, {contested[key]['contested']}" + ("" if is_open else ", decided since")
            links[key] = ContestedLink(reverse("memory_review_detail", args=[review.asked_by]), words, is_open)
    return links


def _contested(record: ContextRecord) -> Iterator[Mapping[str, Any]]:
    for section in record.sections:
        yield from (item for item in section["items"] if item.get("contested"))
    yield from (one for one in record.candidates if one.get("contested"))


def _is_key(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
