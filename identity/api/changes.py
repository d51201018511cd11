"""The API of the change feed."""

import base64
import json
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field, TypeAdapter

from identity.models import Change
from identity.policy.changes import CHANGE_KINDS, LONGEST_WAIT_SECONDS, MAX_PAGE
from identity.selectors import agent_called
from identity.services.change_feed import (
    StreamPosition,
    StreamPositions,
    changes_await,
    changes_json,
    kinds_of,
    streams_of,
)
from nousweb.lib import Invalid, NotAllowed
from nousweb.lib.schemas import REFUSALS, Derived

MAX_CHARACTERS = 200
POSITIONS = TypeAdapter(
    list[
        tuple[
            Literal["actor", "subconscious"],
            Annotated[int, Field(strict=True, ge=0, lt=2**62)],
            Annotated[str, Field(pattern=r"\A[0-9a-f]{0,8}\z")],
        ]
    ]
)
"""What a cursor holds: each stream's name, with the number and the key of its position."""


def cursor_encode(positions: StreamPositions) -> str:
    """The text of a cursor."""
    payload = json.dumps(
        [[name, position.number, position.key] for name, position in positions.items()], separators=(",", ":")
    )
    return base64.urlsafe_b64encode(payload.encode()).decode().rstrip("=")


def cursor_decode(cursor: str) -> dict[str, StreamPosition]:
    """The positions in `cursor`, {} for an empty one. Raises Invalid for a text that `cursor_encode` did not make."""
    if not cursor:
        return {}
    try:
        if len(cursor) > MAX_CHARACTERS:
            raise ValueError
        payload = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return {name: StreamPosition(number, key) for name, number, key in POSITIONS.validate_json(payload)}
    except ValueError as error:
        raise Invalid("This cursor does not come from a page of changes.", field="after") from error


class FeedChangeOut(Derived, of=Change, fields="id kind persona at object_type object_id"):
    id: UUID = Field(description="Stable id of this change, on pages and in webhooks")
    kind: str = Field(description="Object and action, such as `fact.superseded`")
    details: dict[str, Any] = Field(description="Ids, numbers and codes that belong to this kind")
    blocks: list[str] = Field(description="Blocks of prompts that this kind of change may change")
    body: dict[str, Any] | None = Field(
        None, description="With `bodies`: the current object; null if it no longer exists or has no body"
    )


class FeedOut(Schema):
    items: list[FeedChangeOut]
    next: str = Field(description="Pass as `after` for the next page; also given on the last page")
    more: bool = Field(description="Whether more changes are available now")


router = Router(tags=["changes"])

NOW = "now"


@router.get("/changes", response={200: FeedOut, **REFUSALS, 410: None, 429: None}, summary="What has happened since")
def changes_list(
    request: HttpRequest,
    agent: str = "",
    after: str = Query(
        "", description="`next` of the last page; empty for all kept changes, `now` for new changes only"
    ),
    wait: int = Query(0, ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for a change if there is none"),
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    kinds: str = Query(
        "", max_length=1000, description="Only these kinds, separated by commas; `fact.*` for all about facts"
    ),
    bodies: bool = Query(False, description="Include the current object of each change"),
) -> Any:
    """All changes of an agent, in the order in which they became visible, each once and without gaps.

    A token gets changes of its own persona (the subconscious of both) within its scopes; each persona's changes are in
    order. Continue with `next`: every page has it, and it stays valid until the changes after it are deleted by age.
    After that, or if the database is another one, the answer is 410. If too many readers are waiting, it is 429.
    """
    found, by = agent_called(request, agent)
    by.require_all_projects()
    allowed = kinds_of(by)
    if not allowed:
        raise NotAllowed("A reader of changes needs a scope that reads: identity, memory, context or expectations.")
    page = changes_await(
        agent=found,
        by=by,
        after={} if after == NOW else cursor_decode(after),
        kinds=kinds_named(kinds) & allowed if kinds else allowed,
        limit=limit,
        newest=after == NOW,
        seconds=wait,
    )
    return {
        "items": changes_json(found, page.changes, streams_of(by), with_bodies=bodies),
        "next": cursor_encode(page.positions),
        "more": page.more,
    }


def kinds_named(patterns: str) -> frozenset[str]:
    """The kinds that a list of names and `group.*` means. Raises Invalid for a name that means none."""
    found: set[str] = set()
    for pattern in filter(None, (each.strip() for each in patterns.split(","))):
        named = {
            kind
            for kind in CHANGE_KINDS
            if pattern in ("*", kind) or (pattern.endswith(".*") and kind.startswith(pattern[:-1]))
        }
        if not named:
            raise Invalid(f"There is no kind of change {pattern[:60]!r}.", field="kinds")
        found |= named
    return frozenset(found)
