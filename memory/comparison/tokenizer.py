"""Reading a fact into tokens that are equal where the meaning is: numbers, dates, times, verbs in base form, synonyms.

The steps, in order: dates and times as one token each; words without the punctuation around them, with borders of
sentences (`|`), commas and question marks kept as tokens; contractions; numbers and their units; base forms; fillers.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from memory.comparison import lexicon as w

_MONTH = "|".join(sorted(w.MONTHS, key=len, reverse=True))
_DAY_OF_MONTH = (
    rf"(?P<day1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month1>{_MONTH})\b\.?(?:,?\s+(?P<year1>\d{{4}})\b)?"
)
_MONTH_DAY = rf"\b(?P<month2>{_MONTH})\b\.?\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,?\s+(?P<year2>\d{{4}})\b)?"
_ISO = r"\b(?P<year3>\d{4})-(?P<month3>\d{2})-(?P<day3>\d{2})\b"
_DATE = re.compile(rf"\b{_DAY_OF_MONTH}|{_MONTH_DAY}|{_ISO}", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?<![\d.:-])(?P<hour>1[0-2]|0?[1-9])(?::(?P<minute>[0-5]\d))?\s?(?P<half>[ap])\.?m\b\.?|"
    r"(?<![\d.:-])(?P<hour24>\d{1,2}):(?P<minute24>[0-5]\d)(?![\d:]|\.\d)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"([~<>=≈≥≤+-]*)([$€£]?)(\d[\d,]*(?:\.\d+)?)([A-Za-z%°$€£]{0,12})")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_OPENING, _CLOSING = "([{\"'“‘«`", ")]}\"'”’»`…"
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_IN_CAPITALS = frozenset(
    {"us", "it", "who", "in", "or", "is", "am", "so", "pm", "no", "can", "may", "will", "as", "at"}
)


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is compared; `raw` is as it was written; `name`: written as a name, where a plain word would not be."""

    text: str
    raw: str
    name: bool = False
    number: bool = False


def _verb_forms() -> dict[str, str]:
    """Form to `base`, `base+s`, `base+ed` (past or participle) or `base+ing`.

    One and many stay apart, as a plural can look like a verb: "the weekly reports contain", "the report contains".
    """
    forms: dict[str, str] = {}
    for base in w.REGULAR_VERBS:
        same = w.SYNONYMS.get(base, base)
        if base[-1] == "y" and base[-2] not in "aeiou":
            third, past = f"{base[:-1]}ies", f"{base[:-1]}ied"
        else:
            third = f"{base}es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else f"{base}s"
            past = f"{base}d" if base.endswith("e") else f"{base}ed"
        gerund = f"{base[:-1]}ing" if base.endswith("e") and not base.endswith("ee") else f"{base}ing"
        pasts = list(w.IRREGULAR_PASTS[base]) if base in w.IRREGULAR_PASTS else [past]
        if base in ("plan", "stop", "ship", "permit", "log", "refer", "swim", "run", "get", "win", "begin", "travel"):
            gerund = f"{base}{base[-1]}ing"
            if base not in w.IRREGULAR_PASTS:
                pasts.append(f"{base}{base[-1]}ed")
        for form, mark in [(base, ""), (third, "+s"), (gerund, "+ing"), *((past, "+ed") for past in pasts)]:
            forms.setdefault(form, same + mark)
    return forms | {
        "am": "be", "is": "be", "are": "be+pl", "was": "be+ed", "were": "be+pl+ed", "has": "have+s", "had": "have+ed",
        "based": "base+ed",
    }  # fmt: skip


VERB_FORMS = _verb_forms()
VERBS = frozenset(VERB_FORMS.values()) | {"be", "have"}


def number_free(texts: Iterable[str]) -> tuple[str, ...]:
    """`texts` with verbs in the form that goes with one and many alike."""
    return tuple(text.replace("+pl", "").removesuffix("+s") for text in texts)


def _dated(match: re.Match[str]) -> str:
    found = match.groupdict()
    place = next(n for n in "123" if found[f"day{n}"])
    month = found[f"month{place}"].lower()
    number = w.MONTHS.get(month) or int(month)
    return f" d:{found[f'year{place}'] or '?'}-{number:02d}-{int(found[f'day{place}']):02d} "


