"""One review of memories: side by side, one key a resolution."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from context.models import VIEW_RUN
from context.selectors import runs_with_memory
from identity.models import Persona
from identity.policy.inbox import DECIDE_RIGHTS, VIEW_RIGHTS
from identity.principal import Principal
from memory.models import Document, Event, Fact, FactChange, MemoryReview, Relation, Subject, Trust
from memory.selectors import visible_reviews
from memory.services.erasure import ERASE
from memory.services.reviews.blind_samples import as_if_undecided
from memory.services.reviews.quarantine_resolution import (
    attribute_facts,
    attribute_pairs,
    quarantined_memories,
    quarantined_text,
    review_state,
)
from memory.services.reviews.resolve import RESOLUTIONS, review_resolve
from nousweb.console.common import FORM, page
from nousweb.console.common.provenance import source_run
from nousweb.console.common.subject_comparison import Comparison, subjects_compare
from nousweb.console.inbox.decisions import item_panel, undo_offer
from nousweb.console.inbox.filter import STATUSES, InboxFilter
from nousweb.console.inbox.item_titles import KEEPS, review_outcome, review_title
from nousweb.console.inbox.items import KIND_BADGES, risk_words
from nousweb.console.inbox.query import REVIEW
from nousweb.lib.errors import Conflict, DomainError
from nousweb.lib.textdiff import diff_texts

HELD_SHOWN = 20
"""Memories of the same words."""
Kind = MemoryReview.Kind
Status = MemoryReview.Status
Resolution = MemoryReview.Resolution
SHORTCUTS = {
    "keep": "approve",
    "reverse": "reject",
    "allow": "approve",
    "hold": "reject",
}
"""Keys by resolution; the others have the number of their place."""


@dataclass(frozen=True, slots=True)
class ResolutionButton:
    """One resolution as a button: its label, and its effect. `told`: the texts of a pair that prompts have then.
    `place`: where it stands on the page of its review, whose number is its key; 0 in a list of reviews on whose pages
    it stands at several."""

    value: str
    label: str
    effect: str
    changes: bool = True
    suggested: bool = False
    told: tuple[str, ...] = ()
    place: int = 0

    @property
    def shortcut(self) -> str:
        """The name of its key; "" without one."""
        return SHORTCUTS.get(self.value, str(self.place or ""))


RESOLUTION_BUTTONS = {
    Resolution.SAME: ResolutionButton(
        "same", "Both say the same", "The old fact is confirmed, and the new one is merged into it."
    ),
    Resolution.REPLACE: ResolutionButton(
        "replace", "New replaces old", "The old fact was true until the new one became true."
    ),
    Resolution.OLD_WRONG: ResolutionButton("old_wrong", "Old was wrong", "The old fact was never true."),
    Resolution.NEW_WRONG: ResolutionButton("new_wrong", "New is wrong", "The new fact was never true."),
    Resolution.BOTH: ResolutionButton("both", "Both are true", "Neither is marked as contradicted any more."),
    Resolution.ALLOW: ResolutionButton("allow", "Allow", "Prompts may include it. It is trusted like your own words."),
    Resolution.HOLD: ResolutionButton(
        "hold", "Quarantine", "No prompt and no search includes it, nor the same words later."
    ),
    Resolution.KEEP: ResolutionButton("keep", "Keep", "Nothing changes.", changes=False),
    Resolution.REVERSE: ResolutionButton(
        "reverse",
        "Reverse",
        "A censor goes back to warning until it has matched as often again; a fact marked as wrong is restored.",
    ),
}
"""Beside these, "merge" has a form of its own."""
DIFFERENT = ResolutionButton(
    "different", "Different subjects", "Nothing changes, and this pair is not reviewed again.", changes=False
)
BULK_BUTTONS = {**RESOLUTION_BUTTONS, Resolution.DIFFERENT: DIFFERENT}
BUTTONS_OF_KIND = {
    (Kind.SAME_SUBJECT, Resolution.SAME): ResolutionButton(
        "same", "Same subject", "The newer name becomes a spelling of the older one. Facts do not change."
    ),
    (Kind.SAME_SUBJECT, Resolution.DIFFERENT): DIFFERENT,
    (Kind.NEW_MEMORY, Resolution.HOLD): ResolutionButton(
        "hold", "Reject", "No prompt and no search includes it, nor the same words later."
    ),
    (Kind.REPEATED, Resolution.SAME): ResolutionButton(
        "same", "Same subject", "Both names are one subject and are merged. The known fact is confirmed."
    ),
    (Kind.REPEATED, Resolution.BOTH): ResolutionButton(
        "both", "True of both", "The fact is stored for the other subject too."
    ),
    (Kind.REPEATED, Resolution.NEW_WRONG): ResolutionButton(
        "new_wrong",
        "Not true of this subject",
        "The fact is not stored, and is not reviewed again.",
        False,
    ),
}
"""Button texts per review kind; they override RESOLUTION_BUTTONS."""
SUGGESTED = {
    Relation.UPDATE: Resolution.REPLACE,
    Relation.DUPLICATE: Resolution.SAME,
    Relation.UNRELATED: Resolution.BOTH,
}
"""The resolution that a judge's verdict about a pair of facts amounts to."""


