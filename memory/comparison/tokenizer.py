"""Split a fact into tokens that are equal if their meaning is: numbers, dates, times, verbs in base form, synonyms.

Dates and times become one token each; then the words are read once, from left to right, without the punctuation around
them. Borders of sentences (`|`), commas and question marks are tokens of their own.
"""

import re
import unicodedata
from calendar import month_name
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from memory.comparison import lexicon as w
from nousweb.lib.lookalikes import lookalike_fold, powers_marked

_MONTH = rf"(?P<month>{'|'.join(sorted(w.MONTHS, key=len, reverse=True))})\b\.?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?:,?\s+(?P<year>\d{4})\b)?"
DATES = (
    re.compile(r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b"),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}{_YEAR}", re.IGNORECASE),
    re.compile(rf"\b{_MONTH}\s+{_DAY}\b(?!:){_YEAR}", re.IGNORECASE),
)
CLOCK = re.compile(
    r"(?<![\d.:-])(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s?(?P<half>[ap])\.?m\b\.?|"
    r"(?<![\d.:-])(?P<hour24>\d{1,2}):(?P<minute24>[0-5]\d)(?![\d:]|\.\d)",
    re.IGNORECASE,
)
_REWRITES = [(re.compile(pattern, re.IGNORECASE), plain) for pattern, plain in w.REWRITES]
_NUMBER = re.compile(r"([~<>=≈≥≤+-]*)([$€£]?)(\d[\d,]*(?:\.\d+)?)([A-Za-z%°$€£]{0,12})")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_TIME_TOKENS = ("d:", "t:")
_SMALL = w.PRONOUNS | w.PREPOSITIONS
_NO_NAMES = _SMALL | w.CLAUSE_WORDS | w.NEGATIONS | w.QUANTIFIERS | w.MODALS | w.FILLERS
_TELLING = (w.QUANTIFIERS | w.NEGATIONS | w.MODALS | w.PREPOSITIONS) - {"non"}
"""In a word with a hyphen these say something else than alone: what is read-only is not read only once."""


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is compared; `raw` is as it was written; `name`: written as a name, where a plain word would not be."""

    text: str
    raw: str = field(compare=False)
    name: bool = field(default=False, compare=False)
    number: bool = field(default=False, compare=False)


def _verb_forms() -> dict[str, str]:
    """Form to `base`, `base+s`, `base+ed` (past or participle) or `base+ing`. One and many stay apart, as a plural can
    look like a verb: "the weekly reports contain", "the report contains"."""
    forms = w.mapping("am/is=be are=be+pl was=be+ed were=be+pl+ed have=have has=have+s had=have+ed based=base+ed")
    for base in sorted(w.REGULAR_VERBS):
        stem, doubled = re.sub(r"(?<!e)e$", "", base), base + base[-1]
        past = re.sub(r"(?<![aeiou])y$", "i", base).removesuffix("e")
        third = f"{past}es" if past[-1] == "i" or re.search(r"([sxzo]|[cs]h)$", base) else f"{base}s"
        marks = {base: "", third: "+s", f"{stem}ing": "+ing", f"{doubled}ing": "+ing"}
        if base not in w.IRREGULAR_PASTS.values():
            marks |= {f"{past}ed": "+ed", f"{doubled}ed": "+ed"}
        forms |= {form: w.SYNONYMS.get(base, base) + mark for form, mark in marks.items() if form not in forms}
    return forms | {form: w.SYNONYMS.get(base, base) + "+ed" for form, base in w.IRREGULAR_PASTS.items()}


VERB_FORMS = _verb_forms()
VERBS = frozenset(VERB_FORMS.values())


@lru_cache(maxsize=16_384)
def base_form(text: str) -> str:
    """A token's text without the mark of its verb's form."""
    return text.partition("+")[0] or text


def number_free(texts: Iterable[str]) -> tuple[str, ...]:
    """`texts` with verbs in the form that goes with one and many alike."""
    return tuple(text.replace("+pl", "").removesuffix("+s") for text in texts)


def tokens_of(text: str) -> list[Token]:
    """The tokens of `text`, with their borders and without fillers. Time and size are linear in its length."""
    text = lookalike_fold(unicodedata.normalize("NFKC", powers_marked(text))).replace("’", "'").replace("‘", "'")
    for rewritten, plain in _REWRITES:
        text = rewritten.sub(plain, text)
    for date in DATES:
        text = date.sub(_dated, text)
    text = CLOCK.sub(_timed, text)
    found: list[Token] = []
    for chunk in text.split():
        _read_chunk(chunk, found)
    while found and found[-1].text in ("|", ","):
        found.pop()
    return found


def _dated(match: re.Match[str]) -> str:
    month = w.MONTHS.get(match["month"].lower(), match["month"])
    return f" d:{match['year'] or '?'}-{month}-{int(match['day']):02d} "


def _timed(match: re.Match[str]) -> str:
    if match["half"]:
        return f" t:{int(match['hour']) % 12 + 12 * (match['half'] in 'pP'):02d}:{match['minute'] or '00'} "
    # Whether 3:00 is of the night or of the afternoon is not said.
    sure = int(match["hour24"]) >= 12 or match["hour24"].startswith("0")
    return f" t:{'' if sure else '?'}{int(match['hour24']):02d}:{match['minute24']} "


def _add(found: list[Token], token: Token) -> None:
    """Append without fillers, the "do" of "do not", serial commas and doubled borders."""
    last = found[-1].text if found else "|"
    if (token.text in w.FILLERS and not token.name) or (token.text in (",", "|") and last == "|"):
        return
    if (last == "," and token.text in ("and", "or", "|", "?", ",")) or (last in ("do", "does") and token.text == "not"):
        found.pop()
    found.append(token)


def _read_chunk(chunk: str, found: list[Token]) -> None:
    inside = chunk.lstrip("([{\"'“‘«`")
    word = inside.rstrip(")]}\"'”’»`….,;:!?")
    if inside == chunk and word[-1:].isdigit() and inside[len(word) :][:1] in ("'", '"'):
        word = inside[: len(word) + 1]  # feet and inches
    elif inside == chunk and word[-1:] in ("s", "S") and inside[len(word) :][:1] == "'":
        word = inside[: len(word) + 1]  # of several, or of a name that ends so
    closing = inside[len(word) :]
    fresh = not found or found[-1].text == "|"
    split = "-" in word and not word.startswith(_TIME_TOKENS) and set("/@\\_").isdisjoint(word)
    split = split and _TELLING.isdisjoint(word.casefold().split("-"))
    for place, part in enumerate(_HYPHEN.split(word) if split else [word]):
        if part:
            _read_word(part, found, fresh and place == 0)
    for border, marks in (("?", "?"), ("|", ".;:!…"), (",", ",)]}")) if closing else ():
        if set(marks) & set(closing):
            return _add(found, Token(border, border))
    return None


def _read_word(raw: str, found: list[Token], fresh: bool) -> None:
    if possessive := "'" in raw and re.search(r"(?<=.)'s$|(?<=s)'$", raw, re.IGNORECASE):
        raw = raw[: possessive.start()]
    lower, last = raw.casefold(), found[-1] if found else Token("", "")
    number = _NUMBER.fullmatch(raw)
    unit, brief = lower in w.UNITS, raw.isalpha() and len(raw) <= 3 and lower not in VERB_FORMS
    if raw.startswith(_TIME_TOKENS):
        _add(found, Token(raw, _spelled(raw), number=True))
    elif set("/\\_") & set(raw) or (raw == "A" and not fresh) or (raw.isupper() and len(raw) > 1 and lower in _SMALL):
        # Paths, identifiers and names in capitals mean another thing in another case.
        _add(found, Token(raw, raw, name=True))
    elif lower in ("few", "little") and last.text == "a":
        found[-1] = Token(f"a_{lower}", raw)
    elif number and lower not in w.SYNONYMS:
        sign, currency, digits, suffix = number.groups()
        digits = digits.replace(",", "") if _THOUSANDS.fullmatch(digits) else digits
        _add(found, Token(sign + digits, raw, number=True))
        for written in filter(None, (currency, suffix)):
            _add(found, Token(_unit(written), raw, number=True))
    elif lower in w.NUMBER_WORDS:
        _add(found, Token(w.NUMBER_WORDS[lower], raw, number=True))
    elif last.number and last.text[-1:].isdigit() and (unit or brief):
        _add(found, Token(_unit(raw), raw, name=raw[:1].isupper() and not unit, number=unit))
    else:
        # A name is nobody's synonym: "Will Mark" must not become a verb. The first word may be no name.
        sure = (raw[:1].isupper() and not fresh and lower not in w.PRONOUNS) or raw[1:] != raw[1:].lower()
        form = lower if sure and raw[:1].isupper() and not fresh else VERB_FORMS.get(lower, lower)
        for part in w.SYNONYMS.get(form, form).split("_"):
            may_be = raw[:1].isupper() and "+" not in part and part not in _NO_NAMES
            _add(found, Token(part, raw, name=sure or may_be))
    if possessive:
        _add(found, Token("'s", "'s"))


def _spelled(text: str) -> str:
    """The token of a date or time as people write it: "2026-03-05", "5 March", "15:00"."""
    if date := re.fullmatch(r"d:\?-(0[1-9]|1[0-2])-(\d\d)", text):
        return f"{int(date[2])} {month_name[int(date[1])]}"
    return re.sub(r"^(d:(?=\d{4}-)|t:\??(?=\d))", "", text)


def _unit(written: str) -> str:
    """The unit that is meant. Its case can be all that tells two apart: Mb and MB, mW and MW, m and M."""
    told_by_case = len(written) <= 2 and written not in (written.lower(), written.upper())
    return written if told_by_case else w.UNITS.get(written.casefold(), written)
