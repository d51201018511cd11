"""What an agent's facts are about: the list, one subject through time with its names, and what people change of it."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from identity.models import Persona
from memory.models import Fact, Subject, SubjectAlias, SubjectChange
from memory.selectors import subjects_shown
from memory.selectors.filters import SubjectFilter
from memory.services.subjects.create import subject_create
from memory.services.subjects.edit import subject_alias_add, subject_edit
from memory.services.subjects.locks import CHANGE, VIEW
from memory.services.subjects.merge import subject_merge
from memory.services.subjects.proposals import candidates_of
from memory.services.subjects.registry import alias_find
from memory.services.subjects.split import subject_split
from memory.services.subjects.undo import subject_change_undo
from nousweb.console.common.pagination import request_page
from nousweb.console.memory.list_exports import SUBJECTS, memory_export
from nousweb.console.memory.page_context import base_context, list_context
from nousweb.console.memory.persona_scope import PersonaScope, persona_scope
from nousweb.console.memory.review_queue import uuids_of
from nousweb.console.memory.supersession_timeline import timeline_of
from nousweb.lib import clock
from nousweb.lib.errors import DomainError, NotFound

MAX_OF_A_SUBJECT = 200
CHANGES_SHOWN = 50


@require_safe
def agent_subjects(request: HttpRequest, slug: str) -> HttpResponseBase:
    """What the actor's facts are about; with the right to it, what the subconscious' are too."""
    shown = persona_scope(request, slug, VIEW)
    found = SubjectFilter(request.GET, queryset=subjects_shown(shown.memory))
    if file := memory_export(request, shown, found, SUBJECTS, "created_at"):
        return file
    page = request_page(request, found.results, "created_at")
    context = list_context(
        request, shown, found, page, rows=page.rows, may_change=shown.by.may(CHANGE), kinds=Subject.Kind.choices
    )
    return render(request, "memory/subjects.html", context)


@require_POST
def agent_subject_add(request: HttpRequest, slug: str) -> HttpResponse:
    """Enter a subject before any fact names it."""
    shown = persona_scope(request, slug, CHANGE)
    given = request.POST
    try:
        subject = subject_create(
            agent=shown.agent, name=given.get("name", ""), kind=given.get("kind", "other"), by=shown.by
        )
    except DomainError as error:
        messages.error(request, error.detail)
        return redirect(reverse("agent_subjects", args=[slug]) + shown.suffix)
    messages.success(request, f"The subject “{subject.name}” was added.")
    return redirect(_address(shown, subject))


@require_safe
def agent_subject(request: HttpRequest, slug: str, subject: str) -> HttpResponse:
    """All that was ever believed about what a name means, in each memory that is shown."""
    shown = persona_scope(request, slug, VIEW)
    return _page(request, shown, _things(shown, subject))


@require_safe
def agent_subject_thing(request: HttpRequest, slug: str, pk: UUID) -> HttpResponse:
    """The same of one subject, whatever it is called; what was merged is shown by what took it up."""
    shown = persona_scope(request, slug, VIEW)
    thing: Subject = shown.row(shown.memory.rows(Subject), pk, "subject")
    if thing.merged_into_id is not None:
        return redirect(reverse("agent_subject_thing", args=[slug, thing.merged_into_id]) + shown.suffix)
    return _page(request, shown, [thing])


def _page(request: HttpRequest, shown: PersonaScope, things: list[Subject]) -> HttpResponse:
    """All that was ever believed about these, what of it held at a moment, their names, and what changed of them."""
    spelled = SubjectAlias.objects.filter(agent=shown.agent, subject__in=[thing.pk for thing in things])
    facts = shown.memory.facts.filter(subject_alias__in=spelled).order_by("recorded_at", "id")
    found = list(facts.select_related("subject_alias")[:MAX_OF_A_SUBJECT])
    if not things:
        raise NotFound("No facts were ever stored about this subject.")
    now = clock.now()
    first = timeline_of(found, set(), now, now)
    step = _step(request.GET.get("at", ""))
    moment = now if step is None else first.begins + (first.ends - first.begins) * (step / 1000)
    holding = set(facts.as_of(moment).values_list("pk", flat=True))
    name = things[0].name
    may_change = shown.by.may(CHANGE)
    context = base_context(
        request,
        shown,
        subject=name,
        supersessions_query=urlencode(
            {"subject": name, **({"persona": Persona.SUBCONSCIOUS.value} if shown.both else {})}
        ),
        line=timeline_of(found, holding, moment, now),
        moment=moment,
        step=1000 if step is None else step,
        holding=[fact for fact in found if fact.pk in holding],
        more=facts.count() - len(found),
        things=[_thing(thing, found, may_change) for thing in things],
        may_erase=shown.by.may("memory.erase_memory"),
    )
    return render(request, "memory/subject.html", context)


@require_POST
def agent_subject_change(request: HttpRequest, slug: str, pk: UUID, change: str) -> HttpResponse:
    """One change of a subject, through the service of the same name; a refusal says why, and changes nothing."""
    shown = persona_scope(request, slug, CHANGE)
    if change not in CHANGES:
        raise NotFound(f"A subject has no change {change[:60]!r}; there are {', '.join(CHANGES)}.")
    subject: Subject = shown.row(shown.memory.rows(Subject).select_related("agent"), pk, "subject")
    try:
        done, thing = CHANGES[change](shown, subject, request.POST)
    except DomainError as error:
        messages.error(request, error.detail)
        return redirect(_address(shown, subject))
    messages.success(request, done)
    return redirect(_address(shown, thing))


Done = tuple[str, Subject]
"""What is said of a change, and the subject whose page shows it."""


def _merge(shown: PersonaScope, subject: Subject, given: QueryDict) -> Done:
    name = given.get("into", "").strip()
    known = alias_find(agent=shown.agent, persona=subject.persona, spelling=name) if name else None
    if known is None:
        raise NotFound(f"There is no subject called “{name[:80]}” in this memory.")
    into = Subject.objects.select_related("agent").get(agent=shown.agent, pk=known.subject_id)
    change = subject_merge(subject=subject, into=into, by=shown.by, reason=given.get("reason", ""))
    return f"{change.summary} It can be undone below.", change.subject


def _split(shown: PersonaScope, subject: Subject, given: QueryDict) -> Done:
    change = subject_split(
        subject=subject,
        by=shown.by,
        aliases=uuids_of(given.getlist("alias")),
        facts=uuids_of(given.getlist("fact")),
        name=given.get("name", ""),
        reason=given.get("reason", ""),
    )
    return f"{change.summary} It can be undone below.", subject


def _edit(shown: PersonaScope, subject: Subject, given: QueryDict) -> Done:
    edited = subject_edit(
        subject=subject,
        by=shown.by,
        name=given.get("name", subject.name),
        kind=given.get("kind", subject.kind),
        is_user="is_user" in given,
        reason=given.get("reason", ""),
    )
    return "The subject was saved.", edited


def _alias(shown: PersonaScope, subject: Subject, given: QueryDict) -> Done:
    alias = subject_alias_add(subject=subject, spelling=given.get("spelling", ""), by=shown.by)
    return f"“{alias.spelling}” is now a name of “{subject.name}”.", subject


def _undo(shown: PersonaScope, subject: Subject, given: QueryDict) -> Done:
    keys = uuids_of([given.get("change", "")])
    changes = SubjectChange.objects.filter(agent=shown.agent, subject=subject)
    change: SubjectChange = shown.row(changes, keys[0] if keys else None, "change")
    subject_change_undo(change=change, by=shown.by)
    return f"Undone: {change.summary}", subject


CHANGES: Mapping[str, Callable[[PersonaScope, Subject, QueryDict], Done]] = {
    "merge": _merge,
    "split": _split,
    "edit": _edit,
    "alias": _alias,
    "undo": _undo,
}


def _things(shown: PersonaScope, spelling: str) -> list[Subject]:
    """What a spelling means in each memory that is shown; what was merged is shown by what took it up."""
    things = []
    for persona in shown.memory.personas:
        known = alias_find(agent=shown.agent, persona=persona, spelling=spelling)
        if known is not None:
            row = Subject.objects.prefetch_related("aliases").get(agent=shown.agent, pk=known.subject_id)
            things.append(row)
    return things


def _thing(subject: Subject, facts: list[Fact], may_change: bool) -> dict[str, Any]:
    """A subject for the panel of its names."""
    aliases = list(subject.aliases.all())
    own = {alias.pk for alias in aliases}
    changes = SubjectChange.objects.filter(agent=subject.agent_id, subject=subject).select_related("other")
    return {
        "subject": subject,
        "aliases": aliases,
        "kinds": Subject.Kind.choices,
        "may_change": may_change,
        "user": _other_user(subject) if may_change else None,
        "facts": [fact for fact in facts if fact.subject_alias_id in own] if may_change else [],
        "alike": candidates_of(subject, subject.name) if may_change else [],
        "changes": [
            (change, change.undone_at is None and change.action in SubjectChange.UNDOABLE)
            for change in changes[:CHANGES_SHOWN]
        ],
    }


def _other_user(subject: Subject) -> Subject | None:
    """Who would be the user no more if `subject` were."""
    users = Subject.objects.filter(agent=subject.agent_id, persona=subject.persona, is_user=True)
    return users.exclude(pk=subject.pk).first()


def _address(shown: PersonaScope, subject: Subject) -> str:
    return reverse("agent_subject_thing", args=[shown.agent.slug, subject.pk]) + shown.suffix


def _step(raw: str) -> int | None:
    return int(raw) if raw.isascii() and raw.isdigit() and int(raw[:6]) <= 1000 and len(raw) <= 4 else None
