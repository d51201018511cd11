"""What changes of memory are about, for readers of the change feed that ask for bodies."""

from collections.abc import Callable, Collection, Sequence

from django.db.models import QuerySet
from ninja import Schema

from identity.models import Agent
from identity.services.change_bodies import Bodies, BodyLoader
from memory.models import Censor, Decision, Document, Episode, Fact, MemoryReview, OriginFields, Procedure
from memory.schemas.censors import CensorOut
from memory.schemas.decisions import DecisionOut
from memory.schemas.documents import DocumentOut
from memory.schemas.episodes import EpisodeOut
from memory.schemas.facts import FactOut
from memory.schemas.procedures import ProcedureOut
from memory.schemas.reviews import ReviewOut


def _loader(rows: Callable[[], QuerySet], schema: type[Schema]) -> BodyLoader:
    def load(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
        found = rows().filter(agent=agent, persona__in=personas, pk__in=ids)
        if issubclass(found.model, OriginFields):
            found = found.filter(held=False)
        return {str(row.pk): schema.from_orm(row).model_dump(mode="json") for row in found}

    return load


MEMORY_BODIES: dict[str, BodyLoader] = {
    "fact": _loader(Fact.objects.all, FactOut),
    "episode": _loader(Episode.objects.all, EpisodeOut),
    "decision": _loader(Decision.objects.all, DecisionOut),
    "document": _loader(Document.objects.all, DocumentOut),
    "procedure": _loader(Procedure.objects.all, ProcedureOut),
    "censor": _loader(Censor.objects.all, CensorOut),
    "memoryreview": _loader(lambda: MemoryReview.objects.select_related("agent", "old", "new", "censor"), ReviewOut),
}
"""By type of object. Events, working memories and contexts have none: their own addresses give them page by page."""
