"""The names and numbers of an answer that stand nowhere in what the agent was given.

Only what is certain counts: what another form, unit or sum of the given text explains is no absence.
"""

import re
from calendar import day_name
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, cached_property
from itertools import combinations, pairwise

from context.engine.analysis.intent import names_of
from context.feedback.content_words import STOP_WORDS, content_words
from context.feedback.reference_features import day_of
from memory.comparison import lexicon as w
from memory.comparison.tokenizer import CLOCK, DATES, VERB_FORMS, Token, tokens_of

Spans = list[tuple[int, int]]
"""Stretches of an answer, in order: the characters where each begins and ends."""
_UNIT = rf"(?:%|[$€£]|(?:{'|'.join(sorted(filter(str.isalpha, w.UNITS), key=len, reverse=True))})\b)"
_NUMBERS = (
    re.compile(rf"(?<![\w.,:/$€£-])[$€£]?\d+(?:,\d{{3}})*(?:\.\d+)?(?:\s?{_UNIT})?(?!\w|[.:/,-]\d)", re.IGNORECASE),
    re.compile(
        rf"\b(?:one(?=\s{_UNIT})|{'|'.join(w.NUMBER_WORDS.keys() - {'one', 'dozen'})})\b(?!-)(?:\s{_UNIT})?", re.I
    ),
)
_QUOTED = re.compile(r"“([^“”\n]+)”|(?<!\w)\"([^\"\n]+)\"(?!\w)")
_CODE = re.compile(r"`([^`\n]+)`")
_IDENTIFIER = re.compile(
    r"https?://[^\s)>\]]*[\w/]|(?<![\w./@-])(?=[\w-]*(?:[\d_]|[.@]\w{2}))[A-Za-z]\w+(?:[./:@-]\w+)*"
)
# Headings, also of tables, labels, the numbers of list items and of notes, and ratios.
_NO_CLAIM = re.compile(
    r"^[ \t]*(?:#.*$|[^\w\n]{0,12}(?:\d{1,3}[.)]\s)?(?:[^\W_][\w-]{0,30} ){0,2}[^\W_][\w-]{0,30}\**:(?=[\s*]|$)"
    r"|\d{1,3}[.)]\s|\|.*\n(?=\|[-:| ]+$))|\[\d+\]|\(\d\)|\b\w+ times (?=as |more |less |the |\w+er )",
    re.MULTILINE,
)
_PART = re.compile(r"[^\W_]+").findall
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])\s", re.MULTILINE)
_NUMBERED = re.compile(rf"\d|\b(?:{'|'.join([*w.NUMBER_WORDS, 'noon', 'midnight'])})\b", re.IGNORECASE)
_N = rf"\b(?:\d+(?:\.\d+)?|(?:{'|'.join(w.NUMBER_WORDS)})\b)"
# A number whose unit stands behind another one, or in the name of what has that value; and both as one size.
_UNIT_ELSEWHERE = {
    rf"({_N})(?=(?:-|\s(?:(?:to|and|or|of)\s)?){_N}\s?({_UNIT}))": r"\1 \2 ",
    rf"(?<![^\W_])({_UNIT})(?<=\w)\W{{0,3}}[=:]\W{{0,3}}({_N})(?!\w|[.,:/-]\d|\s?{_UNIT})": r" \2 \1 ",
}
_COMMON = w.words("ok fyi tl dr asap eta tbd todo ps nb utc gmt am pm")
_VERB = re.compile(r"\s+([a-z]+?)(?:n['’]t)?\b")
_MOMENT = re.compile(r"d:(?:\?|\d{2,4})-\d{1,2}-\d\d|t:\??\d\d:\d\d")
_NO_NAME = re.compile(r"(?:ion|ment|ness|ity|cy|[ae]nce|ing|thing)$")
_SIZES = {
    unit: (kind, float(size))
    for kind in ("ms=.001 sec=1 min=60 hour=3600 day=86400 week=604800", "kb=1 mb=1000 gb=1000000 tb=1000000000")
    for unit, size in w.mapping(kind).items()
}
# Share of an answer's words that are English stop words, below which its capitals are no sign of names.
LEAST_ENGLISH = 0.15
# Numbers of an answer whose sums are known too, each with each.
MAX_ADDED = 60


