"""Schemas of the API of the user's profile."""

from datetime import datetime

from ninja import Schema
from pydantic import Field

from memory.schemas.facts import FactOut


class ProfileCountsOut(Schema):
    user: int
    preferences: int
    rules: int


class PreferencesSectionOut(Schema):
    version: int
    content: str
    updated_at: datetime = Field(alias="created_at")
    updated_by: str = Field(alias="author_name")


class UserProfileOut(Schema):
    agent: str
    section: PreferencesSectionOut | None = Field(
        description="Current Preferences of the agent's identity; null while there are none"
    )
    user: list[FactOut] = Field(description="Facts of the category person")
    preferences: list[FactOut] = Field(description="Facts of the category preference")
    rules: list[FactOut] = Field(description="Facts of the category rule")
    counts: ProfileCountsOut = Field(description="Number of each, including those beyond `limit`")
