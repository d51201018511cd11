"""Users whom an agent serves, and permanent erasure: a preview of what goes, confirmed by typing its name."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.text import Truncator

from context.models import ContextRun
from identity.models import Agent, ApiToken, ChangeProposal, IdentityVersion
from identity.principal import Principal
from memory.models import (
    Censor,
    Document,
    Event,
    Fact,
    FactChange,
    LoopSummary,
    SubjectAlias,
    WorkingMemory,
    serves_users,
)
from memory.services.erasure import (
    ERASE,
    MAX_REASON_CHARACTERS,
    QuotingMemory,
    Receipt,
    agent_erase,
    document_erase,
    documents_quoting,
    event_erase,
    fact_erase,
    facts_about,
    ids_by_type,
    memories_quoting,
    project_erase,
    subject_erase,
    user_erase,
)
from memory.services.erasure.steps import erasure_of, rows_quoting
from memory.services.users import (
    CHANGE,
    KEYED,
    MANAGE,
    TYPES,
    agents_of_user,
    memories_assign,
    personas_of,
    user_counts,
)
from memory.transfer.agent_export import user_export
from nousweb.console.common import FORM, TYPE_PAGES, Action, Column, ListPage, Title, agent_page, page_of, refused_on
from nousweb.console.memory.page_context import PersonaScope, base_context, memory_page
from nousweb.console.templatetags.visible import shown_plain
from nousweb.lib.bounds import EVERYBODY, MAX_KEY_CHARACTERS, UNASSIGNED
from nousweb.lib.errors import NotFound, existing

PROMPTS_READ = 2_000
"""Latest prompts that are searched for quotes before an erasure, which takes all that there are."""
QUOTED = 300
"""Characters of a text by which a page of an erasure names it."""
LATEST = 100
"""Memories of one type that the page of a user lists."""
TYPE_NAMES = {model: name for name, model in KEYED.items()}
LIST = ListPage(
    title="Users",
    noun="user",
    about="People whom the agent serves, each with their own memories.",
    about_new="Memories from before the agent served many users are in no prompt until they belong to somebody.",
    empty="When the agent serves many users, it keeps the memories of each apart. Turn that on in its prompt settings.",
    is_exported=False,
    actions=(Action("Open the prompt settings", "agent_context_settings", "", "identity.change_agent"),),
    row=Title("words"),
    columns=(Column("By type", "told"), Column("Memories", "total", "count")),
    template="memory/users.html",
)
USER = ListPage(
    title="User",
    noun="item",
    empty="No agent has memories of this user, but stored prompts or tokens name them.",
    is_exported=False,
    row=Title(lambda memory: str(memory)),
    columns=(
        Column("Type", lambda memory: TYPE_NAMES[type(memory)].capitalize()),
        Column("Agent", lambda memory: memory.agent.name),
        Column("Since", lambda memory: _moment(memory), "time"),
    ),
)


class AssignForm(forms.Form):
    """Whose memories become, and which."""

    user = forms.CharField(required=False, max_length=MAX_KEY_CHARACTERS, label="User", help_text="The key of a user.")
    everybody = forms.BooleanField(required=False, label="For everybody", help_text="Instead of a user.")
    types = forms.MultipleChoiceField(
        required=False,
        choices=[(name, f"{name.capitalize()}s") for name in TYPES],
        widget=forms.CheckboxSelectMultiple,
        label="Only these types",
    )
    words = forms.CharField(
        required=False, max_length=200, label="Only memories with these words", help_text="Such as a name or a session."
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if bool(given.get("user")) is bool(given.get("everybody")):
            self.add_error("user", "Name a user, or choose everybody.")
        return given


@agent_page(MANAGE, methods=FORM)
def agent_users(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The users of an agent with numbers of memories, and the form that assigns memories that are nobody's."""
    form = AssignForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        with refused_on(form):
            counts = memories_assign(
                agent=agent, by=by, user=EVERYBODY if given["everybody"] else given["user"], types=given["types"],
                words=given["words"],
            )  # fmt: skip
            messages.success(request, f"{sum(counts.values()):,} memories were assigned.")
            return redirect(request.path)
    counted = user_counts([agent], personas=personas_of(by))
    rows = [
        SimpleNamespace(
            words="Not assigned" if user == UNASSIGNED else user,
            total=sum(counts.values()),
            told=", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in counts.items()),
            get_absolute_url=lambda user=user: (
                "" if user == UNASSIGNED else reverse("agent_user", args=[agent.slug, user])
            ),
        )
        for (_, user), counts in sorted(counted.items())
    ]
    offered = by.may(CHANGE) and serves_users(agent) and (agent.pk, UNASSIGNED) in counted
    shown = {
        "agent": agent,
        "creation_form": form if offered else None,
        **LIST.context(request, page_of(request, rows)),
    }
    return render(request, LIST.template, shown, status=422 if form.errors else 200)


