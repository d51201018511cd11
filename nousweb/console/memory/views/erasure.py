"""Pages of permanent erasure: a preview of what will be erased, confirmed by typing its name."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from identity.models import Agent, ApiToken, ChangeProposal, IdentityVersion, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import Censor, Document, Fact, FactChange, LoopSummary, SubjectAlias, WorkingMemory
from memory.services.erasure import (
    ERASE,
    MAX_REASON_CHARACTERS,
    QuotingDocument,
    Receipt,
    agent_erase,
    document_erase,
    documents_quoting,
    fact_erase,
    facts_about,
    key_counts,
    project_erase,
    subject_erase,
    user_erase,
)
from memory.services.users import MANAGE, agents_of_user, personas_of, user_counts
from nousweb.console.common import FORM, TYPE_PAGES, agent_page, refused_on
from nousweb.console.memory.page_context import PersonaScope, base_context, memory_page
from nousweb.lib.errors import NotFound

Goes = list[tuple[int, str]]
NOUNS = {
    **{page.model._meta.model_name: page.label.lower() for page in TYPE_PAGES.values()},
    "loopsummary": "sessions",
    "workingmemory": "working memory sessions",
}


class EraseForm(forms.Form):
    """The documents to erase with it, the reason, and the name of the erased object, typed by hand."""

    documents = forms.TypedMultipleChoiceField(
        coerce=UUID,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Documents to erase too",
        help_text="A selected document is erased with all of its versions. Other documents are kept.",
    )
    reason = forms.CharField(
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="The reason stays in the receipt, so do not repeat the text to be erased.",
    )
    name = forms.CharField(max_length=300, widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}))

    def __init__(self, *args: Any, expected: str, offered: Sequence[QuotingDocument] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected
        documents = self.fields["documents"]
        if isinstance(documents, forms.TypedMultipleChoiceField):
            documents.choices = [(str(one.document.pk), _offer(one)) for one in offered]
            documents.initial = [str(one.document.pk) for one in offered if one.quotes]
        if not offered:
            del self.fields["documents"]
        self.fields["name"].label = f"Type “{expected}” to confirm"

    def clean_name(self) -> str:
        if self.cleaned_data["name"] != self.expected:
            raise forms.ValidationError(f"Type exactly “{self.expected}”.")
        return self.expected


def _offer(one: QuotingDocument) -> str:
    said = "quotes it" if one.quotes else "names it"
    return f"{one.document} ({one.document.get_persona_display().lower()}, {one.document.state}; {said})"


def _personas(by: Principal) -> list[str]:
    """The personas whose documents a page may name to this person."""
    return [name for name in Persona.values if name == Persona.ACTOR or by.may(VIEW_SUBCONSCIOUS)]


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
        run=lambda reason, documents: fact_erase(fact=fact, by=scope.by, reason=reason, documents=documents),
        offered=documents_quoting(scope.agent, [fact], personas=_personas(scope.by)),
    )


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
        run=lambda reason, documents: document_erase(document=document, by=scope.by, reason=reason),
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
        run=lambda reason, documents: subject_erase(
            agent=agent, subject=subject, by=by, reason=reason, documents=documents
        ),
        offered=documents_quoting(agent, list(facts), _spellings(facts), personas=_personas(by)),
    )


@agent_page(ERASE, methods=FORM)
def agent_project_erase(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Erase everything of an agent that carries the key ?project=, in both personas."""
    project = request.GET.get("project", "").strip()
    counts = key_counts(agent, project=project) if project else {}
    if not counts:
        raise NotFound("This project has no data.")
    return _page(
        request,
        {"agent": agent},
        title=f"Erase the project {project[:80]}",
        meaning="This cannot be undone. It erases the memory of both personas, all tasks of the project, and the "
        "expectations that ask for it. Mentions in global memory or in other projects are kept.",
        quote="",
        expected=project,
        goes=lambda: [(count, f"{NOUNS.get(name, name)} of {project}") for name, count in counts.items()],
        back=reverse("agent_facts", args=[agent.slug]),
        receipt={"action": "project.erase", "agent": agent.slug},
        run=lambda reason, documents: project_erase(agent=agent, project=project, by=by, reason=reason),
    )


@agent_page(MANAGE, methods=FORM)
def agent_user_erase(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Erase everything that the agents know about ?user=, in both personas."""
    user = request.GET.get("user", "").strip()
    agents = agents_of_user(list(Agent.objects.visible_to(by).order_by("slug")), user)
    if not agents:
        raise NotFound("No agent knows anything of this user.")
    counts = user_counts(agents, user, personas_of(by))

    def run(reason: str, documents: Sequence[UUID]) -> Receipt:
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
        "contexts and tokens included. Mentions in memory for everybody, or of other users, are kept.",
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
        run=lambda reason, documents: agent_erase(agent=agent, by=by, reason=reason),
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
    run: Callable[[str, Sequence[UUID]], Receipt],
    offered: Sequence[QuotingDocument] = (),
) -> HttpResponse:
    """The confirmation, and once it is given, the erasure; then the receipt in the audit trail."""
    form = EraseForm(request.POST if request.method == "POST" else None, expected=expected, offered=offered)
    if request.method == "POST" and form.is_valid():
        with refused_on(form):
            erased = run(form.cleaned_data["reason"], form.cleaned_data.get("documents", []))
            total = sum(erased.rows.values())
            messages.success(request, f"Erased permanently: {total:,} rows. This is the receipt.")
            if still := sum(erased.still_quoted.values()):
                messages.warning(request, f"{still:,} rows that were not erased still quote it.")
            return redirect(f"{reverse('audit')}?{urlencode(receipt)}")
    context |= {"title": title, "meaning": meaning, "quote": quote, "goes": goes(), "form": form, "back": back}
    return render(request, "memory/erase.html", context, status=422 if form.errors else 200)
