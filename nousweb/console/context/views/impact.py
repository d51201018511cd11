"""Pages of the impact of a change that is not made yet: how many prompts it would change, and how. Writes nothing."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import urlencode

from context.engine.overrides import Overrides
from context.models import ASSEMBLE, VIEW_RUN
from context.services.agent_settings import BUDGETS, CHANGE, budgets_check
from context.what_if.change_overrides import (
    bulk_invalidation_overrides,
    bulk_proposal_overrides,
    bulk_resolution_overrides,
    censor_overrides,
    fact_overrides,
    invalidation_overrides,
    metadata_overrides,
    proposal_overrides,
    resolution_overrides,
)
from context.what_if.impact import (
    DEFAULT_RUNS,
    MAX_RUNS,
    MAX_SECONDS,
    impact_of,
    impact_of_expectation,
    impact_of_run,
    impacts_of,
)
from identity.models import Agent, ChangeProposal, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.services.proposals import approved_text
from memory.models import Fact, MemoryReview, scope_label
from memory.persona import persona_memory
from memory.policy import PROFILE_CATEGORIES
from memory.selectors import visible_reviews
from memory.services.reviews.resolve import BULK_RESOLUTIONS, RESOLUTIONS
from nousweb.console.common import FORM, MAX_SELECTED, agent_page, layout_of, number_of, page, uuid_of
from nousweb.console.context.views.inspector import MAX_ADDRESS_CHARACTERS
from nousweb.lib.errors import Invalid, NotFound, existing
from nousweb.lib.textdiff import diff_texts

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class ImpactScenario:
    """A change that an address describes: its words and its overrides. `refused` parts of it would not be made."""

    words: str
    overrides: Overrides
    caveat: str = ""
    refused: Sequence[str] = ()


@agent_page(VIEW_RUN, ASSEMBLE, methods=FORM)
def agent_context_impact(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The impact of ?proposal=, ?fact= (with ?content= for its replacement, or ?category= and other metadata),
    ?question= with ?answer= (in brief, of several), ?censor= and ?pattern=, or the ?budget_…= of a form of settings.

    Several proposals, invalidated facts or reviews are one change; ?together= treats a single one as a bulk action
    too. ?n= is the number of logged requests to replay; ?run= shows one of them in full, ?expectation= the prompt of
    one; ?brief= gives a few words. A form sends its fields by POST, since a text may be longer than an address. Nothing
    is written either way.
    """
    fields = request.GET.copy()
    fields.update(request.POST)
    scenario = _scenario(fields, agent, by)
    for name in ("run", "expectation", "csrfmiddlewaretoken"):
        fields.pop(name, None)
    context = _context(agent, scenario, fields.urlencode())
    if run := request.GET.get("run"):
        row = impact_of_run(agent=agent, run_id=_uuid(run, "run"), overrides=scenario.overrides, by=by)
        prompts = {"tokens_before": row.tokens_before, "tokens_after": row.tokens_after, "question": row.run.input}
        return _pair(request, context | {"prompts": prompts}, row.before, row.after)
    if key := request.GET.get("expectation"):
        check = impact_of_expectation(agent=agent, key=_uuid(key, "expectation"), overrides=scenario.overrides, by=by)
        before, after = check.before.record, check.after.record
        if before is None or after is None:
            raise NotFound("This expectation could not be checked.")
        tokens = {"tokens_before": before.tokens, "tokens_after": after.tokens}
        context |= {"check": check, "prompts": {**tokens, "question": check.expectation.input}}
        return _pair(request, context, before.system_prompt, after.system_prompt)
    last = _count(request.GET.get("n", ""))
    brief = "brief" in request.GET
    if brief and "question" in fields and len(fields.getlist("answer")) > 1:
        return _answers(request, agent, by, fields, last)
    impact = impact_of(agent=agent, overrides=scenario.overrides, by=by, last=last)
    context = {"agent": agent, "impact": {**context, "n": last, "result": impact}}
    if not request.htmx:  # type: ignore[attr-defined]
        return render(request, "context/impact.html", context)
    return render(request, "context/_impact_brief.html" if brief else "context/_impact.html", context)


def _answers(request: HttpRequest, agent: Agent, by: Principal, fields: QueryDict, last: int) -> HttpResponse:
    """The impact of each ?answer= to a review, in a few words: of how many prompts once."""
    names, changes = list(dict.fromkeys(fields.getlist("answer"))), []
    for fields["answer"] in names:
        changes.append(_scenario(fields, agent, by).overrides)
    impacts = impacts_of(agent=agent, changes=changes, by=by, last=last)
    answers = [
        {"name": name, "result": impact, "query": urlencode({"question": str(fields["question"]), "answer": name})}
        for name, impact in zip(names, impacts, strict=True)
    ]
    # Not asked about are those that change nothing, and a merged text is another change with each word.
    others = {*RESOLUTIONS[MemoryReview.objects.get(pk=str(fields["question"])).kind]}.difference(names, ["merge"])
    return render(
        request,
        "context/_impact_answers.html",
        {"agent": agent, "answers": answers, "alike": not others and len({one.share for one in impacts}) == 1},
    )


