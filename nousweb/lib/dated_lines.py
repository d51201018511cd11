"""The day in the line of a memory whose words depend on one: "Yesterday (2026-01-07) the sensors gave false alarms".

Words that name one time get it behind them. Others ("now", "recently", "is 34 years old") give the line the mark
"as of". Quoted words and code are left alone, as is every memory without such words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from nousweb.lib.time_ranges import NOW, TimeExpression, time_expressions
from nousweb.lib.time_words import TIME_WORDS

_HOW_LONG = r"(?:days|weeks|months|years)"

NAMING: Mapping[str, tuple[str, ...]] = {
    "en": (
        r"{day}(?:['’]s)?(?: {part})?", r"tonight|last night|this (?:morning|afternoon|evening)",
        r"(?:this|last|next) (?:week(?:end)?|month|quarter|year|{weekday}|{month})(?! of\b)(?:['’]s)?",
        r"(?<!half ){n} {unit} ago",
        r"(?:(?<=due )|(?<=starts )|(?<=ends )|(?<=begins )|(?<=expires )|(?<=leaves )|(?<=opens )|(?<=closes )"
        r"|(?<=back )|(?<=again ))in {n} {unit}",
    ),
    "de": (
        r"gestern(?: {part})?|vorgestern|heute(?: {part}| nacht)?|übermorgen|letzte nacht",
        r"(?<!am )(?<!guten )(?<!jeden )(?<!de[nrs] )(?<!diesen )(?<!diesem )(?<!eines )(?<!zum )morgen"
        r"(?! des\b)(?: {part})?",
        r"(?:diese|letzte|nächste|vorige|vergangene|kommende)[nrms]? (?:woche|wochenende|monate?s?|quartal|jahre?s?"
        r"|{weekday})(?! de[rs]\b)",
        r"vor {n} {unit}",
    ),
    "fr": (
        r"(?:avant[- ])?hier(?:(?: au)? {part})?|aujourd['’]hui|(?:après[- ])?demain(?: {part})?",
        r"cette (?:nuit|semaine|année)|ce (?:matin|soir|mois|week[- ]?end|trimestre|{weekday})|cet après[- ]midi",
        r"(?:semaine|année|mois|trimestre|an|week[- ]?end|{weekday}) (?:derni[eè]re?|prochaine?|passée?)(?! de\b)",
        r"il y a {n} {unit}|dans {n} {unit}",
    ),
    "es": (
        r"anteayer|ayer(?: por la {part})?|hoy(?! en día)|anoche|pasado mañana|esta (?:mañana|tarde|noche)",
        r"(?<!la )(?<!esta )(?<!cada )(?<!una )(?<!pasado )mañana(?: por la {part})?",
        r"est[ea] (?:semana|mes|año|trimestre|fin de semana|{weekday})",
        r"(?:semana|mes|año|trimestre|fin de semana|{weekday}) (?:pasad[oa]|próxim[oa]|que viene)",
        r"(?:próxim[oa]|pasado) (?:semana|mes|año|trimestre|{weekday})", r"hace {n} {unit}|dentro de {n} {unit}",
    ),
}  # fmt: skip
OPEN: Mapping[str, tuple[str, ...]] = {
    "en": (
        r"currently|presently|nowadays|recently|lately|at (?:the moment|present)|right now|for now|so far this \w+"
        r"|(?:as of|until|by|just) now|these days|the other day|a while ago|over the weekend"
        r"|half a year ago|this past (?:week(?:end)?|month|year|{weekday})",
        r"(?<!from )(?<!until )(?<!by )(?<!just )(?<!right )(?<!for )(?-i:now)(?! and (?:then|again)\b| that\b)",
        # At the beginning of an instruction it only says that a step follows.
        r"(?-i:Now)(?= (?:\w+[^s\W]s|i|we|he|she|they|it|the)\b)",
        r"(?<=['’]s )current|(?<=my )current|(?<=his )current|(?<=her )current|(?<=its )current|(?<=our )current"
        r"|(?<=their )current",
        r"(?:in|over|during|for|within) the (?:last|past)(?: {n}| few| couple of)? (?:{unit})|the past {n} {unit}",
        rf"(?:ha(?:s|ve)|['’]ve) (?:\w+ ){{1,5}}for (?:{{n}}|\d+) {_HOW_LONG}",
        r"(?:{n}|\d+)[- ]years?[- ]old|(?<=aged )\d{1,3}", r"(?:this|last|next) (?:spring|summer|autumn|fall|winter)",
    ),
    "de": (
        r"jetzt|derzeit|momentan|zurzeit|zur zeit|im moment|gegenwärtig|aktuell|kürzlich|neulich|vor kurzem"
        r"|seit kurzem|in letzter zeit|heutzutage",
        r"(?:{n}|\d+) jahre alt", r"(?:seit|in) (?:{n}|\d+) (?:tagen|wochen|monaten|jahren)",
        r"(?:in )?(?:den|die) letzten (?:{n} )?(?:tagen?|wochen|monaten?|jahren?)",
    ),
    "fr": (
        r"maintenant|actuellement|en ce moment|pour l['’]instant|récemment|dernièrement|de nos jours"
        r"|ces derniers (?:temps|jours|mois)|ces dernières (?:semaines|années)",
        r"(?:a|âgée? de|ai|as) (?:{n}|\d+) ans", r"depuis (?:{n}|\d+) (?:jours|semaines|mois|ans)",
    ),
    "es": (
        r"ahora(?! bien\b)|actualmente|en este momento|de momento|recientemente|últimamente|hoy en día|hace poco",
        r"(?:tiene|tengo|tenía|cumplió) (?:{n}|\d+) años", r"desde hace (?:{n}|\d+) (?:días|semanas|meses|años)",
        r"en (?:los|las) últim[oa]s (?:{n} )?(?:días|semanas|meses|años)",
    ),
}  # fmt: skip
SIGNS = (
    "yesterday|today|tomorrow|tonight|this\\b|these\\b|last\\b|next\\b|ago\\b|now\\b|nowadays"
    "|current|presently|present\\b"
    "|recently|lately|moment|other day|past\\b|years?\\b|months?\\b|weeks?\\b|weekend|days\\b"
    "|aged\\b|in \\w+ (?:day|hour)"
    "|gestern|heut|übermorgen|morgen|letzte|nächste|vorige|vergangene|kommende|diese|vor|jetzt|derzeit|zur ?zeit"
    "|gegenwärtig|aktuell\\b|kürzlich|neulich|jahre|seit\\b|tagen|wochen|monaten"
    "|hier\\b|aujourd|demain|cet?\\b|cette|derni|prochain|passée?\\b|il y a\\b|maintenant|actuellement|instant"
    "|récemment|dans\\b|ans\\b|depuis\\b|nos jours"
    "|anteayer|ayer|hoy\\b|anoche|mañana|est[ea]\\b|pasad[oa]|próxim|viene\\b|hace\\b|dentro de"
    "|ahora|actualmente|momento"
    "|recientemente|últim|años\\b"
)
"""The beginnings of words, in small letters, of which a text that any of these expressions is in has one."""


_QUOTED = (
    r"```.*?(?:```|\Z)", r"`[^`\n]*`", r'"[^"\n]*"', r"“[^”\n]*”", r"„[^“”\n]*[“”]", r"«[^»\n]*»", r"‘[^’\n]*’(?!\w)",
    r"(?<!\w)'(?=\S)[^'\n]*'(?!\w)",
)  # fmt: skip
_DAY_FOLLOWS = re.compile(
    r",? ?\(?(?:as of |on |the |le |el |am |den )?"
    r"(?:\d{4}-\d\d|\d{1,2}(?:st|nd|rd|th|er|º)?[./]? ?(?:of |de )?[^\W\d_]{3,}\.?,? \d{4}"
    r"|[^\W\d_]{3,}\.? \d{1,2},? \d{4})",
    re.IGNORECASE,
)
"""The writer named the day."""


def _pattern(code: str) -> str:
    """The words of a language: the group of its code names a time, the other one is open."""
    words = TIME_WORDS[code]
    spelled = {
        "part": "|".join(words.part.values()),
        "weekday": words.weekday,
        "month": words.month,
        "n": r"\d{1,3}|" + "|".join(words.n.values()),
        "unit": "|".join(words.unit.values()),
        "day": "|".join(words.day.values()),
    }
    groups = []
    for name, patterns in ((code, NAMING[code]), (f"{code}{_OPEN}", OPEN[code])):
        either = "|".join(patterns).replace(" ", r"\s")
        for word, values in spelled.items():
            either = either.replace(f"{{{word}}}", f"(?:{values})".replace(" ", r"\s"))
        groups.append(f"(?P<{name}>{either})")
    return "|".join(groups)


_OPEN = "_open"
_WORDS = re.compile(
    rf"(?P<quoted>{'|'.join(_QUOTED)})"
    rf"|(?<![\w./@#$&-])(?:{'|'.join(map(_pattern, NAMING))})(?![\w(/@=]|-\w|\.\w)",
    re.IGNORECASE | re.DOTALL,
)
_SIGNS = re.compile(rf"\b(?:{SIGNS})")
"""Most texts have none of these: they are not looked at any further."""
_GERMAN = re.compile(r"\b(?:ist|sind|der|die|das|und|nicht|ich|wir|eine?|mit|war|hat|den|im|am|von)\b", re.IGNORECASE)
_IN_SENTENCE = re.compile(r"[^\W\d_] $")
_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Told:
    """When a memory was told, and the time zone of its agent.

    `began` is the moment that it speaks of, `recorded` that of its record: the same but for a fact with a valid time.
    With `dated`, its label is a date. With `always`, its line says its day whatever its words. `source_changed`: since
    when what it was read from is another one.
    """

    began: datetime
    recorded: datetime
    zone: ZoneInfo
    dated: bool = False
    always: bool = False
    source_changed: datetime | None = None

    @property
    def source_mark(self) -> str:
        """What its line says of its source; "" if that is the same."""
        since = self.source_changed
        return f"source changed {since.astimezone(self.zone):%Y-%m-%d}" if since else ""

    @property
    def day(self) -> str:
        """The day as of which it holds."""
        return f"{min(self.began, self.recorded).astimezone(self.zone):%Y-%m-%d}"


def line_dated(item: str, told: Told) -> tuple[str, str]:
    """A fenced item with its times resolved, and its mark: "as of" and a day, or ""."""
    parts, end, open_words, seen = [], 0, told.always, set()
    for begin, finish, language in _time_words(item):
        words = item[begin:finish].lower()
        if words in seen:
            continue
        seen.add(words)
        is_open = language.endswith(_OPEN) or _DAY_FOLLOWS.match(item, finish)
        when = "" if is_open else _resolved(words, language, told.began, told.recorded, told.zone)
        open_words |= not when
        if when:
            parts += [item[end:finish], f" ({when})"]
            end = finish
    return "".join([*parts, item[end:]]), f"as of {told.day}" if open_words and not told.dated else ""


def undated_parts(item: str) -> list[str]:
    """The text between the places where `line_dated` may put days: what a quote of the line has of it."""
    ends = [finish for _, finish, _ in _time_words(item)]
    return [item[begin:end] for begin, end in zip([0, *ends], [*ends, len(item)], strict=True)]


@lru_cache(maxsize=8_192)
def _time_words(item: str) -> tuple[tuple[int, int, str], ...]:
    """Where words that depend on a day begin and end, with their language."""
    return tuple(_found(item))


def _found(item: str) -> Iterator[tuple[int, int, str]]:
    if not _SIGNS.search(item.lower()):
        return
    for match in _WORDS.finditer(item):
        language = match.lastgroup or ""
        # "hier" is yesterday in French, and here in German; within a sentence, "Today" is of a name.
        name = match[0].istitle() and _IN_SENTENCE.search(item[max(0, match.start() - 2) : match.start()])
        if language != "quoted" and not name and not (match[0].lower() == "hier" and _GERMAN.search(item)):
            yield match.start(), match.end(), language


@lru_cache(maxsize=8_192)
def _resolved(words: str, language: str, began: datetime, recorded: datetime, zone: ZoneInfo) -> str:
    """The day or days that words name, "" if that is not certain.

    What was recorded later than it speaks of is read from then, unless the words name then from its record.
    """
    found = _read(words, language, recorded, zone)
    if began < recorded and not (found and found.start and found.end and found.start <= began < found.end):
        found = _read(words, language, began, zone)
    return _days(found.start, found.end) if found and found.start and found.end else ""


def _read(words: str, language: str, moment: datetime, zone: ZoneInfo) -> TimeExpression | None:
    found = time_expressions(words, moment, zone, (language,))
    return found[0] if len(found) == 1 and found[0].certain and found[0].granularity != NOW else None


def _days(start: datetime, end: datetime) -> str:
    """`start` to before `end` as a day, a month, a year, or the first and the last day."""
    last = end - _MOMENT
    first_day, last_day = f"{start:%Y-%m-%d}", f"{last:%Y-%m-%d}"
    if end - start <= timedelta(days=1):
        return first_day
    whole_months = start.day == end.day == 1
    if whole_months and start.month == end.month == 1 and start.year == last.year:
        return first_day[:4]
    if whole_months:
        first_day, last_day = first_day[:7], last_day[:7]
    return first_day if first_day == last_day else f"{first_day} to {last_day}"
