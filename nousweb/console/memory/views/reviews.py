"""The queue of questions about memories: one at a time, side by side, one key an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from identity.models import Agent, Persona
from identity.principal import Principal
from memory.models import Fact, MemoryReview
from memory.models.lifecycle import MemoryReviewQuerySet
from memory.persona import VIEW_SUBCONSCIOUS
from memory.services.reviews.records import REVIEW
from memory.services.reviews.resolve import BULK_RESOLUTIONS, RESOLUTIONS, review_resolve
from memory.services.reviews.undo import review_undo
from nousweb.console.requests import SELECTED_MOST, page_of, principal_of
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, DomainError, NotFound
from nousweb.lib.textdiff import diff_texts

VIEW = "memory.view_memoryreview"
Kind = MemoryReview.Kind
Status = MemoryReview.Status
Resolution = MemoryReview.Resolution
QUEUE_LIMIT = 1_000
STATUSES = {"pending": "Waiting", "decided": "Answered"}
KIND_BADGES = {Kind.CONTRADICTION: "warn", Kind.RELEARNED: "warn", Kind.ESCALATION: "block"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as a button: its key, its words, and what it does."""

    value: str
    key: str
    label: str
    effect: str
    css_class: str = ""
    changes: bool = True


ANSWERS = {
    Resolution.SAME: Answer("same", "s", "Same", "The old one is confirmed, the new one merged into it."),
    Resolution.REPLACE: Answer("replace", "n", "New replaces old", "The old one was true until the new one was."),
    Resolution.OLD_WRONG: Answer("old_wrong", "w", "Old was wrong", "The old one never was true.", "btn-danger"),
    Resolution.NEW_WRONG: Answer("new_wrong", "x", "New is wrong", "The new one never was true.", "btn-danger"),
    Resolution.BOTH: Answer(
        "both", "b", "Both true", "Nothing changes, and the pair is not asked about again.", changes=False
    ),
    Resolution.KEEP: Answer("keep", "a", "Keep", "It stays as it is.", changes=False),
    Resolution.REVERSE: Answer(
        "reverse",
        "r",
        "Reverse",
        "A censor warns again, until as many more matches; a fact that was found wrong holds after all.",
        "btn-danger",
    ),
}
"""Beside these, "merge" has a form of its own."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Which questions are worked through; it lives in the address."""

    status: str = "pending"
    agent: str = ""
    kind: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> "Queue":
        status, kind = request.GET.get("status", ""), request.GET.get("kind", "")
        return cls(
            status if status in STATUSES else "pending",
            request.GET.get("agent", "").replace("\x00", "")[:50],
            kind if kind in Kind.values else "",
        )

    def query(self, **extra: str) -> str:
        values = {"status": self.status if self.status != "pending" else "", "agent": self.agent, "kind": self.kind}
        return urlencode({name: value for name, value in (values | extra).items() if value})

    @property
    def is_filtered(self) -> bool:
        return bool(self.agent or self.kind)

    def narrow(self, found: MemoryReviewQuerySet) -> MemoryReviewQuerySet:
        if self.agent:
            found = found.filter(agent__slug=self.agent)
        return found.filter(kind=self.kind) if self.kind else found

    def rows(self, by: Principal) -> MemoryReviewQuerySet:
        found = self.narrow(visible(by))
        if self.status == "pending":
            return found.pending().order_by("created_at", "id")
        return found.exclude(status=Status.PENDING).order_by("-resolved_at", "id")

    def url(self, **extra: str) -> str:
        query = self.query(**extra)
        return f"{reverse('memory_review')}?{query}" if query else reverse("memory_review")


def visible(by: Principal) -> MemoryReviewQuerySet:
    """The questions that this person may know of."""
    found = MemoryReview.objects.all()
    return found if by.may(VIEW_SUBCONSCIOUS) else found.filter(persona=Persona.ACTOR)


