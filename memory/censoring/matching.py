"""What a text triggers: censors as plain values in, matches with their places and reasons out."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import re2

from memory.censoring.patterns import pattern_compile
from memory.censoring.readable_text import Reading, text_read
from memory.policy import BINDING_CENSOR_CHECK_SECONDS, CENSOR_CHECK_SECONDS

MAX_SPANS = 20
MAX_PASSAGE_CHARACTERS = 400
PASSAGES_A_BATCH = 16
QUOTED_CHARACTERS = 60
NAMED_UNVERIFIED = 5

ALLOW, WARN, BLOCK = "allow", "warn", "block"
VERDICTS = {"warn": WARN, "block": BLOCK, "absolute": BLOCK}
"""What a text that triggers a censor of a severity may do."""
STRICTNESS = ("absolute", "block", "warn")

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*|[.!?]+")


class SimilarityFailed(Exception):
    """Meanings cannot be compared now; the message is one sentence for people."""


class Similarities(Protocol):
    """Compares meanings: one row for each of `meanings`, one cosine in it for each of `passages`."""

    def __call__(self, meanings: Sequence[str], passages: Sequence[str]) -> Sequence[Sequence[float]]:
        """Raises SimilarityFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A censor as matching needs it. `threshold`, a cosine, counts only for a semantic one.

    `binding`: people or the product made it, or people confirmed it. It is checked before those that are not, in time
    that they cannot use, and when it cannot be checked the text is kept back.
    """

    id: str
    pattern: str
    severity: str
    semantic: bool = False
    threshold: float = 1.0
    binding: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to before `end` of the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Match:
    """A triggered censor. `similarity` is the best cosine of a semantic one; `more` says that spans were left out."""

    rule: Rule
    spans: tuple[Span, ...]
    why: str
    more: bool = False
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A censor that was not, or not wholly, checked: it is reported, and blocks the text where it is binding."""

    rule: Rule
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: str
    matches: tuple[Match, ...]
    timed_out: tuple[TimedOut, ...]

    @property
    def unverified(self) -> tuple[TimedOut, ...]:
        """The binding censors that could not be checked: each of them blocks the text by itself."""
        return tuple(missed for missed in self.timed_out if missed.rule.binding)

    @property
    def unverified_reason(self) -> str:
        """Why a text is kept back that nothing matched: which binding censors were not checked; "" where all were."""
        missed = self.unverified
        if not missed:
            return ""
        named = ", ".join(f"{_shortened(each.rule.pattern)} ({each.rule.id})" for each in missed[:NAMED_UNVERIFIED])
        more = f" and {len(missed) - NAMED_UNVERIFIED} more" if len(missed) > NAMED_UNVERIFIED else ""
        return f"Blocked: censors set by people could not be checked: {named}{more}. {missed[0].why}"


