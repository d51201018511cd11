"""Subjects of an agent's facts: the list, one subject through time with its names, and people's changes of it."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Cast
from django.forms import modelform_factory
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from rapidfuzz.distance import JaroWinkler

from context.feedback.health_score import USES_READ
from context.models import RECENT, VIEW_RUN, MemoryUsage
from identity.models import Persona
from memory.models import Fact, FactChange, ItemType, MemoryReview, Subject, SubjectAlias, SubjectChange
from memory.selectors import subjects_shown
from memory.selectors.filters import SubjectFilter
from memory.services.reviews.resolve import subjects_tell_apart
from memory.services.reviews.states import REVIEW
from memory.services.subjects.changes import (
    subject_alias_add,
    subject_change_undo,
    subject_create,
    subject_edit,
    subject_merge,
    subject_split,
)
from memory.services.subjects.registry import (
    CHANGE,
    VIEW,
    alias_find,
    similar_subjects,
    subject_pair_review_key,
)
from nousweb.console.common import POST, Column, ListExport, Title, act, uuids_of
from nousweb.console.common.subject_comparison import subjects_compare
from nousweb.console.inbox.item_titles import either_words
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    base_context,
    memory_list,
    memory_page,
)
from nousweb.console.memory.timeline import timeline_of
from nousweb.console.memory.views.facts import OPEN_CONTRADICTION, open_contradictions, prompts_with
from nousweb.console.templatetags.parts import link
from nousweb.lib import clock
from nousweb.lib.errors import DomainError, NotFound, existing

MAX_OF_A_SUBJECT = 200
CHANGES_SHOWN = 50
NAMES_SHOWN = 4
SubjectForm = modelform_factory(
    Subject, fields=("name", "kind", "is_user"), labels={"is_user": "This is the user of the agent"}
)
ALIKE = 0.92
"""Least similarity (Jaro-Winkler) of two names of things for the question whether they are the same."""
LEAST_ALIKE = 6
"""Least number of characters of such names."""
PAIRS_COMPARED = 3
"""Of so many pairs the facts are read, to find one that shares more than alike names."""


def other_names(subject: Subject) -> list[str]:
    """The first spellings of a subject beside its name."""
    return [alias.spelling for alias in subject.aliases.all() if alias.spelling != subject.name][:NAMES_SHOWN]


def _newest(column: str) -> Subquery:
    """A column of the fact about a subject that was learned last, of those that hold."""
    of_it = {"agent": OuterRef("agent"), "persona": OuterRef("persona"), "subject_alias__subject": OuterRef("pk")}
    return Subquery(Fact.objects.current().filter(**of_it).order_by("-recorded_at", "-id").values(column)[:1])


def _alike(one: Subject, other: Subject) -> bool:
    """Whether two names are so alike that people are asked if they mean the same: people's are told apart by less."""
    if one.persona != other.persona or Subject.Kind.PERSON in (one.kind, other.kind):
        return False
    names = [one.name.casefold(), other.name.casefold()]
    digits = ["".join(filter(str.isdigit, name)) for name in names]
    long_enough = min(map(len, names)) >= LEAST_ALIKE and digits[0] == digits[1]
    return long_enough and JaroWinkler.similarity(*names, score_cutoff=ALIKE) > 0


def _listed(scope: PersonaScope) -> QuerySet[Subject]:
    """The subjects, with whether an open review says that facts about them contradict each other."""
    reviews = scope.memory.reviews.filter(OPEN_CONTRADICTION, agent=OuterRef("agent"))
    sides = [Exists(reviews.filter(**{f"{side}__subject_alias__subject": OuterRef("pk")})) for side in ("old", "new")]
    contradicted = sides[0] | sides[1] if scope.by.may("memory.view_memoryreview") else Value(False)
    return subjects_shown(scope.memory).annotate(newest_at=_newest("recorded_at"), is_contradicted=contradicted)


