"""Where a memory or a text of an identity comes from: who wrote it, who approved it, and which prompts had it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode, urljoin
from uuid import UUID

from django.db.models import Count, Q, Subquery, Window
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from context.expectations.policy import VIEW as VIEW_EXPECTATION
from context.expectations.services import expectations_of
from context.feedback.content_words import content_words
from context.models import VIEW_RUN, ContextRun
from context.selectors import memory_uses, runs_with_memory
from identity.models import AuditEvent, ChangeProposal, IdentityVersion
from identity.policy.changes import audit_phrase
from identity.principal import Principal
from memory.models import Fact, FactChange, ItemType, MemoryReview
from memory.selectors import visible_reviews
from memory.services.reviews.states import OPENED
from nousweb.lib import clock
from nousweb.lib.visible_text import visible_plain
from nousweb.lib.word_overlap import words_of

HIDDEN = frozenset({"active", "retired_at", "superseded_by", "quarantined", "last_confirmed_at", "source_changed_at"})
"""Fields that the action itself tells of."""
MAX_CHARACTERS_READ = 20_000
MAX_SAID = 300
_SENTENCE = re.compile(r"[^\s.!?](?:[^.!?\n]|[.!?](?=\S))*[.!?]*")


def _moment(value: str) -> str:
    return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M} UTC"


def _span(word: str, without: str) -> Callable[[Any], str]:
    return lambda value: f"{word} {_moment(value)}" if value else without


def _named(name: str) -> Callable[[Any], str]:
    def words(value: Any) -> str:
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str("" if value is None else value)
        return f"with {name} “{shown}”" if shown else f"without {name}"

    return words


COUNTED = {0: "never confirmed", 1: "confirmed once"}
WORDS: dict[str, Callable[[Any], str]] = {
    "endorsed": lambda value: "verified by people" if value else "not verified by people",
    "invalidated_at": lambda value: f"marked as wrong on {_moment(value)}" if value else "not marked as wrong",
    "valid_from": _span("valid from", "valid from an unknown time"),
    "valid_until": _span("valid until", "valid without an end"),
    "source_ref": lambda value: "read earlier or elsewhere" if value else "without a source to read again",
    "expires_at": _span("expiring", "not expiring"),
    "confirmation_count": lambda value: COUNTED.get(value, f"confirmed {value} times"),
}


def change_sentence(change: FactChange) -> str:
    """What the fact was before the change; "" if the action itself says it."""
    fields = {name: value for name, value in change.before.items() if name not in HIDDEN}
    # A retirement shows the end of validity only where there was one.
    if change.action in FactChange.VALIDITY_TRANSITIONS:
        fields = {name: value for name, value in fields.items() if value is not None}
    words = [WORDS.get(name, _named(name.replace("_", " ")))(value) for name, value in fields.items()]
    return f"Before, it was {_listed(words)}." if words else ""


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


VIEW_AUDIT, VIEW_REVIEW = "identity.view_auditevent", "memory.view_memoryreview"
NO_ORIGIN = ("censor.trigger", "demo_tour.look", "events.record")
"""Actions on a memory that say nothing of where it comes from."""
CHANGE_WORDS = {
    FactChange.Action.STORED: ("stored it", ""),
    FactChange.Action.CONFIRMED: ("confirmed it", "with"),
    FactChange.Action.SUPERSEDED: ("replaced it", "by"),
    FactChange.Action.INVALIDATED: ("marked it as wrong", ""),
    FactChange.Action.RESTORED: ("restored it", "beside"),
    FactChange.Action.MERGED: ("merged it", "with"),
    FactChange.Action.QUARANTINED: ("quarantined it", ""),
}
"""What each action did to a fact, and the word before the other fact that takes part."""
EDIT_WORDS = (
    ({"category"}, "recategorised it"),
    ({"confirmation_count"}, "took back a confirmation of it"),
    ({"invalidated_at"}, "took back that it is wrong"),
    ({"expires_at", "valid_until"}, "changed its end"),
    ({"source", "source_ref", "source_locator", "source_changed_at"}, "read it again in its source"),
)
"""What an edit did, by the fields that it changed; the first that fits."""
STEPS_SHOWN = 30
RUNS_SHOWN = 5
ACCOUNT_CHARACTERS = 600
"""Characters of the text itself in an account for a ticket."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that somebody did to it: "reviewer approved it", with the reason; `url` leads to its record. `note` is
    what it was before, `other` another memory that takes part."""

    at: datetime
    who: str
    kind: str
    did: str
    reason: str = ""
    url: str = ""
    note: str = ""
    other: "Link | None" = None

    @property
    def is_person(self) -> bool:
        return self.kind == "person"


@dataclass(frozen=True, slots=True)
class Link:
    """A page that belongs to it: an open review, an expectation, its source."""

    label: str
    url: str
    kind: str = "See"


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that had it: their number, the number of answers that refer to it, the last ones, and their list."""

    total: int
    referred: int
    latest: tuple[ContextRun, ...]
    url: str


