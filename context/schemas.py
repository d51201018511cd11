"""What the context API takes and gives."""

from typing import Annotated
from uuid import UUID

from ninja import Schema
from pydantic import Field, StringConstraints

from context.services.context import MAX_INPUT_CHARACTERS
from nousweb.lib.schemas import Input


class ContextIn(Input):
    session_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="The conversation or task that the prompt is for"
    )
    input: Annotated[str, StringConstraints(max_length=MAX_INPUT_CHARACTERS)] = Field(
        description="What the agent was just asked"
    )


class ItemOut(Schema):
    type: str
    id: str


class SectionOut(Schema):
    label: str
    tier: int = Field(description="1 always on, 2 of the session, 3 searched")
    tokens: int
    truncated: bool
    items: list[ItemOut]


class ContextOut(Schema):
    id: UUID
    system_prompt: str
    tokens: int = Field(description="Estimated tokens of the whole prompt")
    sections: list[SectionOut]
