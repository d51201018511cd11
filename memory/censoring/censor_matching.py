"""Match a text against censors, given as plain values; returns matches with their spans and reasons."""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import re2

from memory.censoring.patterns import pattern_compile
from memory.embedding import EmbeddingFailed, embedder_named, thresholds_of
from memory.embedding.protocol import Vectors
from memory.embedding.registry import configured_name
from memory.policy import BINDING_CENSOR_CHECK_SECONDS, CENSOR_CHECK_SECONDS
from nousweb.lib.readable_text import ReadableText, readable_text

MAX_SPANS = 20
MAX_PASSAGE_CHARACTERS = 400
PASSAGES_A_BATCH = 16
QUOTED_CHARACTERS = 60
NAMED_UNVERIFIED = 5

ALLOW, WARN, BLOCK = "allow", "warn", "block"
VERDICTS = {"warn": WARN, "block": BLOCK, "absolute": BLOCK}
"""The verdict on a text that triggers a censor, by severity."""
STRICTNESS = ("absolute", "block", "warn")

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*|[.!?]+")


class SimilarityFailed(Exception):
    """Meanings cannot be compared now; the message is one sentence for people."""


Similarities = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""Compares meanings with passages: a row for each meaning, in it a cosine for each passage. Raises SimilarityFailed."""


@dataclass(frozen=True, slots=True)
class CensorRule:
    """The values of a censor for matching. `threshold` is a cosine, for semantic censors only.

    `binding`: people or the product made the censor, or people confirmed it. Binding censors are checked first, with a
    time budget of their own; if one cannot be checked, the text is blocked.
    """

    id: str
    pattern: str
    severity: str
    semantic: bool = False
    threshold: float = 1.0
    binding: bool = False


@dataclass(frozen=True, slots=True)
class MatchSpan:
    """The characters from `start` to before `end` of the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Match:
    """A triggered censor. `similarity`: best cosine of a semantic censor. `more`: further spans were left out."""

    rule: CensorRule
    spans: tuple[MatchSpan, ...]
    why: str
    more: bool = False
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class UncheckedCensor:
    """A censor that was not checked, or not completely. It is reported, and blocks the text if it is binding."""

    rule: CensorRule
    why: str


@dataclass(frozen=True, slots=True)
class CensorOutcome:
    verdict: str
    matches: tuple[Match, ...]
    timed_out: tuple[UncheckedCensor, ...]

    @property
    def unverified_reason(self) -> str:
        """Why a text without a match is blocked: the binding censors that were not checked; "" if all were."""
        missed = [each for each in self.timed_out if each.rule.binding]
        if not missed:
            return ""
        named = ", ".join(f"{_shortened(each.rule.pattern)} ({each.rule.id})" for each in missed[:NAMED_UNVERIFIED])
        more = f" and {len(missed) - NAMED_UNVERIFIED} more" if len(missed) > NAMED_UNVERIFIED else ""
        return f"Blocked: censors set by people could not be checked: {named}{more}. {missed[0].why}"


