"""Read the times that a text names: as ranges from a moment, in a time zone, in the languages of `TIME_WORDS`. Pure.

Weeks begin on Monday, as those of ISO 8601. Days are from one local midnight to the next, whatever their hours.
"""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from nousweb.lib.time_words import LAST_NIGHT, TIME_WORDS, TimeWords

MONTHS = {"month": 1, "quarter": 3, "year": 12}


def later(moment: datetime, span: timedelta) -> datetime:
    """A span of the clock later, also over a change of summer time."""
    return (moment.astimezone(UTC) + span).astimezone(moment.tzinfo)


def midnight(day: date, zone: tzinfo | None) -> datetime:
    """The local midnight with which a day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def period_of(unit: str, day: date) -> tuple[date, date]:
    """The first day of the unit of the calendar that holds `day`, and the first behind it."""
    if months := MONTHS.get(unit):
        first = date(day.year, (day.month - 1) // months * months + 1, 1)
        return first, moved("month", first, months)
    monday = day - timedelta(day.weekday())
    match unit:
        case "week":
            return monday, monday + timedelta(7)
        case "weekend":
            return monday + timedelta(5), monday + timedelta(7)
    return day, day + timedelta(1)


def moved(unit: str, day: date, n: int) -> date:
    """A day `n` units later: at the end of a shorter month, its last day."""
    if unit not in MONTHS:
        return day + timedelta(n * (1 if unit == "day" else 7))
    year, month = divmod(day.year * 12 + day.month - 1 + n * MONTHS[unit], 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def weekday_day(today: date, weekday: int, shift: int | None) -> date:
    """That day of this week, or the nearest before today, or after it."""
    if shift == 0:
        return today + timedelta(weekday - today.weekday())
    if shift == 1:
        return today + timedelta((weekday - today.weekday() - 1) % 7 + 1)
    return today - timedelta((today.weekday() - weekday - 1) % 7 + 1)


def month_begin(today: date, month: int, year: int | None, shift: int | str | None) -> date:
    """The first of a month: of `year`, or of the latest that has begun; before or after this month with a shift."""
    if year is None:
        year = today.year - (month > today.month or (month == today.month and shift == -1))
        year += shift == 1
    return date(year, month, 1)


MAX_READ = 2_000
"""Characters of a text in which times are looked for."""
_NEAR = len(" of the ")
_AND = ("and", "und", "et", "y")
NOW, PART = "now", "part of day"
_CLOCK = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_VAGUE_NUMBERS = re.compile(r"few|couple|several|paar|einigen|wenigen|mehreren|quelques|plusieurs|un[oa]s|poc|vari|par")
_ISO = (
    r"(?P<iso>(?<![\w./-])\d{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?(?![\w/-]))",
    r"(?P<date>(?<![\w./-])\d{1,2}/\d{1,2}/\d{4}(?![\w/-]))",
    r"{year}-W{week}",
)


@dataclass(frozen=True, slots=True)
class TimeExpression:
    """Words about a time, at `begin` to `finish` of their text, and the range from `start` to before `end`.

    An open end is None: `start` where everything before is meant, `end` where everything up to now and later is.
    `granularity`: now, minute, hour, part of day, day, weekend, week, month, quarter or year. It is `certain` unless
    the words leave open which day, or year, of several they mean.
    """

    text: str
    begin: int
    finish: int
    start: datetime | None
    end: datetime | None
    granularity: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class TimeAnchor:
    """An event by which a text names a time: `phrase` after a word like "before"; `relation` is since, after, before or
    until."""

    text: str
    relation: str
    phrase: str


def time_expressions(
    text: str, now: datetime, zone: ZoneInfo, languages: Iterable[str] = ("en",)
) -> tuple[TimeExpression, ...]:
    """The times that `text` names, in reading order, without overlaps, seen from `now` in `zone`."""
    text = text[:MAX_READ]
    found = [
        each
        for language in dict.fromkeys(languages)
        if language in TIME_WORDS
        for each in _related(text, list(_points(text, now.astimezone(zone), language)), language)
    ]
    found.sort(key=lambda each: (each.begin, -each.finish))
    chosen: list[TimeExpression] = []
    for each in found:
        if not chosen or each.begin >= chosen[-1].finish:
            chosen.append(each)
    return tuple(chosen)


def may_name_time(text: str) -> bool:
    """Whether `text` has any word, in any of the languages, without which it names no time and no event."""
    return any(_reader(language).trigger.search(text, 0, MAX_READ) for language in TIME_WORDS)


def time_anchor(text: str, languages: Iterable[str] = ("en",)) -> TimeAnchor | None:
    """The event beside which `text` asks, as in "before the migration"; None if there is none."""
    for language in languages:
        if language in TIME_WORDS and (match := _reader(language).anchor.search(text[:MAX_READ])):
            relation = next(name for name in _RELATIONS if match[name])
            return TimeAnchor(match[0].strip(), relation, match["phrase"].strip())
    return None


_RELATIONS = ("since", "after", "before", "until")
_Table = Sequence[tuple[re.Pattern[str], int | str]]


def _values(table: Mapping[str, str]) -> _Table:
    return [
        (re.compile(words.replace(" ", r"\s+"), re.I), int(value) if value.lstrip("-").isdigit() else value)
        for value, words in table.items()
    ]


@dataclass(frozen=True, slots=True)
class _Reader:
    """The compiled tables of a language. `patterns` say of each whether it is bare; `relations` match before a time."""

    trigger: re.Pattern[str]
    patterns: Sequence[tuple[re.Pattern[str], bool]]
    tables: Mapping[str, _Table]
    parts: Sequence[tuple[re.Pattern[str], tuple[int, int]]]
    before_bare: re.Pattern[str]
    relations: Mapping[str, re.Pattern[str]]
    joined: re.Pattern[str]
    first_day: re.Pattern[str]
    anchor: re.Pattern[str]


def _either(words: Iterable[str]) -> str:
    # The longest first: of two words one may begin with the other.
    return "|".join(sorted("|".join(words).split("|"), key=len, reverse=True))


@lru_cache
def _reader(language: str) -> _Reader:
    words: TimeWords = TIME_WORDS[language]
    months = words.month.split("|")
    every: dict[str, str] = {
        "part": _either(words.part.values()),
        "weekday": words.weekday,
        "month": words.month,
        "monthly": _either([*months, *(name[:length] for name in months for length in (3, 4))]),
        "year": r"(?:19|20)\d\d",
        "week": r"[0-5]?\d",
        "now": words.now,
        "n": r"\d{1,3}|" + _either(words.n.values()),
        "quarter": "[1-4]|" + _either(words.quarter.values()),
        **{name: _either(getattr(words, name).values()) for name in ("day", "shift", "unit", "vague")},
    }

    def compiled(pattern: str, *, ends: str = r"(?<!\w)(?:{})(?!\w)") -> re.Pattern[str]:
        for name, said in every.items():
            group = f"(?:{said})" if name == "monthly" else f"(?P<{name}>{said})"
            pattern = pattern.replace(f"{{{name}}}", group)
        return re.compile(ends.replace("{}", pattern.replace(" ", r"\s+").replace(r"\s+?", r"\s*")), re.IGNORECASE)

    article = rf"(?:(?:{words.article})\s*)*"
    opening = {name: getattr(words, name) for name in (*_RELATIONS, "between")}
    relations = {
        name: re.compile(rf"(?<!\w)(?:{said})\s*{article}$".replace(" ", r"\s+"), re.I)
        for name, said in opening.items()
    }
    bare = "|".join([words.before_bare, words.joiner, *opening.values()])
    units = "|".join(value for name in ("unit", "part", "vague", "day") for value in getattr(words, name).values())
    return _Reader(
        trigger=re.compile(
            rf"\d{{4}}|\d\.\d\d?\.|(?<!\w)(?:(?:{units}|{words.month}|{words.now}|q[1-4]|t[1-4]|kw|kalenderwoche|{words.since}|{words.after}"
            rf"|{words.before}|{words.until})(?!\w)|{words.weekday}"
            rf"|(?:{every['monthly']})\.? \d)|\d(?:st|nd|rd|th|\.)? (?:{every['monthly']})(?!\w)".replace(" ", r"\s+"),
            re.IGNORECASE,
        ),
        patterns=[
            *((compiled(pattern), False) for pattern in (*_ISO, *words.certain)),
            *((compiled(pattern), True) for pattern in words.bare),
        ],
        tables={name: _values(getattr(words, name)) for name in ("day", "shift", "unit", "n", "quarter", "vague")}
        | {name: _values({str(at): each for at, each in enumerate(getattr(words, name).split("|"))})
           for name in ("weekday", "month")},
        parts=[(re.compile(said, re.IGNORECASE), hours) for hours, said in words.part.items()],
        before_bare=re.compile(rf"(?:^|(?<!\w))(?:{bare})\s*{article}$".replace(" ", r"\s+"), re.IGNORECASE),
        relations=relations,
        joined=re.compile(rf"^\s*(?:{words.joiner})\s*{article}$".replace(" ", r"\s+"), re.IGNORECASE),
        first_day=re.compile(
            rf"(?<!\w)(?:(?P<opened>{words.between})\s+{article})?(?P<first>[0-3]?\d)(?:st|nd|rd|th|\.)?\s*"
            rf"(?P<joiner>{words.joiner})\s*{article}$".replace(" ", r"\s+"), re.IGNORECASE
        ),
        anchor=re.compile(
            r"(?<!\w)(?:" + "|".join(f"(?P<{name}>{opening[name]})" for name in _RELATIONS)
            + rf")\s+(?P<phrase>(?:{words.anchor})\s+[^,.;:!?]+)", re.IGNORECASE
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Point:
    """A time alone, before the words around it are read."""

    begin: int
    finish: int
    start: datetime
    end: datetime | None
    granularity: str
    certain: bool


def _points(text: str, now: datetime, language: str) -> Iterator[_Point]:
    """The times in `text` by the patterns of one language: of those that overlap the first, of these the longest."""
    reader = _reader(language)
    if not reader.trigger.search(text):
        return
    matches = [
        (match.start(), -match.end(), order, match, bare)
        for order, (pattern, bare) in enumerate(reader.patterns)
        for match in pattern.finditer(text)
    ]
    taken = 0
    for begin, finish, _, match, bare in sorted(matches, key=lambda each: each[:3]):
        if begin < taken or (bare and not reader.before_bare.search(text[max(0, begin - 40) : begin])):
            continue
        if (read := _range_of(match, now, reader, language)) is not None:
            taken = -finish
            yield _Point(begin, -finish, *read)


def _related(text: str, points: Sequence[_Point], language: str) -> Iterator[TimeExpression]:
    """The times with the words before them that open a range at one end, or join two."""
    reader, place = _reader(language), 0
    while place < len(points):
        point = points[place]
        place += 1
        ahead = text[max(0, point.begin - 40) : point.begin]
        start: datetime | None = point.start
        end, finish, begin = point.end, point.finish, point.begin
        said = {name: match for name, pattern in reader.relations.items() if (match := pattern.search(ahead))}
        following = points[place] if place < len(points) else None
        if "between" in said and following and reader.joined.search(text[point.finish : following.begin]):
            start, end, finish, place = _ahead_of(point.start, following), following.end, following.finish, place + 1
        elif first := _first_day(text, point, ahead, reader):
            start, said = point.start.replace(day=int(first["first"])), {"between": first}
            begin -= len(first[0])
        elif "since" in said:
            end = None
        elif "until" in said:
            start = None
        elif "after" in said:
            start, end = point.end, None
        elif "before" in said:
            start, end = None, point.start
        elif following and _is_day_of(point, following):
            day = following.start + timedelta(point.start.weekday())
            start, end, finish, place = day, day + timedelta(1), following.finish, place + 1
        if opened := [match for name, match in said.items() if name != "between" or finish != point.finish]:
            begin -= max(len(match[0]) for match in opened)
        yield TimeExpression(text[begin:finish], begin, finish, start, end, point.granularity, point.certain)


def _first_day(text: str, point: _Point, ahead: str, reader: _Reader) -> re.Match[str] | None:
    """The first of two days of one month, as in "from 3 to 10 May", where `point` is the second."""
    found = reader.first_day.search(ahead) if point.granularity == "day" and text[point.begin].isdigit() else None
    if not found or not 0 < int(found["first"]) < point.start.day:
        return None
    return found if found["opened"] or found["joiner"].lower() not in _AND else None


def _is_day_of(point: _Point, following: _Point) -> bool:
    """Whether the second names the week of the first, as in "on Monday of last week"."""
    is_day = (point.granularity, point.certain, following.granularity) == ("day", False, "week")
    return is_day and following.begin - point.finish <= _NEAR


def _ahead_of(start: datetime, following: _Point) -> datetime:
    """The nearest such day, or such month, ahead of the second of two ends."""
    if start <= following.start:
        return start
    return (
        start - timedelta(7)
        if start - following.start < timedelta(7)
        else midnight(moved("year", start.date(), -1), start.tzinfo)
    )


_Range = tuple[datetime, datetime | None, str, bool]


def _range_of(match: re.Match[str], now: datetime, reader: _Reader, language: str) -> _Range | None:
    """The range of the words that a pattern matched; None where they are no time after all."""
    said = {name: value for name, value in match.groupdict().items() if value is not None}
    value = {name: _value(said[name], table) for name, table in reader.tables.items() if name in said}
    today, zone = now.date(), now.tzinfo

    def days(first: date, last: date, granularity: str, *, certain: bool = True) -> _Range:
        return midnight(first, zone), midnight(last, zone), granularity, certain

    def within(unit: str, day: date, *, certain: bool = True) -> _Range:
        first, last = period_of(unit, day)
        return days(first, last, unit, certain=certain)

    def part_of(day: date, words: str, *, certain: bool = True) -> _Range:
        first, last = next(hours for pattern, hours in reader.parts if pattern.fullmatch(words))
        begin, end = (midnight(day, zone) + timedelta(hours=hour) for hour in (first, last))
        return begin, end, PART, certain

    try:
        if "now" in said:
            return days(today, today + timedelta(1), NOW, certain=False)
        if "vague" in said:
            return days(today - timedelta(int(value["vague"])), today + timedelta(1), "day", certain=False)
        if "iso" in said:
            if len(said["iso"]) > len("2025-03"):
                return within("day", date.fromisoformat(said["iso"]))
            return within("month", date.fromisoformat(said["iso"] + "-01"))
        if "date" in said:
            day = _date_of(said["date"], now, language)
            return within("day", day, certain=bool(re.search(r"\d{4}", said["date"]))) if day else None
        if "tonight" in said:
            night = re.search(r"last|letzte|vergangene|heute|cette|derni|ayer|anoche", said["tonight"], re.IGNORECASE)
            hours = LAST_NIGHT if night else (18, 24)
            begin, end = (midnight(today, zone) + timedelta(hours=hour) for hour in hours)
            return begin, end, PART, True
        if "weekend" in said:
            return within("weekend", today - timedelta((today.weekday() - 5) % 7))
        if "weekday" in said:
            shift = value.get("shift")
            day = weekday_day(today, int(value["weekday"]), shift if shift is None else int(shift))
            return part_of(day, said["part"]) if "part" in said else within("day", day, certain=shift is not None)
        if "day" in value or "part" in said:
            day = today + timedelta(int(value.get("day", 0)))
            return part_of(day, said["part"]) if "part" in said else within("day", day)
        if "n" in said or "last" in said:
            return _counted(said, value, now, within, days)
        if "unit" in said:
            return within(str(value["unit"]), moved(str(value["unit"]), today, int(value.get("shift", 0))))
        year = int(said["year"]) if "year" in said else None
        if "week" in said:
            number = int(said["week"])
            if year is None:
                year = today.isocalendar().year
                year -= date.fromisocalendar(year, number, 1) > today
            return within("week", date.fromisocalendar(year, number, 1), certain="year" in said)
        if "quarter" in said or "month" in said:
            unit = "quarter" if "quarter" in said else "month"
            month = 3 * int(value["quarter"]) - 2 if unit == "quarter" else int(value["month"]) + 1
            return within(unit, month_begin(today, month, year, value.get("shift")), certain=year is not None)
        if year is not None:
            return within("year", date(year, 1, 1)) if year <= today.year + 1 else None
    except (ValueError, OverflowError):
        return None
    return None


def _counted(said: Mapping[str, str], value: Mapping[str, int | str], now: datetime, within: Any, days: Any) -> _Range:
    """A number of units: ago, ahead, or the last of them up to now."""
    unit, n, today = str(value["unit"]), int(value.get("n", 1)), now.date()
    certain = not _VAGUE_NUMBERS.search(said.get("n", "").lower())
    if step := _CLOCK.get(unit):
        if "last" in said:
            return later(now, -n * step), None, unit, certain
        middle = later(now, (n if "ahead" in said else -n) * step)
        return later(middle, -step / 2), later(middle, step / 2), unit, certain
    if "last" in said:
        return days(moved(unit, today, -n), today + timedelta(1), unit, certain=certain)
    if certain:
        return within(unit, moved(unit, today, n if "ahead" in said else -n))
    near, far = sorted((1, 2 * n)) if "ahead" in said else (-2 * n, -1)
    return days(
        period_of(unit, moved(unit, today, near))[0], period_of(unit, moved(unit, today, far))[1], unit, certain=False
    )


def _value(word: str, table: _Table) -> int | str:
    if word.isdigit():
        return int(word)
    word = " ".join(word.split())
    return next(value for pattern, value in table if pattern.fullmatch(word))


def _date_of(words: str, now: datetime, language: str) -> date | None:
    """A day by its number and month, and its year; without one the latest that has been."""
    from dateparser import parse  # Loads slowly, and most texts have no date.

    options = {
        "PREFER_DATES_FROM": "past",
        "RELATIVE_BASE": now.replace(tzinfo=None),
        "REQUIRE_PARTS": ["day", "month"],
        **({} if language == "en" else {"DATE_ORDER": "DMY"}),
    }
    found = parse(re.sub(r"\b(?:of|the)\b|º", " ", words), languages=[language], settings=options)
    return found and found.date()
