"""The API of task fingerprints: outcomes of similar tasks.

Source: seed "Context Profiles and Retrieval Policies", section 8.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from context.feedback.fingerprint_stats import SHOWN, FingerprintRow, fingerprints
from context.selectors import outcomes_view_check
from identity.selectors import agent_called
from nousweb.lib import moment_check
from nousweb.lib.constrained_types import AgentSlug, UnitInterval
from nousweb.lib.schemas import REFUSALS, Derived, Moment

router = Router(tags=["context"])


class FingerprintOut(Derived, of=FingerprintRow, fields="id runs success failure rate low high tokens last about"):
    rate: UnitInterval | None = Field(description="Successes divided by reported outcomes; null while none is reported")
    low: int = Field(description="Percent: the lower end of Wilson's 95 % interval of the rate")
    high: int = Field(description="Percent: its upper end")
    tokens: float = Field(description="Estimated tokens of a prompt, on average")
    last: datetime = Field(description="Time of the last run")
    about: dict[str, Any] = Field(description="The fingerprint of the last run, as `POST /api/context` answered it")


class FingerprintsOut(Schema):
    items: list[FingerprintOut] = Field(description=f"Most runs first, at most {SHOWN}")


@router.get("/fingerprints", response={200: FingerprintsOut, **REFUSALS}, summary="How tasks that are alike ended")
def fingerprints_get(
    request: HttpRequest,
    agent: AgentSlug = "",
    since: Moment | None = Query(None, description="Only runs at or after this time"),
) -> Any:
    """Outcomes by the fingerprint of the context, over the logged runs of the caller's persona.

    Runs are deleted when their retention ends, and are then not counted.
    """
    found, by = agent_called(request, agent)
    outcomes_view_check(found, by)
    return {"items": fingerprints(found, by, moment_check("since", since))}
