"""Selectors of the log of contexts sent to agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from context.engine.context_record import OWN_WORDS, Block, prompt_blocks
from context.models import REPORT, VIEW_RUN, ContextRun, MemoryUsage
from identity.models import Agent, AuditEvent, Persona
from identity.policy.changes import KIND_OF_ACTION
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.change_feed import kinds_of
from memory.models import Keys
from memory.persona import VIEWS
from nousweb.lib import NotFound, existing

COMPARED_COLUMNS = ("id", "agent_id", "persona", "session_id", "created_at", "sections", "system_prompt")
"""The columns of a run that `prompt_step` and `prompt_prefix` read."""


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The position of a run in its session: the runs before and after it, and the number of earlier and later ones."""

    previous: ContextRun | None
    next: ContextRun | None
    before: int
    total: int

    @property
    def number(self) -> int:
        return self.before + 1


def session_place(run: ContextRun, by: Principal) -> SessionPlace:
    """The place of a run among the runs of its session and persona, in the order of time."""
    runs = (
        ContextRun.objects.visible_to(by).filter(agent=run.agent).filter(session_id=run.session_id, persona=run.persona)
    )
    earlier = _earlier(run)
    later = Q(created_at__gt=run.created_at) | Q(created_at=run.created_at, pk__gt=run.pk)
    counts = runs.order_by().aggregate(before=Count("pk", filter=earlier), total=Count("pk"))
    return SessionPlace(
        runs.filter(earlier).only(*COMPARED_COLUMNS).order_by("-created_at", "-pk").first(),
        runs.filter(later).only("pk", "created_at").order_by("created_at", "pk").first(),
        counts["before"],
        counts["total"],
    )


def _earlier(run: ContextRun) -> Q:
    return Q(created_at__lt=run.created_at) | Q(created_at=run.created_at, pk__lt=run.pk)


UNANSWERED_READ = 300
"""The latest runs whose items are read where no answer was reported, which records the memories of a prompt."""


def memory_uses(agent: Agent, item_type: str, item_ids: Sequence[str], by: Principal) -> QuerySet[MemoryUsage]:
    """The observations of memories in prompts with a reported answer that `by` may see."""
    uses = MemoryUsage.objects.filter(agent=agent, item_type=item_type, item_id__in=item_ids)
    return uses if by.may(VIEW_SUBCONSCIOUS) else uses.filter(persona=Persona.ACTOR)


def runs_with_memory(agent: Agent, item_type: str, item_id: str, by: Principal) -> QuerySet[ContextRun]:
    """The runs whose prompt had a memory: all with a reported answer, and the others among the latest
    UNANSWERED_READ."""
    runs = ContextRun.objects.visible_to(by).filter(agent=agent)
    latest = runs.order_by("-created_at", "-pk").values("pk")[:UNANSWERED_READ]
    has_it = Q(responded_at__isnull=True, sections__contains=[{"items": [{"type": item_type, "id": item_id}]}])
    unanswered = runs.filter(has_it, pk__in=latest).values("pk")
    return runs.filter(Q(pk__in=memory_uses(agent, item_type, [item_id], by).values("run")) | Q(pk__in=unanswered))


RUNS_MEASURED = 20


@dataclass(frozen=True, slots=True)
class SectionUse:
    """The most `tokens` that a section had in one of the last prompts, and those of each (`sizes`); `cut`: how many of
    them left out some of it."""

    tokens: int = 0
    cut: int = 0
    sizes: tuple[int, ...] = ()


def sections_used(agent: Agent, by: Principal) -> tuple[int, dict[str, SectionUse]]:
    """The number of the last prompts of an agent, at most RUNS_MEASURED, and the use of each section in them by its
    key; "total" is that of the whole prompt."""
    runs = ContextRun.objects.visible_to(by).filter(agent=agent, persona=Persona.ACTOR)
    last = list(runs.order_by("-created_at", "-pk").values_list("sections", "tokens")[:RUNS_MEASURED])
    totals = tuple(tokens for _, tokens in last)
    used = {"total": SectionUse(max(totals, default=0), sizes=totals)}
    for section in (one for sections, _ in last for one in sections):
        known = used.get(section["key"], SectionUse())
        sizes = (*known.sizes, section["tokens"])
        used[section["key"]] = SectionUse(max(sizes), known.cut + bool(section["truncated"]), sizes)
    return len(last), used


@dataclass(frozen=True, slots=True)
class PromptPrefix:
    """How much of a prompt, in percent, is the beginning of the `previous` one, byte for byte.

    `ended_by` is the first block that differs, None if none does; `kinds` are those of the changes since then that may
    have changed it.
    """

    previous: ContextRun
    share: int
    ended_by: Block | None
    kinds: tuple[str, ...] = ()


