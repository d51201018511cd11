"""Fields that the schemas of all memories share."""

from uuid import UUID

from ninja import Schema

from memory.schemas.types import PersonaName, Quarantined, ScopeName, Tags, TrustName
from nousweb.lib.constrained_types import ProjectKey, TaskKey, UnitInterval
from nousweb.lib.schemas import Input, optional


class MemoryIn(Input):
    tags: Tags = []
    scope: ScopeName = "global"
    project: ProjectKey = ""
    task: TaskKey = ""
    importance: UnitInterval = 0.5


class MemoryPatch(Input):
    tags: Tags = optional()
    scope: ScopeName = optional()
    project: ProjectKey = optional("Moves it to this one; empty for none")
    task: TaskKey = optional("Moves it to this one; empty for none")
    importance: UnitInterval = optional()


class MemoryOut(Schema):
    id: UUID
    persona: PersonaName
    tags: list[str]
    scope: ScopeName
    project: str
    task: str
    importance: UnitInterval
    trust: TrustName
    held: Quarantined
    active: bool
