"""Links to the objects of audit records and changes: each model has its own page in `get_absolute_url`."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import JSONField, Model
from django.urls import NoReverseMatch, reverse

from identity.models import Agent, Change, Persona
from identity.policy.changes import CHANGE_KINDS
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import Event
from nousweb.console.common.view_helpers import uuid_of

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
        agent = row.pk if isinstance(row, Agent) else getattr(row, "agent_id", None)
        if by.agents is not None and agent not in by.agents:
            return None
        if hidden and not by.may(VIEW_SUBCONSCIOUS):
            return None
        address: str = row.get_absolute_url()  # type: ignore[attr-defined]
    except (NoReverseMatch, ValidationError, ValueError):
        return None
    return f"{address}?persona=subconscious" if hidden else address


ObjectLink = dict[str, str]
"""The object of a change: its present name (label) and page (url); without an address if it is gone."""


def change_links(agent: Agent, changes: Iterable[Change], personas: Sequence[str]) -> dict[int, ObjectLink]:
    """The link to the object of each change, of these personas: one statement per type of object.

    The caller has checked that the reader may see the changes.
    """
    changes = list(changes)
    wanted: dict[tuple[str, str], set[str]] = {}
    for change in changes:
        wanted.setdefault((change.object_type, CHANGE_KINDS[change.kind].named_by), set()).add(change.object_id)
    found = {
        (object_type, name, key, persona): link
        for (object_type, name), ids in wanted.items()
        for key, persona, link in _links(agent, object_type, name, ids, personas)
    }
    links = {}
    for change in changes:
        name = CHANGE_KINDS[change.kind].named_by
        keys = [(change.object_type, name, change.object_id, persona) for persona in (change.persona, "")]
        links[change.pk] = next((found[key] for key in keys if key in found), {"label": change.object_id})
        if change.kind == "log.sealed":
            links[change.pk] = {"label": "Seals of the log", "url": reverse("integrity")}
    return links


def _links(
    agent: Agent, object_type: str, name: str, ids: Collection[str], personas: Sequence[str]
) -> Iterable[tuple[str, str, ObjectLink]]:
    """The existing objects of one type: the value of `name`, the persona ("" for both), and the link."""
    model = _models().get(object_type)
    if model is None:
        return
    if isinstance(agent, model):
        yield agent.slug, "", {"label": str(agent), "url": agent.get_absolute_url()}
        return
    fields = {field.name: field for field in model._meta.get_fields() if field.concrete}
    # Objects are loaded with the related rows of their names, and without long columns.
    parents = [key for key, field in fields.items() if field.many_to_one and key != "agent"]
    long = [key for key, field in fields.items() if isinstance(field, JSONField)]
    rows = model._default_manager.select_related(*parents).defer(*long).filter(agent=agent)
    if "persona" in fields:
        rows = rows.filter(persona__in=personas)
    try:
        held = list(rows.filter(**{f"{name}__in": list(ids)}))
    except (ValidationError, ValueError):
        return
    for row in held:
        row.agent = agent  # type: ignore[attr-defined]
        persona = getattr(row, "persona", "")
        address: str = row.get_absolute_url()  # type: ignore[attr-defined]
        if persona == Persona.SUBCONSCIOUS:
            address += "?persona=subconscious"
        # The name of an event is a number.
        label = f"{row.get_kind_display()}: {row.content}" if isinstance(row, Event) else str(row)
        yield str(getattr(row, name)), persona if name != "pk" else "", {"label": label, "url": address}


NOUNS = {"working": "working memory", "loop": "session", "context": "prompt"}
VERBS = {"superseded": "replaced", "invalidated": "marked as wrong", "outcome": "got an outcome"}


def kind_choices(kinds: Collection[str], *, whole_groups: bool) -> list[Any]:
    """These kinds by group; with `whole_groups` also each group as a whole, as "fact.*"."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for kind in CHANGE_KINDS:
        if kind in kinds:
            groups[kind.partition(".")[0]].append((kind, kind_title(kind)))
    return [
        (
            _noun(group),
            [(f"{group}.*", f"Any {_noun(group).lower()} change"), *choices]
            if whole_groups and len(choices) > 1
            else choices,
        )
        for group, choices in groups.items()
    ]


def kind_title(kind: str) -> str:
    """A kind in words: "Fact replaced"."""
    group, _, happened = kind.partition(".")
    return f"{_noun(group)} {VERBS.get(happened, happened)}"


def change_details(kind: str, details: Mapping[str, Any]) -> str:
    """The details of a change in words, without ids, for which there are links."""
    if kind == "events.recorded":
        count = details.get("count", 1)
        return f"{count} events" if count != 1 else ""
    if kind == "log.sealed":
        count = details.get("count", 0)
        return f"{count} record{'s' if count != 1 else ''}"
    shown = {name: str(value) for name, value in details.items() if not uuid_of(value)}
    return ", ".join(f"{name.replace('_', ' ')}: {value.replace('_', ' ')}" for name, value in shown.items())


def _noun(group: str) -> str:
    return NOUNS.get(group, group).capitalize()
