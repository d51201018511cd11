"""Rows of an agent that each context reads, whatever the request: loaded in one statement if all their tables can be
read."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from django.db import DatabaseError
from django.db.models import QuerySet

from context.models import ContextPin, ContextProfileVersion
from identity.models import Agent, IdentityVersion
from memory.models import STAND_INS, FactQuerySet, Keys, ProjectScope
from memory.persona import PersonaMemory
from memory.search.contested_facts import with_pending_review
from memory.search.invalidated_matches import latest_invalidated_facts
from nousweb.lib.prepared_statements import BoundQuery, CachedQuery, Rows, fetch_combined

logger = structlog.get_logger(__name__)

ANYONE = -1
"""Stands in for the agent in a query that is written once."""
SESSIONS_READ = 100
"""Maximum number of sessions of one name, each of another project or user, that are loaded."""
SOME_TIME = datetime(1, 2, 3, tzinfo=UTC)
"""Stands in for the moment of the request."""
CENSOR_COLUMNS = (
    "id", "severity", "pattern", "reason", "author_kind", "endorsed", "match", "similarity_threshold",
    "origin",
)  # fmt: skip
PROFILE_COLUMNS = ("version", "values", "profile__slug", "profile__base")
CORE_COLUMNS = (
    "id", "subject_name", "content", "endorsed", "category", "confidence", "importance", "recorded_at", "valid_from",
    "source_changed_at",
    "attribute", "origin", "project", "task", "user", "source", "kind", "has_pending_review",
)  # fmt: skip
_KEY, _HAS_PENDING_REVIEW = CORE_COLUMNS.index("id"), CORE_COLUMNS.index("has_pending_review")
CORE_READ = 100
"""Maximum number of core memory facts that are loaded, those verified by people first: enough for nearly every
agent."""


def _current_profile(lookup: str, wanted: int | str) -> QuerySet[ContextProfileVersion, Any]:
    current = ContextProfileVersion.objects.filter(is_current=True, **{lookup: wanted}).order_by("pk")
    return current.values_list(*PROFILE_COLUMNS)[:1]


_WORKING = CachedQuery(
    lambda view, agent, session: (
        view(Agent(pk=agent))
        .working.filter(session_id=session, persona=view.persona)
        .order_by("pk")
        .values_list("task", "frame", "items", "open_threads", "project", "task_key", "user")[:SESSIONS_READ]
    ),
    agent=ANYONE,
    session="?session",
)
_PROFILE = CachedQuery(_current_profile, wanted="?wanted")
PROFILE_BY_KEY = CachedQuery(_current_profile, wanted=-1)
"""The same of the profile with a primary key, which another one inherits from."""
PINS = CachedQuery(
    lambda shape, agent: ContextPin.objects.filter(agent_id=agent).order_by().values_list("item_type", "item_id"),
    agent=ANYONE,
)
IDENTITY = CachedQuery(
    lambda shape, agent: (
        IdentityVersion.objects.filter(agent_id=agent).current().order_by().values_list("section", "version", "content")
    ),
    agent=ANYONE,
)
_INVALIDATED = CachedQuery(lambda view, agent: latest_invalidated_facts(view(Agent(pk=agent))), agent=ANYONE)
"""The facts that people invalidated, the latest first: INVALIDATED_FACT_COLUMNS."""
CENSORS = CachedQuery(
    lambda view, agent: view(Agent(pk=agent)).censors.active().binding_first().values_list(*CENSOR_COLUMNS),
    agent=ANYONE,
)
_CORE = CachedQuery(
    lambda shape, agent, now, **keys: with_pending_review(
        core_facts(shape[0](Agent(pk=agent)), shape[1], now), agent
    ).values_list(*CORE_COLUMNS)[:CORE_READ],
    agent=ANYONE,
    now=SOME_TIME,
    **STAND_INS,
)


def core_facts(view: PersonaMemory, scope: ProjectScope, now: datetime) -> FactQuerySet:
    """Core memory that `scope` shows and that is valid `now`, whatever kinds the profile excludes: facts verified by
    people first, then the most certain."""
    return view.facts.current(now).profile().filter(scope.q).with_subject_name(view.agent.pk).human_verified_first()


@dataclass(frozen=True, slots=True)
class PreloadedRows:
    """The current rows of an agent: working memory of the session, profile, pins, identity, censors, invalidated facts.

    `core` are the first CORE_READ facts of core memory, CORE_COLUMNS; None for a request of many projects.
    """

    session: Rows
    profile: Rows
    pins: Rows
    identity: Rows
    censors: Rows
    invalidated: Rows
    core: Rows | None = None

    @property
    def uncontested_core_ids(self) -> set[str]:
        """Ids of the facts of `core` that no pending review is about."""
        return {row[_KEY] for row in self.core or () if not row[_HAS_PENDING_REVIEW]}


def agent_rows(
    view: PersonaMemory, session_id: str, profile: BoundQuery, scope: ProjectScope, now: datetime
) -> PreloadedRows | None:
    """Read all of them, as they are `now`, in one statement. None if one cannot be read: then each is read, and fails,
    by itself."""
    questions = {
        "session": _WORKING.bound(type(view), agent=view.agent.pk, session=session_id),
        "profile": profile,
        "pins": PINS.bound(None, agent=view.agent.pk),
        "identity": IDENTITY.bound(None, agent=view.agent.pk),
        "censors": CENSORS.bound(type(view), agent=view.agent.pk),
        "invalidated": _INVALIDATED.bound(type(view), agent=view.agent.pk),
    }
    if pattern := scope.pattern:
        core = _CORE.bound((type(view), pattern), agent=view.agent.pk, now=now, **scope.keys)
        questions["core"] = core
    try:
        return PreloadedRows(**fetch_combined(questions))
    except DatabaseError:
        logger.exception("context.agent_rows_failed")
        return None


def profile_query(named: str, kind: str) -> BoundQuery:
    """The current version of the profile with the slug `named`, else of that of a kind of agent: PROFILE_COLUMNS."""
    return _PROFILE.bound("profile__slug" if named else "profile__kind", wanted=named or kind)


@dataclass(frozen=True, slots=True)
class SessionState:
    """Task, frame, items, open threads and user of working memory; `failed` when they could not be read."""

    task: str = ""
    frame: str = ""
    items: tuple[dict[str, Any], ...] = ()
    threads: tuple[dict[str, Any], ...] = ()
    user: str = ""
    failed: bool = False


NO_SESSION = SessionState()


def session_load(
    view: PersonaMemory, session_id: str, scope: ProjectScope, rows: PreloadedRows | None = None
) -> SessionState:
    """Load the working memory of a session: that of the scope's user and project, else the oldest that the scope shows.

    `rows` are the rows of the agent that are loaded already.
    """
    try:
        working = _WORKING.bound(type(view), agent=view.agent.pk, session=session_id)
        found = rows.session if rows else working.rows()
        shown = [row for row in found if scope.shows(Keys(*row[-3:]))]
        if not shown:
            return NO_SESSION
        task, frame, items, threads, *_, user = min(
            shown, key=lambda row: (row[-1] != scope.user, row[-3] != scope.project)
        )
        return SessionState(task, frame, tuple(items), tuple(threads), user)
    except (DatabaseError, ValueError, TypeError):
        logger.exception("context.section_failed", section="working_memory")
        return SessionState(failed=True)