def _tell(scope: PersonaScope, subjects: list[Any]) -> None:
    """Give each subject what is `told` of it: its newest fact, or what its facts claim of which one is wrong, with the
    way to say which; and of how many answered prompts of the last days it was a part. At most three queries."""
    facts = Fact.objects.filter(agent=scope.agent, subject_alias__subject__in=subjects)
    uses = MemoryUsage.objects.filter(agent=scope.agent, persona__in=scope.memory.personas, item_type=ItemType.FACT)
    uses = uses.filter(at__gte=clock.now() - RECENT, item_id__in=facts.values(key=Cast("pk", TextField())))
    shown = set(uses.order_by("-at").values_list("item_id", "run")[:USES_READ]) if scope.by.may(VIEW_RUN) else set()
    about = facts.filter(pk__in={fact for fact, _ in shown}).values_list("pk", "subject_alias__subject")
    subject_of = {str(fact): subject for fact, subject in about}
    prompts = Counter(subject for subject, _ in {(subject_of.get(fact), run) for fact, run in shown})
    keys = [subject.pk for subject in subjects if subject.is_contradicted]
    contradicted = facts.filter(subject_alias__subject__in=keys)
    columns = "pk", "old__subject_alias__subject", "new__subject_alias__subject", "old__content", "new__content"
    pairs = list(open_contradictions(scope, contradicted.values("pk")).values_list(*columns)) if keys else []
    for subject in subjects:
        claims = (
            format_html("{} {}", either_words(old, new), link("Resolve", "memory_review_detail", pk, look="sm"))
            for pk, *sides, old, new in pairs
            if subject.pk in sides
        )
        subject.told = next(claims, subject.newest_fact)
        subject.shown = prompts[subject.pk]


def _suggested_merge(scope: PersonaScope, subjects: list[Any]) -> dict[str, Any] | None:
    """The first two subjects of a list whose names are alike and that share something else, of which nobody has said
    that they differ: the one to be merged, which has fewer facts or else the shorter name, `into` the other, and their
    `comparison`."""
    if not (scope.by.may(CHANGE) and scope.by.may(REVIEW)):
        return None
    pairs = {
        subject_pair_review_key(one.pk, other.pk): (one, other)
        for one, other in combinations(subjects, 2)
        if _alike(one, other)
    }
    reviews = MemoryReview.objects.filter(agent=scope.agent, about__in=pairs, status=MemoryReview.Status.RESOLVED)
    decided = set(reviews.values_list("about", flat=True)) if pairs else set()
    for pair in [pair for about, pair in pairs.items() if about not in decided][:PAIRS_COMPARED]:
        subject, into = sorted(pair, key=lambda each: (each.facts, len(each.name)))
        if (comparison := subjects_compare([subject, into])).shared:
            return {"subject": subject, "into": into, "comparison": comparison}
    return None


agent_subjects = memory_list(
    MemoryList(
        title="Subjects",
        noun="subject",
        about="Who and what facts are about. Facts are compared with others about the same subject.",
        empty="A subject is created by the first fact that names it.",
        template="memory/subjects.html",
        numbered=True,
        model=Subject,
        filter=SubjectFilter,
        permission=VIEW,
        tells_past=False,
        select=_listed,
        more=lambda request, scope, rows: {
            "may_change": scope.by.may(CHANGE),
            "new": SubjectForm(auto_id="new-%s"),
            "suggested": _suggested_merge(scope, rows),
        },
        export=ListExport(
            "Subjects",
            (
                "id",
                "persona",
                "name",
                "kind",
                "is_user",
                ("names", lambda subject: [alias.spelling for alias in subject.aliases.all()]),
                "facts",
                "created_at",
            ),
        ),
        narrow=lambda rows: rows.annotate(newest_fact=_newest("content")),
        tell=_tell,
        row=Title(
            "name",
            lambda subject: [
                *[("tag", name) for name in other_names(subject)],
                *[("neutral", "the user")] * subject.is_user,
                *[("warn", "contradicted")] * subject.is_contradicted,
            ],
            sort=("name",),
        ),
        columns=(
            Column("Latest fact", "told"),
            Column("Kind", look="memory/_subject_kind.html"),
            Column("Facts", "facts", "count", sort=("facts",)),
            Column(
                f"Answered prompts, {RECENT.days} days", "shown", "count", is_usual=lambda subject: not subject.shown
            ),
            Column("Changed", "newest_at", "time", is_last=True, sort=("newest", "oldest")),
        ),
    )
)
"""The subjects of the actor's facts; with the permission, also those of the subconscious."""


@memory_page(CHANGE, methods=POST)
def agent_subject_add(request: HttpRequest, scope: PersonaScope) -> HttpResponse:
    """Enter a subject before any fact names it."""
    name, kind = request.POST.get("name", ""), request.POST.get("kind", "other")
    return act(
        request,
        lambda: subject_create(agent=scope.agent, name=name, kind=kind, by=scope.by),
        reverse("agent_subjects", args=[scope.agent.slug]) + scope.suffix,
        lambda subject: f"The subject “{subject.name}” was added.",
        then=lambda subject: _address(scope, subject),
        refusals=(DomainError,),
    )


