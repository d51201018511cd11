"""The memories that entries of the change feed are about, for readers that request bodies."""

from collections.abc import Callable, Collection, Iterable, Sequence

from django.db.models import Model, QuerySet
from django.utils.module_loading import import_string
from ninja import Schema

from identity.models import Agent
from identity.services.change_bodies import Bodies, BodyLoader
from memory.api.censors import CensorOut
from memory.api.reviews import ReviewOut
from memory.models import Censor, MemoryReview, OriginFields


def _loader(rows: Callable[[], QuerySet], schema: type[Schema]) -> BodyLoader:
    def load(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
        found = rows().filter(agent=agent, persona__in=personas, pk__in=ids)
        if issubclass(found.model, OriginFields):
            found = found.filter(held=False)
        return {str(row.pk): schema.from_orm(row).model_dump(mode="json") for row in found}

    return load


def memory_bodies(models: Iterable[type[Model]]) -> dict[str, BodyLoader]:
    """The loaders by type of object: of these models, of censors and of reviews.

    What `memory.models.notes.Note` shows of itself is `memory.api.notes.NoteOut`. Raises ImportError where a model
    has no such schema.
    """
    return {model._meta.model_name or "": _loader(model._default_manager.all, _schema(model)) for model in models} | {
        "censor": _loader(Censor.objects.all, CensorOut),
        "memoryreview": _loader(
            lambda: MemoryReview.objects.select_related("agent", "old", "new", "censor"), ReviewOut
        ),
    }


def _schema(model: type[Model]) -> type[Schema]:
    module = model.__module__.rpartition(".")[2]
    schema: type[Schema] = import_string(f"memory.api.{module}.{model.__name__}Out")
    return schema
