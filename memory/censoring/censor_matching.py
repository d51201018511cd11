"""Censors: which patterns are accepted, and the matches of a text with their spans and reasons.

The engine is RE2: its time grows with the text and never explodes, whatever the pattern, so no text can be made
that wears a censor out; and it bounds the memory that compiling takes. It has no look-around and no
back-references, which a creation refuses in words.
"""

import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

import re2

from memory.embedding import EmbeddingFailed, embedder_named, thresholds_of
from memory.embedding.protocol import Vectors
from memory.embedding.registry import configured_name
from memory.policy import BINDING_CENSOR_CHECK_SECONDS, CENSOR_CHECK_SECONDS, MAX_PATTERN_CHARACTERS
from nousweb.lib import Invalid, is_blank, storable_check
from nousweb.lib.readable_text import ReadableText, readable_text

MAX_REPETITION = 1_000
MAX_LITERAL_WORDS = 5
"""A pattern of more plain words than this is a sentence: it would match only itself."""
COMPILED_BYTES = 1 << 20

_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_REPETITION = re.compile(r"(?<!\\)\{(\d+)(?:,(\d*))?\}")
_BLIND_BOUNDARY = re.compile(r"\\b[^\x00-\x7f]|[^\x00-\x7f]\\b")

ORDINARY_TEXTS = (
    "Good morning, Tom.",
    "It rained in Lisbon all week!",
    "Why not? Let us see.",
    "2 + 2 = 4",
    "ja, gern",
    "今日は晴れです",
)
"""Nothing in these is worth a censor: a pattern that matches all of them matches everything."""


@lru_cache(maxsize=2_000)
def pattern_compile(pattern: str) -> Any:
    """`pattern` ready to search, ignoring case unless it says `(?-i)`. Raises re2.error."""
    options = re2.Options()
    options.case_sensitive = False
    options.max_mem = COMPILED_BYTES
    options.log_errors = False
    return re2.compile(pattern, options)


def meaning_check(text: str) -> str:
    """The text that a semantic censor stands for, as it is stored. Raises Invalid."""
    text = " ".join(storable_check("pattern", text).split())
    if is_blank(text):
        raise Invalid("pattern must not be empty.", field="pattern")
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise Invalid(f"pattern holds at most {MAX_PATTERN_CHARACTERS:,} characters.", field="pattern")
    return text


def pattern_check(pattern: str) -> str:
    """`pattern`, when it can work as a censor. Raises Invalid that says why it cannot, and what would."""
    if is_blank(storable_check("pattern", pattern)):
        raise Invalid(
            r"pattern must not be empty; write invisible characters by their numbers, such as \x{200b}.",
            field="pattern",
        )
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Invalid(f"pattern holds at most {MAX_PATTERN_CHARACTERS:,} characters.", field="pattern")
    if not _SPECIAL.search(pattern) and len(pattern.split()) > MAX_LITERAL_WORDS:
        raise Invalid(
            "This pattern is prose: it would match only a text with exactly these words. "
            "List the characteristic words, separated by |, or let it match by meaning.",
            field="pattern",
        )
    # RE2 takes a repetition beyond its bound for plain text, which would never match as meant.
    if any(int(n) > MAX_REPETITION for found in _REPETITION.finditer(pattern) for n in found.groups() if n):
        raise Invalid(f"A repetition goes up to {MAX_REPETITION:,}.", field="pattern")
    if _BLIND_BOUNDARY.search(pattern):
        raise Invalid(
            r"\b knows only the letters a to z: beside another letter it would never match. "
            r"Leave it out or write (?:^|\PL) and (?:\PL|$).",
            field="pattern",
        )
    try:
        compiled = pattern_compile(pattern)
    except re2.error as error:
        raise Invalid(f"The pattern cannot be read: {_reason(error)}.", field="pattern") from error
    matches = (found for text in ORDINARY_TEXTS for found in islice(compiled.finditer(text), 50))
    if compiled.search("") or any(found.start() == found.end() for found in matches):
        raise Invalid("The pattern matches the empty text, so it would match every text.", field="pattern")
    if all(compiled.search(text) for text in ORDINARY_TEXTS):
        raise Invalid("The pattern matches ordinary texts: make it more specific.", field="pattern")
    return pattern


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    words = (said.decode(errors="replace") if isinstance(said, bytes) else str(said))[:200]
    if "perl operator" in words or "escape sequence" in words:
        words += "; there is no look-around and no back-reference here (RE2 syntax)"
    return words