def text_match(
    text: str,
    rules: Sequence[Rule],
    *,
    similarities: Similarities,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Match `text` against `rules`: the binding ones first and alone, the strictest of each first.

    The binding ones have BINDING_CENSOR_CHECK_SECONDS for their patterns and as long for their meanings, the others
    CENSOR_CHECK_SECONDS for each, or both `seconds`: these cannot use up the time of those. One search of a pattern
    is not interrupted: RE2 bounds it by the length of the text. What is not reached in time is listed; where it is
    binding the verdict is "block", else it counts as no match.

    A pattern may match the text as it is or as it reads (memory.censoring.readable_text); its meanings are as it reads.
    """
    reading = text_read(text)
    matches: list[Match] = []
    timed_out: list[TimedOut] = []
    budgets = (BINDING_CENSOR_CHECK_SECONDS, CENSOR_CHECK_SECONDS) if seconds is None else (seconds, seconds)
    for binding, budget in zip((True, False), budgets, strict=True):
        alike = [rule for rule in rules if rule.binding is binding]
        if alike:
            found, missed = _match_group(alike, text, reading, similarities, budget, clock)
            matches += found
            timed_out += missed
    matches.sort(key=lambda match: STRICTNESS.index(match.rule.severity))
    verdict = VERDICTS[matches[0].rule.severity] if matches else ALLOW
    if any(missed.rule.binding for missed in timed_out):
        verdict = BLOCK
    return Outcome(verdict, tuple(matches), tuple(timed_out))


def _match_group(
    rules: Sequence[Rule],
    text: str,
    reading: Reading | None,
    similarities: Similarities,
    seconds: float,
    clock: Callable[[], float],
) -> tuple[list[Match], list[TimedOut]]:
    matches: list[Match] = []
    timed_out: list[TimedOut] = []
    deadline = clock() + seconds
    ordered = sorted(rules, key=lambda rule: STRICTNESS.index(rule.severity))
    for rule in ordered:
        if rule.semantic:
            continue
        if clock() >= deadline:
            timed_out.append(TimedOut(rule, "The time limit of this check was reached before this censor was checked."))
            continue
        try:
            compiled = pattern_compile(rule.pattern)
        except re2.error:
            # Creation refuses such a pattern; one that came another way must not stop the rest.
            timed_out.append(TimedOut(rule, "The pattern cannot be read."))
            continue
        found = _match_pattern(rule, compiled, text, None, lambda: clock() >= deadline)
        if found is None and reading is not None:
            if clock() >= deadline:
                timed_out.append(
                    TimedOut(rule, "The time limit of this check was reached before this censor was checked.")
                )
                continue
            found = _match_pattern(rule, compiled, reading.text, reading, lambda: clock() >= deadline)
        if found is not None:
            matches.append(found)
    semantic = [rule for rule in ordered if rule.semantic]
    if semantic:
        found_by_meaning, unchecked = _match_meanings(semantic, text, reading, similarities, seconds, clock)
        matches += found_by_meaning
        timed_out += unchecked
    return matches, timed_out


def _match_pattern(
    rule: Rule, compiled: Any, text: str, reading: Reading | None, is_late: Callable[[], bool]
) -> Match | None:
    """`text` is that of `reading`, if any: then places are those in the original."""
    spans: list[Span] = []
    more = False
    quote = ""
    for found in compiled.finditer(text):
        if found.start() == found.end():
            continue
        if len(spans) == MAX_SPANS:
            more = True
            break
        span = Span(found.start(), found.end())
        quote = quote or _quote(text, span)
        span = _original(reading, span)
        if span not in spans:
            spans.append(span)
        if is_late():
            more = True
            break
    if not spans:
        return None
    as_read = "" if reading is None else ", in the text without invisible characters"
    return Match(rule, tuple(spans), f"The pattern matches {quote} at {spans[0].start}{as_read}.", more)


def _original(reading: Reading | None, span: Span) -> Span:
    return span if reading is None else Span(*reading.place(span.start, span.end))


def _match_meanings(
    rules: Sequence[Rule],
    text: str,
    reading: Reading | None,
    similarities: Similarities,
    seconds: float,
    clock: Callable[[], float],
) -> tuple[list[Match], list[TimedOut]]:
    best: dict[str, tuple[float, list[Span]]] = {}
    why_not = ""
    text = text if reading is None else reading.text
    passages = list(_passages(text))
    try:
        # The first call may load a model, which is no time of this text's.
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
            places = tuple(_original(reading, span) for span in spans[:MAX_SPANS])
            matches.append(Match(rule, places, why, len(spans) > MAX_SPANS, top))
    return matches, [TimedOut(rule, why_not) for rule in rules if why_not and rule.id not in best]


def _passages(text: str) -> Iterator[Span]:
    """The sentences of `text`, long ones in pieces, without the blanks around them."""
    for sentence in _SENTENCE.finditer(text):
        for start in range(sentence.start(), sentence.end(), MAX_PASSAGE_CHARACTERS):
            end = min(start + MAX_PASSAGE_CHARACTERS, sentence.end())
            piece = text[start:end]
            lead = len(piece) - len(piece.lstrip())
            if kept := piece.strip():
                yield Span(start + lead, start + lead + len(kept))


def _quote(text: str, span: Span) -> str:
    return _shortened(text[span.start : span.end])


def _shortened(quoted: str) -> str:
    return f"“{quoted}”" if len(quoted) <= QUOTED_CHARACTERS else f"“{quoted[: QUOTED_CHARACTERS - 1]}…”"
