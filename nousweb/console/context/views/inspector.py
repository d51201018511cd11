"""The inspector: which prompt an agent would get, and why. It leaves no trace. With it, pins."""

from contextlib import nullcontext, suppress
from itertools import islice
from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import Truncator

from context.engine.context_record import ContextRecord
from context.engine.retrieval.fixed_sections import pins_of
from context.expectations.evaluation import EvaluationContext, memories_named_load, missing_outcome
from context.expectations.policy import ADD
from context.models import ASSEMBLE, VIEW_RUN, ContextPin, ContextRun
from context.selectors import run_get
from context.services.agent_settings import MAX_PINS, context_pin, context_unpin, item_check
from context.services.context import context_assemble
from context.services.prompt_token_counts import CountFailed, counts_exactly, tokens_count
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.persona import PersonaMemory, persona_memory
from memory.search.memory_loader import memories_load
from memory.services.reviews.quarantine_resolution import pending_used_in_dry_run
from memory.types import MEMORY_TYPES
from nousweb.console.common import (
    FORM,
    POST,
    Column,
    ListPage,
    Title,
    act,
    agent_page,
    author_words,
    memory_url,
    page_of,
    past_of,
    principal_of,
    refused_on,
    uuid_of,
)
from nousweb.console.context.forms import InspectorForm, inspector_values
from nousweb.console.context.presentation import A_PAGE, LEFT_OUT, PromptView, contested_links, memory_groups, tab_of
from nousweb.console.context.since_then import causes, since_then
from nousweb.console.context.views.expectations import memories_named
from nousweb.console.templatetags.console import tokens
from nousweb.lib.errors import Invalid, NotFound, existing

# A longer address is refused by servers on the way.
MAX_ADDRESS_CHARACTERS = 2_000
PREVIEW = "preview"
"""The session that has nothing."""
USUAL = (("session", PREVIEW), ("sort", "verdict"), ("verdict", LEFT_OUT), ("page", "1"), ("tab", "prompt"))
"""Default values, which addresses may omit."""
RUNS_READ = 50
QUESTIONS_SHOWN, WHY_NOT = 4, 5
MAX_QUESTION_CHARACTERS, MAX_ANSWER_CHARACTERS = 120, 200
FIELDS_OF_REQUEST = {"session_id": "session", "budgets": "budget", "files": "paths"}