APPROVALS = ("approved ", "edited and approved ", "confirmed ", "verified ", "restored ")
"""How the words of such a step begin."""
STEPS_AT_AN_END = 3
"""Of many steps, the first and the last so many are not folded."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of one text. `steps` are in the order of time, `prompts` is None for a reader who may not see them.
    `words` says where the words of a memory come from."""

    name: str
    text: str
    steps: tuple[Step, ...]
    links: tuple[Link, ...] = ()
    prompts: Prompts | None = None
    whole: bool = True
    words: str = ""

    @property
    def first(self) -> tuple[Step, ...]:
        """The steps that a page shows before those that it folds; all of few."""
        return self.steps[:STEPS_AT_AN_END] if self.folded else self.steps

    @property
    def folded(self) -> tuple[Step, ...]:
        return self.steps[STEPS_AT_AN_END:-STEPS_AT_AN_END] if len(self.steps) > 3 * STEPS_AT_AN_END else ()

    @property
    def last(self) -> tuple[Step, ...]:
        return self.steps[-STEPS_AT_AN_END:]

    @property
    def approved(self) -> Step | None:
        """The last step by which a person other than its writer let it hold."""
        writer = self.writer.who if self.writer and self.writer.is_person else None
        others = (step for step in reversed(self.steps[1:]) if step.is_person and step.who != writer)
        return next((step for step in others if step.did.startswith(APPROVALS)), None)

    @property
    def writer(self) -> Step | None:
        """Its first step; None where that is not recorded, or is only in the audit trail."""
        return self.steps[0] if self.steps and self.whole else None

    @property
    def approval(self) -> str:
        """Who approved it, as a sentence."""
        if self.approved:
            return f"{self.approved.who.capitalize()} {self.approved.did} on {self.approved.at:%Y-%m-%d at %H:%M} UTC."
        if self.writer and self.writer.is_person:
            if any(step.did.startswith(APPROVALS[:2]) for step in self.steps[1:] if step.who == self.writer.who):
                return f"Written and approved by {self.writer.who}."
            return f"Written by {self.writer.who}. A person's own change needs no approval."
        if last := next((step for step in reversed(self.steps) if step.is_person), None):
            return f"{last.who.capitalize()} {last.did} on {last.at:%Y-%m-%d at %H:%M} UTC."
        return "No person has approved it." if self.steps else "No record says who wrote it."

    def account(self, link: str) -> str:
        """A plain text for a ticket: what it says, who did what and why, and the prompts that had it."""
        # Each text stands on one line, so that none can forge a line of its own.
        lines = [f"{self.name}: {self.text[:ACCOUNT_CHARACTERS]}{'…' if len(self.text) > ACCOUNT_CHARACTERS else ''}"]
        lines += [self.words] if self.words else []
        for step in self.steps:
            other = f" “{step.other.label}”" if step.other else ""
            reason = f": {step.reason}" if step.reason else ""
            lines.append(f"- {step.at:%Y-%m-%d %H:%M:%S} UTC {step.who} ({step.kind}) {step.did}{other}{reason}")
        if not self.steps:
            lines.append("- Nothing is recorded of where it comes from.")
        if self.prompts:
            lines.append(f"In {self.prompts.total} prompts; {self.prompts.referred} answers refer to it.")
            lines += [f"- {run.created_at:%Y-%m-%d %H:%M:%S} UTC, run {run.pk}" for run in self.prompts.latest]
        lines += [f"{one.kind}, {one.label.lower()}: {urljoin(link, one.url)}" for one in self.links]
        return "".join(f"{visible_plain(' '.join(line.split()))}\n" for line in [*lines, link])


@dataclass(frozen=True, slots=True)
class Share:
    """What a page gives to share: its own address, its account for a ticket, and the address of that as a file."""

    link: str
    account: str
    text_url: str


