"""Attributes of which a subject has one value at a time, declared as data.

A new value of one of these ends the old one. What a subject can have many of (languages, hobbies, pets, visited
places) is not listed, so another value of it is never taken for a change.
"""

from dataclasses import dataclass

from memory.comparison.lexicon import words


@dataclass(frozen=True, slots=True)
class Frame:
    """`S <words> V`, in base forms and without articles. `update` frames say themselves that things have changed.

    `tail`: a word that opens a second slot behind the value, which belongs to the attribute ("uses V for Y").
    `closed`: many values can be held, so only those that exclude each other by their nature count.
    """

    attribute: str
    words: tuple[str, ...]
    update: bool = False
    tail: str = ""
    closed: bool = False


def _frames(attribute: str, *phrases: str, update: bool = False, tail: str = "", closed: bool = False) -> list[Frame]:
    return [Frame(attribute, tuple(phrase.split()), update, tail, closed) for phrase in phrases]


FRAMES: tuple[Frame, ...] = (
    *_frames("home", "live in", "be base+ed in", "be live+ing in"),
    *_frames("home", "move+ed to", "have move+ed to", "relocate+ed to", "have relocate+ed to", update=True),
    *_frames(
        "employer", "work at", "work for", "be employ+ed by", "be employ+ed at", "be work+ing at", "be work+ing for"
    ),
    *_frames("job", "work as"),
    *_frames("spouse", "be marry+ed to"),
    *_frames("employer", "now work at", "now work for", update=True),
    *_frames("home", "now live in", update=True),
    *_frames("preference", "prefer", tail="for"),
    *_frames("preferred", "prefer", closed=True),
    *_frames("tool", "use", tail="for"),
    *_frames("tool", "now use", "have switch+ed to", "switch+ed to", tail="for", update=True),
    *_frames("version", "run version", "be on version", "use version"),
    *_frames("version", "be now on version", "now run version", "be upgrade+ed to version", update=True),
    *_frames("weight", "weigh"),
    *_frames("price", "cost"),
    *_frames("price", "now cost", update=True),
    *_frames("schedule", "be schedule+ed for"),
    *_frames("schedule", "be reschedule+ed to", "have been reschedule+ed to", "be move+ed to", update=True),
    *_frames("manager", "report to"),
    *_frames("manager", "now report to", update=True),
    *_frames("called", "be call+ed", "be name+ed"),
    *_frames("called", "be rename+ed to", "have been rename+ed to", "be rename+ed", "be now call+ed", update=True),
)

VALUE_NOUNS = words("""
    age deadline status name birthday budget price salary rent version timezone manager boss owner ceo cto lead
    director timeout limit quota port region phase priority title address email password username hostname
    weight height capacity size
    """)
"""`S's N is V` and `the N of S is V`, one value each."""
VALUE_NOUN_PAIRS = frozenset(
    {("time", "zone"), ("due", "date"), ("phone", "number"), ("on", "call"), ("default", "branch"), ("go", "live")}
)
