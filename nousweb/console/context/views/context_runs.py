"""The log of the prompts that were sent: the list, one run and its outcome, sessions, and similar tasks."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import django_filters
from django import forms
from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import OuterRef, Q, QuerySet, prefetch_related_objects
from django.db.models.functions import JSONObject, Left, Length
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from context.engine.analysis.frames import FRAMES
from context.engine.assembly.prompt_section import line_parts
from context.engine.context_record import ContextRecord
from context.expectations.policy import ADD
from context.feedback.absent_words import Spans, absent_words
from context.feedback.content_words import content_words, windows_of
from context.feedback.health_score import FEW, fingerprints
from context.feedback.reference_detector import references_of
from context.feedback.sentence_notes import MAX_COMPARED, MAX_GIVEN, Note, findings_of, sentence_notes
from context.models import ASSEMBLE, NOT_SUPPORTED, REPORT, VIEW_RUN, ContextRecall, ContextRun, MemoryUsage
from context.selectors import prompt_prefix, prompt_step, run_get, runs_with_memory, session_place
from context.services.context import context_outcome, memories_shown, outcome_records
from context.what_if.still_said import VALUE
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from identity.selectors import agent_get
from identity.selectors.filters import DateInput, ListFilter
from identity.services.personal_settings import demo_tour_look
from memory.models import MemoryReview
from memory.persona import persona_memory
from memory.selectors.filters import filter_words
from memory.selectors.memory_expansion import Relation
from memory.services.reviews.states import REVIEW
from memory.types import MEMORY_TYPES
from nousweb.console.common import (
    POST,
    ListExport,
    ListPage,
    act,
    agent_page,
    export_format,
    keyset_rows,
    list_export,
    page,
    past_of,
    query_without,
    request_page,
    uuid_of,
)
from nousweb.console.context.forms import CandidatesForm, profile_choices
from nousweb.console.context.labels import memory_item_url
from nousweb.console.context.presentation import (
    A_PAGE,
    ALL,
    LEFT_OUT,
    SORTS,
    VERDICT_FILTERS,
    PromptView,
    contested_links,
    memory_groups,
    prefix_words,
    tab_of,
)
from nousweb.console.templatetags.console import ago, tokens
from nousweb.lib import clock
from nousweb.lib.errors import NotFound
from nousweb.lib.token_estimate import estimate_tokens

RELATIONS: Mapping[Relation, str] = {
    "before": "before it",
    "after": "after it",
    "part": "part of it",
    "episode": "its episode",
    "source": "its source",
    "replaces": "fact that it replaced",
    "replaced_by": "fact that replaced it",
}


def _row(slug: str, recall: ContextRecall) -> dict[str, Any]:
    """One recall: its request, time and results; the note of a result is its score, or its relation to the expanded
    memory."""
    expands = recall.action == ContextRecall.Action.EXPAND
    items = [
        {
            "url": memory_item_url(slug, item["type"], item["id"]),
            "text": item["text"],
            "type": MEMORY_TYPES[item["type"]].name,
            "note": RELATIONS.get(item["relation"], "") if "relation" in item else f"{item['score']:.2f}",
        }
        for item in recall.items
    ]
    return {
        "asked": items[0]["text"] if expands and items else str(recall.request.get("query", "")),
        "at": recall.created_at,
        "by": recall.principal_name,
        "expands": expands,
        "items": items[1:] if expands else items,
    }


JOINED_CHARACTERS = 12
"""Marks of one memory with no more than this between them, on one line and without another word of content, are one."""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A stretch of the answer. `numbers` are of the memories it refers to; `look`: the class of its mark, "" without;
    `notes`: of the sentence that ends here, none for one of no memory; None where none ends."""

    text: str
    numbers: tuple[int, ...] = ()
    look: str = ""
    notes: Sequence[Note] | None = None


