"""Bodies of changes: the present state of their objects, read on request and never stored with the change.

Other apps add their types: each entry of `bodies` returns, for ids of one type of object, those that still exist and
belong to one of the personas.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils.module_loading import import_string

from identity.models import Agent, Change, ChangeProposal, IdentityVersion
from identity.policy.changes import blocks_touched

Bodies = dict[str, dict[str, Any]]
BodyLoader = Callable[[Agent, Collection[str], Sequence[str]], Bodies]


def bodies_of(
    agent: Agent, changes: Sequence[Change], personas: Sequence[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The bodies of the objects of these changes, by type and id; without objects that are gone or have none.

    The caller has checked that the reader may see the changes: a reader who may see a change may read its body.
    """
    ids: dict[str, set[str]] = {}
    for change in changes:
        ids.setdefault(change.object_type, set()).add(change.object_id)
    return {
        (name, key): body
        for name, wanted in ids.items()
        if name in bodies
        for key, body in bodies[name](agent, wanted, personas).items()
    }


def changes_json(
    agent: Agent, changes: Iterable[Change], personas: Sequence[str], *, with_bodies: bool
) -> list[dict[str, Any]]:
    """Changes as the API and webhooks tell of them."""
    changes = list(changes)
    held = bodies_of(agent, changes, personas) if with_bodies else {}
    return [
        {
            "id": change.key,
            "kind": change.kind,
            "persona": change.persona,
            "at": change.at,
            "object_type": change.object_type,
            "object_id": change.object_id,
            "details": change.details,
            "blocks": blocks_touched(change.kind),
            "body": held.get((change.object_type, change.object_id)),
        }
        for change in changes
    ]


def body_loader(rows: Callable[[], QuerySet], schema: str) -> BodyLoader:
    """A loader of `rows`, which have an agent and a persona, as the schema with this dotted name shows them.

    The schema is imported at the first request: commands and workers start sooner without the modules of the API.
    """

    def load(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
        shown = import_string(schema)
        found = rows().filter(agent=agent, persona__in=personas, pk__in=ids)
        return {str(row.pk): shown.from_orm(row).model_dump(mode="json") for row in found}

    return load


def _versions(agent: Agent, ids: Collection[str], personas: Sequence[str]) -> Bodies:
    shown = import_string("identity.api.VersionOut")
    rows = IdentityVersion.objects.select_related("previous", "restores").filter(agent=agent, pk__in=ids)
    return {str(row.pk): shown.from_orm(row).model_dump(mode="json") | {"section": row.section} for row in rows}


bodies: dict[str, BodyLoader] = {
    "identityversion": _versions,
    "changeproposal": body_loader(
        lambda: ChangeProposal.objects.select_related("agent", "version"), "identity.api.ProposalOut"
    ),
}
