"""Export everything of a user: JSON Lines, a row a line, of each agent that knows anything of them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Model

from identity.models import Agent, ApiToken
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Event, KnownSource
from memory.services.users import MANAGE, TYPES, personas_of
from memory.transfer.export_tables import row_of
from nousweb.lib.constrained_types import user_text

TABLES: tuple[type[Model], ...] = (Event, *TYPES.values(), KnownSource)
BATCH = 500


def user_export(*, agents: Sequence[Agent], user: str, by: Principal) -> Iterator[str]:
    """The lines of an export, of the personas that `by` is told of, after a record of it for each agent.

    Raises NotAllowed before the first line.
    """
    for agent in agents:
        by.require(MANAGE, agent)
        audit_record(by=by, action="user.export", target=agent, agent=agent, after={"user": user_text(user)})
    return _lines(agents, user, personas_of(by))


def _lines(agents: Sequence[Agent], user: str, personas: Sequence[str]) -> Iterator[str]:
    for agent in agents:
        for model in TABLES:
            rows: Any = model._default_manager.filter(agent=agent, user=user, persona__in=personas).order_by("pk")
            for row in rows.iterator(BATCH):
                yield _line(agent, model, {"id": str(row.pk), **row_of(model, row)})
        for token in ApiToken.objects.filter(agent=agent, user=user, persona__in=personas).order_by("pk"):
            yield _line(agent, ApiToken, {"name": token.name, "persona": token.persona, "user": user})


def _line(agent: Agent, model: type[Model], row: dict[str, Any]) -> str:
    return json.dumps({"agent": agent.slug, "table": model._meta.model_name, "row": row}, ensure_ascii=False) + "\n"