def answer_marks(run: ContextRun, uses: Sequence[MemoryUsage]) -> dict[int, Spans]:
    """What the run's answer takes from the memory of each of `uses`, by its key, with the values beside it."""
    answer = run.response
    texts = _texts(run)
    windows, marks = windows_of(answer, content_words(answer)), dict[int, Spans]()
    for use, recorded in zip(uses, _spans(run, uses), strict=True):
        memory = texts.get((use.item_type, use.item_id), "")
        held = {word.text for word in content_words(memory)}
        words = ([(word.start, word.end) for word in window if word.text in held] for window in windows)
        # An answer may have been cut since; and all phrases of a memory may be parts of longer ones of others.
        spans = [(start, end) for start, end in recorded if end <= len(answer)] or max(words, key=len, default=[])
        marks[use.pk] = _joined(answer, sorted([*spans, *_values_beside(answer, spans, memory)]))
    return marks


def _texts(run: ContextRun) -> dict[tuple[str, str], str]:
    """The texts of the memories in the run's prompt, by type and id."""
    return {(item["type"], item["id"]): item["text"] for _, item in memories_shown(run)}


def _sentence_notes(
    run: ContextRun, uses: Sequence[MemoryUsage], texts: Mapping[tuple[str, str], str], marks: dict[int, Spans]
) -> dict[int, list[Note]]:
    """The notes of the answer's sentences, about memories by the keys of their uses; none of what is too long. It adds
    to the marks of the answer."""
    # What was shown without being noted at the answer has no number, and is compared all the same.
    keys = {(use.item_type, use.item_id): use.pk for use in uses}
    lines = {keys.get(item, -place): line for place, (item, line) in enumerate(texts.items(), 1)}
    return sentence_notes(run.response, marks, {key: line_parts(line)["text"] for key, line in lines.items()})


def _values_beside(answer: str, spans: Spans, memory: str) -> Spans:
    """The numbers, with their units, that `memory` states too, in the clauses of `answer` that have one of `spans`."""
    stated = _values(memory) if spans else ()
    return [
        value.span()
        for clause in (_CLAUSE.finditer(answer) if stated else ())
        if any(start < clause.end() and end > clause.start() for start, end in spans)
        for value in VALUE.finditer(answer, clause.start(), clause.end())
        if " ".join(value[0].split()) in stated
        and not any(start <= value.start() and value.end() <= end for start, end in spans)
    ]


def _values(text: str) -> set[str]:
    return set(VALUE.findall(" ".join(text.split())))


_CLAUSE = re.compile(r"(?:[^.;!?\n]|\.(?=\S))+")
FINDINGS_TOLD = 3
ABSENT, DOUBTFUL = 0, -1
LOOKS = {ABSENT: "answer-absent", DOUBTFUL: "answer-doubtful"}
"""Stand in an answer, beside the numbers of its memories, for what the prompt does not have, and for the words by which
it says something else than a memory."""
ABSENT_TOLD, TOO_LONG = 8, "The answer, or what the agent was given, is too long to be compared."


def answer_check(run: ContextRun, texts: Collection[str], cited: Collection[str]) -> tuple[dict[str, Any], Spans]:
    """What the page says of the names and numbers of the answer, and where those are that neither the prompt has, nor
    the question, the conversation and the memories that were shown (`texts`). `cited`: those that it refers to."""
    said = [message["content"] for message in run.request.get("conversation") or ()]
    given = "\n".join([run.system_prompt, run.input, *said, *texts]) if run.response else ""
    if len(run.response) > MAX_COMPARED or len(given) > MAX_GIVEN:
        return {"told": TOO_LONG, "absent": [], "look": "help"}, []
    compared, absent = absent_words(run.response, given, cited)
    words = list(dict.fromkeys(run.response[start:end].strip("`") for start, end in absent))
    more = f" and {len(words) - ABSENT_TOLD:,} more" if len(words) > ABSENT_TOLD else ""
    told = f"Not in the prompt: {', '.join(words[:ABSENT_TOLD])}{more}." if words else ""
    return {"told": told, "compared": compared, "absent": words, "look": "answer-check outcome-error"}, absent


