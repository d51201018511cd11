"""Agents: the list, making one, its settings; its identity as it stands, as it was, and ways to change it."""

import hashlib
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import Prefetch, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse

from context.engine.overrides import Overrides
from context.what_if.identity_delivery import IdentityDelivery
from identity.models import Agent, IdentityVersion
from identity.policy.sections import SECTION_POLICY, Section
from identity.principal import Principal
from identity.selectors import (
    agent_as_of,
    agent_get,
    agents_overview,
    approvals,
    identity_state,
    section_history,
    section_states,
    section_tokens,
    version_get,
    version_size,
)
from identity.services.agents import (
    SeedChange,
    agent_create,
    agent_reinitiate,
    agent_update,
    seed_digest,
    seed_plan,
)
from identity.services.guardrails import guardrail_decide, section_text_check
from identity.services.proposals import ChangeResult, identity_propose, identity_rollback
from identity.services.versions import REVIEW, StaleBase, version_current
from nousweb.console.common import (
    FORM,
    POST,
    ListPage,
    agent_page,
    applied_offer,
    form_page,
    form_refuse,
    layout_of,
    page,
    page_of,
    past_of,
    principal_of,
    query_without,
    section_named,
    stacked_bar,
)
from nousweb.console.common.provenance import (
    VERSIONS_READ,
    account_file,
    line_origins,
    share_of,
    version_provenance,
)
from nousweb.console.identity.forms import (
    AgentForm,
    AgentSearchForm,
    CompareForm,
    NewAgentForm,
    ProposeForm,
    ReasonForm,
    RollbackForm,
)
from nousweb.console.inbox.item_titles import changed_words
from nousweb.console.inbox.proposal_items import RISK_MEANING
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, existing
from nousweb.lib.lookalikes import warnings_of
from nousweb.lib.textdiff import diff_texts

AGENTS = ListPage(
    title="Agents",
    noun="agent",
    empty="An agent stores memories here and requests its prompt. An administrator creates it, and a token for it.",
    is_exported=False,
)


@page("identity.view_agent")
def agents(request: HttpRequest, by: Principal) -> HttpResponse:
    """Every agent with its state, its pending items, and the size of its identity."""
    form = AgentSearchForm(request.GET)
    search = form.cleaned_data["q"] if form.is_valid() else ""
    page = page_of(request, agents_overview(by, search))
    rows = [
        {
            "agent": agent,
            "tokens": identity_state(agent, agent.current_versions).tokens,
            # A section changes by getting a new current version, so the latest of these is the last change.
            "changed_at": max((version.created_at for version in agent.current_versions), default=None),
        }
        for agent in page
    ]
    return render(request, "identity/agents.html", {**AGENTS.context(request, page, form, bool(search)), "rows": rows})


@page("identity.add_agent", methods=FORM)
def agent_new(request: HttpRequest, by: Principal) -> HttpResponse:
    """Make an agent."""
    following = "agent_connect" if by.may("identity.add_apitoken") else "agent_identity"
    return form_page(
        request,
        "identity/agent_new.html",
        NewAgentForm(request.POST or None, initial={"prompt": settings.IDENTITY_PROMPT}),
        lambda given: agent_create(**given, by=by),
        done=lambda agent: f"Agent {agent.name} was created.",
        back=lambda agent: reverse(following, args=[agent.slug]),
        context={},
        conflict="slug",
        # To the services, the prompt of the character is the content of a section.
        fields={"content": "prompt"},
    )


