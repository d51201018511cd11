"""The relation of a new fact to an old one, as a judge or a person states it."""

import enum
from typing import Protocol


class Relation(enum.StrEnum):
    """The relation of a new fact to an old one. Update is first, because a judge overuses "contradiction" otherwise."""

    UPDATE = "update"
    CONTRADICTION = "contradiction"
    REFINEMENT = "refinement"
    DUPLICATE = "duplicate"
    UNRELATED = "unrelated"


class RelationOpinion(Protocol):
    """A verdict about two facts, with its confidence, 0 to 1."""

    @property
    def relation(self) -> Relation: ...

    @property
    def confidence(self) -> float: ...
