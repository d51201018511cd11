"""The acting principal: a person, an agent's token, or the system itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from identity.policy.permissions import (
    ALL_AGENTS_PERMISSIONS,
    APPROVING_PERMISSIONS,
    GLOBAL_WRITES,
    PEOPLE_ONLY_PERMISSIONS,
    PROJECT_TOKEN_PERMISSIONS,
    SCOPE_PERMISSIONS,
    is_reading,
)
from nousweb.lib import NotAllowed, NotFound
from nousweb.lib.bounds import UNASSIGNED

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from identity.models import Agent, ApiToken


BETWEEN_NAMES = " · "
"""Stands in the name of a token's principal between its agent's slug and its own name."""
COMMAND, STARTED = "command line", "started by "
"""The names of the product where a command acts, and before that of the person whose import it runs."""


class Keyed(Protocol):
    """What carries the keys of a project and a user."""

    @property
    def project(self) -> str: ...

    @property
    def user(self) -> str: ...


@dataclass(frozen=True)
class Principal:
    """An acting principal; every service takes one as `by`.

    The audit trail stores `name` and `id`, so that it stays readable after the person or token is gone. `channel` is
    the interface: "console", "api", "mcp", "import", "command"; "" for the product itself. `only_reads`: whoever looks
    at the past changes nothing, whatever their permissions.
    """

    kind: Literal["person", "token", "system"]
    id: str
    name: str
    request_id: str = ""
    user: AbstractBaseUser | None = None
    token: ApiToken | None = None
    channel: str = ""
    only_reads: bool = False

    @classmethod
    def of_user(cls, user: AbstractBaseUser, *, request_id: str = "", channel: str = "console") -> Principal:
        return cls("person", str(user.pk), user.get_username(), request_id, user=user, channel=channel)

    @classmethod
    def of_token(cls, token: ApiToken, *, request_id: str = "", channel: str = "api") -> Principal:
        name = f"{token.agent.slug}{BETWEEN_NAMES}{token.name}"
        return cls("token", str(token.pk), name, request_id, token=token, channel=channel)

    @classmethod
    def of_system(cls, name: str, *, channel: str = "") -> Principal:
        """The product itself, such as a schedule. It may do anything but approve."""
        return cls("system", name, name, channel=channel)

    @classmethod
    def of_command(cls, *, channel: str = "command") -> Principal:
        """The principal of a command of the product: somebody with access to its data folder and its database."""
        return cls.of_system(COMMAND, channel=channel)

    def reading(self) -> Principal:
        """The same principal, without the permissions to change anything."""
        return replace(self, only_reads=True)

    @property
    def is_person(self) -> bool:
        return self.kind == "person"

    @property
    def agents(self) -> frozenset[int] | None:
        """The keys of the agents to which a person's role is limited; None for owners and other people without a
        limit."""
        user: Any = self.user
        if user is None or user.is_superuser:
            return None
        if not hasattr(user, "limited_to"):
            # As the log-in reads it with the account itself.
            limit = getattr(user, "agent_limit", None)
            user.limited_to = None if limit is None else limit.agents
        return None if user.limited_to is None else frozenset(user.limited_to)

    def require_all_agents(self) -> None:
        """Raise NotAllowed for a person limited to some agents, where something concerns all of them."""
        if self.agents is not None:
            raise NotAllowed("This concerns all agents, and your role is limited to some of them.")

    @property
    def persona(self) -> str:
        """The persona whose memory this principal acts on: a token's own, else the actor."""
        return self.token.persona if self.token else "actor"

    @property
    def projects(self) -> frozenset[str] | None:
        """The projects to which a token is limited; None without a limit."""
        return frozenset(self.token.projects) if self.token is not None and self.token.projects else None

    def reads_project(self, project: str) -> bool:
        """Whether memory of this project may be read; "" is global memory, which holds for every project."""
        return self.projects is None or not project or project in self.projects

    def writes_project(self, project: str) -> bool:
        """Whether memory of this project may be written; "" is global memory."""
        if self.projects is None or project in self.projects:
            return True
        return not project and self.token is not None and self.token.global_memory == "write"

    def require_project(self, project: str, field: str = "project") -> None:
        """Raise NotAllowed unless memory of this project may be written."""
        if self.writes_project(project):
            return
        what = f"the project {project!r}" if project else "global memory"
        raise NotAllowed(f"This token does not write {what}; it is limited to {self._projects_named}.", field=field)

    def require_all_projects(self) -> None:
        """Raise NotAllowed for a token limited to projects or a user, where an answer tells of all of them together."""
        if self.projects is not None:
            raise NotAllowed(f"This tells of all projects, and this token is limited to {self._projects_named}.")
        if self.bound_user:
            raise NotAllowed(f"This tells of all users, and this token is bound to the user {self.bound_user!r}.")

    @property
    def bound_user(self) -> str:
        """The user to whom a token is bound; "" for none."""
        return self.token.user if self.token is not None else ""

    @property
    def is_limited(self) -> bool:
        """Whether a token is limited to projects or bound to a user."""
        return self.projects is not None or bool(self.bound_user)

    def reads_user(self, user: str) -> bool:
        """Whether memory of this user may be read; "" is everybody's. What is assigned to nobody, only people read."""
        if self.token is None:
            return True
        return user != UNASSIGNED and (not self.bound_user or user in ("", self.bound_user))

    def writes_user(self, user: str) -> bool:
        """Whether memory of this user may be written; "" is everybody's."""
        return self.reads_user(user) and (not self.bound_user or user == self.bound_user)

    def require_user(self, user: str, field: str = "user") -> None:
        """Raise NotAllowed unless memory of this user may be written."""
        if not self.writes_user(user):
            what = f"the user {user!r}" if user else "everybody's memory"
            bound = f"; it is bound to the user {self.bound_user!r}" if self.bound_user else ""
            raise NotAllowed(f"This token does not write {what}{bound}.", field=field)

    def reads(self, memory: Keyed) -> bool:
        """Whether a memory with these keys may be read."""
        return self.reads_project(memory.project) and self.reads_user(memory.user)

    def writes(self, memory: Keyed) -> bool:
        """Whether a memory with these keys may be written."""
        return self.writes_project(memory.project) and self.writes_user(memory.user)

    def require_keys(self, memory: Keyed, field: str = "") -> None:
        """Raise NotAllowed unless a memory with these keys may be written."""
        self.require_project(memory.project, field or "project")
        self.require_user(memory.user, field or "user")

    @property
    def _projects_named(self) -> str:
        named = ", ".join(sorted(self.projects or ()))
        return f"the projects {named}" if len(self.projects or ()) > 1 else f"the project {named}"

    def may(self, permission: str) -> bool:
        """Whether this principal holds `permission` ("app.codename"). Tokens never hold a right of people."""
        if self.only_reads and not is_reading(permission):
            return False
        if self.user is not None:
            if permission in ALL_AGENTS_PERMISSIONS and self.agents is not None:
                return False
            return bool(self.user.is_active and self.user.has_perm(permission))  # type: ignore[attr-defined]
        if self.token is not None:
            if permission in PEOPLE_ONLY_PERMISSIONS or (self.is_limited and not self._may_in_projects(permission)):
                return False
            return any(permission in SCOPE_PERMISSIONS.get(scope, ()) for scope in self.token.scopes)
        return self.kind == "system" and permission not in APPROVING_PERMISSIONS

    def _may_in_projects(self, permission: str) -> bool:
        everywhere = self.writes_project("") and self.writes_user("")
        return permission in PROJECT_TOKEN_PERMISSIONS or (permission in GLOBAL_WRITES and everywhere)

    def require(self, permission: str, agent: Agent | None = None) -> None:
        """Raise unless this principal holds `permission`, and may act on `agent`.

        NotFound for another agent than a token's own, or than those to which a person is limited, so that nobody learns
        of other agents; NotAllowed, naming the right that is missing, otherwise.
        """
        if agent is not None and self.agents is not None and agent.pk not in self.agents:
            raise NotFound("No such agent.")
        if agent is not None and self.token is not None and self.token.agent_id != agent.pk:
            raise NotFound("No such agent.")
        if self.may(permission):
            return
        if self.only_reads and not is_reading(permission):
            raise NotAllowed(
                "The past cannot be changed, and this is for changes. Go back to now.", permission=permission
            )
        if self.token is not None:
            if self.is_limited and not self._may_in_projects(permission):
                self.require_all_projects()
            scopes = sorted(s for s, granted in SCOPE_PERMISSIONS.items() if permission in granted)
            detail = (
                f"This token lacks the scope {' or '.join(scopes)}."
                if scopes
                else "Only a signed-in person may do this; no token can."
            )
            raise NotAllowed(detail, permission=permission)
        if permission in ALL_AGENTS_PERMISSIONS:
            self.require_all_agents()
        from django.contrib.auth.models import Group

        # Roles are groups, and each has what the one before it has.
        label, _, codename = permission.partition(".")
        holders = Group.objects.filter(permissions__content_type__app_label=label, permissions__codename=codename)
        role = holders.order_by("pk").values_list("name", flat=True).first()
        raise NotAllowed(
            f"Your role does not include this. An owner can give you the role {role}."
            if role
            else "Only owners can do this.",
            permission=permission,
        )


_acting: ContextVar[Principal | None] = ContextVar("acting", default=None)


@contextmanager
def acting(by: Principal) -> Iterator[None]:
    """In the block, rows without an explicit author are written by `by`."""
    before = _acting.set(by)
    try:
        yield
    finally:
        _acting.reset(before)


def acting_principal() -> Principal:
    """The acting principal: the sender of the present request, or else the user of the command line."""
    return _acting.get() or Principal.of_command()
