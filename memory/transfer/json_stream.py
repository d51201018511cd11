"""The records of a JSON file of any size, one at a time, and typed access to their values, which are untrusted.

Only the record that is read is in memory. What stands in a line of its own can be wrong without the rest being so;
where a list breaks off, nothing tells where its next record begins, and the file is refused.
"""

import codecs
import json
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, BinaryIO

from nousweb.lib import Invalid, first_unstorable

MAX_DEPTH = 100
"""Lists and objects within each other; what this product writes is a tenth as deep."""


class BadJson(ValueError):
    """Why the bytes cannot be used, as a sentence without its place; `line` counts from 1 where it is known."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


def json_read(raw: bytes) -> Any:
    """The value in `raw`. Raises BadJson, also for numbers that JSON does not know and text that cannot be stored."""
    try:
        value = DECODER.decode(raw.decode("utf-8"))
        value_check(value)
    except UnicodeDecodeError as error:
        raise BadJson("this is not JSON in UTF-8.", raw.count(b"\n", 0, error.start) + 1) from error
    except (ValueError, RecursionError) as error:
        raise BadJson(refusal_reason(error), getattr(error, "lineno", 0)) from error
    return value


def refusal_reason(error: Exception) -> str:
    """Why DECODER or `value_check` refuses a text, as a sentence."""
    match error:
        case BadJson():
            return error.why
        case json.JSONDecodeError():
            return f"this is not JSON: {error.msg}."
        case RecursionError():
            return f"it is nested more than {MAX_DEPTH} deep."
        case _:
            return "it holds a number of too many digits."


def value_check(value: Any) -> None:
    """Raise BadJson for a value that is nested too deep, or holds text that cannot be stored."""
    _depth_check(value)
    if why := first_unstorable(value):
        raise BadJson(why)


def _refuse_constant(name: str) -> Any:
    raise BadJson(f"it holds {name}, which is no number of JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadJson(f"it holds {text[:20]}, a number that is too great.")
    return number


def _depth_check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for held in level
            if isinstance(held, dict | list)
            for inner in (held.values() if isinstance(held, dict) else held)
        ]
        if not level:
            return
    raise BadJson(f"it is nested more than {MAX_DEPTH} deep.")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
"""Raises BadJson for numbers that JSON does not know."""


MAX_PLACE_CHARACTERS = 200


def place_shown(place: str) -> str:
    """A place as a refusal names it: on one line, and short, since files name their conversations as they like."""
    return printable(" ".join(place.split())[:MAX_PLACE_CHARACTERS])


def printable(text: str) -> str:
    """`text` without control characters for terminals, such as escape sequences."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