@page(VIEW_RIGHTS[REVIEW], methods=FORM)
def memory_review_detail(request: HttpRequest, by: Principal, pk: UUID) -> HttpResponse:
    """One review with everything that its resolution needs; its form comes back here, so that no refusal stands at an
    address that cannot be opened again."""
    if request.method == "POST":
        return _review_resolve(request, pk, by)
    return _review_page(request, by, _get(by, pk))


def _review_resolve(request: HttpRequest, pk: UUID, by: Principal) -> HttpResponse:
    """Resolve one review and show the next one; a refusal shows this one again with the entered values."""
    by.require(DECIDE_RIGHTS[REVIEW])
    review = _get(by, pk)
    queue = InboxFilter.of(request.GET)
    place = queue.place(pk, by)
    content, comment = request.POST.get("content", ""), request.POST.get("comment", "")
    # A key decides by a button of its own; "Apply" by what was chosen.
    answer = request.POST.get("answer") or request.POST.get("choice", "")
    try:
        review_resolve(
            review=review,
            resolution=answer,
            by=by,
            comment=comment,
            content=content,
            seen=request.POST.get("seen", ""),
        )
    except DomainError as error:
        fresh = _get(by, pk)
        # A key pressed twice: it is as this person wanted it.
        mine = fresh.resolver_id == by.id and fresh.resolution == answer
        if not (isinstance(error, Conflict) and mine):
            return _review_page(request, by, fresh, refusal=error, content=content, comment=comment)
    return redirect(queue.after_decision(pk, place["following"], by))


def _review_page(
    request: HttpRequest,
    by: Principal,
    review: MemoryReview,
    *,
    refusal: DomainError | None = None,
    content: str = "",
    comment: str = "",
) -> HttpResponse:
    queue = InboxFilter.of(request.GET)
    place = queue.place(review.pk, by)
    state = review_state(review)
    review = as_if_undecided(review)
    pair = review.old is not None and review.new is not None
    named = review.facts if review.kind not in MemoryReview.ABOUT_TEXTS else []
    facts = list(Fact.objects.filter(pk__in=named).order_by("recorded_at", "id")) if named else []
    texts = [fact.content if fact else "" for fact in (review.old, review.new)]
    draft = content or review.proposal or (" ".join(texts) if pair else "\n".join(fact.content for fact in facts))
    answers = [replace(each, place=place) for place, each in enumerate(_buttons(review), 1)]
    outcome = review_outcome(review)
    # The address of the impact of its resolutions, without the resolution.
    may_preview = by.may("context.assemble_context") and by.may("context.view_contextrun")
    preview = f"{reverse('agent_context_blast', args=[review.agent.slug])}?question={review.pk}" if may_preview else ""
    suffix = "?persona=subconscious" if review.persona == Persona.SUBCONSCIOUS else ""
    return render(
        request,
        "memory/review.html",
        {
            "review": review,
            "is_open": review.status in (Status.PENDING, Status.UNDECIDED),
            "agent": review.agent,
            "pair": pair,
            "facts": facts,
            "sides": _sides(review, by),
            # The page of a fact tells what was decided automatically, which nobody is to know who answers a sample; and
            # without the link to it a sample looks like any other pair.
            "opens": not pair or review.status != Status.PENDING,
            "diff": diff_texts(*texts[:: -1 if _stays(review) else 1]) if all(texts) else None,
            "question": str(review_title(review)) if review.kind == Kind.ATTRIBUTE else "",
            "answers": answers,
            "outcome": outcome,
            "decision": outcome.phrase
            if outcome
            else review.answer or STATUSES.get(review.status, review.get_status_display()),
            "chosen": request.POST.get("choice") or next((each.value for each in answers if each.suggested), ""),
            "preview": preview,
            "foreseen": "&answer=".join([preview, *(each.value for each in answers if each.changes)])
            if preview
            else "",
            "comparison": _comparison(review),
            "quarantined": _quarantined(review, suffix, by),
            "held_title": _held_title(review),
            "suffix": suffix,
            "may_merge": Resolution.MERGE in RESOLUTIONS[review.kind],
            "merge_open": bool(content) or review.kind == Kind.COMPACTION,
            "draft": draft,
            "comment": comment,
            "refusal": refusal,
            "kind_badge": KIND_BADGES.get(Kind(review.kind), "neutral"),
            "queue": queue,
            "previous_label": "Previous review",
            "next_label": "Next review",
            "query": queue.query(),
            "panel": item_panel(review, by, queue.query()),
            "place": place,
            "why": risk_words(review.kind, place["risk"]),
            "about": " ".join(str(key) for key in _touched(review)),
            "state": state,
            "may_review": by.may(DECIDE_RIGHTS[REVIEW]),
            "undo": undo_offer(request, by, queue),
        },
        status=refusal.status if refusal else 200,
    )


