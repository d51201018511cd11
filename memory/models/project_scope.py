"""Which projects' and tasks' memory may be read: every search names it, so that no caller can forget it.

A memory carries the keys of its writer: none (it is global), a project, a task, or a task of a project. It comes up
where each key that it carries is the reader's own.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from django.db.models import Q

from identity.principal import Principal
from memory.models.base import Scope
from memory.policy import MAX_PROJECTS
from nousweb.lib.constrained_types import key_text
from nousweb.lib.errors import Invalid, NotAllowed
from nousweb.lib.validation import choice_check


class ProjectKeys(Protocol):
    """Anything that carries the keys of a project and a task; "" for none."""

    @property
    def project(self) -> str: ...

    @property
    def task(self) -> str: ...


def key_check(field: str, value: str) -> str:
    """The key of a project or a task as it is stored; "" for none. Raises Invalid."""
    try:
        return key_text(value)
    except ValueError as error:
        raise Invalid(f"{field}: {error}", field=field) from error


@dataclass(frozen=True, slots=True)
class ProjectScope:
    """The project and the task that somebody reads for; "" for none.

    `include_projects` are other projects whose memory is asked for too, but not that of their tasks. `all_projects`
    lets everything pass, tasks included. Raises Invalid, naming the field.
    """

    project: str = ""
    task: str = ""
    include_projects: tuple[str, ...] = ()
    all_projects: bool = False

    def __post_init__(self) -> None:
        if len(self.include_projects) > MAX_PROJECTS:
            raise Invalid(f"include_projects holds at most {MAX_PROJECTS} projects.", field="include_projects")
        included = (key_check("include_projects", key) for key in self.include_projects)
        object.__setattr__(self, "project", key_check("project", self.project))
        object.__setattr__(self, "task", key_check("task", self.task))
        object.__setattr__(self, "include_projects", tuple(dict.fromkeys(key for key in included if key)))

    @property
    def own(self) -> tuple[str, ...]:
        """The keys of projects whose task of this name is the reader's."""
        return ("", self.project) if self.project else ("",)

    @property
    def projects(self) -> tuple[str, ...]:
        """The keys of projects whose memory is shown, "" among them."""
        return tuple(dict.fromkeys((*self.own, *self.include_projects)))

    @property
    def is_global(self) -> bool:
        """Whether nothing that carries a key is shown."""
        return not (self.project or self.task or self.include_projects or self.all_projects)

    def shows(self, project: str, task: str) -> bool:
        """Whether a memory with these keys comes up."""
        if self.all_projects or not (project or task):
            return True
        own_task = not task or (task == self.task and project in self.own)
        return own_task and project in self.projects

    @property
    def pattern(self) -> "ProjectScope | None":
        """A scope whose keys stand in for those of this one in a query that is written once; None for wider ones."""
        if self.include_projects or self.all_projects:
            return None
        return GLOBAL if self.is_global else OWN

    @property
    def q(self) -> Q:
        """`shows` for rows of a table."""
        return self.q_through("")

    def q_through(self, prefix: str) -> Q:
        """`shows` for rows that have the keys through a relation, such as `event__`."""
        if self.all_projects:
            return Q()
        project, task = f"{prefix}project", f"{prefix}task"
        if self.is_global:
            return Q(**{project: "", task: ""})
        tasks = Q(**{task: ""})
        if self.task:
            tasks |= Q(**{task: self.task, f"{project}__in": self.own})
        return Q(**{f"{project}__in": self.projects}) & tasks

    def condition(self, alias: str = "") -> tuple[str, dict[str, Any]]:
        """`shows` in SQL with its parameters; the columns are those of `alias`.

        The text is one of three whatever the keys are, so that its plan can be kept.
        """
        column = f"{alias}." if alias else ""
        if self.all_projects:
            return "true", {}
        if self.is_global:
            # Written out, so that a plan made once for all knows how many rows it means.
            return f"{column}project = '' AND {column}task = ''", {}
        return (
            f"{column}project = ANY(%(s_projects)s::text[]) AND ({column}task = ''"
            f" OR {column}task = %(s_task)s::text AND {column}project = ANY(%(s_own)s::text[]))",
            {"s_projects": list(self.projects), "s_own": list(self.own), "s_task": self.task},
        )