def share_of(request: HttpRequest, origin: Provenance) -> Share:
    """The links and the account of a page, with the moment and the persona that it shows."""
    query = request.GET.copy()
    for name in ("format", "back"):
        query.pop(name, None)
    link = request.build_absolute_uri(f"{request.path}{'?' if query else ''}{query.urlencode()}")
    query["format"] = "text"
    return Share(link, origin.account(link), f"?{query.urlencode()}")


def account_file(request: HttpRequest, origin: Provenance) -> HttpResponse:
    """The account of a page as plain text."""
    return HttpResponse(share_of(request, origin).account, content_type="text/plain; charset=utf-8")


def memory_provenance(memory: Any, by: Principal) -> Provenance:
    """The origin of a memory that `by` may see: the records of it, reviews and expectations about it, its prompts.

    At most eight queries, whatever its history.
    """
    noun, now = memory._meta.model_name, clock.now()
    if noun == "fact":
        steps = list(_changes(memory, now)) if by.may("memory.view_factchange") else []
    else:
        steps = list(_recorded(noun, memory.pk, by, now)) if by.may(VIEW_AUDIT) else []
        if noun == "event":
            # Many events are recorded at once: the audit trail has what people did to one, not who wrote each.
            steps.insert(0, Step(memory.recorded_at, str(memory.agent.name), "agent", "has it in its log"))
    run = source_run(memory, by) if noun == "fact" else None
    links = [Link(run.beginning or "A prompt", run.get_absolute_url(), "Prompt")] if run else []
    if by.may(VIEW_REVIEW) and noun in ("fact", "censor"):
        about = Q(censor=memory.pk) if noun == "censor" else Q(old=memory.pk) | Q(new=memory.pk)
        found = visible_reviews(by).filter(about, agent=memory.agent_id, created_at__lte=now)
        # Who comes to a blind sample from here has read what was decided.
        reviews = found.exclude(status=MemoryReview.Status.PENDING, details__has_key="blind")[:STEPS_SHOWN]
        openers = _openers([review for review in reviews if review.status == MemoryReview.Status.PENDING], by)
        for review in reviews:
            if review.status == MemoryReview.Status.PENDING:
                links.append(Link(review.get_kind_display(), review.get_absolute_url(), "Open review"))
                did = f"opened a review of it: {review.get_kind_display().lower()}"
                who, kind = openers.get(str(review.pk), ("Nous", "system"))
                steps.append(Step(review.created_at, who, kind, did, url=review.get_absolute_url()))
            elif review.resolved_at and review.resolver_name:
                did = f"resolved a review of it: {(review.get_resolution_display() or 'closed').lower()}"
                kind = "person" if review.status == MemoryReview.Status.RESOLVED else "system"
                steps.append(Step(review.resolved_at, review.resolver_name, kind, did, url=review.get_absolute_url()))
    if by.may(VIEW_EXPECTATION):
        about_it = expectations_of(memory.agent, by).active().filter(item_type=noun, item_id=str(memory.pk))
        links += [
            Link(one.get_requirement_display(), one.get_absolute_url(), "Expectation")
            for one in about_it.select_related("agent")[:RUNS_SHOWN]
        ]
    steps.sort(key=lambda step: step.at)
    return Provenance(
        str(memory._meta.verbose_name).capitalize(),
        str(memory),
        tuple(steps[-STEPS_SHOWN:]),
        tuple(links),
        _prompts(memory, noun, by),
        whole=len(steps) <= STEPS_SHOWN,
        words=memory.origin_words,
    )


def _changes(fact: Fact, until: datetime) -> Iterable[Step]:
    """The changes of a fact in their order, the latest STEPS_SHOWN and one more; beside the one that set when it is
    true, these days, where they are others than that of the change."""
    latest = fact.changes.filter(at__lte=until).select_related("other").order_by("-id")[: STEPS_SHOWN + 1]
    dated = {
        name: change.pk
        for change in reversed(latest)
        for name in ("valid_from", "valid_until")
        if name in change.before or change.action == FactChange.Action.STORED
    }
    for change in reversed(latest):
        true = [
            f"True {name.removeprefix('valid_')} {day:%Y-%m-%d}."
            for name, key in dated.items()
            if key == change.pk and (day := getattr(fact, name)) and day.date() != change.at.date()
        ]
        did, is_told = change_words(change)
        other = None
        if change.other:
            change.other.agent = fact.agent
            other = Link(change.other.content, change.other.get_absolute_url())
        score = f"Score {change.score:.3f}." if change.score is not None else ""
        yield Step(
            change.at,
            change.author_name,
            change.get_author_kind_display().lower(),
            did,
            change.reason,
            note=" ".join(filter(None, [score, "" if is_told else change_sentence(change), *true])),
            other=other,
        )


