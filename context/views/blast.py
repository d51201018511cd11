"""How many prompts a change under consideration would reach, and how. Writes nothing."""

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from context.changes import censor_overrides, fact_overrides, proposal_overrides, question_overrides
from context.log import VIEW_RUN
from context.overrides import Overrides
from context.services.blast import DEFAULT_RUNS, MAX_RUNS, blast_of_run, blast_radius
from context.services.context import ASSEMBLE, context_view
from context.views.inspector import MAX_ADDRESS_CHARACTERS
from identity.models import Agent, ChangeProposal, Persona
from identity.principal import Principal
from identity.selectors import agent_get
from identity.web import layout_of, principal_of
from memory.models import MemoryReview
from memory.persona import VIEW_SUBCONSCIOUS
from nousweb.lib.errors import Invalid, NotFound
from nousweb.lib.textdiff import diff_texts


@dataclass(frozen=True, slots=True)
class Considered:
    """A change that an address names, in words, and what it would make otherwise."""

    words: str
    overrides: Overrides
    caveat: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
def agent_context_blast(request: HttpRequest, slug: str) -> HttpResponse:
    """What ?proposal=, ?fact= (with ?content= for what takes its place), ?question= with ?answer=, or ?censor= and
    ?pattern= would change.

    ?n= says how many logged requests are replayed; ?run= shows one of them in full. A form sends by POST what it says,
    since a text may be longer than an address. Nothing is written either way.
    """
    by = principal_of(request)
    by.require(VIEW_RUN)
    by.require(ASSEMBLE)
    agent = agent_get(slug)
    given = request.GET.copy()
    given.update(request.POST)
    change = _considered(given, agent, by)
    for name in ("run", "csrfmiddlewaretoken"):
        given.pop(name, None)
    query = given.urlencode()
    context = {
        "agent": agent,
        "change": change,
        "query": query if len(query) <= MAX_ADDRESS_CHARACTERS else "",
        "most": MAX_RUNS,
    }
    if run := request.GET.get("run"):
        row = blast_of_run(agent=agent, run_id=_uuid(run, "run"), overrides=change.overrides, by=by)
        layout = layout_of(request)
        return render(
            request,
            "context/blast_run.html",
            {**context, "row": row, "diff": diff_texts(row.before, row.after), "layout": layout},
        )
    last = _count(request.GET.get("n", ""))
    context |= {"n": last, "blast": blast_radius(agent=agent, overrides=change.overrides, by=by, last=last)}
    part = bool(request.htmx)  # type: ignore[attr-defined]
    return render(request, "context/_blast.html" if part else "context/blast.html", context)


def _considered(given: QueryDict, agent: Agent, by: Principal) -> Considered:
    view = context_view(agent, by, Persona.SUBCONSCIOUS if by.may(VIEW_SUBCONSCIOUS) else None)
    if "proposal" in given:
        by.require("identity.view_changeproposal", agent)
        proposal = ChangeProposal.objects.filter(agent=agent, pk=_uuid(given.get("proposal", ""), "proposal")).first()
        if proposal is None:
            raise NotFound("There is no such proposal.")
        return Considered(f"{proposal.get_section_display()} as proposed", proposal_overrides(proposal))
    if "fact" in given:
        by.require("memory.view_fact", agent)
        fact = view.facts.filter(pk=_uuid(given.get("fact", ""), "fact")).first()
        if fact is None:
            raise NotFound("There is no such fact.")
        content = given.get("content", "").strip()
        if not content:
            return Considered(f"Without the fact “{fact}”", fact_overrides(fact, None))
        return Considered(
            f"“{content[:80]}” in place of “{fact}”",
            fact_overrides(fact, content),
            "The new text is taken to be as relevant as the fact that it replaces.",
        )
    if "question" in given:
        by.require("memory.view_memoryreview", agent)
        key = _uuid(given.get("question", ""), "question")
        review = view.reviews.filter(pk=key).select_related("old", "new", "censor").first()
        if review is None:
            raise NotFound("There is no such question.")
        answer = given.get("answer", "")
        overrides = question_overrides(review, answer, given.get("content", ""))
        words = MemoryReview.Resolution(answer).label
        return Considered(
            f"The answer “{words}”",
            overrides,
            "The merged text is taken to be as relevant as the first of them." if answer == "merge" else "",
        )
    if "censor" in given or "pattern" in given:
        by.require("memory.view_censor", agent)
        censor = None
        if "censor" in given:
            censor = view.censors.filter(pk=_uuid(given.get("censor", ""), "censor")).first()
            if censor is None:
                raise NotFound("There is no such censor.")
        pattern, severity = given.get("pattern", "").strip(), given.get("severity", "")
        if censor and given.get("form") and "active" not in given:
            # A form says by its silence that a box is not ticked.
            pattern = severity = ""
        overrides = censor_overrides(censor, pattern=pattern, severity=severity, reason=given.get("reason", ""))
        if censor and overrides.censors_gone:
            return Considered(f"Without the censor “{censor}”", overrides)
        if not overrides.censors[0].pattern:
            raise Invalid("Name the pattern: ?pattern=…", field="pattern")
        return Considered(f"Censor “{overrides.censors[0].pattern[:80]}” ({overrides.censors[0].severity})", overrides)
    raise Invalid("Name the change: ?proposal=…, ?fact=…, ?question=…, ?censor=… or ?pattern=…", field="proposal")


def _uuid(value: str, field: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as error:
        raise NotFound(f"There is no {field} {value[:60]!r}.") from error


def _count(value: str) -> int:
    if not value:
        return DEFAULT_RUNS
    if not (value.isascii() and value.isdecimal() and len(value) <= 3):
        raise Invalid(f"n lies between 1 and {MAX_RUNS}.", field="n")
    return int(value)
