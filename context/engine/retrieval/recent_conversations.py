"""The last conversations of an agent: titles and times of its last episodes or, without any, of its last loops."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q

from context.engine.analysis.agent_time import RecentMode
from context.engine.analysis.request import ResolvedRequest
from context.engine.assembly import FixedSection, Item
from context.engine.assembly.prompt_section import source_of
from memory.layers.short_term_search import stm_window
from memory.models import ProjectScope, Trust, keys_of
from memory.persona import PersonaMemory
from memory.search.as_of import rows_as_of
from memory.services.trust import screening_class
from memory.types import prompt_text
from nousweb.lib.prompt_escaping import fence_line

RECENT_SECTION, RECENT_LABEL = "recent", "Recent Conversations"
RECENT_HOURS = 48
MAX_RECENT = 5
MAX_RECENT_LISTED = 50
TITLE_CHARACTERS = 40
"""Of a title in a prompt: MAX_RECENT of them fit the budget of the section."""
EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecentConversation:
    """An episode or a loop: its title, or the beginning of its summary, and when it began and last went on."""

    type: str
    id: str
    title: str
    started_at: datetime
    ended_at: datetime | None
    project: str
    task: str
    user: str
    trust: str = Trust.AGENT


def recent_conversations(
    view: PersonaMemory,
    scope: ProjectScope,
    *,
    now: datetime,
    as_of: datetime | None = None,
    without_loop: str = "",
    hours: int = RECENT_HOURS,
    limit: int = MAX_RECENT,
) -> list[RecentConversation]:
    """Those of the last `hours` that `scope` shows, the latest first. The loop `without_loop` is not among them."""
    since = max(now, EARLIEST + timedelta(hours=hours)) - timedelta(hours=hours)
    rows = view.episodes.filter(scope.q, started_at__gt=since, started_at__lte=now).order_by("-started_at", "pk")
    episodes = list(rows.active()[:limit]) if as_of is None else _as_of(rows, as_of)[:limit]
    found = [
        RecentConversation("episode", str(row.pk), _title(prompt_text(row)), row.started_at, row.ended_at, row.project,
                           row.task, row.user, row.trust)
        for row in episodes
    ]  # fmt: skip
    loops = () if found else stm_window(view, scope, limit + 1, as_of=as_of)
    found += [
        RecentConversation("loop", loop.loop_id, _title(loop.summary), loop.first_event_at, loop.last_event_at,
                           loop.project, loop.task, loop.user)
        for loop in loops
        if since < loop.last_event_at <= now and loop.loop_id != without_loop
    ]  # fmt: skip
    return found[:limit]


def recent_section(view: PersonaMemory, resolved: ResolvedRequest) -> FixedSection:
    """Tier 2: the last conversations, for questions about their time or a recap, or as the agent's settings say."""
    request, budget = resolved.request, resolved.budget.of(RECENT_SECTION)
    items = []
    if resolved.recent == RecentMode.ALWAYS or (resolved.recent == RecentMode.ON_QUESTIONS and _is_asked(resolved)):
        found = recent_conversations(
            view, request.scope, now=resolved.now, as_of=request.as_of, without_loop=request.session_id
        )
        items = [
            Item(
                one.type,
                one.id,
                f"- {one.started_at.astimezone(resolved.zone):%a %H:%M} {fence_line(_cut(one.title))}",
                place,
                **keys_of(one),
                screened_as=screening_class(one.trust, one.type) or Trust.AGENT,
                source=source_of(one.trust),
            )
            for place, one in enumerate(found)
        ]
    return FixedSection(RECENT_SECTION, RECENT_LABEL, 2, budget, items)


def _is_asked(resolved: ResolvedRequest) -> bool:
    time = resolved.analysis.intent.time
    if (period := time.period) is None:
        return time.recap
    since = max(resolved.now, EARLIEST + timedelta(hours=RECENT_HOURS)) - timedelta(hours=RECENT_HOURS)
    return (period.end or resolved.now) > since and (period.start or EARLIEST) <= resolved.now


def _as_of(rows: Any, moment: datetime) -> list[Any]:
    possible = rows.filter(Q(active=True) | Q(retired_at__gt=moment), created_at__lte=moment)
    # A few more, since some may have been retired then and brought back.
    then = rows_as_of(list(possible[: 2 * MAX_RECENT_LISTED]), moment)
    return [row for row in then if row.active and prompt_text(row)]


def _title(text: str) -> str:
    """The first line of a text; of a loop's summary without its label."""
    line = text.strip().partition("\n")[0]
    return line.partition(": ")[2] or line


def _cut(title: str) -> str:
    """A title for a prompt: a long one ends after a word."""
    if len(title) <= TITLE_CHARACTERS:
        return title
    end = title.rfind(" ", TITLE_CHARACTERS // 2, TITLE_CHARACTERS)
    return f"{title[: end if end > 0 else TITLE_CHARACTERS - 1].rstrip(' ,;:.')}…"
