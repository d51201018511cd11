"""Questions about times and ordinary sentences, in four languages, with the ranges that they ask about."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Question:
    """A text in a language, asked at `now`, and the range that it asks about; None is an open end."""

    language: str
    now: datetime
    text: str
    start: datetime | None = None
    end: datetime | None = None

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(str(self.now.tzinfo))


def questions(name: str) -> Iterator[Question]:
    """The questions of a file: a line that begins with "@" says language, moment and zone of those below it."""
    language, now = "", datetime(2026, 1, 14, 15, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    for line in (HERE / f"{name}.tsv").read_text("utf-8").splitlines():
        text, *cells = line.split("\t")
        if text == "@":
            language, *moment = cells
            if moment:
                now = datetime.fromisoformat(moment[0]).replace(tzinfo=ZoneInfo(moment[1]))
            continue
        ends = [None if cell == "-" else datetime.fromisoformat(cell).replace(tzinfo=now.tzinfo) for cell in cells]
        yield Question(language, now, text, *ends)