def _pair(request: HttpRequest, context: Mapping[str, Any], before: str, after: str) -> HttpResponse:
    """The prompt for one input without a change and with it."""
    diff = diff_texts(before, after)
    return render(request, "context/impact_run.html", {**context, "diff": diff, "layout": layout_of(request, diff)})


@page(VIEW_RUN, ASSEMBLE, methods=FORM)
def selected_impact(request: HttpRequest, by: Principal, of: str) -> HttpResponse:
    """The impact of approving all selected proposals, or of resolving all selected reviews with one ?answer=.

    One replay for each agent concerned, all within the time limit of one replay. Nothing is written.
    """
    fields = request.GET.copy()
    fields.update(request.POST)
    name, by_agent = _selected(of, fields, by)
    last = _count(fields.get("n", ""))
    until = time.monotonic() + MAX_SECONDS
    results = []
    for agent, rows in by_agent.items():
        query = QueryDict(mutable=True)
        query.setlist(name, [str(row.pk) for row in rows])
        query["together"] = "1"
        if name == "question":
            query["answer"] = fields.get("answer", "")
        scenario = _scenario(query, agent, by)
        impact = impact_of(
            agent=agent, overrides=scenario.overrides, by=by, last=last, seconds=max(until - time.monotonic(), 0.0)
        )
        results.append({**_context(agent, scenario, query.urlencode()), "n": last, "result": impact})
    part = bool(request.htmx)  # type: ignore[attr-defined]
    view = "identity" if name == "proposal" else "reviews"
    return render(
        request,
        "context/_impact_selected.html" if part else "context/impact_selected.html",
        {
            "results": results,
            "of": of,
            "back": f"{reverse('inbox')}?view={view}",
        },
        status=200 if results else 422,
    )


def _selected(
    of: str, fields: QueryDict, by: Principal
) -> tuple[str, Mapping[Agent, Sequence[ChangeProposal | MemoryReview]]]:
    """The parameter name of the selected rows, and the rows by agent, in the order of the list."""
    rows: QuerySet[Any]
    if of == "proposals":
        by.require("identity.view_changeproposal")
        rows = ChangeProposal.objects.visible_to(by)
    else:
        by.require("memory.view_memoryreview")
        rows = visible_reviews(by)
        if fields.get("answer", "") not in BULK_RESOLUTIONS:
            raise Invalid(f"answer is one of {', '.join(BULK_RESOLUTIONS)}.", field="answer")
    # The inbox names the type before each key.
    keys = list(dict.fromkeys(value.rpartition(":")[2] for value in fields.getlist("selected")))
    if len(keys) > MAX_SELECTED:
        raise Invalid(f"At most {MAX_SELECTED} can be selected at once.", field="selected")
    place = {_uuid(key, "selected"): number for number, key in enumerate(keys)}
    by_agent: dict[Agent, list[ChangeProposal | MemoryReview]] = {}
    for row in sorted(rows.filter(pk__in=place).select_related("agent"), key=lambda row: place[row.pk]):
        by_agent.setdefault(row.agent, []).append(row)
    return of.removesuffix("s"), by_agent


def _context(agent: Agent, scenario: ImpactScenario, query: str) -> dict[str, Any]:
    address = query if len(query) <= MAX_ADDRESS_CHARACTERS else ""
    return {"agent": agent, "scenario": scenario, "query": address, "most": MAX_RUNS}