def _timed(match: re.Match[str]) -> str:
    if match["half"]:
        hour = int(match["hour"]) % 12 + (12 if match["half"].lower() == "p" else 0)
        return f" t:{hour:02d}:{match['minute'] or '00'} "
    hour = int(match["hour24"])
    # Whether 3:00 is of the night or of the afternoon is not said.
    sure = hour >= 12 or hour == 0 or match["hour24"].startswith("0")
    return f" t:{'' if sure else '?'}{hour:02d}:{match['minute24']} "


def tokens_of(text: str) -> list[Token]:
    """The tokens of `text`, with their borders and without fillers. Time and size are linear in its length."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("‘", "'")
    text = _CLOCK.sub(_timed, _DATE.sub(_dated, text))
    text = re.sub(r"\s[-–—]{1,2}\s|—", " , ", text)
    found: list[Token] = []
    for chunk in text.split():
        _read_chunk(chunk, found)
    return _without_fillers(_opened(_numbered(found)))


def _read_chunk(chunk: str, found: list[Token]) -> None:
    opened = len(chunk) - len(chunk.lstrip(_OPENING))
    if opened and chunk[0] in "([{":
        found.append(Token(",", ","))
    chunk = chunk[opened:]
    border = ""
    while chunk and chunk[-1] in _CLOSING + ".,;:!?":
        mark = chunk[-1]
        if mark in "\"'" and not opened and chunk[-2:-1].isdigit():
            break  # feet and inches
        if mark == "?":
            border = "?"
        elif mark in ".;:!…" and border != "?":
            border = "|"
        elif mark in ",)]}" and not border:
            border = ","
        chunk = chunk[:-1]
    if border == "|" and (chunk.lower() in w.TITLES or (len(chunk) == 1 and chunk.isalpha() and chunk.isupper())):
        border = ""
    if chunk:
        fresh = not found or found[-1].text == "|"
        for part in _parts(chunk):
            _read_word(part, found, fresh)
            fresh = False
    if border:
        found.append(Token(border, border))


def hyphened(text: str) -> frozenset[str]:
    """Words with a hyphen of which a part would say something else alone: what is read-only is not read only once."""
    # Words without one match as well: where they do not, one long word is searched again from each of its letters.
    words = re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", unicodedata.normalize("NFKC", text).casefold())
    telling = w.QUANTIFIERS | w.NEGATIONS | w.MODALS | w.PREPOSITIONS
    return frozenset(word for word in words if "-" in word and telling & set(word.split("-")))


def _parts(chunk: str) -> list[str]:
    if any(mark in chunk for mark in ("/", "@", "\\", "_")) or chunk.startswith(("d:", "t:")):
        return [chunk]
    return [part for part in _HYPHEN.split(chunk) if part]


def _read_word(raw: str, found: list[Token], fresh: bool) -> None:
    lower = raw.casefold()
    if raw.startswith(("d:", "t:")):
        found.append(Token(raw, raw, number=True))
        return
    if lower in w.CONTRACTIONS:
        found.extend(Token(VERB_FORMS.get(part, part), raw) for part in w.CONTRACTIONS[lower].split("_"))
        return
    if lower.endswith("n't") and len(lower) > 4:
        found.extend((Token(VERB_FORMS.get(lower[:-3], lower[:-3]), raw), Token("not", raw)))
        return
    possessive = lower.endswith(("'s", "s'"))
    if possessive:
        cut = 2 if lower.endswith("'s") else 1
        raw, lower = raw[:-cut], lower[:-cut]
    if any(mark in raw for mark in "/\\_"):
        # Paths and identifiers mean another thing in another case.
        found.append(Token(raw, raw, name=True))
        return
    if raw == "A" and not fresh:
        found.append(Token("A", raw, name=True))
        return
    if lower in ("few", "little") and found and found[-1].text == "a":
        found[-1] = Token(f"a {lower}", raw)
        return
    capital = raw[:1].isupper()
    if lower in w.ORDINALS:
        found.append(Token(w.ORDINALS[lower], raw))
    elif (number := _NUMBER.fullmatch(raw)) is not None:
        found.extend(_number_tokens(number, raw))
    elif lower in w.NUMBER_WORDS:
        found.append(Token(str(w.NUMBER_WORDS[lower]), raw, number=True))
    elif len(raw) > 1 and raw.isupper() and lower in _IN_CAPITALS:
        found.append(Token(raw, raw, name=True))
    else:
        name = capital and not fresh and lower not in w.WEEKDAYS and lower not in w.PRONOUNS
        for part in _base(lower, name).split("_"):
            found.append(Token(part, raw, name=name or any(char.isupper() for char in raw[1:])))
    if possessive:
        found.append(Token("'s", "'s"))


def _base(lower: str, name: bool) -> str:
    # A name is nobody's synonym: "Will Mark" must not become a verb.
    form = lower if name else VERB_FORMS.get(lower, lower)
    return w.SYNONYMS.get(form, form)


def _number_tokens(match: re.Match[str], raw: str) -> list[Token]:
    sign, currency, digits, suffix = match.groups()
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    tokens = [Token(sign + digits, raw, number=True)]
    for unit in (currency, suffix):
        if unit:
            tokens.append(Token(_unit(unit), raw, number=True))
    return tokens


def _unit(written: str) -> str:
    """The unit that is meant. Its case can be all that tells two apart: Mb and MB, mW and MW, m and M."""
    known = w.UNITS.get(written.casefold())
    if known is None or (len(written) <= 2 and written not in (written.lower(), written.upper())):
        return written
    return known


def _numbered(tokens: list[Token]) -> list[Token]:
    """With compound number words as one number, and the words after a number read as its unit."""
    out: list[Token] = []
    for token in tokens:
        before = out[-1] if out else None
        if token.text in ("noon", "midnight"):
            token = Token("t:12:00" if token.text == "noon" else "t:00:00", token.raw, number=True)
        elif before is not None and before.number and before.text[-1:].isdigit():
            if token.number and _adds_up(before, token):
                total = int(before.text) + int(token.text)
                out[-1] = Token(str(total), f"{before.raw} {token.raw}", number=True)
                continue
            if not token.number and (token.raw.casefold() in w.UNITS or token.raw == "cent"):
                token = Token("%" if token.raw == "cent" else _unit(token.raw), token.raw, number=True)
            elif not token.number and token.raw.isalpha() and len(token.raw) <= 3:
                token = Token(_unit(token.raw), token.raw, token.name)
        out.append(token)
    return out


def _adds_up(tens: Token, ones: Token) -> bool:
    """Whether two number words are one number: "twenty five"."""
    if not (tens.raw.isalpha() and ones.raw.isalpha() and tens.text.isdigit() and ones.text.isdigit()):
        return False
    return int(tens.text) in range(20, 100, 10) and 0 < int(ones.text) < 10


def _opened(tokens: list[Token]) -> list[Token]:
    texts = [token.text for token in tokens if token.text not in w.ARTICLES][:6]
    for opening in w.OPENINGS:
        bare = [VERB_FORMS.get(word, word) for word in opening if word not in w.ARTICLES]
        if texts[: len(bare)] == bare:
            kept, left = list(tokens), len(bare)
            while left:
                left -= kept.pop(0).text not in w.ARTICLES
            return kept[1:] if kept and kept[0].text == "," else kept
    return tokens


def _without_fillers(tokens: list[Token]) -> list[Token]:
    """Without fillers, the "do" of "do not", serial commas, doubled borders and the last full stop."""
    out: list[Token] = []
    for place, token in enumerate(tokens):
        following = tokens[place + 1].text if place + 1 < len(tokens) else ""
        if token.text in w.FILLERS and not token.name:
            continue
        if token.text in ("do", "does") and following == "not":
            continue
        if token.text == "," and (not out or out[-1].text in (",", "|") or following in ("and", "or", "|", "?", "")):
            continue
        if token.text == "|" and (not out or out[-1].text == "|"):
            continue
        out.append(token)
    while out and out[-1].text in ("|", ","):
        out.pop()
    return out