def answer_findings(answer: str, notes: Mapping[int, Sequence[Note]]) -> tuple[list[dict[str, Any]], Spans]:
    """The `findings_of` each sentence's `notes`: both texts with the words marked that the other has not; and where
    those of the answer are."""
    found = findings_of(notes)
    places = [(answer.rfind(one.here, 0, last), words_beside(one.here, one.there)) for last, one in found]
    told = [
        {
            "note": one,
            "told": ContextRun.Finding(one.kind).label,
            "here": answer_pieces(one.here, doubtful=words_beside(one.here, one.there)),
            "there": answer_pieces(one.there, doubtful=words_beside(one.there, one.here)),
        }
        for _, one in found
    ]
    return told, sorted((begins + start, begins + end) for begins, words in places for start, end in words)


def words_beside(text: str, other: str) -> Spans:
    """The words of `text` that `other` does not have."""
    known = _WORD.findall(other.casefold())
    return [one.span() for one in _WORD.finditer(text) if one[0].casefold() not in known]


_WORD = re.compile(r"\w+(?:['’.,:-]\w+)*")


def answer_pieces(
    answer: str,
    marks: Iterable[Spans] = (),
    absent: Sequence[tuple[int, int]] = (),
    notes: Mapping[int, Sequence[Note]] = MappingProxyType({}),
    doubtful: Sequence[tuple[int, int]] = (),
) -> list[AnswerPiece]:
    """The pieces of an answer, in order and complete; the memories with these marks have numbers from 1 on. `notes`: of
    its sentences, by their ends, with these numbers."""
    begins: dict[int, set[int]] = defaultdict(set)
    ends: dict[int, set[int]] = defaultdict(set)
    for number, spans in enumerate([doubtful, absent, *marks], DOUBTFUL):
        for start, end in spans:
            begins[start].add(number)
            ends[end].add(number)
    open_marks: set[int] = set()
    pieces: list[AnswerPiece] = []
    for start, end in pairwise(sorted({0, len(answer), *begins, *ends, *notes})):
        open_marks = (open_marks - ends[start]) | begins[start]
        numbers = tuple(sorted(open_marks - {ABSENT, DOUBTFUL}))
        look = next((look for mark, look in LOOKS.items() if mark in open_marks), "answer-mark" if numbers else "")
        pieces.append(AnswerPiece(answer[start:end], numbers, look, notes.get(end)))
    return pieces


_LINE = re.compile(r"\s*(?:(?P<item>[-*•]|\d{1,3}[.)])|(?P<head>#{1,6}))\s+")
"""How a line begins that is an item of a list or a heading."""


def answer_lines(pieces: Iterable[AnswerPiece]) -> Iterator[tuple[str, str, list[Any]]]:
    """The pieces by line, each line with what it is (text, item, head, code, or gap without words) and the mark of its
    item, which is no part of the pieces then. A table is one, with its rows of cells, and marked if it has a head."""
    fence, rows, head = "", list[list[list[AnswerPiece]]](), ""
    for line in [*_split(pieces, "\n"), []]:
        words = "".join(piece.text for piece in line).strip()
        is_blank = not words.strip("|-: ")
        if not fence and len(words) > 1 and words[0] == words[-1] == "|" and (rows or not is_blank):
            *_, more = cells = _split(line, "|")[1:]
            if is_blank and "-" in words and len(rows) == 1 and not head:
                head = "head"
            else:
                # A note of the row stands behind its last mark.
                rows.append([*cells[:-2], [*cells[-2], *more]])
            continue
        if rows:
            yield "table", head, rows
            rows, head = [], ""
        if fence and words.startswith(fence) and not words.strip("`"):
            fence = ""
        elif fence and line:
            yield "code", "", [replace(piece, notes=piece.notes or None) for piece in line]
        elif opened := re.fullmatch(r"(`{3,})[^`]*", words):
            fence = opened[1]
        elif line and (found := _LINE.match(line[0].text)):
            first = replace(line[0], text=line[0].text[found.end() :])
            yield found.lastgroup or "", (found["item"] or "").translate(_BULLETS), [first, *line[1:]]
        elif line:
            yield "text" if words else "gap", "", line


def _split(pieces: Iterable[AnswerPiece], mark: str) -> list[list[AnswerPiece]]:
    """The pieces between the marks; notes stand behind the last."""
    parts: list[list[AnswerPiece]] = [[]]
    for piece in pieces:
        *before, last = piece.text.split(mark)
        for text in before:
            parts[-1].append(replace(piece, text=text, notes=None))
            parts.append([])
        parts[-1].append(replace(piece, text=last))
    return parts