class _Given:
    """What the agent was given, in the form that is compared."""

    def __init__(self, text: str, cited: Collection[str], answer: str) -> None:
        # A prompt is long, and many answers ask for few of its words and none of its numbers.
        self.text, self.cited = "\n".join(dict.fromkeys(text.splitlines())), cited
        self.flat = _flat(self.text)
        numbered = _numbered(self.text) if any(one.search(answer) for one in (*DATES, CLOCK, *_NUMBERS)) else ""
        tokens = tokens_of(numbered)
        self.moments: dict[tuple[str, str], set[str]] = defaultdict(set)
        for kind, moment in _moments(tokens):
            self.moments[kind, _repeated(kind, moment)].add(moment)
        self.hours_and_years = {re.split("[:-]", one.lstrip("?"))[0] for some in self.moments.values() for one in some}
        self.units: dict[str, set[str]] = defaultdict(set)
        for value, unit in _values(tokens):
            self.units[value].add(unit)
        for pattern in (*DATES, CLOCK):
            numbered = pattern.sub(" ", numbered)
        for digits in re.findall(r"\d+(?:\.\d+)?", numbered.replace(",", "")):
            self.units[_plain(digits)] |= set() if self.units[_plain(digits)] else {""}
        self.sizes = {_sized(number, unit) for number, units in self.units.items() for unit in units}
        values = [value for value in dict.fromkeys(_values(tokens_of(answer))) if self._has(*value)][:MAX_ADDED]
        for (one, unit), (other, other_unit) in combinations(values, 2):
            if unit == other_unit:
                self.units[_plain(float(one) + float(other))].add(unit)
                self.units[_plain(abs(float(one) - float(other)))].add(unit)

    @cached_property
    def words(self) -> set[str]:
        dates = re.findall(r"\b\d{4}-\d\d-\d\d\b", " ".join(self.cited))
        days = {day_name[day.weekday()].lower() for day in map(day_of, dates) if day}
        return days | {word.text for word in content_words(self.text)}

    def has_words(self, text: str) -> bool:
        """Whether it has each word of `text`, in any form."""
        return _flat(text) in self.flat or all(
            word.text in self.words or w.SYNONYMS.get(text[word.start : word.end].lower()) in self.words
            for word in content_words(text)
        )

    def has_values(self, text: str) -> bool | None:
        """Whether it has the number, date or time that `text` is. None: only the number, without a unit."""
        tokens = tokens_of(text)
        found = {self._has(*value) for value in _values(tokens)} | {self._tells(*one) for one in _moments(tokens)}
        return False not in found and (None not in found or None)

    def _has(self, value: str, unit: str) -> bool | None:
        held = self.units.get(value) or set()
        if unit in held or (held and not unit) or (unit in _SIZES and _sized(value, unit) in self.sizes):
            return True
        return None if "" in held else not (held or unit) and f"{value:0>2}" in self.hours_and_years

    def _tells(self, kind: str, moment: str) -> bool:
        """Whether it has a date or time that may be the same, as far as both are told."""
        known = self.moments[kind, _repeated(kind, moment)]
        if kind == "d":
            return bool(known) if moment[0] == "?" else not known.isdisjoint((moment, f"?-{moment[-5:]}"))
        hours = [(int(one.lstrip("?")[:2]) - int(moment.lstrip("?")[:2]), "?" in one + moment) for one in known]
        return any(apart % (12 if unsure else 24) == 0 for apart, unsure in hours)


def absent_words(answer: str, given: str, cited: Collection[str] = ()) -> tuple[int, Spans]:
    """How many names and numbers of `answer` were compared with all that the agent was `given`, 0 if that is not
    sure of each, and where those stand that are absent there. Known are also sums of known numbers of the answer, and
    weekdays of the dates of the memories that it refers to (`cited`)."""
    known = _Given(given, cited, answer)
    taken, compared, unsure, absent = bytearray(len(answer)), 0, False, []
    for found in _NO_CLAIM.finditer(answer):
        taken[slice(*found.span())] = b"1" * len(found[0])
    for start, end, is_known in _claims(answer, known):
        if not any(taken[start:end]):
            taken[start:end] = b"1" * (end - start)
            unsure = unsure or is_known is None
            compared += 1
            absent += [(start, end)] if is_known is False else []
    return 0 if unsure else compared, sorted(absent)