GLOBAL = ProjectScope()
EVERYTHING = ProjectScope(all_projects=True)
STAND_INS = {"project": "?project", "task": "?task"}
OWN = ProjectScope(STAND_INS["project"], STAND_INS["task"])
"""The pattern of all that name a project or a task."""


def scope_check(scope: ProjectScope, by: Principal) -> ProjectScope:
    """The scope that `by` asks for. Raises NotAllowed where it is more than a token's projects."""
    if by.projects is None:
        return scope
    if scope.all_projects:
        by.require_all_projects()
    if foreign := [key for key in scope.projects if not by.reads_project(key)]:
        raise NotAllowed(f"This token does not read the project {foreign[0]!r}.", field="project")
    return scope


def tier_of(scope: str, project: str, task: str) -> str:
    """How far a memory reaches, which follows from its keys; without any it is what was said."""
    return Scope.TASK if task else Scope.PROJECT if project else scope


class ScopedMemory(ProjectKeys, Protocol):
    """A memory with keys and the scope that follows from them."""

    @property
    def scope(self) -> str: ...


def keys_changed(memory: ScopedMemory, scope: str | None, project: str | None, task: str | None) -> dict[str, str]:
    """What a change of scope or keys sets; None leaves one alone. What loses its last key is global.

    Raises Invalid, also for a scope alone that does not follow from the keys.
    """
    if scope is not None:
        choice_check("scope", scope, Scope.values)
    keyed = bool(memory.project or memory.task)
    if project is None and task is None:
        if scope is not None and keyed and scope != memory.scope:
            raise Invalid(f"scope follows from project and task: here it is {memory.scope}.", field="scope")
        return {} if scope is None else {"scope": scope}
    new_project = memory.project if project is None else key_check("project", project)
    new_task = memory.task if task is None else key_check("task", task)
    unkeyed = Scope.GLOBAL if keyed else scope or memory.scope
    return {"scope": tier_of(unkeyed, new_project, new_task), "project": new_project, "task": new_task}


def covers(wide: ProjectKeys, narrow: ProjectKeys) -> bool:
    """Whether `wide` comes up wherever `narrow` does."""
    return wide.project in ("", narrow.project) and wide.task in ("", narrow.task)


def meet(one: ProjectKeys, other: ProjectKeys) -> bool:
    """Whether one of the two comes up wherever the other does: else no reader, or only some, sees both."""
    return covers(one, other) or covers(other, one)


def covers_sql(alias: str = "") -> str:
    """Whether a row comes up wherever what carries the keys %(project)s and %(task)s does."""
    column = f"{alias}." if alias else ""
    return f"({column}project IN ('', %(project)s) AND {column}task IN ('', %(task)s))"


def meets_sql(alias: str = "") -> str:
    """`meet` of a row and what carries the keys %(project)s and %(task)s."""
    column = f"{alias}." if alias else ""
    covered = f"(%(project)s IN ('', {column}project) AND %(task)s IN ('', {column}task))"
    return f"({covers_sql(alias)} OR {covered})"


def same_keys(one: ProjectKeys, other: ProjectKeys) -> bool:
    return (one.project, one.task) == (other.project, other.task)


def carried_keys(memory: ProjectKeys) -> dict[str, str]:
    """The keys that a memory carries, for the audit trail."""
    return {name: value for name, value in (("project", memory.project), ("task", memory.task)) if value}


def place_name(memory: ProjectKeys) -> str:
    """Where a memory belongs, in words; "" for one that is global."""
    keys = carried_keys(memory)
    return " of ".join(f"{name} {keys[name]}" for name in ("task", "project") if name in keys)