def change_words(change: FactChange) -> tuple[str, bool]:
    """What a change did to its fact, and whether that tells all of it, so that the values before say nothing more."""
    if change.action != FactChange.Action.EDITED:
        did, joint = CHANGE_WORDS[FactChange.Action(change.action)]
        return f"{did} {joint if change.other_id else ''}".strip(), False
    if change.other_id:
        # The moment from which it replaced the other was set, or removed as the other holds again.
        return ("let it hold beside" if change.before.get("valid_from") else "put it in the place of"), True
    if set(change.before) == {"endorsed"}:
        return ("took back its verification" if change.before["endorsed"] else "verified it"), True
    return next((words for names, words in EDIT_WORDS if names & change.before.keys()), "edited it"), False


def _recorded(noun: str, key: object, by: Principal, until: datetime) -> Iterable[Step]:
    """What the audit trail says of an object, the latest STEPS_SHOWN and one more."""
    records = AuditEvent.objects.visible_to(by).filter(object_type=noun, object_id=str(key))
    records = records.filter(at__lte=until).exclude(action__in=NO_ORIGIN).defer("before", "after")
    for record in reversed(records.order_by("-id")[: STEPS_SHOWN + 1]):
        did = audit_phrase(record.action).removesuffix(f" the {noun}")
        yield Step(
            record.at,
            record.author_name,
            record.get_author_kind_display().lower(),
            "released it from quarantine" if record.action == "memory.release" else f"{did} it",
            record.message,
            record.get_absolute_url(),
        )


def _openers(reviews: Sequence[MemoryReview], by: Principal) -> dict[str, tuple[str, str]]:
    """Who opened these reviews of one agent, and as what, as the audit trail names them; nothing where `by` may not see
    it."""
    if not reviews or not by.may(VIEW_AUDIT):
        return {}
    keys = [str(review.pk) for review in reviews]
    records = AuditEvent.objects.visible_to(by).filter(
        agent=reviews[0].agent_id, object_type="memoryreview", object_id__in=keys, action=OPENED
    )
    return {one.object_id: (one.author_name, one.get_author_kind_display().lower()) for one in records}


def _prompts(memory: Any, noun: str, by: Principal) -> Prompts | None:
    # What is no memory, such as a censor, has no uses that are counted.
    if not by.may(VIEW_RUN) or noun not in ItemType.values:
        return None
    runs = runs_with_memory(memory.agent, noun, str(memory.pk), by).filter(created_at__lte=clock.now())
    uses = memory_uses(memory.agent, noun, [str(memory.pk)], by)
    url = f"{reverse('agent_context_runs', args=[memory.agent.slug])}?{urlencode({'memory': f'{noun}:{memory.pk}'})}"
    referred = uses.filter(referenced=True).order_by().values("item_id").annotate(number=Count("pk")).values("number")
    latest: Any = _latest(runs.annotate(total=Window(Count("pk")), referred=Subquery(referred)))
    total, referrals = (latest[0].total, latest[0].referred or 0) if latest else (0, 0)
    return Prompts(total, referrals, latest, url)


def evidence_quote(text: str, about: str, *, shared: int = 1, around: int = 160) -> dict[str, str] | None:
    """The sentence of a text that shares most words with what it is evidence for (`said`, up to MAX_SAID characters),
    and so many characters `before` and `after` it; None if no sentence shares that many words, or all that there
    are."""
    # What has no words of content is compared by all of its words.
    read = _content_of if _content_of(about) else words_of
    words, sentences = read(about), [(one, read(one[0])) for one in _SENTENCE.finditer(text[:MAX_CHARACTERS_READ])]
    found = [
        (number, one)
        for one, own in sentences
        if (number := len(words & own)) >= max(1, min(shared, len(words), len(own)))
    ]
    best = max(found, key=itemgetter(0), default=(0, None))[1]
    if best is None:
        return None
    start, end = max(best.start() - around, 0), best.end() + around
    return {
        "before": f"…{text[start : best.start()].partition(' ')[2]}" if start else text[: best.start()],
        "said": best[0] if len(best[0]) <= MAX_SAID else f"{best[0][: MAX_SAID - 1]}…",
        "after": text[best.end() : end] + ("…" if end < len(text) else "") if len(best[0]) <= MAX_SAID else "",
    }