@agent_page(MANAGE)
def agent_user(request: HttpRequest, by: Principal, agent: Agent, user: str) -> HttpResponseBase:
    """What the agents know about a user; with ?export=jsonl, everything as a file."""
    personas = personas_of(by)
    agents = agents_of_user(list(Agent.objects.visible_to(by).order_by("name")), user, personas)
    if user == UNASSIGNED or not agents:
        raise NotFound("No agent knows anything of this user.")
    if request.GET.get("export"):
        lines = user_export(agents=agents, user=user, by=by)
        headers = {"Content-Disposition": 'attachment; filename="user.jsonl"'}
        return StreamingHttpResponse(lines, content_type="application/x-ndjson; charset=utf-8", headers=headers)
    managers: list[Any] = [model._default_manager.select_related("agent") for model in TYPE_NAMES]
    found = (rows.filter(agent__in=agents, user=user, persona__in=personas) for rows in managers)
    rows = sorted((row for rows in found for row in rows.order_by("-pk")[:LATEST]), key=_moment, reverse=True)
    about = format_html(
        'The latest of each type. <a href="?export=jsonl">Export everything</a> or <a href="{}">erase everything</a>.',
        f"{reverse('agent_user_erase', args=[agent.slug])}?{urlencode({'user': user})}",
    )
    shown = replace(USER, title=f"User {user}", about=about)
    return render(request, USER.template, {"agent": agent, **shown.context(request, page_of(request, rows))})


def _moment(memory: Any) -> Any:
    """Since when there is a memory: its first moment that the model has."""
    names = ("recorded_at", "first_event_at", "created_at")
    return next(getattr(memory, name) for name in names if hasattr(memory, name))


Goes = list[tuple[int, str]]
NOUNS = {"loop": "session", "session": "working memory session"}


def _offer(one: QuotingMemory) -> str:
    memory, persona = one.memory, one.memory.get_persona_display().lower()
    if isinstance(memory, Document):
        return f"{shown_plain(memory)} ({persona}, {memory.state}; {'quotes' if one.quotes else 'names'} it)"
    return f"{shown_plain(Truncator(memory.content).chars(QUOTED))} ({memory._meta.verbose_name}, {persona})"