_BULLETS = str.maketrans("-*", "••")


def _spans(run: ContextRun, uses: Sequence[MemoryUsage]) -> list[Sequence[Sequence[int]]]:
    """The spans of each reference: as recorded with the answer, or from its words if they were not recorded."""
    if all(use.spans is not None for use in uses):
        return [use.spans or () for use in uses]
    shown = memories_shown(run)
    found = references_of(run.response, [item["text"] for _, item in shown], question=run.input)
    spans = {(item["type"], item["id"]): reference.spans for (_, item), reference in zip(shown, found, strict=True)}
    return [spans.get((use.item_type, use.item_id), ()) if use.spans is None else use.spans for use in uses]


def _joined(text: str, spans: Spans) -> Spans:
    joined: Spans = []
    for start, end in spans:
        between = text[joined[-1][1] : start] if joined else ""
        if joined and len(between) <= JOINED_CHARACTERS and "\n" not in between and not content_words(between):
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def run_memories(
    run: ContextRun, shown: PromptView, uses: Sequence[MemoryUsage], marks: Mapping[int, Spans]
) -> list[dict[str, Any]]:
    """The memories of a run as PromptView.memories has them, with those recalled in the turn: first those that the
    answer refers to, with their numbers in it if it has marks of them, as `uses` are ordered; of the rest, the always
    included ones last. Each part has the most relevant first."""
    known = {(one["type"], one["id"]): one for one in shown.memories}
    for label, item in memories_shown(run):
        key = item["type"], item["id"]
        recalled = {
            "type": key[0],
            "id": key[1],
            **line_parts(item["text"]),
            "label": label,
            "origin": "",
            "origin_links": {},
            "why": "looked up in the turn",
            "always": False,
            "url": shown.memory_url(*key),
        }
        known.setdefault(key, recalled)
    ranked = [
        {
            **(one := known.pop(key)),
            "always": one["always"] and not marks.get(use.pk),
            "use": use,
            "number": number if marks.get(use.pk) else None,
        }
        for number, use in enumerate(uses, 1)
        if (key := (use.item_type, use.item_id)) in known
    ]
    return sorted([*ranked, *known.values()], key=lambda one: one["always"])


def what_became(memories: Iterable[dict[str, Any]], run: ContextRun, by: Principal) -> None:
    """Tell at the facts and events of a run which of them no longer hold (since: words and url), and where they are
    marked as wrong (wrong_url) and facts replaced or confirmed (replace_url, confirm_url), if `by` may; and which facts
    are contradicted by now (contested). One statement for each of both types."""
    facts = {key: one for one in memories if one["type"] == "fact" and (key := uuid_of(one["id"]))}
    query = {"run": str(run.pk), **({"persona": run.persona} if run.persona == Persona.SUBCONSCIOUS else {})}
    slug, known = run.agent.slug, persona_memory(run.agent, by, run.persona).facts.filter(pk__in=facts)
    events = {int(one["id"]): one for one in memories if one["type"] == "event"}
    held = {*run.agent.events.filter(pk__in=events, long_term__quarantined=True).values_list("pk", flat=True)}
    for number, one in events.items():
        if number in held:
            one["since"] = {"words": "later quarantined", "url": one["url"]}
        elif by.may(REVIEW):
            one["wrong_url"] = f"{reverse('agent_event_wrong', args=[slug, number])}?{urlencode(query)}"
    known = known.only("pk", "agent_id", "active", "invalidated_at", "superseded_by")
    if by.may("memory.view_memoryreview"):
        reviews = run.agent.memory_reviews.filter(
            Q(old_id=OuterRef("pk")) | Q(new_id=OuterRef("pk")),
            MemoryReview.CONTESTING,
            kind=MemoryReview.Kind.CONTRADICTION,
            persona=run.persona,
        ).values_list(JSONObject(pk="pk", at="created_at", question="details__question"))
        known = known.annotate(contest=reviews.order_by("id")[:1])
    for fact in known if facts else ():
        one = facts[fact.pk]
        if (contest := getattr(fact, "contest", None)) and not one.get("contested"):
            one["contested"] = {
                "words": f"contradicted {ago(datetime.fromisoformat(contest['at']))}",
                "url": reverse("memory_review_detail", args=[contest["question"] or contest["pk"]]),
                "open": True,
            }
        if fact.invalidated_at:
            one["since"] = {"words": "later marked as wrong", "url": one["url"]}
        elif not fact.active:
            other = fact.superseded_by_id
            url = memory_item_url(slug, "fact", str(other)) if other else one["url"]
            one["since"] = {"words": "later replaced" if other else "later retired", "url": url}
        elif by.may("memory.change_fact"):
            changes = {"replace_url": "supersede", "wrong_url": "invalidate", "confirm_url": "confirm"}
            one |= {
                name: f"{reverse('agent_fact_change', args=[slug, fact.pk, change])}?{urlencode(query)}"
                for name, change in changes.items()
            }