@agent_page(ASSEMBLE, methods=FORM, past=True)
def agent_context(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The prompt that the agent would get now, or at another time, or under another frame or profile.

    ?run= takes a logged run as the starting point. The form is sent by POST while it is edited, since a conversation
    may be longer than an address; the address follows it as long as it can.
    """
    fields: QueryDict = request.POST if request.method == "POST" else request.GET
    last = None
    if fields.get("run"):
        # A form that began with a prompt goes on when that is deleted.
        with suppress(NotFound) if "input" in fields else nullcontext():
            last = run_get(agent, by, existing(uuid_of(fields["run"]), "There is no such prompt."))
        fields = fields if "input" in fields else _of_run(last, fields)
    questions = [] if str(fields.get("input", "")).strip() else questions_asked(agent, by)
    if questions and not fields.keys() - {"as_of"}:
        # The page begins with the prompt of the latest question.
        fields = fields.copy()
        fields["input"] = questions[0][0]
        asked_for = ContextRun.objects.visible_to(by).filter(agent=agent, persona=Persona.ACTOR, input=fields["input"])
        last = asked_for.order_by("created_at").last()
    # An empty form is no mistake while it is edited.
    asked = "input" in fields and (str(fields.get("input", "")).strip() != "" or request.method != "POST")
    form = InspectorForm(
        fields if asked else None, initial={"session": PREVIEW}, subconscious=by.may(VIEW_SUBCONSCIOUS)
    )
    query = _query(fields)
    shown = _preview(form, agent, request, query)
    table: dict[str, Any] = {
        "live": True,
        "questions": questions,
        "tab": tab_of(fields, "prompt"),
        "order": fields.get("order", ""),
        "sort": fields.get("sort") or "verdict",
        "verdict": fields.get("verdict") or LEFT_OUT,
        "order_form": form,
        "query": query,
        "demand_url": reverse("agent_expectation_demand", args=[agent.slug]) if by.may(ADD) else "",
        "count_url": reverse("agent_context_tokens", args=[agent.slug]) if counts_exactly() else "",
    }
    context: dict[str, Any] = {"agent": agent, "form": form, "shown": shown, "table": table}
    if shown:
        is_same = last and not form.cleaned_data["pending"] and _is_of(last, shown)
        table |= {
            "parts_at": "" if table["tab"] == "prompt" else f"?{query}&tab=prompt",
            "missing": _missing(form.cleaned_data["missing"], shown, agent, by),
            "last": last,
            "before": _asked_before(last, shown) if last and is_same else {},
            "tabs": sorted(shown.tabs(len(shown.memories)), key=lambda tab: tab[0] != "prompt"),
            "turn": {"groups": memory_groups(shown.memories, table["order"])},
        }
        form.fields["verdict"].choices = shown.verdict_choices()  # type: ignore[attr-defined]
        found = shown.table(by, sort=table["sort"], verdict=table["verdict"])
        context["candidates"] = Paginator(found, A_PAGE).get_page(fields.get("page"))
    if request.htmx:  # type: ignore[attr-defined]
        response = render(request, "context/_inspector_result.html", context | {"oob": True})
        # Typing must not fill the history: the address of the state replaces the one before.
        response["HX-Replace-Url"] = f"{reverse('agent_context', args=[agent.slug])}?{query}" if query else "false"
        return response
    return render(request, "context/inspector.html", context)


@agent_page(ASSEMBLE, methods=POST, past=True)
def agent_context_tokens(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The exact number of tokens of a preview, or the estimate where none can be had. Leaves no trace."""
    form = InspectorForm(request.POST, subconscious=by.may(VIEW_SUBCONSCIOUS))
    shown = existing(_preview(form, agent, request), Invalid("No prompt to count.", field="input"))
    size: dict[str, Any] = {"tokens": shown.record.tokens, "counted_tokens": None}
    context: dict[str, Any] = {"size": size}
    if counts_exactly():
        try:
            size |= {
                "counted_tokens": tokens_count(shown.record.system_prompt),
                "counted_by": settings.COUNTER_MODEL,
            }
        except CountFailed as failed:
            context["failure"] = f"The tokens could not be counted: {failed}"
    return render(request, "context/_token_count.html", context)


def questions_asked(agent: Agent, by: Principal) -> list[tuple[str, str, int]]:
    """What the agent was asked last, as far as it is short, for a first message, each with what it answered and the
    tokens of its prompt."""
    if not by.may(VIEW_RUN):
        return []
    runs = ContextRun.objects.visible_to(by).filter(agent=agent, persona=Persona.ACTOR).order_by("-created_at", "-pk")
    runs = runs.annotate(answer=Left("response", MAX_ANSWER_CHARACTERS))
    short: dict[str, tuple[str, str, int]] = {}
    for words, answer, size in runs.values_list("input", "answer", "tokens")[:RUNS_READ]:
        if 0 < len(question := " ".join(words.split())) <= MAX_QUESTION_CHARACTERS:
            short.setdefault(question, (question, answer, size))
    return list(short.values())[:QUESTIONS_SHOWN]


def _is_of(run: ContextRun, shown: PromptView) -> bool:
    """Whether a preview is of a run's own request, in its session or in none."""
    asked = shown.record.request
    session = PREVIEW if asked["session_id"] == PREVIEW else run.session_id
    own = {**run.request, "input": run.input.strip(), "session_id": session}
    return asked == own and shown.record.persona == run.persona


def _asked_before(run: ContextRun, shown: PromptView) -> dict[str, Any]:
    """How the prompt that was sent for the question differs from what it would get now; nothing if it does not."""
    then = PromptView(shown.slug, ContextRecord.of_run(run))
    if not (rows := since_then(then, shown, run.created_at)):
        return {}
    numbers = [(view.record.tokens, len(view.memories)) for view in (then, shown)]
    was, now = (f"{tokens(size)} with {held} memor{pluralize(held, 'y,ies')}" for size, held in numbers)
    words = [f"then {was}, now {now}", *causes(then, shown)]
    return {"run": run, "query": f"?a={run.pk}&b=now", "rows": rows, "words": words}


def _missing(words: str, shown: PromptView, agent: Agent, by: Principal) -> list[dict[str, Any]]:
    """The memories that have or fit these words, considered or not, each with its place in the prompt, or why it has
    none and what would include it."""
    if not words:
        return []
    rows = {(one["type"], one["id"]): one for one in shown.table()}
    titles = {(one["type"], one["id"]): one["title"] for one in shown.table(words=words)[:WHY_NOT]}
    for name, text in memories_named(agent, shown.record.persona, by, words, shown.record.as_of):
        titles.setdefault((name.partition(" ")[0], name.partition(" ")[2]), text.partition(": ")[2])
    places = {(one["type"], one["id"]): row["label"] for row in shown.rows for one in row["pieces"]}
    targets = memories_named_load(persona_memory(agent, by, shown.record.persona), titles)
    unfound = {"hint": "The words of the question in it, or a pin on its page."}
    return [
        {
            "title": title,
            "url": shown.memory_url(*key),
            "place": places.get(key),
            "reason": missing_outcome(key, shown.record, EvaluationContext(targets)).detail,
            **{name: told for name, told in rows.get(key, unfound).items() if name in ("reason", "hint")},
        }
        for key, title in islice(titles.items(), WHY_NOT)
    ]


def _of_run(run: ContextRun, fields: QueryDict) -> QueryDict:
    """The form's values of a logged run, with all other values of the address."""
    values, given = inspector_values(run), {name: fields[name] for name in fields if name != "run"}
    found = QueryDict(mutable=True)
    found.update({name: str(value) for name, value in {**values, **given}.items()})
    return found


def _preview(form: InspectorForm, agent: Agent, request: HttpRequest, back: str = "") -> PromptView | None:
    if not form.is_valid():
        return None
    with refused_on(form, refusals=(), **FIELDS_OF_REQUEST):
        by, persona = principal_of(request), form.cleaned_data.get("persona") or None
        asked = form.as_request(past_of(request))
        waiting = form.cleaned_data["pending"] and past_of(request) is None
        with pending_used_in_dry_run(persona_memory(agent, by, persona)) if waiting else nullcontext():
            record = context_assemble(agent=agent, request=asked, by=by, persona=persona)
        return PromptView(agent.slug, record, contested_links(record, agent, by), back)
    return None


def _query(fields: QueryDict) -> str:
    """The state as a query string; "" when it is too long for an address."""
    values = [(name, str(fields.get(name, ""))) for name in (*InspectorForm.base_fields, "page", "tab", "order")]
    query = urlencode([pair for pair in values if pair[1] and pair not in USUAL])
    return query if len(query) <= MAX_ADDRESS_CHARACTERS else ""


@agent_page(ASSEMBLE, methods=FORM)
def agent_context_item(request: HttpRequest, by: Principal, agent: Agent, item_type: str, item_id: str) -> HttpResponse:
    """Pin a memory, or remove its pin. Leads to its page, which has both, and keeps ?back= for it."""
    item_check(item_type, item_id)
    persona = Persona.SUBCONSCIOUS if by.may(VIEW_SUBCONSCIOUS) else None
    rows = persona_memory(agent, by, persona).rows(MEMORY_TYPES[item_type].model).filter(pk=item_id)
    own = existing(rows.values_list("persona", flat=True).first(), "There is no such memory.")
    kept = {"persona": own if own == Persona.SUBCONSCIOUS else "", "back": request.GET.get("back", "")}
    query = urlencode({name: value[:MAX_ADDRESS_CHARACTERS] for name, value in kept.items() if value})
    address = f"{memory_url(agent.slug, item_type, item_id)}?{query}".rstrip("?")
    if request.method != "POST":
        return redirect(address)
    item: dict[str, Any] = {"agent": agent, "item_type": item_type, "item_id": item_id, "by": by}
    if request.POST.get("action") == "unpin":
        return act(request, lambda: context_unpin(**item), address, "The pin was removed.")
    done = "Pinned. It comes first in its section from now on."
    return act(request, lambda: context_pin(**item, persona=persona), address, done)


PINS = ListPage(
    title="Pins",
    noun="pin",
    about=f"Always included before all other memories, at most {MAX_PINS}.",
    empty="Open a memory to pin it.",
    numbered=True,
    is_exported=False,
    template="context/pins.html",
    row=Title(lambda pin: Truncator(pin.text).chars(200), url="url"),
    columns=(
        Column("Type", "item_type"),
        Column("Pinned by", lambda row: author_words(row)),
        Column("When", "created_at", "time"),
    ),
)


@agent_page(ASSEMBLE)
def agent_context_pins(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The pins of an agent."""
    view: PersonaMemory = persona_memory(agent, by, Persona.SUBCONSCIOUS if by.may(VIEW_SUBCONSCIOUS) else None)
    loaded = memories_load(view, sorted(pins_of(agent)))
    pins: list[Any] = list(ContextPin.objects.filter(agent=agent))
    for pin in pins:
        pin.text = loaded.get((pin.item_type, pin.item_id), ("",))[0]
        pin.url = reverse("agent_context_item", args=[agent.slug, pin.item_type, pin.item_id])
    # Memories that are not readable here, or retired, are counted and not named.
    shown = [pin for pin in pins if pin.text]
    context = PINS.context(request, page_of(request, shown))
    return render(request, PINS.template, {"agent": agent, **context, "hidden": len(pins) - len(shown)})