class BadEntry(Invalid):
    """The content of a file cannot be read as this format. The message names the place."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place_shown(place)}: {why}", field="file")


def value_get(holder: Any, name: str, where: str, default: Any = None) -> Any:
    """`name` of an object; `default` where it is missing or null. Raises BadEntry."""
    if not isinstance(holder, dict):
        raise BadEntry(where, "this is not an object.")
    value = holder.get(name)
    value = default if value is None else value
    if value is None:
        raise BadEntry(where, f"{name} is missing.")
    return value


def text_get(holder: Any, name: str, where: str, default: str | None = None) -> str:
    """`name` of an object, as `value_get`, and text. Raises BadEntry."""
    value = value_get(holder, name, where, default)
    if not isinstance(value, str):
        raise BadEntry(where, f"{name} is not text.")
    return value


def list_check(where: str, value: Any) -> bool:
    """True for a list. Raises BadEntry."""
    if not isinstance(value, list):
        raise BadEntry(where, "this is not a list.")
    return True


def texts_kept(source: dict[str, Any], *names: str) -> dict[str, Any]:
    """The named values, if they are texts."""
    return {name: source[name] for name in names if isinstance(source.get(name), str)}


def moment_get(where: str, value: Any, *, naive: tzinfo | None = None) -> datetime | None:
    """A moment given as ISO 8601 or in seconds since 1970; its zone may be left out where `naive` is one."""
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise BadEntry(where, "its time is neither ISO 8601 nor seconds since 1970.") from error
    if moment.tzinfo is None:
        if naive is None:
            raise BadEntry(where, "its time lacks its zone.")
        moment = moment.replace(tzinfo=naive)
    return moment


CHUNK = 1 << 20
MAX_RECORD_CHARACTERS = 32 << 20
"""Of one record: a conversation, an agent file, a line."""
MAX_LINE_PEEK = 16 << 20
NEAR_THE_END = 64
"""A mistake so near to what was read last may only be something cut in two."""
BLANK = " \t\r\n"
NOT_BLANK = re.compile(r"[^ \t\r\n]")


@dataclass(frozen=True, slots=True)
class Record:
    """A value with its place, the list of an object that it is of, and the bytes read by then.

    `why` says why there is no value.
    """

    place: str
    value: Any
    read: int
    list_name: str = ""
    why: str = ""


def records_read(file: BinaryIO, lists: Collection[str]) -> Iterator[Record]:
    """The records of `file`: of a list, of those lists of an object that `lists` names, or of its lines.

    An object without any of these lists is one record. Raises BadEntry, with entry and line, where it is no JSON.
    """
    text = _Text(file)
    first = text.next_character()
    if first == "":
        return
    if first == "[":
        yield from text.list_records("")
    elif first == "{" and not text.begins_with_record_line(lists):
        yield from _of_object(text, lists)
    elif first == "{":
        for record in text.line_records():
            yield from _of_line(record, lists)
        return
    else:
        raise BadEntry(f"line {text.line}", "this is neither a list nor an object of JSON.")
    if text.next_character():
        raise BadEntry(f"line {text.line}", "there is more after the end.")


def _of_object(text: "_Text", lists: Collection[str]) -> Iterator[Record]:
    """The lists of an object; without any, the object itself."""
    text.take("{")
    kept: dict[str, Any] = {}
    found, held = False, 0
    while (character := text.next_character()) != "}":
        if kept or found:
            text.take(",")
            character = text.next_character()
        if character != '"':
            raise BadEntry(f"line {text.line}", "a name in quotation marks is missing.")
        begun = text.passed
        name = text.value("a name")
        text.next_character()
        text.take(":")
        if name in lists and text.next_character() == "[":
            found = True
            yield from text.list_records(name)
        else:
            text.next_character()
            kept[name] = text.value(str(name)[:60])
            held += text.passed - begun
            if held > MAX_RECORD_CHARACTERS:
                raise BadEntry(f"line {text.line}", f"the object has more than {MAX_RECORD_CHARACTERS:,} characters.")
    text.take("}")
    if not found:
        yield _record("the file", kept, text.read)


def _of_line(record: Record, lists: Collection[str]) -> Iterator[Record]:
    """The lists inside the object of a line, such as a page of an API; without any, the object itself."""
    value = record.value
    held = [name for name in lists if isinstance(value, dict) and isinstance(value.get(name), list)]
    for name in sorted(held):
        for number, inner in enumerate(value[name], 1):
            yield Record(f"{record.place} {name} entry {number}", inner, record.read, name)
    if not held:
        yield record


class _Text:
    """Characters of a file in UTF-8, as far as they are needed."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self.held = ""
        self.at = 0
        self.passed = 0
        self.line = 1
        self.read = 0
        self.ended = False

    def more(self, size: int = CHUNK) -> bool:
        """Read on; False at the end."""
        if self.ended:
            return False
        raw = self.file.read(size)
        self.ended = not raw
        self.read += len(raw)
        try:
            new = self.decoder.decode(raw, final=self.ended)
        except UnicodeDecodeError as error:
            raise BadEntry(f"after line {self.line}", "this is not UTF-8.") from error
        self.held = self.held[self.at :] + new
        self.at = 0
        return True

    def move(self, end: int) -> None:
        self.line += self.held.count("\n", self.at, end)
        self.passed += end - self.at
        self.at = end

    def next_character(self) -> str:
        """The next character that is not blank, which stays; "" at the end."""
        while True:
            found = NOT_BLANK.search(self.held, self.at)
            self.move(found.start() if found else len(self.held))
            if found:
                return found[0]
            if not self.more():
                return ""

    def take(self, wanted: str) -> None:
        if self.next_character() != wanted:
            raise BadEntry(f"line {self.line}", f"“{wanted}” is missing.")
        self.move(self.at + 1)

    def value(self, place: str) -> Any:
        """The JSON value that begins here."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.held, self.at)
            except json.JSONDecodeError as error:
                line = self.line + self.held.count("\n", self.at, error.pos)
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self.held) - NEAR_THE_END
                if not cut or not self._more_of_record(place):
                    raise BadEntry(f"{place} (line {line})", refusal_reason(error)) from error
            except (ValueError, RecursionError) as error:
                raise BadEntry(f"{place} (from line {self.line})", refusal_reason(error)) from error
            else:
                if self._is_whole(value, end) or not self._more_of_record(place):
                    self.move(end)
                    return value

    def _is_whole(self, value: Any, end: int) -> bool:
        """Whether what is read next cannot belong to `value`: a number may go on, as “1” and “1.” do."""
        if not isinstance(value, int | float):
            return True
        return end <= len(self.held) - NEAR_THE_END or (end < len(self.held) and self.held[end] in BLANK + ",]}")

    def _more_of_record(self, place: str) -> bool:
        held = len(self.held) - self.at
        if held > MAX_RECORD_CHARACTERS:
            raise BadEntry(
                f"{place} (from line {self.line})",
                f"it has more than {MAX_RECORD_CHARACTERS:,} characters, or a quotation mark is missing.",
            )
        # As much again, so that a long record is not read through time and again.
        return self.more(max(CHUNK, held))

    def list_records(self, name: str) -> Iterator[Record]:
        self.take("[")
        number = 0
        what = f"{name} entry" if name else "entry"
        while self.next_character() != "]":
            if number:
                self.take(",")
                self.next_character()
            number += 1
            line = self.line
            value = self.value(f"{what} {number}")
            yield _record(f"{what} {number} (line {line})", value, self.read, name)
        self.take("]")

    def begins_with_record_line(self, lists: Collection[str]) -> bool:
        """Whether the first line is an object by itself, with more after it or none of the lists inside."""
        while "\n" not in self.held and len(self.held) < MAX_LINE_PEEK and self.more():
            pass
        line, _, rest = self.held[self.at :].partition("\n")
        try:
            value = DECODER.decode(line)
        except (ValueError, RecursionError):
            return False
        return bool(rest.strip()) or not any(isinstance(value.get(name), list) for name in lists)

    def line_records(self) -> Iterator[Record]:
        too_long = False
        while True:
            end = self.held.find("\n", self.at)
            if end < 0 and len(self.held) - self.at > MAX_RECORD_CHARACTERS:
                # It is passed over.
                too_long, self.at = True, len(self.held)
            if end < 0 and self.more(max(CHUNK, len(self.held) - self.at)):
                continue
            end = len(self.held) if end < 0 else end + 1
            place, line = f"line {self.line}", self.held[self.at : end].removesuffix("\n")
            self.move(end)
            if too_long:
                why = f"it has more than {MAX_RECORD_CHARACTERS:,} characters."
                yield Record(place, None, self.read, why=why)
                too_long = False
            elif line.strip(BLANK):
                try:
                    yield _record(place, DECODER.decode(line), self.read)
                except (ValueError, RecursionError) as error:
                    yield Record(place, None, self.read, why=refusal_reason(error))
            if self.ended and self.at == len(self.held):
                return


def _record(place: str, value: Any, read: int, list_name: str = "") -> Record:
    try:
        value_check(value)
    except BadJson as error:
        return Record(place, None, read, list_name, error.why)
    return Record(place, value, read, list_name)
