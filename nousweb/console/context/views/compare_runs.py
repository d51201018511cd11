"""Compare two runs, or one run then and now, or with another frame, profile or date, and find the change between."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.core import signing
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from context.engine.analysis.frames import FRAMES
from context.engine.assembly.prompt_section import line_parts
from context.engine.context_record import ContextRecord
from context.history.behaviour_bisect import (
    PROFILE_KIND,
    BehaviourBisect,
    Difference,
    Event,
    context_bisect,
    context_bisect_steps,
)
from context.models import ASSEMBLE, VIEW_RUN, ContextRun
from context.selectors import run_get
from context.services.context import context_replay
from context.what_if.still_said import what_is_still_said
from identity.models import Agent, ChangeProposal
from identity.principal import Principal
from identity.services.change_feed import kinds_of
from memory.models import Fact, FactChange
from memory.persona import persona_memory
from memory.selectors.filters import MomentInput
from memory.types import MEMORY_TYPES
from nousweb.console.common import agent_page, kind_title, layout_of, object_url, refused_on, uuid_of
from nousweb.console.context.forms import profile_choices
from nousweb.console.context.labels import VERDICTS, memory_item_url
from nousweb.console.context.presentation import PromptView, piece_title
from nousweb.console.templatetags.console import when
from nousweb.lib import clock
from nousweb.lib.errors import Invalid, NotFound, existing
from nousweb.lib.textdiff import TextDiff, diff_texts
from nousweb.lib.visible_text import snippet, visible_plain

Key = tuple[str, str]
SAYING = {*MEMORY_TYPES, "loop", "identity"}
"""The types of items of a prompt that state something."""
CHANGES: Mapping[str, tuple[str, str]] = {
    "added": ("added", "added"),
    "removed": ("removed", "removed"),
    "text": ("accent", "text changed"),
    "moved": ("neutral", "moved"),
    "verdict": ("neutral", "left out of both"),
}
"""How items differ, the most telling first: the kind of a badge and its word."""


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The position of an item on one side: in the prompt, among the candidates, or nowhere."""

    section: str = ""
    number: int = 0
    text: str = ""
    tokens: int = 0
    verdict: str = ""

    @property
    def shown(self) -> bool:
        return self.number > 0


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One item that the two sides treat differently."""

    type: str
    id: str
    text: str
    change: str
    a: RunPosition
    b: RunPosition
    url: str

    @property
    def title(self) -> str:
        return piece_title(self.type, self.text)

    @property
    def is_moved(self) -> bool:
        return self.change == "moved"

    @property
    def kind(self) -> str:
        return CHANGES[self.change][0]

    @property
    def word(self) -> str:
        return CHANGES[self.change][1]


@dataclass(frozen=True, slots=True)
class RunComparison:
    diff: TextDiff
    items: tuple[ItemChange, ...]
    same: int
    tokens_change: int

    @property
    def words(self) -> str:
        """The number of items that each way of differing has, as a sentence."""
        words = (("removed", "removed"), ("added", "added"), ("text", "changed"), ("moved", "moved"))
        numbers = Counter(item.change for item in self.items)
        counts = [(numbers[change], word) for change, word in words if numbers[change]]
        if not counts:
            return "Both prompts have the same parts in the same order."
        number, word = counts[0]
        told = [
            f"{number} part{'' if number == 1 else 's'} {word}",
            *(f"{number} {word}" for number, word in counts[1:]),
        ]
        return f"{', '.join(told[:-1])}{' and ' if told[1:] else ''}{told[-1]}; {self.same} the same."


class SaidBy(NamedTuple):
    """A memory of a prompt that says what a fact says; `remedy` is the page that takes it away, "" where none does."""

    type: str
    text: str
    url: str
    remedy: str = ""
    section: str = ""


REMEDIES = {
    "fact": ("agent_fact_change", "invalidate"),
    "document": ("agent_document_erase",),
    "event": ("agent_event_erase",),
}
"""The page that takes a memory out of prompts, by its type: its name and its arguments behind the memory's key."""