def _buttons(review: MemoryReview) -> list[ResolutionButton]:
    """The resolutions of a review, each with its effect; the one that a judge's verdict amounts to is suggested."""
    if review.kind == Kind.ATTRIBUTE:
        return _attribute_buttons(review)
    allowed, kind = RESOLUTIONS[review.kind], Kind(review.kind)
    found = [BUTTONS_OF_KIND.get((kind, each)) or RESOLUTION_BUTTONS.get(each) for each in allowed]
    # A blind sample is decided without the judge's word.
    suggested = "" if review.details.get("blind") else SUGGESTED.get(review.verdict.get("relation", ""), "")
    pair = {"old": review.old.content, "new": review.new.content} if review.old and review.new else {}
    return [
        replace(
            each,
            suggested=each.value == suggested,
            told=tuple(pair[side] for side in KEEPS.get(each.value, ()) if pair),
        )
        for each in found
        if each
    ]


def _attribute_buttons(review: MemoryReview) -> list[ResolutionButton]:
    """The answers about an attribute, each with what it changes."""
    facts, ended = len(attribute_facts(review)), len(attribute_pairs(review))
    verb = "ends" if ended == 1 else "end"
    return [
        ResolutionButton(
            "replace",
            "One at a time",
            f"{ended} of {facts} facts {verb} where a newer value begins. Later values replace older ones, too.",
        ),
        ResolutionButton(
            "both",
            "Several at once",
            f"Nothing changes: all {facts} facts stay. Later values stay beside older ones, too.",
            changes=False,
        ),
    ]


def _touched(review: MemoryReview) -> list[UUID]:
    """The facts that a resolution may change, and that other reviews may be about."""
    own = (review.old_id, review.new_id, review.censor_id)
    return [key for key in (*own, *review.facts, *review.subjects) if key] or [review.pk]


def _quarantined(review: MemoryReview, suffix: str, by: Principal) -> list[tuple[str, str, str, str, str]]:
    """The quarantined texts: the kind of each memory, its page, its whole text, its trust class, and the page that
    erases it for good, where it holds a secret and the reader may."""
    erases = "secret" in review.details.get("codes", ()) and by.may(ERASE)
    return [
        ("working memory", "", memory, "", "")
        if isinstance(memory, str)
        else (
            str(memory._meta.verbose_name),
            memory.get_absolute_url(),
            quarantined_text(memory),
            Trust(memory.trust).label,
            reverse(f"agent_{memory._meta.model_name}_erase", args=[review.agent.slug, memory.pk]) + suffix
            if erases and isinstance(memory, Event | Fact | Document)
            else "",
        )
        for memory in quarantined_memories(review)[:HELD_SHOWN]
    ]


def _held_title(review: MemoryReview) -> str:
    """Whether the memories of a review of texts are in use, in words."""
    if review.resolution:
        is_used = review.resolution == Resolution.ALLOW or (review.is_mark and not review.undoable)
        return "In use" if is_used else "Not in use"
    return "In use" if review.details.get("codes") == ["shown"] else "Not in use until you allow it"


def _sides(review: MemoryReview, by: Principal) -> list[tuple[str, Fact, str, tuple[str, str] | None, Any, str]]:
    """The facts of a review, the known one first: its label, who learned it, the number of prompts that had it in words
    and the page of these, None for readers who may not see prompts, the prompt before it was learned, and its side in
    the difference: the one that lost, or else the old one, is removed."""
    facts = [(label, fact) for label, fact in (("Old", review.old), ("New", review.new)) if fact]
    if len(facts) == 1:
        facts = [("The", facts[0][1])]
    learned = FactChange.objects.filter(agent=review.agent_id, fact__in=[fact for _, fact in facts])
    authors = dict(learned.order_by("-at", "-pk").values_list("fact_id", "author_name"))
    url = reverse("agent_context_runs", args=[review.agent.slug])
    return [
        (
            label,
            fact,
            authors.get(fact.pk, ""),
            (f"{number:,} in all" if number else "", f"{url}?memory=fact:{fact.pk}" if number else "")
            if by.may(VIEW_RUN)
            else None,
            source_run(fact, by),
            "removed" if (fact == review.old) is not _stays(review) else "added",
        )
        for label, fact in facts
        for number in [runs_with_memory(review.agent, "fact", str(fact.pk), by).count() if by.may(VIEW_RUN) else 0]
    ]


def _stays(review: MemoryReview) -> bool:
    """Whether it was decided that the old one of two facts holds, and not the new one."""
    return KEEPS.get(review.resolution) == ("old",)


def _comparison(review: MemoryReview) -> Comparison:
    """The subjects that a question is about, side by side."""
    found = Subject.objects.filter(agent=review.agent, persona=review.persona, pk__in=review.subjects)
    subjects = sorted(found.prefetch_related("aliases"), key=lambda row: review.subjects.index(row.pk))
    return subjects_compare(subjects)


def _get(by: Principal, pk: UUID) -> MemoryReview:
    related = (
        "agent",
        "censor",
        "old__source_episode",
        "old__source_event",
        "new__source_episode",
        "new__source_event",
    )
    return get_object_or_404(visible_reviews(by).select_related(*related), pk=pk)
