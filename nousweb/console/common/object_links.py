"""The console page of what an audit record is about: each model names its own in `get_absolute_url`."""

from functools import cache

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.urls import NoReverseMatch

from identity.models import Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal

APPS = ("identity", "memory", "context")


@cache
def _models() -> dict[str, type[Model]]:
    """The models that have a page, by the name that records have."""
    models = (model for label in APPS for model in apps.get_app_config(label).get_models())
    return {model._meta.model_name or "": model for model in models if hasattr(model, "get_absolute_url")}


def object_url(object_type: str, object_id: str, by: Principal) -> str | None:
    """The page of the row with this key; None for one that is gone, or of which `by` may not know.

    What belongs to the subconscious is for those with the right to it, and its page says so.
    """
    model = _models().get(object_type)
    if model is None:
        return None
    fields = {field.name for field in model._meta.get_fields()}
    rows = model._default_manager.select_related("agent") if "agent" in fields else model._default_manager.all()
    try:
        row = rows.filter(pk=object_id).first()
        if row is None:
            return None
        hidden = getattr(row, "persona", None) == Persona.SUBCONSCIOUS and model is not apps.get_model(
            "identity.ApiToken"
        )
        if hidden and not by.may(VIEW_SUBCONSCIOUS):
            return None
        address: str = row.get_absolute_url()  # type: ignore[attr-defined]
    except (NoReverseMatch, ValidationError, ValueError):
        return None
    return f"{address}?persona=subconscious" if hidden else address
