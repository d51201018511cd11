"""Scopes: which projects', tasks' and users' memory a search reads. Every search requires one, so no caller can forget
it.

A memory has the keys of its writer, KEYS, each of which may be "": it is then everybody's, or of no project or task. A
reader sees it if every key of the memory equals the reader's.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from django.db.models import Q

from identity.models import Agent
from identity.principal import Principal
from memory.models.base import Scope
from memory.policy import MAX_PROJECTS
from nousweb.lib import Invalid, NotAllowed, choice_check
from nousweb.lib.bounds import EVERYBODY, UNASSIGNED, key_text, user_text


class Keys(NamedTuple):
    """The keys of a memory within its agent and persona; "" for none."""

    project: str = ""
    task: str = ""
    user: str = ""


NO_KEYS = Keys()
KEYS = Keys._fields
COLUMNS = {"project": "project", "task": "task", "user": "user_key"}
"""Their columns: `user` is a word of SQL."""


class ProjectKeys(Protocol):
    """Anything with the keys of a project, a task and a user; "" for none."""

    @property
    def project(self) -> str: ...

    @property
    def task(self) -> str: ...

    @property
    def user(self) -> str: ...


def key_check(field: str, value: str) -> str:
    """Normalise the key of a project, a task or, for a `field` that ends with "user", a user for storage; "" for none.

    Raises Invalid.
    """
    try:
        return user_text(value) if field.endswith("user") else key_text(value)
    except ValueError as error:
        raise Invalid(f"{field}: {error}", field=field) from error


def reader_check(field: str, value: str) -> str:
    """The key of the user who reads, for whom everybody's memory is shown too; "" for it alone. Raises Invalid."""
    return "" if value == EVERYBODY else key_check(field, value)


@dataclass(frozen=True, slots=True)
class ProjectScope:
    """The project, the task and the user of a reader; "" for none.

    `include_projects`: further projects whose memory is read too, without that of their tasks.
    `all_projects`: read every project, tasks included. `all_users`: read every user's memory, and what is unassigned;
    for people only. Raises Invalid with the name of the field.
    """

    project: str = ""
    task: str = ""
    include_projects: tuple[str, ...] = ()
    all_projects: bool = False
    user: str = ""
    all_users: bool = False

    def __post_init__(self) -> None:
        if len(self.include_projects) > MAX_PROJECTS:
            raise Invalid(f"include_projects holds at most {MAX_PROJECTS} projects.", field="include_projects")
        included = (key_check("include_projects", key) for key in self.include_projects)
        object.__setattr__(self, "project", key_check("project", self.project))
        object.__setattr__(self, "task", key_check("task", self.task))
        object.__setattr__(self, "user", reader_check("user", self.user))
        object.__setattr__(self, "include_projects", tuple(dict.fromkeys(key for key in included if key)))

    @property
    def keys(self) -> dict[str, str]:
        """The reader's own keys, by name."""
        return {name: getattr(self, name) for name in KEYS}

    @property
    def own(self) -> tuple[str, ...]:
        """The project keys with which a memory of the reader's task may be stored: the reader's project, and ""."""
        return ("", self.project) if self.project else ("",)

    @property
    def projects(self) -> tuple[str, ...]:
        """The keys of all projects whose memory is read, "" (global) included."""
        return tuple(dict.fromkeys((*self.own, *self.include_projects)))

    @property
    def users(self) -> tuple[str, ...]:
        """The keys of the users whose memory is read, "" (everybody's) included."""
        return ("", self.user) if self.user else ("",)

    @property
    def is_global(self) -> bool:
        """Whether only memory without keys is read."""
        limited = self.project or self.task or self.include_projects or self.user
        return not (limited or self.all_projects or self.all_users)

    def shows(self, memory: ProjectKeys) -> bool:
        """Whether a memory with these keys is read."""
        if not (self.all_users or memory.user in self.users):
            return False
        if self.all_projects or not (memory.project or memory.task):
            return True
        own_task = not memory.task or (memory.task == self.task and memory.project in self.own)
        return own_task and memory.project in self.projects

    @property
    def pattern(self) -> "ProjectScope | None":
        """A scope with placeholder keys, for a statement that is built once; None for scopes of several projects."""
        if self.include_projects or self.all_projects or self.all_users:
            return None
        return GLOBAL if self.is_global else OWN

    @property
    def q(self) -> Q:
        """`shows` as a condition on rows of a table."""
        return self.q_through("")

    def q_through(self, prefix: str) -> Q:
        """`shows` as a condition on rows that have the keys through a relation, such as `event__`."""
        project, task, user = (f"{prefix}{name}" for name in KEYS)
        if self.is_global:
            return Q(**{project: "", task: "", user: ""})
        users = Q() if self.all_users else Q(**{f"{user}__in": self.users})
        if self.all_projects:
            return users
        tasks = Q(**{task: ""})
        if self.task:
            tasks |= Q(**{task: self.task, f"{project}__in": self.own})
        return Q(**{f"{project}__in": self.projects}) & tasks & users

    def condition(self, alias: str = "") -> tuple[str, dict[str, Any]]:
        """`shows` in SQL, for the columns of `alias`, and its parameters.

        There are only few different texts, whatever the keys are, so that prepared plans are reused.
        """
        project, task, user = (f"{alias}." * bool(alias) + COLUMNS[name] for name in KEYS)
        if self.is_global:
            # Constants instead of parameters, so that the planner can estimate the number of rows.
            return f"{project} = '' AND {task} = '' AND {user} = ''", {}
        parts: list[str] = []
        values: dict[str, Any] = {}
        if not self.all_users:
            parts.append(f"{user} = ANY(%(s_users)s::text[])")
            values["s_users"] = list(self.users)
        if not self.all_projects:
            parts.append(
                f"{project} = ANY(%(s_projects)s::text[]) AND ({task} = ''"
                f" OR {task} = %(s_task)s::text AND {project} = ANY(%(s_own)s::text[]))"
            )
            values |= {"s_projects": list(self.projects), "s_own": list(self.own), "s_task": self.task}
        return " AND ".join(parts) or "true", values