@agent_page()
def agent(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Redirect to the first page of an agent."""
    return redirect(agent)


@agent_page("identity.change_agent", methods=FORM)
def agent_settings(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Change an agent's name and kind."""
    return form_page(
        request,
        "identity/agent_settings.html",
        AgentForm(request.POST or None, initial={"name": agent.name, "kind": agent.kind}),
        lambda given: agent_update(agent=agent, **given, by=by),
        done="The settings were saved.",
        back=reverse("agent_settings", args=[agent.slug]),
        context={"agent": agent},
    )


@agent_page("identity.reinitiate_agent", methods=FORM)
def agent_initiate(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Show what seeding the identity again would change, and do exactly that when it is confirmed."""
    form, status = ReasonForm(request.POST if request.method == "POST" else None), 200
    if form.is_valid():
        try:
            written, proposed = agent_reinitiate(
                agent=agent, by=by, reason=form.cleaned_data["reason"], seen=request.POST.get("seen", "-")
            )
        except Conflict as error:
            messages.warning(request, f"{error.detail} Check them again.")
            status = error.status
        else:
            sections = ", ".join(one.get_section_display() for one in proposed or written)
            said = f"Seeded again: {sections} changed." if sections else "Seeded again: nothing changed."
            if proposed:
                said = f"Proposed, and not active yet: {sections}. Four eyes: another person must approve."
            messages.success(request, said)
            return redirect("agent_identity", agent.slug)
    plan = seed_plan(agent)
    context = {
        "agent": agent,
        "form": form,
        "changes": [_change(change) for change in plan],
        "seen": seed_digest(plan),
        "four_eyes": settings.FOUR_EYES,
        "has_prompt": bool(settings.IDENTITY_PROMPT.strip()),
    }
    return render(request, "identity/agent_initiate.html", context, status=422 if form.errors else status)


def _change(change: SeedChange) -> dict[str, Any]:
    """A section that seeding would write."""
    version = change.current.version if change.current else 0
    diff = diff_texts(_text(change.current), change.content)
    return {"section": Section(change.section), "from_version": version, "to_version": version + 1, "diff": diff}


PROPOSE = "identity.propose_changeproposal"


@agent_page("identity.view_identityversion", past=True)
def agent_identity(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The current sections beside the prompt that they make."""
    past = past_of(request)
    if past:
        agent = agent_as_of(agent, past)
    state = identity_state(agent, IdentityVersion.objects.filter(agent=agent).as_of(past) if past else None)
    # What waits for a decision waits now.
    sections = section_states(state, by, waits=not past)
    versions = [item["version"] for item in sections if item["version"]]
    prefetch_related_objects(versions, Prefetch("proposals", approvals()))
    bars = [(item["section"].label, item["tokens"], item["css_class"]) for item in sections if item["has_text"]]
    context = {
        "agent": agent,
        "state": state,
        "sections": sections,
        "segments": stacked_bar(bars, 1000, 12),
        "waiting": sum(item["waiting_count"] for item in sections),
        "pending": sum(item["pending_count"] for item in sections),
        "shortfall": None if past else IdentityDelivery.load(agent, by).shortfall(),
        **applied_offer(request, agent),
    }
    return render(request, "identity/identity.html", context)


@page("identity.view_identityversion", past=True)
def history(request: HttpRequest, by: Principal, slug: str, section: str) -> HttpResponse:
    """The versions of a section, latest first, any two of which can be compared."""
    agent, named = agent_get(slug, by), section_named(section)
    moment = past_of(request) or clock.now()
    page = page_of(request, section_history(agent, named).filter(created_at__lte=moment))
    texts = IdentityVersion.objects.filter(agent=agent, section=named, created_at__lte=moment).order_by("-version")
    read = list(reversed(texts[:VERSIONS_READ])) if page.number == 1 else []
    changed = {new.version: changed_words(old.content, new.content) for old, new in pairwise(read)}
    rows = [{"version": one, "example": changed.get(one.version), **version_size(one)} for one in page]
    if rows and page.number == 1:
        # In the past, another version was the current one.
        rows[0]["version"].is_current = True
    lines = line_origins(read)
    prefetch_related_objects([line.version for line in lines], Prefetch("proposals", approvals()))
    context = {
        **_about(agent, named),
        "page": page,
        "rows": rows,
        "lines": lines,
        "query": query_without(request),
        "tabs": [
            {"label": each.label, "url": reverse("section_history", args=[slug, each]), "active": each == named}
            for each in Section
        ],
        **applied_offer(request, agent),
    }
    return render(request, "identity/section_history.html", context)


@page("identity.view_identityversion")
def compare(request: HttpRequest, by: Principal, slug: str, section: str) -> HttpResponse:
    """Any two versions of a section; without numbers, the current one and the one before it."""
    agent, named = agent_get(slug, by), section_named(section)
    versions = IdentityVersion.objects.filter(agent=agent, section=named).select_related("restores")
    latest = versions.order_by("-version").values_list("version", flat=True).first() or 0
    form = CompareForm({"to": latest, "from": max(latest - 1, 0)} | request.GET.dict())
    context = {**_about(agent, named), "form": form, "latest": latest}
    if not form.is_valid():
        context["problem"] = "Enter the numbers of two versions."
        return render(request, "identity/section_compare.html", context, status=422)
    older, newer = form.cleaned_data["from"], form.cleaned_data["to"]
    found = {version.version: version for version in versions.filter(version__in=(older, newer))}
    missing = [number for number in dict.fromkeys((older, newer)) if number and number not in found]
    if missing:
        numbers = " and ".join(map(str, missing))
        context["problem"] = f"{named.label} has no version {numbers}; its latest is {latest}."
        # A picker shows the answer in its page, which htmx swaps in for what is invalid alone.
        return render(request, "identity/section_compare.html", context, status=422 if request.htmx else 404)  # type: ignore[attr-defined]
    diff = diff_texts(_text(found.get(older)), _text(found.get(newer)))
    context |= {
        "older": older,
        "newer": newer,
        "sides": [("From", older, found.get(older)), ("To", newer, found.get(newer))],
        "diff": diff,
        "layout": layout_of(request, diff),
        "tried": _tried(found.get(older), found.get(newer)) if by.may("context.talk_to_agent") else "",
        "previous_pair": min(older, newer) - 1 if min(older, newer) > 0 else None,
        "next_pair": max(older, newer) + 1 if max(older, newer) < latest else None,
    }
    if version := found.get(newer):
        version.agent = agent
        origin = version_provenance(version, by)
        if request.GET.get("format") == "text":
            return account_file(request, origin)
        context |= {"provenance": origin, "share": share_of(request, origin)}
    return render(request, "identity/section_compare.html", context)


def _tried(older: IdentityVersion | None, newer: IdentityVersion | None) -> str:
    """The query of the playground with both versions; "" where there are not two."""
    names = ["now" if one.is_current else one.pk for one in (older, newer) if one]
    return f"?a={names[0]}&b={names[1]}" if len(names) == 2 else ""


@page(PROPOSE, methods=FORM)
def propose(request: HttpRequest, by: Principal, slug: str, section: str) -> HttpResponse:
    """Write a new text of a section: read the difference first, then propose it or apply it.

    Nothing is saved whose difference was not on the page: `seen` is the digest of the text that was shown,
    and a text that differs from it gets its preview instead.
    """
    agent, named = agent_get(slug, by), section_named(section)
    current = version_current(agent, named)
    if request.method != "POST":
        form = ProposeForm(initial={"content": _text(current), "base_version": current.version if current else 0})
        # Only here: on a refusal the focus would scroll past the words that say why.
        form.fields["content"].widget.attrs["autofocus"] = True
        return _propose_page(request, agent, named, form, current=current, content=_text(current))
    form = ProposeForm(request.POST)
    if not form.is_valid():
        return _propose_page(request, agent, named, form, current=current, status=422)
    base_version = form.cleaned_data["base_version"]
    action = request.POST.get("action")
    try:
        content, reason = section_text_check(form.cleaned_data["content"], form.cleaned_data["reason"], by=by)
        if action not in ("propose", "apply") or request.POST.get("seen") != _digest(content):
            return _propose_page(request, agent, named, form, current=current, content=content, previewed=True)
        result = identity_propose(
            agent=agent,
            section=named,
            content=content,
            reason=reason,
            base_version=base_version,
            by=by,
            wait=action == "propose",
        )
    except Invalid as error:
        form_refuse(form, error)
        return _propose_page(request, agent, named, form, current=current, status=422)
    except StaleBase as stale:
        return _stale_page(request, agent, named, stale)
    if result.action == "unchanged":
        messages.info(request, f"Nothing to save: this is the current text of {named.label}.")
        return _propose_page(request, agent, named, form, current=result.version, content=content)
    return _after(request, result, reverse("agent_identity", args=[slug]))


@page(PROPOSE, methods=POST)
def preview(request: HttpRequest, by: Principal, slug: str, section: str) -> HttpResponse:
    """The part of the propose page that follows the typing: difference and size."""
    agent, named = agent_get(slug, by), section_named(section)
    current = version_current(agent, named)
    try:
        content, _ = section_text_check(request.POST.get("content", ""), "", by=by)
    except Invalid as error:
        return HttpResponse(
            render_to_string("identity/_preview.html", {"preview": {"refusal": error.detail}}), status=422
        )
    shown = _preview(agent, named, current, content, base=request.POST.get("base_version", ""), by=by)
    # Without the request: the fragment has no frame, whose navigation would cost three queries.
    return HttpResponse(render_to_string("identity/_preview.html", {"preview": shown}))


@page(REVIEW, methods=FORM)
def rollback(request: HttpRequest, by: Principal, slug: str, section: str, version: int) -> HttpResponse:
    """Give a section the text of an earlier version, after reading what that changes."""
    agent, named = agent_get(slug, by), section_named(section)
    target = version_get(agent, named, version)
    form, status = RollbackForm(request.POST if request.method == "POST" else None), 200
    if form.is_valid():
        back = reverse("section_history", args=[slug, named])
        try:
            result = identity_rollback(agent=agent, section=named, to_version=version, by=by, **form.cleaned_data)
        except StaleBase as stale:
            shown = "The changes that the roll-back would make now are shown below. Nothing was saved."
            messages.warning(request, f"{stale.detail} {shown}")
            status = stale.status
        except Invalid as error:
            form_refuse(form, error)
        else:
            if result.action != "unchanged":
                return _after(request, result, back)
            messages.info(request, f"Nothing to roll back: the current text is that of version {version} already.")
            return redirect(back)
    current = existing(version_current(agent, named), f"{named.label} has no current version.")
    diff = diff_texts(current.content, target.content)
    context = {
        **_about(agent, named),
        "form": form,
        "target": target,
        "current": current,
        "diff": diff,
        "layout": layout_of(request, diff),
        "verdict": guardrail_decide(agent=agent, section=named, current=current, by=by),
    }
    return render(request, "identity/section_rollback.html", context, status=422 if form.errors else status)


def _about(agent: Agent, section: Section) -> dict[str, Any]:
    return {
        "agent": agent,
        "section": section,
        "policy": SECTION_POLICY[section],
        "risk_meaning": RISK_MEANING[section],
    }


def _text(version: IdentityVersion | None) -> str:
    return version.content if version else ""


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _preview(
    agent: Agent, section: Section, current: IdentityVersion | None, content: str, *, base: object, by: Principal
) -> dict[str, Any]:
    now = current.version if current else 0
    tokens, tokens_before = (section_tokens(section, text) for text in (content, _text(current)))
    return {
        "diff": diff_texts(_text(current), content),
        "seen": _digest(content),
        "tokens": tokens,
        "tokens_change": tokens - tokens_before,
        "current_version": now,
        "moved_on": str(base) not in ("", str(now)),
        "warnings": warnings_of(content),
        "shortfall": IdentityDelivery.load(agent, by).shortfall(Overrides(identity={section: content})),
    }


def _propose_page(
    request: HttpRequest,
    agent: Agent,
    section: Section,
    form: ProposeForm,
    *,
    current: IdentityVersion | None,
    content: str | None = None,
    previewed: bool = False,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    verdict = guardrail_decide(agent=agent, section=section, current=current, by=principal_of(request))
    context = {
        **_about(agent, section),
        "form": form,
        "current": current,
        "verdict": verdict,
        "previewed": previewed,
        **more,
    }
    if content is not None:
        context["preview"] = _preview(
            agent, section, current, content, base=form["base_version"].value(), by=principal_of(request)
        )
    return render(request, "identity/section_propose.html", context, status=status)


def _stale_page(request: HttpRequest, agent: Agent, section: Section, stale: StaleBase) -> HttpResponse:
    base, current, yours = (stale.extra[name]["content"] for name in ("base", "current", "yours"))
    # The edit goes on from the current version, with the text as it was typed.
    data = request.POST.copy()
    data["base_version"] = str(stale.extra["current"]["version"])
    return _propose_page(
        request,
        agent,
        section,
        ProposeForm(data),
        current=version_current(agent, section),
        content=yours,
        status=409,
        stale=stale.extra,
        theirs_diff=diff_texts(base, current),
        yours_diff=diff_texts(base, yours),
    )


def _after(request: HttpRequest, result: ChangeResult, url: str) -> HttpResponse:
    """Back to `url`, where an applied change is offered for undo and a waiting one is announced."""
    if result.proposal and result.action == "applied":
        return redirect(f"{url}?applied={result.proposal.pk}")
    why = result.proposal.guardrail if result.proposal else ""
    messages.success(request, f"Proposed, and not active yet. {why}")
    return redirect(url)
