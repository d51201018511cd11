"""The rows that Home reads, in one statement that is written once, since that takes longer than its answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import BigIntegerField, Func

from identity.models import AgentLimit, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.judge.model_judge import today_start
from nousweb.console.home.period import DEFAULT_DAYS, Period
from nousweb.lib import clock
from nousweb.lib.distribution import is_distributed
from nousweb.lib.prepared_statements import CachedQuery, Rows, fetch_combined

_PERSON = -1
_MOMENTS = ("since", "now", "day", "week", "fortnight", "today", "judge_since", "first", "first_before")


@dataclass(frozen=True)
class Sight:
    """Which rows a person sees, for a query that is written once for all people: as a holder of permissions."""

    subconscious: bool
    limited: bool

    def may(self, permission: str) -> bool:
        """Whether rows of this right are seen; only of the subconscious is asked."""
        return self.subconscious and permission == VIEW_SUBCONSCIOUS

    @property
    def agents(self) -> Any:
        """The keys of the agents to which the person's role is limited, as a query; None for all."""
        if not self.limited:
            return None
        one = Func("agents", function="unnest", output_field=BigIntegerField())
        return AgentLimit.objects.filter(person_id=_PERSON).annotate(one=one).values("one")

    @property
    def personas(self) -> list[str]:
        return list(Persona.values) if self.subconscious else [Persona.ACTOR.value]


def board_query(build: Any, *moments: str, author: bool = False) -> CachedQuery:
    """A query of rows that a Sight sees. `build` makes it from that, and from the `moments` and the `author` it names:
    the person's key as the audit trail has it. Its columns need different names."""
    stand_ins: dict[str, Any] = {
        name: datetime(2001, 2, 3, 4, 5, place, tzinfo=UTC) for place, name in enumerate(_MOMENTS) if name in moments
    }
    if author:
        stand_ins["author"] = "nobody at all"

    def built(sight: Sight, person: int, **values: Any) -> Any:
        return build(sight, **values)

    return CachedQuery(built, person=_PERSON, **stand_ins)


def board_rows(queries: Mapping[str, CachedQuery], since: datetime, by: Principal) -> dict[str, Rows]:
    """The rows of each query that `by` sees, by its name. Moments and JSON may come as text, which `moment_read` and
    `json_read` read."""
    now, today = clock.now(), today_start()
    drawn = Period(DEFAULT_DAYS, now)
    values = {
        "person": int(by.id),
        "author": by.id,
        "since": since,
        "now": now,
        "day": now - timedelta(days=1),
        "week": now - timedelta(days=7),
        "fortnight": now - timedelta(days=14),
        "today": today,
        "judge_since": min(today, now - timedelta(days=7)),
        "first": drawn.start,
        "first_before": drawn.earlier,
    }
    sight = Sight(by.may(VIEW_SUBCONSCIOUS), by.agents is not None)
    if is_distributed():
        # A cluster asks all its servers only for a statement of its own.
        return {name: query.rows(sight, **values) for name, query in queries.items()}
    return fetch_combined({name: query.bound(sight, **values) for name, query in queries.items()}) if queries else {}


def json_read(value: Any) -> Any:
    """JSON of such a row."""
    return json.loads(value) if isinstance(value, str) else value


def moment_read(value: Any) -> Any:
    """A moment of such a row."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value