@memory_page(VIEW, past=True)
def agent_subject(request: HttpRequest, scope: PersonaScope, subject: str) -> HttpResponse:
    """All facts ever believed about the subjects of a name, in each shown memory."""
    return _page(request, scope, _things(scope, subject))


@memory_page(VIEW, of=Subject, past=True)
def agent_subject_thing(request: HttpRequest, scope: PersonaScope, thing: Subject) -> HttpResponse:
    """The same for one subject, whatever its name; a merged subject is shown by the one that it was merged into."""
    if thing.merged_into_id is not None:
        return redirect(reverse("agent_subject_thing", args=[scope.agent.slug, thing.merged_into_id]) + scope.suffix)
    return _page(request, scope, [thing])


def _page(request: HttpRequest, scope: PersonaScope, things: list[Subject]) -> HttpResponse:
    """All facts ever believed about these subjects, those that held at a moment, their names, and their changes."""
    now = clock.now()
    spelled = SubjectAlias.objects.filter(agent=scope.agent, subject__in=[thing.pk for thing in things])
    known = scope.memory.facts.filter(subject_alias__in=spelled, recorded_at__lte=now)
    facts = known.order_by("recorded_at", "id")
    stored = list(facts.select_related("subject_alias")[:MAX_OF_A_SUBJECT])
    # No view of the past has what was marked as wrong since.
    wrong = {fact.pk for fact in stored if fact.invalidated_at}
    found = scope.as_then(stored)
    if not things or (scope.past and not found):
        raise NotFound("No facts were ever stored about this subject.")
    for fact in found:
        fact.agent = scope.agent
    holding = {fact.pk for fact in found if fact.is_current} - wrong
    changes = FactChange.objects.filter(agent=scope.agent, fact__in=found, at__lte=now)
    moved = changes.filter(action__in=FactChange.VALIDITY_TRANSITIONS)
    pairs: list[Any] = []
    if not scope.past and scope.by.may("memory.view_memoryreview"):
        pairs = list(open_contradictions(scope, found).values_list("old", "new", "pk", "old__content", "new__content"))
    name, may_change = things[0].name, scope.by.may(CHANGE)
    context = base_context(
        request,
        scope,
        subject=name,
        supersessions_query=urlencode(
            {"subject": name, **({"persona": Persona.SUBCONSCIOUS.value} if scope.both else {})}
        ),
        line=timeline_of(
            found,
            moved,
            holding=holding,
            contradicted=[pair[:2] for pair in pairs],
            sent=prompts_with(scope, found),
        ),
        holding=[fact for fact in found if fact.pk in holding],
        more=facts.count() - len(found),
        contradiction=pairs[0][2] if pairs else None,
        claims=either_words(*pairs[0][3:]) if pairs else "",
        things=[_thing(thing, found, may_change) for thing in things],
        may_erase=scope.by.may("memory.erase_memory"),
    )
    return render(request, "memory/subject.html", context)


@memory_page(CHANGE, of=Subject)
def agent_subject_beside(request: HttpRequest, scope: PersonaScope, subject: Subject) -> HttpResponse:
    """For htmx: a subject beside the one that ?into= names, before they are merged."""
    known = alias_find(agent=scope.agent, persona=subject.persona, spelling=request.GET.get("into", "").strip() or "-")
    pair = [subject.pk, known.subject_id] if known and known.subject_id != subject.pk else []
    rows = {row.pk: row for row in Subject.objects.filter(agent=scope.agent, pk__in=pair).prefetch_related("aliases")}
    shown = {"agent": scope.agent, "comparison": subjects_compare([rows[key] for key in pair]), "suffix": scope.suffix}
    return render(request, "memory/_subjects_beside.html", shown)


@memory_page(CHANGE, of=Subject, methods=POST)
def agent_subject_change(request: HttpRequest, scope: PersonaScope, subject: Subject, change: str) -> HttpResponse:
    """One change of a subject, through the service of the same name; a refusal says why, and changes nothing."""
    unknown = f"A subject has no change {change[:60]!r}; there are {', '.join(CHANGES)}."
    service = existing(CHANGES.get(change), unknown)
    query = request.POST.get("query", "")
    subjects = f"{reverse('agent_subjects', args=[scope.agent.slug])}{'?' * bool(query)}{query}"
    return act(
        request,
        lambda: service(scope, subject, request.POST),
        _address(scope, subject),
        lambda done: done[0],
        then=lambda done: subjects if change in OF_THE_LIST else _address(scope, done[1]),
        refusals=(DomainError,),
    )


