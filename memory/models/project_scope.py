"""Scopes: which projects' and tasks' memory a search reads. Every search requires one, so no caller can forget it.

A memory has the keys of its writer: none (it is global), a project, a task, or a task of a project. A reader sees it if
every key of the memory equals the reader's.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from django.db.models import Q

from identity.principal import Principal
from memory.models.base import Scope
from memory.policy import MAX_PROJECTS
from nousweb.lib import Invalid, NotAllowed, choice_check
from nousweb.lib.constrained_types import key_text


class ProjectKeys(Protocol):
    """Anything with the keys of a project and a task; "" for none."""

    @property
    def project(self) -> str: ...

    @property
    def task(self) -> str: ...


def key_check(field: str, value: str) -> str:
    """Normalise the key of a project or a task for storage; "" for none. Raises Invalid."""
    try:
        return key_text(value)
    except ValueError as error:
        raise Invalid(f"{field}: {error}", field=field) from error


@dataclass(frozen=True, slots=True)
class ProjectScope:
    """The project and the task of a reader; "" for none.

    `include_projects`: further projects whose memory is read too, without that of their tasks.
    `all_projects`: read everything, tasks included. Raises Invalid with the name of the field.
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
        """The project keys with which a memory of the reader's task may be stored: the reader's project, and ""."""
        return ("", self.project) if self.project else ("",)

    @property
    def projects(self) -> tuple[str, ...]:
        """The keys of all projects whose memory is read, "" (global) included."""
        return tuple(dict.fromkeys((*self.own, *self.include_projects)))

    @property
    def is_global(self) -> bool:
        """Whether only global memory is read."""
        return not (self.project or self.task or self.include_projects or self.all_projects)

    def shows(self, project: str, task: str) -> bool:
        """Whether a memory with these keys is read."""
        if self.all_projects or not (project or task):
            return True
        own_task = not task or (task == self.task and project in self.own)
        return own_task and project in self.projects

    @property
    def pattern(self) -> "ProjectScope | None":
        """A scope with placeholder keys, for a statement that is built once; None for scopes of several projects."""
        if self.include_projects or self.all_projects:
            return None
        return GLOBAL if self.is_global else OWN

    @property
    def q(self) -> Q:
        """`shows` as a condition on rows of a table."""
        return self.q_through("")

    def q_through(self, prefix: str) -> Q:
        """`shows` as a condition on rows that have the keys through a relation, such as `event__`."""
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
        """`shows` in SQL, for the columns of `alias`, and its parameters.

        There are only three different texts, whatever the keys are, so that prepared plans are reused.
        """
        column = f"{alias}." if alias else ""
        if self.all_projects:
            return "true", {}
        if self.is_global:
            # Constants instead of parameters, so that the planner can estimate the number of rows.
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
"""The pattern of scopes with a project or a task."""


def scope_check(scope: ProjectScope, by: Principal) -> ProjectScope:
    """Return `scope`. Raises NotAllowed if it contains projects that the token `by` does not read."""
    if by.projects is None:
        return scope
    if scope.all_projects:
        by.require_all_projects()
    if foreign := [key for key in scope.projects if not by.reads_project(key)]:
        raise NotAllowed(f"This token does not read the project {foreign[0]!r}.", field="project")
    return scope


def tier_of(scope: str, project: str, task: str) -> str:
    """The scope that follows from the keys: TASK or PROJECT, or the given `scope` without keys."""
    return Scope.TASK if task else Scope.PROJECT if project else scope


class ScopedMemory(ProjectKeys, Protocol):
    """A memory with keys and with the scope that follows from them."""

    @property
    def scope(self) -> str: ...


def keys_changed(memory: ScopedMemory, scope: str | None, project: str | None, task: str | None) -> dict[str, str]:
    """The fields that a change of scope or keys sets; None keeps a value. A memory that loses its last key is global.

    Raises Invalid, also for a scope without keys that contradicts the memory's keys.
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


def scope_contains(wide: ProjectKeys, narrow: ProjectKeys) -> bool:
    """Whether every reader of `narrow` also sees `wide`: the same or a wider scope."""
    return wide.project in ("", narrow.project) and wide.task in ("", narrow.task)


def scopes_overlap(one: ProjectKeys, other: ProjectKeys) -> bool:
    """Whether one scope contains the other. Otherwise no reader of either sees all of both."""
    return scope_contains(one, other) or scope_contains(other, one)


def scope_contains_sql(alias: str = "") -> str:
    """`scope_contains` in SQL: whether a row's scope contains that of the keys %(project)s and %(task)s."""
    column = f"{alias}." if alias else ""
    return f"({column}project IN ('', %(project)s) AND {column}task IN ('', %(task)s))"


def scopes_overlap_sql(alias: str = "") -> str:
    """`scopes_overlap` in SQL: of a row and the keys %(project)s and %(task)s."""
    column = f"{alias}." if alias else ""
    contained = f"(%(project)s IN ('', {column}project) AND %(task)s IN ('', {column}task))"
    return f"({scope_contains_sql(alias)} OR {contained})"


def same_keys(one: ProjectKeys, other: ProjectKeys) -> bool:
    return (one.project, one.task) == (other.project, other.task)


def carried_keys(memory: ProjectKeys) -> dict[str, str]:
    """The keys of a memory that are not empty, for the audit trail."""
    return {name: value for name, value in (("project", memory.project), ("task", memory.task)) if value}


def scope_label(memory: ProjectKeys) -> str:
    """The project and task of a memory in words, as "task t of project p"; "" for a global one."""
    keys = carried_keys(memory)
    return " of ".join(f"{name} {keys[name]}" for name in ("task", "project") if name in keys)