class EraseForm(forms.Form):
    """The memories to erase with it, the reason, and the name of the erased object, typed by hand."""

    memories = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Memories to erase too",
        help_text="A selected document is erased with all of its versions. Other memories are kept.",
    )
    reason = forms.CharField(
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="The reason stays in the receipt, so do not repeat the text to be erased.",
    )
    name = forms.CharField(max_length=300, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}))

    def __init__(self, *args: Any, expected: str, offered: Sequence[QuotingMemory] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected
        memories = self.fields["memories"]
        if isinstance(memories, forms.MultipleChoiceField):
            memories.choices = [(str(one.memory.pk), _offer(one)) for one in offered]
            memories.initial = [str(one.memory.pk) for one in offered if one.quotes]
        if not offered:
            del self.fields["memories"]
        self.fields["name"].label = f"Type “{expected}” to confirm"

    def clean_name(self) -> str:
        if self.cleaned_data["name"] != self.expected:
            raise forms.ValidationError(f"Type exactly “{self.expected}”.")
        return self.expected


@memory_page("memory.view_fact", ERASE, of=Fact, methods=FORM)
def agent_fact_erase(request: HttpRequest, scope: PersonaScope, fact: Fact) -> HttpResponse:
    """Erase one fact with its history."""
    return _page(
        request,
        base_context(request, scope),
        title="Erase this fact",
        meaning="This cannot be undone. To withdraw a wrong fact and keep the record, mark it as wrong instead.",
        quote=fact.content,
        expected=scope.agent.slug,
        goes=lambda: [(1, "fact"), (FactChange.objects.filter(fact=fact).count(), "changes in its history")],
        back=scope.url(fact),
        receipt={"action": "fact.erase", "agent": scope.agent.slug},
        run=lambda reason, chosen: fact_erase(
            fact=fact, by=scope.by, reason=reason, documents=ids_by_type(chosen)["documents"]
        ),
        offered=documents_quoting(scope.agent, [fact], personas=personas_of(scope.by)),
    )


@memory_page("memory.view_event", ERASE, of=Event, methods=FORM)
def agent_event_erase(request: HttpRequest, scope: PersonaScope, event: Event) -> HttpResponse:
    """Erase one event with the prompts that quote it, and the memories that do as far as they are selected."""
    return _page(
        request,
        base_context(request, scope),
        title="Erase this event",
        meaning="This cannot be undone. To withdraw the event and keep the record, mark it as wrong instead.",
        quote=Truncator(event.content).chars(QUOTED),
        expected=scope.agent.slug,
        goes=lambda: [
            (1, "event"),
            (_prompts_quoting(event, scope.by), f"of the latest {PROMPTS_READ:,} stored prompts, where it is quoted"),
        ],
        back=scope.url(event),
        receipt={"action": "event.erase", "agent": scope.agent.slug},
        run=lambda reason, chosen: event_erase(event=event, by=scope.by, reason=reason, **ids_by_type(chosen)),
        offered=memories_quoting(event, personas=personas_of(scope.by)),
    )


def _prompts_quoting(event: Event, by: Principal) -> int:
    runs = ContextRun.objects.visible_to(by).filter(agent=event.agent).order_by("-created_at")
    erasure = erasure_of(event.agent, [], events=[event])
    latest = list(runs.values_list("pk", flat=True)[:PROMPTS_READ])
    return rows_quoting(ContextRun, erasure, erasure.beginnings).filter(pk__in=latest).count()


@memory_page("memory.view_document", ERASE, of=Document, methods=FORM)
def agent_document_erase(request: HttpRequest, scope: PersonaScope, document: Document) -> HttpResponse:
    """Erase a document with all of its versions."""
    versions = scope.memory.documents.filter(persona=document.persona, address=document.address)
    return _page(
        request,
        base_context(request, scope),
        title="Erase this document",
        meaning="This cannot be undone. To withdraw the document and keep the record, retire it instead.",
        quote=str(document),
        expected=scope.agent.slug,
        goes=lambda: [(1, "document"), (versions.count(), "versions of it")],
        back=scope.url(document),
        receipt={"action": "document.erase", "agent": scope.agent.slug},
        run=lambda reason, chosen: document_erase(document=document, by=scope.by, reason=reason),
    )


@agent_page(ERASE, methods=FORM)
def agent_subject_erase(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Erase everything that an agent holds to be true about ?subject=, in both personas."""
    subject = request.GET.get("subject", "").strip()
    facts = facts_about(agent, subject)
    if not subject or not facts.exists():
        raise NotFound("There is no fact about this subject.")
    return _page(
        request,
        {"agent": agent},
        title=f"Erase everything about {subject[:80]}",
        meaning="This cannot be undone. It erases the facts of both personas, active or retired, and the documents "
        "that you select. Events and episodes that name the subject are kept; the receipt counts those that still "
        "quote an erased fact.",
        quote="",
        expected=subject,
        goes=lambda: [
            (facts.count(), f"facts about {subject}"),
            (FactChange.objects.filter(fact__in=facts).count(), "changes in their history"),
        ],
        back=reverse("agent_facts", args=[agent.slug]),
        receipt={"action": "subject.erase", "agent": agent.slug},
        run=lambda reason, chosen: subject_erase(
            agent=agent, subject=subject, by=by, reason=reason, documents=ids_by_type(chosen)["documents"]
        ),
        offered=documents_quoting(agent, list(facts), _spellings(facts), personas=personas_of(by)),
    )


@agent_page(ERASE, methods=FORM)
def agent_project_erase(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Erase everything of an agent that carries the key ?project=, in both personas."""
    project = request.GET.get("project", "").strip()
    counted = {name: model._default_manager.filter(agent=agent, project=project) for name, model in KEYED.items()}
    counts = existing(
        {name: count for name, rows in counted.items() if project and (count := rows.count())} or None,
        "This project has no data.",
    )
    return _page(
        request,
        {"agent": agent},
        title=f"Erase the project {project[:80]}",
        meaning="This cannot be undone. It erases the memory of both personas, all tasks of the project, and the "
        "expectations that ask for it. Mentions in global memory or in other projects are kept.",
        quote="",
        expected=project,
        goes=lambda: [
            (count, f"{NOUNS.get(name, name)}{'s' * (count != 1)} of {project}") for name, count in counts.items()
        ],
        back=reverse("agent_facts", args=[agent.slug]),
        receipt={"action": "project.erase", "agent": agent.slug},
        run=lambda reason, chosen: project_erase(agent=agent, project=project, by=by, reason=reason),
    )


@agent_page(MANAGE, methods=FORM)
def agent_user_erase(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Erase everything that the agents know about ?user=, in both personas."""
    user = request.GET.get("user", "").strip()
    visible = list(Agent.objects.visible_to(by).order_by("slug"))
    agents = existing(agents_of_user(visible, user) or None, "No agent knows anything of this user.")
    counts = user_counts(agents, user, personas_of(by))

    def run(reason: str, chosen: Sequence[QuotingMemory]) -> Receipt:
        rows: Counter[str] = Counter()
        still: Counter[str] = Counter()
        for one in agents:
            receipt = user_erase(agent=one, user=user, by=by, reason=reason)
            rows.update(receipt.rows)
            still.update(receipt.still_quoted)
        return Receipt(dict(rows), dict(still))

    names = {one.pk: one.name for one in agents}
    return _page(
        request,
        {"agent": agent},
        title=f"Erase the user {user[:80]}",
        meaning="This cannot be undone. It erases what the agents know about this user in both personas, sessions, "
        "prompts and tokens included. Mentions in memory for everybody, or of other users, are kept.",
        quote="",
        expected=user,
        goes=lambda: [(sum(found.values()), f"memories of {names[key]}") for (key, _), found in counts.items()],
        back=reverse("agent_users", args=[agent.slug]),
        receipt={"action": "user.erase"},
        run=run,
    )


@agent_page(ERASE, methods=FORM)
def agent_erase_all(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Erase an agent with everything of it."""
    return _page(
        request,
        {"agent": agent},
        title=f"Erase {agent.name}",
        meaning="This cannot be undone. The agent's tokens stop working at once.",
        quote="",
        expected=agent.slug,
        goes=lambda: _all_of(agent),
        back=reverse("agent_settings", args=[agent.slug]),
        receipt={"action": "agent.erase"},
        run=lambda reason, chosen: agent_erase(agent=agent, by=by, reason=reason),
    )


def _spellings(facts: QuerySet[Fact]) -> list[str]:
    """The spellings of the subjects of these facts."""
    subjects = facts.values_list("subject_alias__subject")
    return list(
        SubjectAlias.objects.filter(subject__in=subjects).order_by("spelling").values_list("spelling", flat=True)
    )


def _all_of(agent: Agent) -> Goes:
    parts: list[tuple[Any, str]] = [
        *((page.model, page.label.lower()) for page in TYPE_PAGES.values()),
        (LoopSummary, "sessions"),
        (Censor, "censors"),
        (WorkingMemory, "working memory sessions"),
        (IdentityVersion, "identity versions"),
        (ChangeProposal, "proposals"),
        (ApiToken, "tokens"),
    ]
    return [(model.objects.filter(agent=agent).count(), noun) for model, noun in parts]


def _page(
    request: HttpRequest,
    context: dict[str, Any],
    *,
    title: str,
    meaning: str,
    quote: str,
    expected: str,
    goes: Callable[[], Goes],
    back: str,
    receipt: dict[str, str],
    run: Callable[[str, Sequence[QuotingMemory]], Receipt],
    offered: Sequence[QuotingMemory] = (),
) -> HttpResponse:
    """The confirmation, and once it is given, the erasure; then the receipt in the audit trail."""
    form = EraseForm(request.POST if request.method == "POST" else None, expected=expected, offered=offered)
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            chosen = form.cleaned_data.get("memories", ())
            erased = run(form.cleaned_data["reason"], [one for one in offered if str(one.memory.pk) in chosen])
            total = sum(erased.rows.values())
            messages.success(request, f"Erased permanently: {total:,} rows. This is the receipt.")
            if still := sum(erased.still_quoted.values()):
                messages.warning(request, f"{still:,} rows that were not erased still quote it.")
            return redirect(f"{reverse('audit')}?{urlencode(receipt)}")
    context |= {"title": title, "meaning": meaning, "quote": quote, "goes": goes(), "form": form, "back": back}
    return render(request, "memory/erase.html", context, status=422 if form.errors else 200)