def _scenario(fields: QueryDict, agent: Agent, by: Principal) -> ImpactScenario:
    view = persona_memory(agent, by, Persona.SUBCONSCIOUS if by.may(VIEW_SUBCONSCIOUS) else None)
    if "proposal" in fields:
        by.require("identity.view_changeproposal", agent)
        keys = _uuids(fields.getlist("proposal"), "proposal")
        seen = ChangeProposal.objects.visible_to(by).filter(agent=agent, pk__in=keys)
        proposals = _in_order(seen.with_stale(), keys, "proposal")
        if len(proposals) == 1 and "together" not in fields:
            overrides = proposal_overrides(proposals[0], approved_text(proposals[0]))
            return ImpactScenario(f"{proposals[0].get_section_display()} as proposed", overrides)
        overrides, refused = bulk_proposal_overrides(proposals, by)
        names = ", ".join(dict.fromkeys(proposal.get_section_display() for proposal in proposals))
        words = "1 proposal approved" if len(proposals) == 1 else f"{len(proposals)} proposals approved together"
        return ImpactScenario(f"{words}: {names}", overrides, refused=refused)
    if "fact" in fields:
        by.require("memory.view_fact", agent)
        keys = _uuids(fields.getlist("fact"), "fact")
        facts = _in_order(view.facts.filter(pk__in=keys), keys, "fact")
        if len(facts) > 1:
            return ImpactScenario(f"{len(facts)} facts marked as wrong together", bulk_invalidation_overrides(facts))
        [fact] = facts
        if "category" in fields:
            return _with_metadata(fact, fields)
        content = fields.get("content", "").strip()
        if not content:
            return ImpactScenario(f"The fact “{fact}” marked as wrong", invalidation_overrides(fact))
        return ImpactScenario(
            f"“{content[:80]}” in place of “{fact}”",
            fact_overrides(fact, content),
            "The new text is assumed to be as relevant as the fact that it replaces.",
        )
    if "question" in fields:
        by.require("memory.view_memoryreview", agent)
        keys = _uuids(fields.getlist("question"), "question")
        rows = view.reviews.filter(pk__in=keys).select_related("old", "new", "censor")
        reviews = _in_order(rows, keys, "question")
        answer = fields.get("answer", "")
        if len(reviews) > 1 or "together" in fields:
            overrides, refused = bulk_resolution_overrides(reviews, answer)
            words = "1 review" if len(reviews) == 1 else f"{len(reviews)} reviews together"
            return ImpactScenario(
                f"The resolution “{MemoryReview.Resolution(answer).label}” of {words}", overrides, refused=refused
            )
        overrides = resolution_overrides(reviews[0], answer, fields.get("content", ""))
        return ImpactScenario(
            f"The resolution “{MemoryReview.Resolution(answer).label}”",
            overrides,
            "The merged text is assumed to be as relevant as the first fact." if answer == "merge" else "",
        )
    if "censor" in fields or "pattern" in fields:
        by.require("memory.view_censor", agent)
        censor = None
        if "censor" in fields:
            censor = get_object_or_404(view.censors, pk=_uuid(fields.get("censor", ""), "censor"))
        pattern, severity = fields.get("pattern", "").strip(), fields.get("severity", "")
        if censor and fields.get("form") and "active" not in fields:
            # A form omits a box that is not ticked.
            pattern = severity = ""
        overrides = censor_overrides(censor, pattern=pattern, severity=severity, reason=fields.get("reason", ""))
        if censor and overrides.removed_censors:
            return ImpactScenario(f"Without the censor “{censor}”", overrides)
        if not overrides.censors[0].pattern:
            raise Invalid("Name the pattern: ?pattern=…", field="pattern")
        return ImpactScenario(
            f"Censor “{overrides.censors[0].pattern[:80]}” ({overrides.censors[0].severity})", overrides
        )
    if "budget_total" in fields:
        by.require(CHANGE, agent)
        typed = {name: fields.get(f"budget_{name}", "") for name in BUDGETS}
        budgets = budgets_check({name: number_of(text) for name, text in typed.items() if text})
        return ImpactScenario("The budgets as typed in the settings", Overrides(budgets=budgets))
    raise Invalid("Name the change: ?proposal=…, ?fact=…, ?question=…, ?censor=… or ?pattern=…", field="proposal")


def _with_metadata(fact: Fact, fields: QueryDict) -> ImpactScenario:
    """A fact with the metadata of a form or an address; fields that are absent stay as they are."""
    weight = fields.get("importance")
    try:
        importance = None if weight is None else float(weight)
    except ValueError as error:
        raise Invalid("importance must be between 0 and 1.", field="importance") from error
    tags = fields.get("tags")
    overrides = metadata_overrides(
        fact,
        category=fields.get("category", "").strip(),
        scope=fields.get("scope"),
        **{name: fields.get(name, "").strip() for name in ("project", "task") if name in fields},
        tags=None if tags is None else [word for part in tags.split(",") if (word := part.strip())],
        importance=importance,
    )
    (change,) = overrides.metadata.values()
    where = "always included" if change.is_core_memory else "searched"
    moved = "" if change.is_core_memory == (change.was in PROFILE_CATEGORIES) else f", so it is {where} from then on"
    if change.moved:
        moved += f", and belongs to {scope_label(change) or 'no project or task'}"
    origin = f" from {change.was}" if change.was != change.category else ""
    return ImpactScenario(f"“{fact}” moved{origin} to {change.category}{moved}", overrides)


def _in_order(rows: QuerySet[Row], keys: Sequence[UUID], what: str) -> list[Row]:
    """The rows in the order of their keys. Raises NotFound unless all are there."""
    found = {row.pk: row for row in rows}
    if not keys or any(key not in found for key in keys):
        raise NotFound(f"There is no such {what}.")
    return [found[key] for key in keys]


def _uuids(values: Sequence[str], field: str) -> list[UUID]:
    if len(values) > MAX_SELECTED:
        raise Invalid(f"At most {MAX_SELECTED} can be selected at once.", field=field)
    return [_uuid(value, field) for value in dict.fromkeys(values)]


def _uuid(value: str, field: str) -> UUID:
    return existing(uuid_of(value), f"There is no {field} {value[:60]!r}.")


def _count(value: str) -> int:
    if not value:
        return DEFAULT_RUNS
    if not (value.isascii() and value.isdecimal() and len(value) <= 3):
        raise Invalid(f"n must be between 1 and {MAX_RUNS}.", field="n")
    return int(value)