def match_censors(
    text: str,
    rules: Sequence[CensorRule],
    *,
    similarities: Similarities,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> CensorOutcome:
    """Match `text` against `rules`: first the binding ones, then the others, each group from the strictest on.

    Patterns and meanings of binding censors have BINDING_CENSOR_CHECK_SECONDS each, those of the others
    CENSOR_CHECK_SECONDS each; `seconds` replaces both. So other censors cannot use up the time of binding ones. The
    search of one pattern is not interrupted: RE2 bounds its time by the length of the text. Censors that are not
    reached in time are listed; the verdict is "block" if one of them is binding, else they count as no match.

    Patterns are matched against the raw text and its normalised form (nousweb.lib.readable_text), meanings against
    the normalised form only.
    """
    readable = readable_text(text)
    matches: list[Match] = []
    timed_out: list[UncheckedCensor] = []
    budgets = (BINDING_CENSOR_CHECK_SECONDS, CENSOR_CHECK_SECONDS) if seconds is None else (seconds, seconds)
    for binding, budget in zip((True, False), budgets, strict=True):
        alike = [rule for rule in rules if rule.binding is binding]
        if alike:
            found, missed = _match_group(alike, text, readable, similarities, budget, clock)
            matches += found
            timed_out += missed
    matches.sort(key=lambda match: STRICTNESS.index(match.rule.severity))
    verdict = VERDICTS[matches[0].rule.severity] if matches else ALLOW
    if any(missed.rule.binding for missed in timed_out):
        verdict = BLOCK
    return CensorOutcome(verdict, tuple(matches), tuple(timed_out))


def _match_group(
    rules: Sequence[CensorRule],
    text: str,
    readable: ReadableText | None,
    similarities: Similarities,
    seconds: float,
    clock: Callable[[], float],
) -> tuple[list[Match], list[UncheckedCensor]]:
    matches: list[Match] = []
    timed_out: list[UncheckedCensor] = []
    deadline = clock() + seconds
    ordered = sorted(rules, key=lambda rule: STRICTNESS.index(rule.severity))
    for rule in ordered:
        if rule.semantic:
            continue
        if clock() >= deadline:
            timed_out.append(UncheckedCensor(rule, "The time limit of this check was reached before this censor."))
            continue
        try:
            compiled = pattern_compile(rule.pattern)
        except re2.error:
            # Such a pattern cannot be created; an imported one must not prevent the other checks.
            timed_out.append(UncheckedCensor(rule, "The pattern cannot be read."))
            continue
        found = _match_pattern(rule, compiled, text, None, lambda: clock() >= deadline)
        if found is None and readable is not None:
            if clock() >= deadline:
                timed_out.append(UncheckedCensor(rule, "The time limit of this check was reached before this censor."))
                continue
            found = _match_pattern(rule, compiled, readable.text, readable, lambda: clock() >= deadline)
        if found is not None:
            matches.append(found)
    semantic = [rule for rule in ordered if rule.semantic]
    if semantic:
        found_by_meaning, unchecked = _match_meanings(semantic, text, readable, similarities, seconds, clock)
        matches += found_by_meaning
        timed_out += unchecked
    return matches, timed_out


def _match_pattern(
    rule: CensorRule, compiled: Any, text: str, readable: ReadableText | None, is_late: Callable[[], bool]
) -> Match | None:
    """Match one pattern. With `readable`, `text` is its text, and spans are mapped to the original."""
    spans: list[MatchSpan] = []
    more = False
    quote = ""
    for found in compiled.finditer(text):
        if found.start() == found.end():
            continue
        if len(spans) == MAX_SPANS:
            more = True
            break
        span = MatchSpan(found.start(), found.end())
        quote = quote or _quote(text, span)
        span = _original(readable, span)
        if span not in spans:
            spans.append(span)
        if is_late():
            more = True
            break
    if not spans:
        return None
    as_read = "" if readable is None else ", in the text without invisible characters"
    return Match(rule, tuple(spans), f"The pattern matches {quote} at {spans[0].start}{as_read}.", more)


def _original(readable: ReadableText | None, span: MatchSpan) -> MatchSpan:
    return span if readable is None else MatchSpan(*readable.original_span(span.start, span.end))


def _match_meanings(
    rules: Sequence[CensorRule],
    text: str,
    readable: ReadableText | None,
    similarities: Similarities,
    seconds: float,
    clock: Callable[[], float],
) -> tuple[list[Match], list[UncheckedCensor]]:
    best: dict[str, tuple[float, list[MatchSpan]]] = {}
    why_not = ""
    text = text if readable is None else readable.text
    passages = list(_passages(text))
    try:
        # The first call may load a model, which must not count as time for this text.
        similarities([rule.pattern for rule in rules], [])
        deadline = clock() + seconds
        for start in range(0, len(passages), PASSAGES_A_BATCH):
            if clock() >= deadline:
                why_not = "The time limit of this check was reached before the end of the text."
                break
            batch = passages[start : start + PASSAGES_A_BATCH]
            rows = similarities([rule.pattern for rule in rules], [text[span.start : span.end] for span in batch])
            for rule, row in zip(rules, rows, strict=True):
                for span, cosine in zip(batch, row, strict=True):
                    if cosine >= rule.threshold:
                        top, spans = best.get(rule.id, (0.0, []))
                        best[rule.id] = (max(top, cosine), [*spans, span])
    except SimilarityFailed as error:
        why_not = str(error)
    matches = []
    for rule in rules:
        if rule.id in best:
            top, spans = best[rule.id]
            why = f"{_quote(text, spans[0])} has a similar meaning: {top:.2f}, threshold {rule.threshold:.2f}."
            places = tuple(_original(readable, span) for span in spans[:MAX_SPANS])
            matches.append(Match(rule, places, why, len(spans) > MAX_SPANS, top))
    return matches, [UncheckedCensor(rule, why_not) for rule in rules if why_not and rule.id not in best]


def _passages(text: str) -> Iterator[MatchSpan]:
    """Spans of the sentences of `text`, long ones in pieces, without surrounding blanks."""
    for sentence in _SENTENCE.finditer(text):
        for start in range(sentence.start(), sentence.end(), MAX_PASSAGE_CHARACTERS):
            end = min(start + MAX_PASSAGE_CHARACTERS, sentence.end())
            piece = text[start:end]
            lead = len(piece) - len(piece.lstrip())
            if kept := piece.strip():
                yield MatchSpan(start + lead, start + lead + len(kept))


def _quote(text: str, span: MatchSpan) -> str:
    return _shortened(text[span.start : span.end])


def _shortened(quoted: str) -> str:
    return f"“{quoted}”" if len(quoted) <= QUOTED_CHARACTERS else f"“{quoted[: QUOTED_CHARACTERS - 1]}…”"


@dataclass(frozen=True, slots=True)
class HighlightedPiece:
    """A part of the text. `severity`: the strictest of the matches that cover it, "" for none.

    `numbers`: the numbers, from 1, of the matches that begin here.
    """

    text: str
    severity: str = ""
    numbers: tuple[int, ...] = ()


def highlight_matches(text: str, matches: Sequence[Match]) -> list[HighlightedPiece]:
    """Split all of `text` into pieces, in order; overlapping matches share pieces."""
    begins: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    for number, match in enumerate(matches, 1):
        for span in match.spans:
            begins[span.start].append(number)
            ends[span.end].append(number)
    # Number of the open spans by severity.
    open_spans = dict.fromkeys(STRICTNESS, 0)
    pieces: list[HighlightedPiece] = []
    for start, end in pairwise(sorted({0, len(text), *begins, *ends})):
        for numbers, step in ((ends[start], -1), (begins[start], 1)):
            for number in numbers:
                open_spans[matches[number - 1].rule.severity] += step
        severity = next((name for name in STRICTNESS if open_spans[name]), "")
        pieces.append(HighlightedPiece(text[start:end], severity, tuple(begins[start])))
    return pieces


REMEMBERED_MEANINGS = 1_000


def semantic_similarities(meanings: Sequence[str], passages: Sequence[str]) -> list[list[float]]:
    """Cosines of each of `meanings` with each of `passages`. Raises SimilarityFailed."""
    try:
        embedder = embedder_named(configured_name())
        rows = [_vector(embedder.name, meaning) for meaning in meanings]
        if not passages:
            return [[] for _ in rows]
        vectors = embedder.embed_documents(passages)
        return [[float(cosine) for cosine in vectors @ row] for row in rows]
    except EmbeddingFailed as error:
        raise SimilarityFailed(f"Meanings cannot be compared at the moment: {error}") from error


def default_threshold() -> float:
    """The minimum cosine of the configured model at which a text counts as related to a censor's description."""
    return thresholds_of(configured_name()).unrelated


@lru_cache(maxsize=REMEMBERED_MEANINGS)
def _vector(model: str, meaning: str) -> Vectors:
    """The vector of a censor's description."""
    return embedder_named(model).embed_documents([meaning])[0]
