"""The memories that entries of the change feed are about, for readers that request bodies."""

from collections.abc import Iterable
from functools import partial

from django.db.models import Model, QuerySet

from identity.services.change_feed import BodyLoader, body_loader
from memory.models import Censor, MemoryReview, OriginFields


def memory_bodies(models: Iterable[type[Model]]) -> dict[str, BodyLoader]:
    """The loaders by type of object: of these models, of censors and of reviews.

    What `memory.models.notes.Note` shows of itself is `memory.api.notes.NoteOut`.
    """
    shown: list[type[Model]] = [*models, Censor]
    found = {
        model._meta.model_name or "": body_loader(
            partial(_shown, model), f"{model.__module__.replace('.models.', '.api.')}.{model.__name__}Out"
        )
        for model in shown
    }
    reviews = MemoryReview.objects.select_related("agent", "old", "new", "censor")
    return found | {"memoryreview": body_loader(reviews.all, "memory.api.reviews.ReviewOut")}


def _shown(model: type[Model]) -> QuerySet:
    rows = model._default_manager.all()
    return rows.filter(quarantined=False) if issubclass(model, OriginFields) else rows