DOUBT = "doubt"
OUTCOMES = [("success", "Success"), ("failure", "Failure"), (DOUBT, NOT_SUPPORTED), ("none", "Not reported")]


class RunFilter(ListFilter):
    """Filters of the list of logged runs."""

    q = django_filters.CharFilter(method=filter_words("input", "response"), label="Search questions and answers")
    frame = django_filters.ChoiceFilter(
        choices=[(key, frame.label) for key, frame in FRAMES.items()], empty_label="Any kind"
    )
    profile = django_filters.ChoiceFilter(choices=profile_choices, empty_label="Any profile")
    session = django_filters.CharFilter(field_name="session_id", label="Session")
    outcome = django_filters.ChoiceFilter(choices=OUTCOMES, method="filter_outcome", empty_label="Any outcome")
    since = django_filters.DateFilter(field_name="created_at", lookup_expr="date__gte", label="From", widget=DateInput)
    until = django_filters.DateFilter(field_name="created_at", lookup_expr="date__lte", label="To", widget=DateInput)
    min_tokens = django_filters.NumberFilter(
        field_name="tokens", lookup_expr="gte", min_value=0, max_value=10**6, label="Minimum tokens"
    )
    period = django_filters.ChoiceFilter(
        choices=[("1", "Last 24 hours"), ("7", "Last 7 days"), ("30", "Last 30 days")],
        method="filter_period",
        empty_label="Any time",
        label="Period",
    )
    fingerprint = django_filters.CharFilter(field_name="fingerprint_id", widget=forms.HiddenInput)
    memory = django_filters.CharFilter(method="filter_memory", widget=forms.HiddenInput)
    answered = django_filters.BooleanFilter(
        field_name="responded_at", lookup_expr="isnull", exclude=True, widget=forms.HiddenInput
    )

    def __init__(self, *given: Any, agent: Agent, by: Principal, **more: Any) -> None:
        super().__init__(*given, **more)
        self.agent, self.by = agent, by

    def filter_memory(self, queryset: QuerySet[ContextRun], name: str, value: str) -> Any:
        """Those whose prompt had the memory that `value` names as type and id."""
        item_type, _, item_id = value.partition(":")
        return queryset.filter(pk__in=runs_with_memory(self.agent, item_type, item_id, self.by).values("pk"))

    def filter_period(self, queryset: QuerySet[ContextRun], name: str, value: str) -> Any:
        return queryset.filter(created_at__gte=clock.now() - timedelta(days=int(value)))

    def filter_outcome(self, queryset: QuerySet[ContextRun], name: str, value: str) -> Any:
        if value == DOUBT:
            return queryset.filter(ContextRun.DOUBT)
        return queryset.filter(outcome="" if value == "none" else value)


