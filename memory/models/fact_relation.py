"""The relation of a new fact to an old one, as a judge or a person states it."""

import enum
from typing import Protocol


class Relation(enum.StrEnum):
    """What a new fact is to an old one. Update stands first: a judge offered only "contradiction" says it too often."""

    UPDATE = "update"
    CONTRADICTION = "contradiction"
    REFINEMENT = "refinement"
    DUPLICATE = "duplicate"
    UNRELATED = "unrelated"


class RelationOpinion(Protocol):
    """What was said of two facts, and how sure of it, 0 to 1."""

    @property
    def relation(self) -> Relation: ...

    @property
    def confidence(self) -> float: ...