def _claims(answer: str, known: _Given) -> Iterator[tuple[int, int, bool | None]]:
    """Each name, number and quote of the answer, and whether it is known; of two in one place the first counts. None:
    not sure, as for the first word of a sentence, unknown, which may be a name."""
    items, has_values = str(len(_LIST_ITEM.findall(answer))), cache(known.has_values)
    checks: list[tuple[Iterable[re.Pattern[str]], Callable[[str], bool | None]]] = [
        ([_QUOTED], lambda text: _flat(text) in known.flat),
        ([_CODE], known.has_words),
        ([*DATES, CLOCK], has_values),
        ([_IDENTIFIER], lambda text: _flat(text) in known.flat),
        (_NUMBERS, lambda text: w.NUMBER_WORDS.get(text.lower(), text) == items or has_values(text)),
    ]
    for patterns, has in checks:
        for found in (found for pattern in patterns for found in pattern.finditer(answer)):
            text = found[0].rstrip(" .,")
            yield found.start(), found.start() + len(text), has(text)
    said = re.findall(r"[^\W\d_]+", answer.casefold())
    if sum(word in STOP_WORDS for word in said) < LEAST_ENGLISH * len(said):
        yield 0, 0, None
        return
    for word, begins in names_of(answer):
        begins = begins or answer.startswith(">", word.start() - 1)
        is_known = word[0].lower() in _COMMON or known.has_words(word[0])
        yield *word.span(), is_known if is_known or not begins or _surely_named(answer, word) else None


def _surely_named(answer: str, word: re.Match[str]) -> bool:
    """Whether the first word of a sentence is a name by what follows it."""
    said = word[0]
    if said in day_name or said[1:] != said[1:].lower():
        return True
    after = _VERB.match(answer, word.end())
    form = VERB_FORMS.get(after[1], after[1]) if after else ""
    is_subject = "'s" in said.replace("’", "'") or form in ("be", "be+ed", "will") or form.endswith("+s")
    return is_subject and not _NO_NAME.search(said)


def _flat(text: str) -> str:
    return f" {' '.join(_PART(text.casefold()))} "


def _plain(number: str | float) -> str:
    return f"{float(number):.10g}"


def _sized(number: str, unit: str) -> tuple[str, str]:
    """The kind of a size, empty for another unit, and the number in that kind's own unit."""
    kind, size = _SIZES.get(unit, ("", 0.0))
    return kind, _plain(float(number) * size)


def _numbered(text: str) -> str:
    """The numbers of `text`, each with the words beside it: its unit, or the rest of a date or time."""
    said = re.sub(r"(?<=\d)[–—→/](?=\d)", " ", _LIST_ITEM.sub("", text)).split()
    kept = {place + beside for place, word in enumerate(said) if _NUMBERED.search(word) for beside in range(-2, 3)}
    numbered = " ".join(word for place, word in enumerate(said) if place in kept)
    for pattern, size in _UNIT_ELSEWHERE.items():
        numbered = re.sub(pattern, size, numbered, flags=re.IGNORECASE)
    return numbered


def _values(tokens: Iterable[Token]) -> list[tuple[str, str]]:
    """The numbers of the tokens, each with its unit."""
    return [
        (_plain(digits), after.text if after.number and not after.text[-1:].isdigit() else "")
        for one, after in pairwise([*tokens, Token("", "")])
        if one.number and (digits := one.text.lstrip("~<>=≈≥≤+-").replace(",", ".")).replace(".", "", 1).isdecimal()
    ]


def _repeated(kind: str, moment: str) -> str:
    """What of a date or time is the same each year, or each hour."""
    return moment[-5:] if kind == "d" else moment[-2:]


def _moments(tokens: Iterable[Token]) -> list[tuple[str, str]]:
    """The dates ("d") and times ("t") of the tokens."""
    return [(token.text[0], token.text[2:]) for token in tokens if _MOMENT.fullmatch(token.text)]
