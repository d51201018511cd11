"""The runs of one session, one after another, and how the prompt of each differs from the one before."""

from dataclasses import dataclass

from django.db.models import Count, Q

from context.engine.context_record import OWN_WORDS
from context.models import ContextRun
from identity.principal import Principal

COMPARED_COLUMNS = ("id", "agent_id", "persona", "session_id", "created_at", "sections")
"""The columns of a run that `prompt_step` reads."""


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
    earlier = Q(created_at__lt=run.created_at) | Q(created_at=run.created_at, pk__lt=run.pk)
    later = Q(created_at__gt=run.created_at) | Q(created_at=run.created_at, pk__gt=run.pk)
    counts = runs.order_by().aggregate(before=Count("pk", filter=earlier), total=Count("pk"))
    return SessionPlace(
        runs.filter(earlier).only(*COMPARED_COLUMNS).order_by("-created_at", "-pk").first(),
        runs.filter(later).only("pk", "created_at").order_by("created_at", "pk").first(),
        counts["before"],
        counts["total"],
    )


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