Done = tuple[str, Subject]
"""The message after a change, and the subject whose page shows it."""


def _named(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Subject:
    """The subject of the same memory that the field `into` names."""
    name = fields.get("into", "").strip()
    known = existing(
        alias_find(agent=scope.agent, persona=subject.persona, spelling=name) if name else None,
        f"There is no subject called “{name[:80]}” in this memory.",
    )
    return Subject.objects.select_related("agent").get(agent=scope.agent, pk=known.subject_id)


def _merge(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    into = _named(scope, subject, fields)
    change = subject_merge(subject=subject, into=into, by=scope.by, reason=fields.get("reason", ""))
    return f"{change.summary} It can be undone below.", change.subject


def _apart(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    other = _named(scope, subject, fields)
    subjects_tell_apart(one=other, other=subject, by=scope.by)
    return f"“{subject.name}” and “{other.name}” stay two subjects.", subject


def _kind(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    edited = subject_edit(subject=subject, by=scope.by, kind=fields.get("kind", ""))
    return f"The kind of “{edited.name}” is now: {edited.get_kind_display().lower()}.", edited


def _split(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    change = subject_split(
        subject=subject,
        by=scope.by,
        aliases=uuids_of(fields.getlist("alias")),
        facts=uuids_of(fields.getlist("fact")),
        name=fields.get("name", ""),
        reason=fields.get("reason", ""),
    )
    return f"{change.summary} It can be undone below.", subject


def _edit(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    edited = subject_edit(
        subject=subject,
        by=scope.by,
        name=fields.get("name", subject.name),
        kind=fields.get("kind", subject.kind),
        is_user="is_user" in fields,
        reason=fields.get("reason", ""),
    )
    return "The subject was saved.", edited


def _alias(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    alias = subject_alias_add(subject=subject, spelling=fields.get("spelling", ""), by=scope.by)
    return f"“{alias.spelling}” is now a name of “{subject.name}”.", subject


def _undo(scope: PersonaScope, subject: Subject, fields: QueryDict) -> Done:
    keys = uuids_of([fields.get("change", "")])
    changes = SubjectChange.objects.filter(agent=scope.agent, subject=subject)
    change: SubjectChange = scope.row(changes, keys[0] if keys else None)
    subject_change_undo(change=change, by=scope.by)
    return f"Undone: {change.summary}", subject


CHANGES: Mapping[str, Callable[[PersonaScope, Subject, QueryDict], Done]] = {
    "merge": _merge,
    "split": _split,
    "edit": _edit,
    "alias": _alias,
    "undo": _undo,
    "apart": _apart,
    "kind": _kind,
}
OF_THE_LIST = ("apart", "kind")
"""Changes that are made in the list, and lead back to it."""


def _things(scope: PersonaScope, spelling: str) -> list[Subject]:
    """The subjects of a spelling in each shown memory; a merged subject is shown by the one that it was merged into."""
    rows = Subject.objects.prefetch_related("aliases").filter(agent=scope.agent)
    found = (alias_find(agent=scope.agent, persona=persona, spelling=spelling) for persona in scope.memory.personas)
    return [rows.get(pk=known.subject_id) for known in found if known]


def _thing(subject: Subject, facts: list[Fact], may_change: bool) -> dict[str, Any]:
    """A subject for the panel of its names."""
    aliases = list(subject.aliases.all())
    own = {alias.pk for alias in aliases}
    users = Subject.objects.filter(agent=subject.agent_id, persona=subject.persona, is_user=True)
    changes = SubjectChange.objects.filter(agent=subject.agent_id, subject=subject, at__lte=clock.now())
    return {
        "subject": subject,
        "aliases": aliases,
        "form": SubjectForm(instance=subject, auto_id=f"%s-{subject.pk}"),
        "has_kind": subject.kind != Subject.Kind.OTHER,
        "may_change": may_change,
        # The one that would no longer be the user if this were.
        "user": users.exclude(pk=subject.pk).first() if may_change else None,
        "facts": [fact for fact in facts if fact.subject_alias_id in own] if may_change else [],
        "alike": similar_subjects(subject, subject.name) if may_change else [],
        "changes": [
            (change, change.undone_at is None and change.action in SubjectChange.UNDOABLE)
            for change in changes.select_related("other")[:CHANGES_SHOWN]
        ],
    }


def _address(scope: PersonaScope, subject: Subject) -> str:
    return reverse("agent_subject_thing", args=[scope.agent.slug, subject.pk]) + scope.suffix