MAX_TOKEN_PATTERN_CHARACTERS = 500
MAX_TOKEN_PROGRAM = 4_000
"""Instructions of the compiled pattern; a class of letters of all scripts takes 1,200."""
SAMPLE_CHARACTERS = 20_000
MAX_SAMPLE_SECONDS = 0.04
"""Processor time for one sample: the longest text that is checked takes five times as long."""
RUNS = 2
PLACES = 20

_PROSE = "Good morning, please look at the invoice of 12 March (no. 4711) and tell me what is wrong with it.\n"
_OTHER_SCRIPTS = "übergrößeжизньλόγος今日は晴れです"


def pattern_cost_check(pattern: str) -> None:
    """Raise Invalid where `pattern`, which can be compiled, is too long, too large or too slow for an agent."""
    if len(pattern) > MAX_TOKEN_PATTERN_CHARACTERS:
        raise Invalid(
            f"An agent's pattern holds at most {MAX_TOKEN_PATTERN_CHARACTERS:,} characters; this has {len(pattern):,}.",
            field="pattern",
        )
    compiled = pattern_compile(pattern)
    size = max(compiled.programsize, compiled.reverseprogramsize)
    if size > MAX_TOKEN_PROGRAM:
        raise Invalid(
            f"This pattern compiles to {size:,} instructions; an agent's has at most {MAX_TOKEN_PROGRAM:,}. "
            "Simplify it (fewer repetitions and classes), or ask a person to add it.",
            field="pattern",
        )
    for sample in samples(pattern):
        if seconds_of(pattern, sample) > MAX_SAMPLE_SECONDS:
            raise Invalid(
                "This pattern is too slow: some texts would take very long. "
                "Use fewer repetitions inside repetitions, or ask a person to add it.",
                field="pattern",
            )


def seconds_of(pattern: str, text: str) -> float:
    """Processor time of one check of `text`: the least of a few, because other work only ever adds to it."""
    compiled = pattern_compile(pattern)
    best = float("inf")
    for _ in range(RUNS):
        begun = time.thread_time()
        for _found in islice(compiled.finditer(text), PLACES):
            pass
        best = min(best, time.thread_time() - begun)
        if best <= MAX_SAMPLE_SECONDS:
            break
    return best


def samples(pattern: str) -> list[str]:
    """Texts of the pattern's own characters, the same on every call: repeated and shuffled; and ordinary ones."""
    # The seed makes equal patterns have equal samples; nothing here is secret.
    chance = random.Random(pattern)  # noqa: S311
    literal = sorted({character for character in re.sub(r"\\[pP](\{\w+\}|\w)|\\.", "", pattern) if character.isalnum()})
    own = literal or ["a"]
    some = [*own, "a", "b", "0", "1"]
    pairs = [some[:2], chance.sample(some, 2), ["a", "b"]]
    texts = [own[0] * SAMPLE_CHARACTERS, own[-1] * SAMPLE_CHARACTERS, "a" * SAMPLE_CHARACTERS]
    for alphabet in (*pairs, own, [*some, " "], [*some, " ", "\n", ".", "-", "_", "/"], list(_OTHER_SCRIPTS)):
        texts.append("".join(chance.choices(alphabet, k=SAMPLE_CHARACTERS)))
    texts.append((_PROSE * (SAMPLE_CHARACTERS // len(_PROSE) + 1))[:SAMPLE_CHARACTERS])
    return texts


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