def _content_of(text: str) -> frozenset[str]:
    return frozenset(word.text for word in content_words(text))


def source_run(fact: Fact, by: Principal) -> Any:
    """The last prompt of the session in which a fact was learned before it was stored, with the `beginning` of its
    input; None without one, or for those who may not see prompts."""
    if fact.source_event is None or not by.may(VIEW_RUN):
        return None
    runs = ContextRun.objects.visible_to(by).filter(agent=fact.agent_id, session_id=fact.source_event.loop_id)
    for run in _latest(runs.filter(created_at__lte=fact.recorded_at))[:1]:
        run.agent = fact.agent
        return run
    return None


def _latest(runs: Any) -> tuple[ContextRun, ...]:
    shown = runs.only("id", "agent_id", "created_at", "outcome").annotate(beginning=Left("input", 160))
    return tuple(shown.order_by("-created_at")[:RUNS_SHOWN])


def version_provenance(version: IdentityVersion, by: Principal) -> Provenance:
    """The origin of one version of a section: its proposal and the decision about it, and the prompts of its time."""
    steps = []
    for proposal in ChangeProposal.objects.visible_to(by).filter(agent=version.agent_id, version=version):
        kind = proposal.get_author_kind_display().lower()
        url = proposal.get_absolute_url()
        steps.append(Step(proposal.created_at, proposal.author_name, kind, "proposed it", proposal.reason, url))
        if proposal.decided_at and proposal.reviewer_name:
            did = "approved it" if not proposal.edited else "edited and approved it"
            steps.append(Step(proposal.decided_at, proposal.reviewer_name, "person", did, proposal.comment, url))
    if not steps:
        kind = version.get_author_kind_display().lower()
        did = f"restored version {version.restores.version}" if version.restores else "wrote it"
        steps.append(Step(version.created_at, version.author_name, kind, did, version.reason))
    prompts = None
    if by.may(VIEW_RUN):
        runs = ContextRun.objects.visible_to(by).filter(agent=version.agent_id, created_at__gte=version.created_at)
        later = IdentityVersion.objects.filter(agent=version.agent_id, section=version.section)
        ended = later.filter(version=version.version + 1).values_list("created_at", flat=True).first()
        runs = runs.filter(created_at__lt=ended) if ended else runs
        days = {"since": f"{version.created_at:%Y-%m-%d}", **({"until": f"{ended:%Y-%m-%d}"} if ended else {})}
        url = f"{reverse('agent_context_runs', args=[version.agent.slug])}?{urlencode(days)}"
        prompts = Prompts(runs.count(), 0, _latest(runs), url)
    steps.sort(key=lambda step: step.at)
    return Provenance(str(version), version.content, tuple(steps), (), prompts)


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """A line of the current text of a section, the version that brought it in, and the one since which it stands there
    without a gap."""

    line: str
    version: IdentityVersion
    since: IdentityVersion


VERSIONS_READ = 100


def line_origins(versions: Sequence[IdentityVersion]) -> list[LineOrigin]:
    """The lines of the last of these versions, which are in their order, each with the first version from which on the
    line stood in the text. Of an older beginning the first version counts. A restored line keeps its first version."""
    known: list[LineOrigin] = []
    origins: dict[UUID | None, list[LineOrigin]] = {}
    for version in versions:
        lines = version.content.splitlines()
        new = [LineOrigin(line, version, version) for line in lines]
        for origin, place in _kept(origins.get(version.restores_id, known), lines):
            new[place] = replace(origin, since=version)
        for origin, place in _kept(known, lines):
            new[place] = replace(new[place], since=origin.since)
        known = origins[version.pk] = new
    return known


def _kept(known: Sequence[LineOrigin], lines: Sequence[str]) -> Iterator[tuple[LineOrigin, int]]:
    """The lines of a text that stand in another one too, each with its place there."""
    matcher = SequenceMatcher(None, [origin.line for origin in known], lines, autojunk=False)
    for begin, at, size in matcher.get_matching_blocks():
        yield from zip(known[begin : begin + size], range(at, at + size), strict=True)