def prompt_prefix(run: ContextRun, previous: ContextRun | None, by: Principal) -> PromptPrefix | None:
    """The common prefix of a prompt and the `previous` one of its session, or else the one before it of its agent and
    persona. None if there is neither."""
    if previous is None:
        others = ContextRun.objects.visible_to(by).filter(_earlier(run), agent=run.agent, persona=run.persona)
        previous = others.only(*COMPARED_COLUMNS).first()
    if previous is None or not run.system_prompt:
        return None
    pairs = zip(previous.system_prompt, run.system_prompt, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    share = 100 * same // len(run.system_prompt)
    blocks = prompt_blocks(run.system_prompt, run.sections)
    ends = accumulate(len(block.text) for block in blocks)
    ended_by = next((block for block, end in zip(blocks, ends, strict=True) if end > same), None)
    if ended_by is None:
        return PromptPrefix(previous, share, None)
    kinds = {*ended_by.changed_by} & kinds_of(by)
    actions = AuditEvent.objects.filter(
        agent=run.agent,
        persona__in=VIEWS[run.persona].personas,
        at__gt=previous.created_at,
        at__lte=run.created_at,
        action__in=[action for action, kind in KIND_OF_ACTION.items() if kind in kinds],
    )
    found = actions.order_by("action").values_list("action", flat=True).distinct()
    return PromptPrefix(previous, share, ended_by, tuple(dict.fromkeys(KIND_OF_ACTION[action] for action in found)))


@dataclass(frozen=True, slots=True)
class PromptStep:
    """The difference from one prompt to the next: the numbers of items that were added, removed or changed."""

    came: int
    went: int
    reworded: int

    @property
    def is_same(self) -> bool:
        return not (self.came or self.went or self.reworded)


def prompt_step(before: ContextRun, after: ContextRun) -> PromptStep:
    """The difference of the items of `after` from those of `before`, without items that repeat the request."""
    was, now = _items(before), _items(after)
    both = was.keys() & now.keys()
    return PromptStep(len(now.keys() - was), len(was.keys() - now), sum(was[key] != now[key] for key in both))


def _items(run: ContextRun) -> dict[tuple[str, str], str]:
    return {
        (item["type"], item["id"]): item.get("text", "")
        for section in run.sections
        for item in section["items"]
        if item["type"] not in OWN_WORDS
    }


def run_in_reach(run: ContextRun, by: Principal) -> bool:
    """Whether a run is within the projects and the user of a token: it and its recalls requested no others, and no
    memory of others was expanded in it. Older runs count as runs for global memory.

    A report and a recall change the run. So a run for memory that the token only reads must be its own.
    """
    if not by.is_limited:
        return True
    project, user = run.request.get("project") or "", run.request.get("user") or ""
    if not by.writes_user(user) or not (by.writes_project(project) or run.principal_name == by.name):
        return False
    recalls = list(run.recalls.values_list("request", "items"))
    if not all(_asks_within(request, by) for request in (run.request, *(request for request, _ in recalls))):
        return False
    # An expansion names a memory, and no project.
    return all(
        by.reads(Keys(item.get("project", ""), user=item.get("user", ""))) for _, items in recalls for item in items
    )


def _asks_within(request: Mapping[str, Any], by: Principal) -> bool:
    asked = (request.get("project") or "", *(request.get("include_projects") or ()))
    every_project = request.get("all_projects") and by.projects is not None
    return not every_project and all(map(by.reads_project, asked)) and by.reads_user(request.get("user") or "")


def run_called(by: Principal, run_id: UUID) -> ContextRun:
    """A logged run of the caller's own agent and persona; people see the subconscious's with the right to it.

    Raises NotFound.
    """
    run = ContextRun.objects.select_related("agent").filter(pk=run_id).first()
    hidden = run is None or (
        (by.token.agent_id != run.agent_id or by.persona != run.persona)
        if by.token
        else run.persona == Persona.SUBCONSCIOUS and not by.may(VIEW_SUBCONSCIOUS)
    )
    if run is None or hidden or not run_in_reach(run, by):
        raise NotFound("There is no such context. Runs are deleted when their retention ends.")
    return run


def outcomes_view_check(agent: Agent, by: Principal) -> None:
    """Raise unless `by` may know how runs of `agent` ended: a token that reports it, people who see the log."""
    by.require(VIEW_RUN if by.token is None else REPORT, agent)
    by.require_all_projects()


def run_get(agent: Agent, by: Principal, key: UUID) -> ContextRun:
    """One logged run with its agent. Raises NotAllowed, and NotFound also for one that `by` may not see."""
    by.require(VIEW_RUN, agent)
    return existing(
        ContextRun.objects.visible_to(by).filter(agent=agent).select_related("agent").filter(pk=key).first(),
        "There is no such prompt. Prompts are deleted when their retention ends.",
    )
