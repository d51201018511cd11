"""The guided demo: its steps, and where each can be done now."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from context.models import VIEW_RUN, ContextRun
from identity.models import Agent, AuditEvent, ChangeProposal, DemoTour
from identity.principal import Principal
from identity.services.personal_settings import tour_actions
from memory.selectors import visible_reviews

REVIEW_PROPOSAL, REVIEW_MEMORY = "identity.review_changeproposal", "memory.review_memory"


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step: its instruction, its permission, and the actions of which any finishes it.

    `place` returns the address where the step can be done now, "" if there is nothing left to do it with; `nothing` is
    the text for that case.
    """

    title: str
    look: str
    right: str
    done_by: tuple[str, ...]
    place: Callable[[Principal, Agent], str]
    action: str
    nothing: str


def _proposal_place(by: Principal, agent: Agent) -> str:
    """The proposed change that has waited longest among those of the least risk."""
    waiting = (
        ChangeProposal.objects.visible_to(by).pending().filter(agent=agent).values_list("risk", "created_at", "pk")
    )
    found = sorted(waiting[:50], key=lambda row: (("low", "medium", "high").index(row[0]), row[1]))
    return reverse("proposal", args=[found[0][2]]) if found else ""


def _run_place(by: Principal, agent: Agent) -> str:
    """The logged prompt for a question that several memories answer."""
    keys = ContextRun.objects.visible_to(by).filter(agent=agent).values_list("pk", flat=True)
    key = keys.filter(input__startswith="Checkout is slow").order_by("created_at").first() or keys.first()
    return f"{reverse('agent_context_run', args=[agent.slug, key])}?tab=left#candidates" if key else ""


def _question_place(by: Principal, agent: Agent) -> str:
    found = visible_reviews(by).pending().filter(agent=agent, old__isnull=False, new__isnull=False)
    key = found.order_by("created_at").values_list("pk", flat=True).first()
    return reverse("memory_review_detail", args=[key]) if key else ""


def _decision_place(by: Principal, agent: Agent) -> str:
    """The last decision of this person: its page has the button to undo it."""
    pages = {"proposal.approve": "proposal", "memory_review.resolve": "memory_review_detail"}
    decided = AuditEvent.objects.filter(agent=agent, author_kind="person", author_id=by.id, action__in=pages)
    last = decided.order_by("-id").values_list("action", "object_id").first()
    return f"{reverse(pages[last[0]], args=[last[1]])}?status=decided" if last else ""


TOUR_STEPS = (
    TourStep(
        "Approve a proposed change",
        "The agent proposed an identity change. Read what would change and its impact, then press Approve.",
        REVIEW_PROPOSAL,
        ("proposal.approve",),
        _proposal_place,
        "Open the change",
        "No change is pending. You can propose one on the agent's identity page.",
    ),
    TourStep(
        "Ask why something was in a prompt",
        "This prompt was sent to the agent. Under “Left out”, type Redis into “With the words”: each memory shows "
        "why it was in the prompt, or why it was left out.",
        VIEW_RUN,
        ("demo_tour.look",),
        _run_place,
        "Open the prompt",
        "No prompt is logged any more.",
    ),
    TourStep(
        "Resolve a contradiction between two facts",
        "Two facts seem to contradict each other. Compare them and their sources, then choose a resolution.",
        REVIEW_MEMORY,
        ("memory_review.resolve",),
        _question_place,
        "Open the review",
        "No review is pending. A resolved review is pending again when its resolution is undone.",
    ),
    TourStep(
        "Undo a decision",
        "Every decision can be undone. Open one of yours and press Undo: the history keeps both.",
        REVIEW_PROPOSAL,
        ("proposal.undo", "proposal.revert", "memory_review.undo"),
        _decision_place,
        "Open your last decision",
        "Decide something first: approve a change, or resolve a review.",
    ),
)


def tour_panel(by: Principal, agents: list[Agent], request: HttpRequest) -> dict[str, Any] | None:
    """The panel of a guided person on a page; None if they may not see the agent of the demo.

    Of each of its `steps` whether it is done, with all before it that they may do, and whether they may do it; `next`
    is None when everything is done that they may do; `barred`: some are for another role; `is_here`: the page of the
    next is the one that is shown; `is_whole`: the panel is more than a line, as on Home.
    """
    tour = DemoTour.objects.filter(person_id=int(by.id)).first()
    agent = next((agent for agent in agents if tour and agent.slug == tour.agent_slug), None)
    if tour is None or agent is None:
        return None
    done = tour_actions(tour, [action for step in TOUR_STEPS for action in step.done_by])
    states: list[dict[str, Any]] = []
    following: dict[str, Any] = {}
    for number, step in enumerate(TOUR_STEPS, 1):
        is_done, allowed = not done.isdisjoint(step.done_by), by.may(step.right)
        states.append({"number": number, "step": step, "done": is_done and not following, "allowed": allowed})
        if allowed and not is_done:
            following = following or states[-1]
    url = following["step"].place(by, agent) if following else ""
    place = urlsplit(url)
    is_here = place.path == request.path and QueryDict(place.query).dict().items() <= request.GET.dict().items()
    return {
        "steps": states,
        "next": following or None,
        "url": url,
        "is_here": is_here,
        "is_whole": request.path == reverse("home"),
        "barred": not all(state["allowed"] for state in states),
    }