SHOWN_COLUMNS = (
    "id", "agent_id", "persona", "session_id", "tokens", "counted_tokens", "counted_by", "budget_tokens", "frame",
    "profile", "outcome", "finding", "as_of", "responded_at", "duration_ms", "principal_name", "fingerprint_id",
    "created_at", "failed_sections", "censors",
)  # fmt: skip
RUNS = ListExport("Prompts", tuple(name for name in (*SHOWN_COLUMNS, "input") if name != "agent_id"))
A_LINE = 160
"""Characters of a question, and of an answer, that a row of the list may show."""
SEARCHED = 10_000
"""Characters in which the place of a search is looked for, to be shown in the row."""
LIST = ListPage(
    title="Prompts",
    noun="prompt",
    empty="Each prompt that the agent requests with its token is kept here until its retention ends.",
)


@agent_page(VIEW_RUN, past=True)
def agent_context_runs(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponseBase:
    """The prompts that were sent, latest first."""
    known = ContextRun.objects.visible_to(by).filter(agent=agent, created_at__lte=past_of(request) or clock.now())
    found = RunFilter(request.GET, queryset=known, agent=agent, by=by)
    if export_format(request) and found.form.is_valid():
        rows = keyset_rows(found.qs.only(*SHOWN_COLUMNS, "input"), "created_at")
        return list_export(request, RUNS, rows, agent=agent, both=by.may(VIEW_SUBCONSCIOUS))
    shown = found.results.only(*SHOWN_COLUMNS)
    terms = [found.form.cleaned_data["q"]] if found.form.cleaned_data.get("q") else []
    length = SEARCHED if terms else A_LINE
    page = LIST.page(request, shown.annotate(beginning=Left("input", length), answer=Left("response", length)))
    context = {"agent": agent, "terms": terms, **LIST.context(request, page, found.form, found.is_filtered)}
    # Where all are the same, a column would say nothing.
    context["shows_by"] = len({(run.principal_name, run.persona) for run in context["rows"]}) > 1
    # One run cannot be compared with itself.
    context["sides"] = "ab" if len(context["rows"]) > 1 else ""
    heads = [f"{side.upper()}:pick" for side in context["sides"]] + ["Outcome:hidden", "Question", "Answer", "Session"]
    heads += ["Kind", *["By"] * context["shows_by"], "Tokens:num", "Took:num", "When:num"]
    context["run_heads"] = "|".join(heads)
    return render(request, "context/context_runs.html", context)


@agent_page(VIEW_RUN)
def agent_context_run(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """The prompt of one logged run, from its stored structure."""
    run = run_get(agent, by, pk)
    prefetch_related_objects([run], "recalls")
    record = ContextRecord.of_run(run)
    shown = PromptView(agent.slug, record, contested_links(record, agent, by))
    sort = asked if (asked := request.GET.get("sort", "")) in SORTS else "verdict"
    words = request.GET.get("q", "").strip()[:200]
    usual = ALL if words else LEFT_OUT
    verdict = asked if (asked := request.GET.get("verdict", "")) in VERDICT_FILTERS else usual
    place = session_place(run, by)
    relevance = {(one["type"], one["id"]): one["relevance"] or 0 for one in shown.memories}
    known = list(run.usages.all())
    texts = _texts(run)
    marks = answer_marks(run, [use for use in known if use.referenced]) if run.response else {}
    said = _sentence_notes(run, known, texts, marks)
    # In the order in which the answer has them.
    uses = sorted(
        known,
        key=lambda use: (
            not use.referenced,
            use.pk not in marks,
            next((start for start, _ in marks.get(use.pk, ())), math.inf),
            not use.spans,
            -relevance.get((use.item_type, use.item_id), 0),
            -use.overlap,
            use.pk,
        ),
    )
    memories = run_memories(run, shown, uses, marks)
    what_became(memories, run, by)
    candidates = shown.table(by, sort=sort, verdict=verdict, words=words)
    # A search without one finds all.
    left_out = LEFT_OUT if words else ""
    order_form = CandidatesForm({"sort": sort, "verdict": left_out if verdict == LEFT_OUT else verdict, "q": words})
    order_form.fields["verdict"].choices = shown.verdict_choices(left_out)  # type: ignore[attr-defined]
    used = [use for use in uses if use.referenced]
    check, absent = answer_check(run, texts.values(), [texts.get((use.item_type, use.item_id), "") for use in used])
    numbers = {use.pk: number for number, use in enumerate(uses, 1) if marks.get(use.pk)}
    notes = {
        end: sorted(one._replace(key=numbers[one.key]) for one in some if one.key in numbers)
        for end, some in said.items()
        if not some or any(one.key in numbers for one in some)
    }
    findings, doubtful = answer_findings(run.response, notes)
    check |= {
        "same": next((note.key for some in notes.values() for note in some if note.kind == "same"), None),
        "findings": findings[:FINDINGS_TOLD],
        "more": len(findings[FINDINGS_TOLD:]),
        # By word, the reason of the nearest memory. A number word alone is in many.
        "left_out": {
            word: one["word"]
            for word in check["absent"][:ABSENT_TOLD]
            if not (word.isalpha() and word.islower())
            for one in reversed(shown.table(verdict=LEFT_OUT, words=word))
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", one["text"], re.IGNORECASE)
        },
        "contested": [
            one
            for one in memories
            if (one.get("contested") or {}).get("open")
            and (run.outcome == ContextRun.Outcome.FAILURE or (one.get("use") and one["use"].referenced))
        ],
    }
    warnings = check["absent"] or findings or check["contested"] or not all(notes.values())
    check["is_clear"] = check.get("compared") and not warnings
    answer = answer_pieces(run.response, [marks.get(use.pk, []) for use in uses], absent, notes, doubtful)
    may_assemble = by.may(ASSEMBLE)
    if words and candidates:
        demo_tour_look(agent=agent, target=run, label="why memories were in a prompt", by=by)
    return render(
        request,
        "context/context_run.html",
        {
            "agent": agent,
            "run": run,
            "shown": shown,
            "place": place,
            "step": prompt_step(place.previous, run) if place.previous else None,
            "prefix": prefix_words(prefix, run, by) if (prefix := prompt_prefix(run, place.previous, by)) else "",
            "answer_size": tokens(estimate_tokens(run.response)) if run.response else "",
            "table": {
                "tab": tab_of(request.GET),
                "tabs": shown.tabs(len(memories)),
                "order": (order := request.GET.get("order", "")),
                "sort": sort,
                "order_form": order_form,
                "verdict": verdict,
                "words": words,
                "ask_why": f"?{urlencode({'run': run.pk, 'missing': words})}" if words and may_assemble else "",
                "query": query_without(request, "sort"),
                "parts_at": "" if tab_of(request.GET) == "prompt" else "?tab=prompt",
                "demand_url": reverse("agent_expectation_demand", args=[agent.slug]) if by.may(ADD) else "",
                "run": run.pk,
            },
            "candidates": Paginator(candidates, A_PAGE).get_page(request.GET.get("page")),
            "answer": answer,
            "lines": answer_lines(answer),
            "rows_at": "" if tab_of(request.GET) == "memories" else "?tab=memories",
            "check": check,
            "sources": {memory["number"]: memory for memory in memories if memory.get("number")},
            "turn": {
                "groups": memory_groups(memories, order, f"The answer refers to {len(used)}"),
                "recalls": [_row(agent.slug, recall) for recall in run.recalls.all()],
                "run": run,
                "trace_url": settings.TRACE_URL.replace("{trace_id}", run.trace_id),
            },
            "of_subconscious": run.persona == Persona.SUBCONSCIOUS,
            "outcome": {
                "told": outcome_records(run).visible_to(by).first() if run.outcome else None,
                "may_report": by.may(REPORT),
                "in_doubt": run.outcome and run.in_doubt,
                "add_url": f"{reverse('agent_expectations', args=[agent.slug])}?run={run.pk}#new"
                if by.may(ADD) and (run.in_doubt or run.outcome == ContextRun.Outcome.FAILURE)
                else "",
            },
            "may_assemble": may_assemble,
        },
    )


@agent_page(VIEW_RUN)
def agent_context_cause(request: HttpRequest, by: Principal, agent: Agent, pk: UUID) -> HttpResponse:
    """Why the task of a run may have failed, as far as its log tells, as a part of a page: the memory of which the
    answer has words or a value, one in doubt first, with what became of it (`since`: its words and url)."""
    run = run_get(agent, by, pk)
    record = ContextRecord.of_run(run)
    shown = PromptView(agent.slug, record, contested_links(record, agent, by))
    uses = list(run.usages.filter(referenced=True))
    memories = run_memories(run, shown, uses, answer_marks(run, uses) if run.response else {})
    what_became(memories, run, by)
    values = _values(run.response[:MAX_COMPARED])
    used = [
        {**one, "since": one.get("since") or one.get("contested")}
        for one in memories
        if one.get("number") or values & _values(one["text"])
    ]
    memory = min(used, key=lambda one: not one["since"], default=None)
    return render(request, "context/_failure_cause.html", {"run": run, "memory": memory, "left_out": shown.left_out})


@page(REPORT, methods=POST)
def agent_context_outcome(request: HttpRequest, by: Principal, slug: str, pk: UUID) -> HttpResponse:
    """A person's judgement of the outcome of the prompt's task."""
    run = run_get(agent_get(slug, by), by, pk)
    outcome, note = request.POST.get("outcome", ""), request.POST.get("note", "")
    return act(
        request,
        lambda: context_outcome(run=run, outcome=outcome, note=note, by=by),
        run,
        "The outcome was saved.",
    )


PERIODS = {"": "Whole log", "1": "Last day", "7": "Last 7 days", "30": "Last 30 days"}


@agent_page(VIEW_RUN)
def agent_context_fingerprints(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """Runs, outcomes and tokens by fingerprint, over the period that ?days= names."""
    days = asked if (asked := request.GET.get("days", "")) in PERIODS else ""
    since = clock.now() - timedelta(days=int(days)) if days else None
    tabs = [
        {"label": label, "url": f"?days={value}" if value else "?", "active": value == days}
        for value, label in PERIODS.items()
    ]
    return render(
        request,
        "context/similar_tasks.html",
        {
            "agent": agent,
            "rows": [(row, ", ".join(row.about["kinds"]).replace("_", " ")) for row in fingerprints(agent, by, since)],
            "tabs": tabs,
            "few": FEW,
            "since_query": f"&since={since:%Y-%m-%d}" if since else "",
        },
    )


RUNS_PER_PAGE = 20
"""Each is read with all of its prompt, which is long."""
SESSION_COLUMNS = (
    "id", "agent_id", "persona", "session_id", "created_at", "sections", "tokens", "counted_tokens", "counted_by",
    "frame", "outcome", "finding", "outcome_note", "responded_at", "duration_ms", "principal_name", "as_of", "censors",
)  # fmt: skip


@agent_page(VIEW_RUN)
def agent_context_session(request: HttpRequest, by: Principal, agent: Agent) -> HttpResponse:
    """The timeline of the session that ?session= names. Raises NotFound where none of its runs is kept."""
    session = request.GET.get("session", "")
    if not session:
        return redirect("agent_context_runs", slug=agent.slug)
    runs = ContextRun.objects.visible_to(by).filter(agent=agent, session_id=session)
    # Prompts of one persona are no steps of the other's.
    personas = list(runs.order_by("persona").values_list("persona", flat=True).distinct())
    if not personas:
        raise NotFound("This session has no prompts. They are deleted when their retention ends.")
    persona = asked if (asked := request.GET.get("persona", "")) in personas else personas[0]
    runs = runs.filter(persona=persona).only(*SESSION_COLUMNS)
    runs = runs.annotate(beginning=Left("input", 400), answer=Left("response", 400), answer_length=Length("response"))
    page = request_page(request, runs, "created_at", latest_first=False, size=RUNS_PER_PAGE)
    first = session_place(page.rows[0], by).previous if page.rows else None
    # Each with the run before it, and how its prompt differs from that one's.
    rows = [
        {"run": run, "previous": previous, "step": prompt_step(previous, run) if previous else None}
        for previous, run in zip([first, *page.rows], page.rows, strict=False)
    ]
    return render(
        request,
        "context/session.html",
        {
            "agent": agent,
            "session": session,
            "rows": rows,
            "page": page,
            "persona": persona,
            "personas": personas,
            "query": query_without(request),
            "may_assemble": by.may(ASSEMBLE),
        },
    )