@require_safe
def memory_review(request: HttpRequest) -> HttpResponse:
    """What waits for a person, the longest waiting first."""
    by = principal_of(request)
    by.require(VIEW)
    queue = Queue.of(request)
    page = page_of(request, queue.rows(by).select_related("agent", "old", "new", "censor"))
    today = timezone.localtime(clock.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    waiting = queue.narrow(visible(by)).pending().count()
    done = queue.narrow(visible(by)).filter(resolver_id=by.id, resolver_kind="person", resolved_at__gte=today).count()
    tabs = [
        {
            "label": label,
            "url": f"?{Queue(status, queue.agent, queue.kind).query()}",
            "active": status == queue.status,
            "count": waiting if status == "pending" else None,
        }
        for status, label in STATUSES.items()
    ]
    return render(
        request,
        "memory/reviews.html",
        {
            "queue": queue,
            "query": queue.query(),
            "page": page,
            "items": [(review, KIND_BADGES.get(Kind(review.kind), "neutral")) for review in page],
            "tabs": [*tabs, {"label": "Identity changes", "url": reverse("review"), "active": False, "count": None}],
            "agents": Agent.objects.order_by("slug")[:200],
            "kinds": Kind.choices,
            "waiting": waiting,
            "today": done,
            "whole": waiting + done,
            "may_review": by.may(REVIEW),
            "bulk": [ANSWERS[each] for each in BULK_RESOLUTIONS],
            "undo": _undo_offer(request, by, queue),
        },
    )


@require_safe
def memory_question(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One question with everything that an answer needs."""
    by = principal_of(request)
    by.require(VIEW)
    return _question_page(request, by, _get(by, pk))


@require_POST
def memory_question_decide(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Take one answer and go on to the next question; a refusal shows this one again with what was typed."""
    by = principal_of(request)
    by.require(REVIEW)
    review = _get(by, pk)
    queue = Queue.of(request)
    place = _place(queue, by, pk)
    content, comment = request.POST.get("content", ""), request.POST.get("comment", "")
    answer = request.POST.get("answer", "")
    try:
        review_resolve(review=review, resolution=answer, by=by, comment=comment, content=content)
    except DomainError as error:
        fresh = _get(by, pk)
        # A key pressed twice: it is as this person wanted it.
        mine = fresh.resolver_id == by.id and fresh.resolution == answer
        if not (isinstance(error, Conflict) and mine):
            return _question_page(request, by, fresh, refusal=error, content=content, comment=comment)
    if place["following"] is None:
        return redirect(queue.url(done=str(pk)))
    return redirect(f"{reverse('memory_question', args=[place['following']])}?{queue.query(done=str(pk))}")


@require_POST
def memory_question_undo(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Take an answer back and show the question again."""
    by = principal_of(request)
    by.require(REVIEW)
    review = _get(by, pk)
    try:
        review_undo(review=review, by=by)
    except DomainError as error:
        return _question_page(request, by, _get(by, pk), refusal=error)
    messages.success(request, "Took back the answer; the question waits again.")
    queue = Queue.of(request)
    return redirect(f"{reverse('memory_question', args=[pk])}?{Queue('pending', queue.agent, queue.kind).query()}")


@require_POST
def memory_review_bulk(request: HttpRequest) -> HttpResponse:
    """Give several questions the same answer; each that refuses is named and stops none of the others."""
    by = principal_of(request)
    by.require(REVIEW)
    queue, answer, batch = Queue.of(request), request.POST.get("answer", ""), uuid4()
    reviews = (
        visible(by)
        .filter(pk__in=_keys(request.POST.getlist("selected")[:SELECTED_MOST]))
        .select_related("agent", "new")
    )
    done, refused = 0, 0
    for review in reviews:
        try:
            review_resolve(review=review, resolution=answer, by=by, batch=batch)
            done += 1
        except DomainError as error:
            refused += 1
            messages.error(request, f"{review}: {error.detail}")
    if not done and not refused:
        messages.warning(request, "Nothing was selected.")
    return redirect(queue.url(batch=str(batch)) if done else queue.url())


@require_POST
def memory_review_batch_undo(request: HttpRequest, batch: UUID) -> HttpResponse:
    """Take back all answers of one bulk action, the latest first."""
    by = principal_of(request)
    by.require(REVIEW)
    undone = 0
    for review in visible(by).filter(batch=batch, status=Status.RESOLVED).order_by("-resolved_at"):
        try:
            review_undo(review=review, by=by)
            undone += 1
        except DomainError as error:
            messages.error(request, f"{review}: {error.detail}")
    if undone:
        messages.success(request, f"Took back {undone} answer{'s' if undone > 1 else ''}; they wait again.")
    return redirect(Queue.of(request).url())


def _question_page(
    request: HttpRequest,
    by: Principal,
    review: MemoryReview,
    *,
    refusal: DomainError | None = None,
    content: str = "",
    comment: str = "",
) -> HttpResponse:
    queue = Queue.of(request)
    allowed = RESOLUTIONS[review.kind]
    pair = review.old is not None and review.new is not None
    facts = list(Fact.objects.filter(pk__in=review.facts).order_by("recorded_at", "id")) if review.facts else []
    draft = content or review.proposal
    if not draft and pair and review.old and review.new:
        draft = f"{review.old.content} {review.new.content}"
    return render(
        request,
        "memory/review.html",
        {
            "review": review,
            "agent": review.agent,
            "pair": pair,
            "facts": facts,
            "sides": [(label, fact) for label, fact in (("Old", review.old), ("New", review.new)) if fact],
            "diff": diff_texts(review.old.content, review.new.content) if review.old and review.new else None,
            "answers": [ANSWERS[each] for each in allowed if each in ANSWERS],
            "may_merge": Resolution.MERGE in allowed,
            "merge_open": bool(content) or review.kind == Kind.COMPACTION,
            "draft": draft or "\n".join(fact.content for fact in facts),
            "comment": comment,
            "refusal": refusal,
            "kind_badge": KIND_BADGES.get(Kind(review.kind), "neutral"),
            "queue": queue,
            "query": queue.query(),
            "place": _place(queue, by, review.pk),
            "may_review": by.may(REVIEW),
            "undo": _undo_offer(request, by, queue),
        },
        status=refusal.status if refusal else 200,
    )


def _place(queue: Queue, by: Principal, pk: UUID) -> dict[str, Any]:
    keys = list(queue.rows(by).values_list("pk", flat=True)[:QUEUE_LIMIT])
    at = keys.index(pk) if pk in keys else None
    following = (
        keys[at + 1] if at is not None and at + 1 < len(keys) else next((key for key in keys if key != pk), None)
    )
    return {
        "place": None if at is None else at + 1,
        "total": len(keys),
        "previous": keys[at - 1] if at else None,
        "next": keys[at + 1] if at is not None and at + 1 < len(keys) else None,
        "following": following,
    }


def _undo_offer(request: HttpRequest, by: Principal, queue: Queue) -> dict[str, Any] | None:
    """What was just answered, as the address says, and where it can be taken back."""
    for name, url_name in (("batch", "memory_review_batch_undo"), ("done", "memory_question_undo")):
        keys = _keys([request.GET.get(name, "")])
        if not keys:
            continue
        field = "batch" if name == "batch" else "pk"
        found = list(visible(by).filter(status=Status.RESOLVED, **{field: keys[0]})[:201])
        if not found:
            return None
        return {
            "word": found[0].get_resolution_display(),
            "what": str(found[0]) if len(found) == 1 else f"{len(found)} questions",
            "url": f"{reverse(url_name, args=[keys[0]])}?{queue.query()}" if by.may(REVIEW) else "",
            "many": len(found) > 1,
        }
    return None


def _get(by: Principal, pk: UUID) -> MemoryReview:
    related = (
        "agent",
        "censor",
        "old__source_episode",
        "old__source_event",
        "new__source_episode",
        "new__source_event",
    )
    found = visible(by).filter(pk=pk).select_related(*related).first()
    if found is None:
        raise NotFound("There is no such question.")
    return found


def _keys(values: Sequence[str]) -> list[UUID]:
    found = []
    for value in values:
        try:
            found.append(UUID(value))
        except ValueError:
            continue
    return found