GLOBAL = ProjectScope()
EVERYTHING = ProjectScope(all_projects=True, all_users=True)
STAND_INS = {name: f"?{name}" for name in KEYS}
OWN = ProjectScope(**STAND_INS)  # type: ignore[arg-type]
"""The pattern of scopes with a project, a task or a user."""


def scope_check(scope: ProjectScope, by: Principal) -> ProjectScope:
    """Return `scope`, of the user to whom the token `by` is bound if it names none. Raises NotAllowed if it contains
    projects or a user that the token does not read."""
    if by.token is not None and (scope.all_users or not by.reads_user(scope.user)):
        raise NotAllowed(f"This token does not read the user {scope.user!r}.", field="user")
    if by.bound_user and not scope.user:
        scope = replace(scope, user=by.bound_user)
    if by.projects is None:
        return scope
    if scope.all_projects:
        by.require_all_projects()
    if foreign := [key for key in scope.projects if not by.reads_project(key)]:
        raise NotAllowed(f"This token does not read the project {foreign[0]!r}.", field="project")
    return scope


def user_write_check(agent: Agent, by: Principal, user: str, *, field: str = "user") -> str:
    """The key with which `by` stores a memory for `user`: "*" is everybody, stored as ""; "" is the user to whom the
    token is bound. What the product itself derives has the keys of what it derives from, and so may be unassigned.

    Raises Invalid where the agent serves many users and none is named, else NotAllowed.
    """
    if user == UNASSIGNED and by.token is None:
        return user
    user = key_check(field, user)
    if not user and by.bound_user:
        return by.bound_user
    if not user and serves_users(agent) and not (by.kind == "system" and not by.channel):
        raise Invalid(f'{field} is missing: this agent serves many users. Name one, or "*" for everybody.', field=field)
    user = "" if user == EVERYBODY else user
    by.require_user(user, field)
    return user


