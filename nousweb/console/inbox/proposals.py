"""One proposal: everything that a decision needs, and the decision."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from identity.models import AuditEvent, ChangeProposal, Persona
from identity.policy.inbox import DECIDE_RIGHTS, VIEW_RIGHTS
from identity.principal import Principal
from identity.services.versions import StaleBase, is_self_approval
from memory.models import Event, Fact
from memory.persona import persona_memory
from nousweb.console.common import FORM, POST, layout_of, number_of, page, uuids_of
from nousweb.console.common.provenance import evidence_quote
from nousweb.console.inbox.decisions import item_panel, proposal_decide, undo_offer
from nousweb.console.inbox.filter import InboxFilter
from nousweb.console.inbox.proposal_items import ProposalItem, item_get, with_shortfalls, with_texts
from nousweb.console.inbox.query import PROPOSAL
from nousweb.lib.errors import Conflict, DomainError, Invalid
from nousweb.lib.textdiff import diff_texts

Status = ChangeProposal.Status
VIEW, REVIEW = VIEW_RIGHTS[PROPOSAL], DECIDE_RIGHTS[PROPOSAL]
DONE = {
    "approve": Status.APPROVED,
    "keep": Status.APPROVED,
    "reject": Status.REJECTED,
    "revert": Status.REVERTED,
    "withdraw": Status.WITHDRAWN,
}
APPROVE_LABELS = {"approve": "Approve", "approve_merged": "Approve merged", "approve_edited": "Approve my edit"}
EDIT_LEFT = "The text was edited, and this would lose your edit. Approve your edit, or decide once more to lose it."


@page(VIEW, methods=FORM)
def proposal(request: HttpRequest, by: Principal, pk: UUID) -> HttpResponse:
    """One proposal, with everything that a decision needs; its form comes back here, so that no refusal stands at an
    address that cannot be opened again."""
    if request.method == "POST":
        return _decision_take(request, pk, by)
    return _proposal_page(request, _as_if_approved(request, item_get(pk, by), by), by)


def _as_if_approved(request: HttpRequest, item: ProposalItem, by: Principal) -> ProposalItem:
    """The item as it is once the sibling that ?approved= names is approved: a decision about it names that version, so
    that it counts for no other text."""
    own = item.proposal
    others = ChangeProposal.objects.visible_to(by).filter(agent=own.agent, section=own.section).exclude(pk=own.pk)
    keys = uuids_of([request.GET.get("approved", "")])
    for sibling in map(ProposalItem, with_texts(others.filter(pk__in=keys)) if keys else ()):
        if sibling.approvable:
            item.current_text, item.current_version = sibling.wished, sibling.current_version + 1
    return item


@page(VIEW, methods=POST)
def proposal_preview(request: HttpRequest, by: Principal, pk: UUID) -> HttpResponse:
    """The difference that the text in the editor would make, while it is typed."""
    item = item_get(pk, by)
    return render(
        request,
        "components/diff.html",
        {
            "diff": diff_texts(item.current_text, _normal(request.POST.get("content", ""))),
            "layout": "words",
            "label": "From current to edited",
        },
    )


def _learned_from(item: ProposalItem, by: Principal) -> dict[str, Any]:
    """The events and facts that its author names, in that order (`found`): those that still exist, of a memory that
    both see, each with the quote that speaks of the change; and how many more were named (`unseen`), without saying
    why one is not shown."""
    proposal = item.proposal
    added = (span.text for row in item.diff.rows for span in row.spans if span.kind == "added")
    about = " ".join([proposal.reason, *added])
    view, names = persona_memory(proposal.agent, by, proposal.persona), dict.fromkeys(proposal.learned_from)
    rows: dict[str, Any] = {
        f"{kind} {row.pk}": row
        for kind, model in (("event", Event), ("fact", Fact))
        if by.may(f"memory.view_{kind}")
        for row in view.rows(model).filter(pk__in=[key for of, key in map(str.split, names) if of == kind])
    }
    for row in rows.values():
        row.agent = proposal.agent
    kept = [rows[name] for name in names if name in rows]
    found = [(row, evidence_quote(row.content, about, shared=2, around=80)) for row in kept]
    unseen = len(names) - len(found)
    told = f"{unseen} of {len(names)} {'is' if unseen == 1 else 'are'} gone or not yours to see"
    return {"found": found, "unseen": told if unseen else ""}


def _decision_take(request: HttpRequest, pk: UUID, by: Principal) -> HttpResponse:
    """Make one decision, then show the next proposal; a refusal shows the proposal again with the entered values."""
    item = item_get(pk, by)
    action = request.POST.get("action", "")
    comment = request.POST.get("comment", "")
    typed = request.POST.get("content")
    content = typed if action == "approve_edited" else None
    merge = action == "approve_merged"
    # A button that does not name the edit, as one of a page without its script, decides nothing beside one.
    lost = content is None and typed is not None and "discard" not in request.POST and _normal(typed) != _draft(item)
    action = "approve" if action in ("approve_edited", "approve_merged") else action
    queue = InboxFilter.of(request.GET).of_proposal(item.proposal)
    place = queue.place(pk, by)
    try:
        read = number_of(request.POST.get("base_version"))
        if lost and read == item.current_version:
            content = typed
            raise Invalid(EDIT_LEFT, field="content")
        proposal_decide(action, item, by, comment, None, content, read, merge=merge)
    except StaleBase as error:
        return _proposal_page(request, item_get(pk, by), by, refusal=error, typed=content, comment=comment)
    except Conflict as error:
        fresh = item_get(pk, by)
        # A key pressed twice, or a form sent again: it is as this person wanted it.
        if not (fresh.proposal.reviewer_id == by.id and fresh.proposal.status == DONE[action]):
            return _proposal_page(request, fresh, by, refusal=error, typed=content, comment=comment)
    except DomainError as error:
        return _proposal_page(request, item, by, refusal=error, typed=content, comment=comment)
    return redirect(queue.after_decision(pk, place["following"], by))


def _proposal_page(
    request: HttpRequest,
    item: ProposalItem,
    by: Principal,
    *,
    refusal: DomainError | None = None,
    typed: str | None = None,
    comment: str = "",
) -> HttpResponse:
    target = item.proposal
    queue = InboxFilter.of(request.GET).of_proposal(target)
    merged = None if item.merged is None else diff_texts(item.current_text, item.merged)
    draft = _draft(item)
    text = _normal(typed) if typed is not None else draft
    own = target.author_kind == by.kind and target.author_id == by.id
    history = AuditEvent.objects.visible_to(by).of_object("changeproposal", target.pk)
    if target.version_id:
        history |= AuditEvent.objects.visible_to(by).of_object("identityversion", target.version_id)
    panel = item_panel(target, by, queue.query())
    undo, place = undo_offer(request, by, queue), queue.place(target.pk, by)
    return render(
        request,
        "identity/proposal.html",
        {
            "item": item,
            "proposal": target,
            "queue": queue,
            "previous_label": "Previous proposal",
            "next_label": "Next proposal",
            "query": queue.query(),
            "layout": layout_of(request, merged or item.diff),
            "panel": panel,
            "place": place,
            "refusal": refusal,
            "edit": {
                "text": text,
                "draft": draft,
                "is_open": (item.stale and item.merged is None) or typed is not None,
                "diff": diff_texts(item.current_text, text),
                "four_eyes": settings.FOUR_EYES,
            },
            "merged_diff": merged,
            "learned_from": _learned_from(item, by),
            "suffix": "?persona=subconscious" if target.persona == Persona.SUBCONSCIOUS else "",
            "history": history[:50],
            "shortfall": with_shortfalls([item], by)[0].shortfall,
            "may_review": by.may(REVIEW),
            "undo": undo,
            "decision": {
                "query": queue.query(),
                "panel": panel,
                "may_edit": not settings.FOUR_EYES,
                "may_talk": by.may("context.talk_to_agent"),
                "following": place["following_url"],
                "may_review": by.may(REVIEW),
                "own": own,
                "is_self_approval": is_self_approval(target, by),
                "approve": _approve_button(item, edited=text != draft),
                "discards": refusal is not None and refusal.detail == EDIT_LEFT,
                "comment": comment,
                "may_undo": by.may(REVIEW) and item.undoable,
                "undo": undo,
            },
        },
        status=refusal.status if refusal else 200,
    )


def _draft(item: ProposalItem) -> str:
    """The text that an edit starts from."""
    if not item.stale:
        return _normal(item.proposal.content)
    return _normal(item.current_text if item.merged is None else item.merged)


def _approve_button(item: ProposalItem, *, edited: bool) -> dict[str, str] | None:
    """The button that approves, by its value and label, also as they are without an edit; None where only an edit can
    be approved, and people may not edit."""
    kind = "approve_edited" if item.stale and item.merged is None else "approve_merged" if item.stale else "approve"
    if kind == "approve_edited" and settings.FOUR_EYES:
        return None
    shown = "approve_edited" if edited else kind
    return {
        "value": shown,
        "label": APPROVE_LABELS[shown],
        "unedited": kind,
        "unedited_label": APPROVE_LABELS[kind],
    }


def _normal(text: str) -> str:
    """Line ends as they are stored: a browser sends its own."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