@dataclass(frozen=True, slots=True)
class FactOutcome:
    """What became of a changed fact in the later prompt: a sentence, whether it is as the change wants it, and the
    memories of that prompt that say the same or what replaces it."""

    text: str
    url: str
    words: str
    is_right: bool
    others: tuple[SaidBy, ...] = ()
    newer: str = ""

    @property
    def look(self) -> str:
        """The class of the sentence: a fact that is out while others still say it is half a success."""
        return "is-right" if self.is_right else "is-partly" if self.others else "is-wrong"

    @property
    def logged(self) -> bool:
        """Whether the log says it, which nobody can change."""
        return is_logged(self.others)


def is_logged(memories: Iterable[SaidBy]) -> bool:
    """Whether one of these is a part of the log."""
    return any(one.type in ("event", "loop") for one in memories)


def fact_outcome(fact: Fact, slug: str, record: ContextRecord) -> FactOutcome:
    """What became of a fact in a prompt that was assembled after it was changed."""
    shown = {key: one for key, one in _positions(record).items() if one.shown}
    key, newer = ("fact", str(fact.pk)), ("fact", str(fact.superseded_by_id))
    ended = not fact.active or fact.invalidated_at is not None
    said, others = repeats_of(fact, slug, record) if ended else ("", ())
    if key in shown:
        words, right = ("The fact is still in the prompt." if ended else "The prompt has the fact."), not ended
    elif newer in shown:
        words, right = "The prompt has the new fact in its place.", True
        others = (SaidBy("fact", line_parts(shown[newer].text)["text"], memory_item_url(slug, *newer)), *others)
    else:
        words, right = "The fact is no longer in the prompt." if ended else "The prompt does not have the fact.", True
    if said:
        words, right = f"{words.removesuffix('.')}, but {said}.", False
    return FactOutcome(fact.content, memory_item_url(slug, *key), words, right, others, memory_item_url(slug, *newer))


def repeats_of(fact: Fact, slug: str, record: ContextRecord) -> tuple[str, tuple[SaidBy, ...]]:
    """The other memories of a prompt that still say what `fact` says, and their number as the words of a sentence."""
    found: dict[str, list[SaidBy]] = {}
    positions, own = _positions(record), (str(fact.pk), str(fact.superseded_by_id))
    newer = positions.get(("fact", own[1]), RunPosition()).text
    for (kind, key), one in positions.items():
        if not one.shown or kind not in SAYING or key in own:
            continue
        text = line_parts(one.text)["text"]
        said = what_is_still_said(fact.content, fact.subject, text)
        if said and said not in newer:
            page, *arguments = REMEDIES.get(kind, ("",))
            remedy = reverse(page, args=[slug, key, *arguments]) if page and (kind == "event" or uuid_of(key)) else ""
            shown, url = snippet(text, [said]), memory_item_url(slug, kind, key)
            found.setdefault(said, []).append(SaidBy(kind, shown, url, remedy, one.section))
    rows = [one for some in found.values() for one in some]
    words = "the same" if fact.content in found else " and ".join(f"“{said}”" for said in found)
    number = f"{len(rows)} other memories still say" if len(rows) > 1 else "another memory still says"
    return f"{number} {words}" if rows else "", tuple(rows)


def compare_runs(slug: str, a: ContextRecord, b: ContextRecord) -> RunComparison:
    """The differences between two contexts of an agent, from `a` to `b`.

    An item has moved if its order among the items that both show is different.
    """
    positions_a, positions_b = _positions(a), _positions(b)
    both = [
        key for key, position in positions_a.items() if position.shown and positions_b.get(key, RunPosition()).shown
    ]
    order_b = {key: number for number, key in enumerate(sorted(both, key=lambda key: positions_b[key].number))}
    moved = {
        key
        for number, key in enumerate(sorted(both, key=lambda key: positions_a[key].number))
        if order_b[key] != number
    }
    items: list[ItemChange] = []
    same = 0
    for key in dict.fromkeys([*positions_a, *positions_b]):
        one, other = positions_a.get(key, RunPosition()), positions_b.get(key, RunPosition())
        change = _change(one, other, moved=key in moved)
        if not change:
            same += one.shown and other.shown
            continue
        text = other.text or one.text
        items.append(ItemChange(*key, text, change, one, other, memory_item_url(slug, *key)))
    order = list(CHANGES)
    items.sort(key=lambda item: order.index(item.change))
    return RunComparison(diff_texts(a.system_prompt, b.system_prompt), tuple(items), same, b.tokens - a.tokens)


