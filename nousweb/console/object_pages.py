"""Where the console shows what an audit record is about. Each app adds the pages of its own models when it is ready."""

from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model
from django.urls import NoReverseMatch, reverse

from identity.models import Agent, ApiToken, ChangeProposal, IdentityVersion, Persona
from identity.policy import VIEW_SUBCONSCIOUS
from identity.principal import Principal

PageOf = Callable[[str, Principal], str | None]


def page_of_model(model: type[Model], name: str, fields: Sequence[str], *, permission: str = "") -> PageOf:
    """The page `name`, its arguments being `fields` of the row; None for a row that is gone.

    With `permission` the rows have a persona: those of the subconscious are for holders of it, and their page says so.
    """

    def page(key: str, by: Principal) -> str | None:
        wanted = [*fields, "persona"] if permission else fields
        try:
            found: Any = model._default_manager.filter(pk=key).values_list(*wanted).first()
            if found is None:
                return None
            hidden = bool(permission) and found[-1] == Persona.SUBCONSCIOUS
            if hidden and not by.may(permission):
                return None
            address = reverse(name, args=found[: len(fields)])
        except (NoReverseMatch, ValidationError, ValueError):
            return None
        return f"{address}?persona=subconscious" if hidden else address

    return page


object_pages: dict[str, PageOf] = {
    "agent": page_of_model(Agent, "agent_identity", ("slug",)),
    "changeproposal": page_of_model(ChangeProposal, "proposal", ("pk",), permission=VIEW_SUBCONSCIOUS),
    "identityversion": page_of_model(IdentityVersion, "section_history", ("agent__slug", "section")),
    "apitoken": page_of_model(ApiToken, "agent_tokens", ("agent__slug",)),
}
"""By the model's name, as records have it."""


def object_url(object_type: str, object_id: str, by: Principal) -> str | None:
    """The console page of what a record is about, if that is still there and `by` may know of it."""
    page = object_pages.get(object_type)
    return page(object_id, by) if page else None