def inherited_user(user: str | None, source: ProjectKeys | None) -> str:
    """The user of a memory that is drawn from `source`, which a writer may leave out (None): that of its source."""
    if user is not None or source is None:
        return user or ""
    return source.user or EVERYBODY


def serves_users(agent: Agent) -> bool:
    """Whether the agent serves many users, so that each write names one, or everybody."""
    return bool(agent.config.get(SERVES_USERS)) if agent.config else False


SERVES_USERS = "serves_users"
"""In the configuration of an agent."""


def tier_of(scope: str, project: str, task: str) -> str:
    """The scope that follows from the keys: TASK or PROJECT, or the given `scope` without keys."""
    return Scope.TASK if task else Scope.PROJECT if project else scope


class ScopedMemory(ProjectKeys, Protocol):
    """A memory with keys and with the scope that follows from them."""

    @property
    def scope(self) -> str: ...


def keys_changed(
    memory: ScopedMemory, scope: str | None, project: str | None, task: str | None, user: str | None = None
) -> dict[str, str]:
    """The fields that a change of scope or keys sets; None keeps a value. A memory that loses its project and task is
    global. A `user` of "" or "*" makes it everybody's.

    Raises Invalid, also for a scope that contradicts the memory's project and task.
    """
    if scope is not None:
        choice_check("scope", scope, Scope.values)
    owner = {} if user is None else {"user": reader_check("user", user)}
    keyed = bool(memory.project or memory.task)
    if project is None and task is None:
        if scope is not None and keyed and scope != memory.scope:
            raise Invalid(f"scope follows from project and task: here it is {memory.scope}.", field="scope")
        return owner if scope is None else {"scope": scope, **owner}
    new_project = memory.project if project is None else key_check("project", project)
    new_task = memory.task if task is None else key_check("task", task)
    unkeyed = Scope.GLOBAL if keyed else scope or memory.scope
    return {"scope": tier_of(unkeyed, new_project, new_task), "project": new_project, "task": new_task, **owner}


def scope_contains(wide: ProjectKeys, narrow: ProjectKeys) -> bool:
    """Whether every reader of `narrow` also sees `wide`: the same or a wider scope."""
    return all(getattr(wide, name) in ("", getattr(narrow, name)) for name in KEYS)


def scopes_overlap(one: ProjectKeys, other: ProjectKeys) -> bool:
    """Whether one scope contains the other. Otherwise no reader of either sees all of both."""
    return scope_contains(one, other) or scope_contains(other, one)


def scope_contains_sql(alias: str = "") -> str:
    """`scope_contains` in SQL: whether a row's scope contains that of the keys %(project)s, %(task)s and %(user)s."""
    own = ((name, f"{alias}." * bool(alias) + COLUMNS[name]) for name in KEYS)
    return "(" + " AND ".join(f"{column} IN ('', %({name})s)" for name, column in own) + ")"


def scopes_overlap_sql(alias: str = "") -> str:
    """`scopes_overlap` in SQL: of a row and the keys %(project)s, %(task)s and %(user)s."""
    own = ((name, f"{alias}." * bool(alias) + COLUMNS[name]) for name in KEYS)
    contained = " AND ".join(f"%({name})s IN ('', {column})" for name, column in own)
    return f"({scope_contains_sql(alias)} OR ({contained}))"


def keys_of(memory: ProjectKeys) -> dict[str, Any]:
    """The keys of a memory, by name."""
    return {name: getattr(memory, name) for name in KEYS}


def same_keys(one: ProjectKeys, other: ProjectKeys) -> bool:
    return keys_of(one) == keys_of(other)


def carried_keys(memory: ProjectKeys) -> dict[str, str]:
    """The keys of a memory that are not empty, for the audit trail."""
    return {name: value for name, value in keys_of(memory).items() if value}


def scope_label(memory: ProjectKeys) -> str:
    """The project, task and user of a memory in words, as "task t of project p"; "" for a global one."""
    keys = carried_keys(memory) | ({"user": "nobody yet"} if memory.user == UNASSIGNED else {})
    return " of ".join(f"{name} {keys[name]}" for name in ("task", "project", "user") if name in keys)