def _change(a: RunPosition, b: RunPosition, *, moved: bool) -> str:
    if a.shown != b.shown:
        return "added" if b.shown else "removed"
    if a.shown and a.text != b.text:
        return "text"
    if a.shown:
        return "moved" if moved else ""
    return "verdict" if a.verdict and b.verdict and a.verdict != b.verdict else ""


def _positions(record: ContextRecord) -> dict[Key, RunPosition]:
    left: dict[Key, RunPosition] = {
        (one["type"], one["id"]): RunPosition(
            text=one["text"], tokens=one["tokens"], verdict=VERDICTS.get(one["verdict"], (one["verdict"], ""))[0]
        )
        for one in record.candidates
    }
    items = [(section["label"], item) for section in record.sections for item in section["items"]]
    shown: dict[Key, RunPosition] = {
        (item["type"], item["id"]): RunPosition(label, number, item.get("text", ""), item.get("tokens", 0))
        for number, (label, item) in enumerate(items, 1)
    }
    return shown | {key: one for key, one in left.items() if key not in shown}


NOW = "now"
RUNS_TO_CHOOSE = 20


class SideForm(forms.Form):
    """A side: a run, or "now" for the other side's request asked now; frame, profile or date make it a replay."""

    run = forms.CharField(label="Prompt", max_length=36)
    frame = forms.ChoiceField(
        required=False, choices=[("", "As it was"), *((key, frame.label) for key, frame in FRAMES.items())]
    )
    profile = forms.ChoiceField(required=False)
    as_of = forms.DateTimeField(required=False, label="As of (UTC)", widget=MomentInput())

    def __init__(self, *args: Any, profiles: list[tuple[str, str]], runs: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        named = self.data.get(self.add_prefix("run"), NOW)
        earlier = [(named, "An earlier prompt")] * all(named != value for value, _ in runs)
        self.fields["run"].widget = forms.Select(choices=[*runs, *earlier])
        self.fields["profile"] = forms.ChoiceField(
            required=False, choices=[("", "As it was"), *profiles], label="Profile"
        )

    def add_prefix(self, field_name: str) -> str:
        # ?a=…&a_frame=… is what a person would type.
        return str(self.prefix) if field_name == "run" else f"{self.prefix}_{field_name}"

    @property
    def changes(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {name: given[name] for name in ("frame", "profile", "as_of") if given[name]}


@agent_page(VIEW_RUN, ASSEMBLE)
def agent_context_compare(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The difference from ?a= to ?b= in the prompts and in the memories behind them. Leaves no trace."""
    profiles = profile_choices()
    asked = bool(request.GET.get("a") or request.GET.get("b"))
    data = {"a": NOW, "b": NOW} | {name: value for name, value in request.GET.items() if value}
    recent = (
        ContextRun.objects.visible_to(by)
        .filter(agent=agent)
        .annotate(beginning=Left("input", 60))
        .order_by("-created_at", "-pk")
        .values_list("pk", "created_at", "beginning")[:RUNS_TO_CHOOSE]
    )
    runs = [(str(pk), f"{when(at)}: {visible_plain(text) or '(empty)'}") for pk, at, text in recent]
    runs.append((NOW, "The other side's request, assembled now"))
    start = {"a": runs[0][0], "b": NOW}
    a_form, b_form = (
        SideForm(data if asked else None, prefix=name, profiles=profiles, runs=runs, initial={"run": start[name]})
        for name in ("a", "b")
    )
    names = ("Before", "Now") if asked and data["b"] == NOW else ("A", "B")
    context: dict[str, Any] = {
        "agent": agent,
        "forms": list(zip(names, (a_form, b_form), strict=True)),
        "names": names,
    }
    if asked and a_form.is_valid() and b_form.is_valid():
        try:
            a, b = _sides(agent, by, a_form, b_form)
        except (Invalid, NotFound) as error:
            context["refusal"] = error.detail
        else:
            comparison = compare_runs(agent.slug, a["shown"].record, b["shown"].record)
            context |= {
                "a": a,
                "b": b,
                "comparison": comparison,
                "layout": layout_of(request, comparison.diff),
                "sides": list(zip(names, (a, b), strict=True)),
                "fact": (fact := _fact(_changed_fact(request, agent, by, a["run"], comparison), agent, b, by)),
                "items": [one for one in comparison.items if not (fact and one.url in (fact.url, fact.newer))],
            }
    status = 422 if context.get("refusal") or (asked and (a_form.errors or b_form.errors)) else 200
    return render(request, "context/compare_runs.html", context, status=status)


def _changed_fact(request: HttpRequest, agent: Agent, by: Principal, run: ContextRun, comparison: RunComparison) -> str:
    """The fact that ?fact= names, none if it is empty, as after a change of another memory; without it, with the next
    prompt, the one of those removed that `by` changed last."""
    if "fact" in request.GET:
        return request.GET["fact"]
    removed = [one.id for one in comparison.items if (one.type, one.change) == ("fact", "removed")]
    gone = [key for one in removed if (key := uuid_of(one))]
    if not gone or request.GET.get("b", NOW) != NOW:
        return ""
    own = FactChange.objects.filter(agent=agent, fact__in=gone, at__gt=run.created_at, author_id=by.id)
    last = own.filter(action__in=FactChange.VALIDITY_TRANSITIONS).order_by("-id").values_list("fact", flat=True).first()
    return str(last or "")


def _fact(asked: str, agent: Agent, side: Mapping[str, Any], by: Principal) -> FactOutcome | None:
    """What became of a fact in the prompt of a side, None where `by` may not see it."""
    if not (key := uuid_of(asked)) or not by.may("memory.view_fact"):
        return None
    record = side["shown"].record
    fact = persona_memory(agent, by, record.persona).facts.filter(pk=key).first()
    return fact_outcome(fact, agent.slug, record) if fact else None


def _sides(agent: Agent, by: Principal, a: SideForm, b: SideForm) -> list[dict[str, Any]]:
    names = [a.cleaned_data["run"].strip(), b.cleaned_data["run"].strip()]
    if names == [NOW, NOW]:
        raise Invalid("One side must be a prompt that was sent.", field="a")
    if names[0] == names[1] and a.changes == b.changes:
        raise Invalid(
            "Both sides are the same. Choose another prompt, frame, profile or date for one of them.", field="b"
        )
    runs = {
        name: run_get(agent, by, existing(uuid_of(name), f"There is no prompt {name[:60]!r}."))
        for name in names
        if name != NOW
    }
    # "Now" asks what the other side asked.
    first, second = names if NOW not in names else 2 * [*runs]
    return [_side(runs[first], by, a, names[0] == NOW), _side(runs[second], by, b, names[1] == NOW)]


def _side(run: ContextRun, by: Principal, form: SideForm, now: bool) -> dict[str, Any]:
    """One side: a prompt as it was sent, or that of the same request now."""
    changes = form.changes
    if not now and not changes:
        record, title = ContextRecord.of_run(run), f"sent {when(run.created_at)}"
    else:
        record = context_replay(run=run, by=by, **changes)
        words = [f"{name} {value}" for name, value in changes.items() if name != "as_of"]
        if "as_of" in changes:
            words.append(f"as of {when(changes['as_of'])}")
        title = ", ".join(["assembled now", *words])
    return {"shown": PromptView(run.agent.slug, record), "title": title, "run": run}


CHANGE_BADGES = {"added": ("added", "came"), "removed": ("removed", "went"), "text": ("accent", "reads differently")}


class SpanForm(forms.Form):
    since = forms.DateTimeField(label="From (UTC)", widget=MomentInput())
    until = forms.DateTimeField(label="To (UTC)", required=False, widget=MomentInput(), help_text="Empty means now.")


STEP_SECONDS = 0.5
"""How long a request tries changes before it shows what came of it."""


@agent_page(VIEW_RUN, ASSEMBLE)
def agent_context_bisect(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """The changes between ?since= and ?until= that made a difference to this run's prompt. Leaves no trace.

    A browser with scripts gets what some time brings and asks for the rest with ?search=, others get all at once.
    """
    run = run_get(agent, by, pk)
    asked = "since" in request.GET
    initial = {"since": run.created_at - timedelta(days=7), "until": None}
    form = SpanForm(request.GET if asked else None, initial=initial)
    context: dict[str, Any] = {"agent": agent, "run": run, "form": form}
    goes_on = "search" in request.GET
    if asked and form.is_valid():
        given = {"run": run, "by": by, "since": form.cleaned_data["since"]}
        until = form.cleaned_data["until"] or clock.now()
        with refused_on(form):
            if request.htmx:  # type: ignore[attr-defined]
                context |= _steps(request, given, until)
            else:
                bisect = context_bisect(**given, until=until)
                shown = [_difference(one, bisect.known_since, agent, by, run.pk) for one in bisect.differences[::-1]]
                context |= {"steps": [{"differences": shown}], "result": _result(bisect, len(shown), agent.slug)}
    template = "context/_behaviour_bisect_steps.html" if goes_on else "context/behaviour_bisect.html"
    return render(request, template, context, status=422 if asked and form.errors else 200)


def _steps(request: HttpRequest, given: dict[str, Any], until: datetime) -> dict[str, Any]:
    """Go on with the search of ?search=, or begin one. Raises Invalid, Conflict."""
    run, by = given["run"], given["by"]
    signer, state = f"bisect {run.pk} {given['since'].isoformat()}", None
    if "search" in request.GET:
        try:
            state = signing.loads(request.GET["search"], salt=signer)
        except signing.BadSignature:
            raise Invalid("This search cannot be gone on with. Find the changes again.") from None
        until = datetime.fromisoformat(state["until"])
    done = context_bisect_steps(**given, until=until, state=state, seconds=STEP_SECONDS)
    steps = [
        {
            "step": step,
            "differences": [_difference(one, done.known_since, run.agent, by, run.pk) for one in step.differences],
        }
        for step in done.steps
    ]
    found = (state["found"] if state else 0) + sum(len(step.differences) for step in done.steps)
    following = ""
    if done.state is not None:
        left = {**done.state, "until": until.isoformat(), "found": found}
        query = {"since": request.GET["since"], "search": signing.dumps(left, salt=signer, compress=True)}
        following = f"?{urlencode(query)}"
    result = _result(done.bisect, found, run.agent.slug) if done.bisect else None
    return {"steps": steps, "following": following, "result": result}


def _result(bisect: BehaviourBisect, found: int, slug: str) -> dict[str, Any]:
    return {"bisect": bisect, "found": found, "items": _items(bisect.items, slug)}


def _difference(
    difference: Difference, known_since: datetime, agent: Agent, by: Principal, run: UUID
) -> dict[str, Any]:
    """One difference with its changes in words and its items."""
    known = kinds_of(by)
    sides = {"a": run, "b": run, "a_as_of": _given_moment(difference.since), "b_as_of": _given_moment(difference.until)}
    return {
        "difference": difference,
        "events": [_event(event, by, known) for event in difference.events],
        "items": _items(difference.items, agent.slug),
        "is_forgotten": difference.since < known_since,
        "compare_url": f"{reverse('agent_context_compare', args=[agent.slug])}?{urlencode(sides)}",
    }


def _event(event: Event, by: Principal, known: frozenset[str]) -> dict[str, Any]:
    """The view of a change; only its existence if this person may not see it."""
    shown = {"words": "Profile updated", "by": event.author_name, "at": event.at}
    if event.kind == PROFILE_KIND:
        return shown | {"url": reverse("context_profile_history", args=[event.object_id])}
    if event.kind not in known:
        return {"words": "A change that you cannot view", "at": event.at}
    shown |= {"words": kind_title(event.kind), "url": object_url(event.object_type, event.object_id, by) or ""}
    if event.object_type == "identityversion":
        proposal = ChangeProposal.objects.visible_to(by).filter(version=UUID(event.object_id)).first()
        if proposal and proposal.reviewer_name != event.author_name:
            shown["approved_by"] = proposal.reviewer_name
    return shown


def _items(items: Any, slug: str) -> list[dict[str, Any]]:
    """The items that differ, each with its badge and its page; `text` is that of one that came or went."""
    return [
        {
            "item": item,
            "kind": CHANGE_BADGES[item.change][0],
            "word": CHANGE_BADGES[item.change][1],
            "url": memory_item_url(slug, item.type, item.id),
            "diff": diff_texts(item.before, item.after) if item.change == "text" else None,
            "text": item.after or item.before,
        }
        for item in items
    ]


def _given_moment(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%Y-%m-%dT%H:%M:%S.%f")
