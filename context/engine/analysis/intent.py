"""The intent of an input: which memories it needs, by patterns, without a language model.

Source: seed 005.1, D1 and intent.py.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from context.engine.analysis.agent_time import NO_TIME, TimeReading
from context.engine.section_budgets import MEMORY_SECTIONS, PLANNED_TYPES
from memory.comparison import lexicon as w
from memory.comparison.tokenizer import DATES, VERB_FORMS
from memory.search.input_kinds import KINDS, InputKind, input_kind

_FILE = re.compile(
    r"(?<![\w@/.-])(?:\./)?(?P<path>(?P<folder>(?:(?:\.\.)?/)?(?:\.?[\w-][\w.-]*/)*)"
    r"(?P<name>(?:[A-Za-z_]|\d+[A-Za-z_-])[\w-]*(?:\.[\w-]+)*)\.(?P<ext>[A-Za-z][A-Za-z0-9]{0,9}))(?![\w/])"
)
_HOST_ENDINGS = frozenset({"com", "org", "net", "io", "dev", "ai"})
_SOURCE_LETTERS = frozenset("chrdsmovylCRS")
"""Extensions of one letter: what is called by one letter too is a file only with one of them."""
_ABBREVIATIONS = w.words("a.m p.m a.d d.h n.d o.d p.c p.s u.s e.coli p.ex ph.d b.sc m.sc")
_VERSION = re.compile(r"v\d[\w.-]*\.(?:x|(?:alpha|beta|rc|dev|pre|post|a|b)\d*)", re.IGNORECASE)

_WORD = re.compile(r"\w[\w'’-]*\w")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;…\n])[ \t\"'“‘(*>-]*$")
MAX_READ = 4_000
"""Characters of an input in which names and dates are looked for."""
_POSSESSIVE = re.compile(r"['’]s?$")
_CONTRACTION = re.compile(r"['’](?:m|s|ve|re|ll|d|t)$", re.IGNORECASE)
_MONTH_OF_YEAR = re.compile(rf"\b(?:{'|'.join(month for month in w.MONTHS if len(month) > 3)}|may)\s+\d{{4}}\b", re.I)
_NUMERIC_DATE = re.compile(r"(?<![\w./-])\d{1,2}(?P<mark>[./])\d{1,2}(?P=mark)(?:\d{4}|\d{2})(?![\w/]|\.\d)")
_DATES = (*DATES, _MONTH_OF_YEAR, _NUMERIC_DATE)
_OPENERS = (
    w.ARTICLES | w.FILLERS | w.NEGATIONS | w.QUANTIFIERS | w.MODALS | w.RELATIVE_TIMES | w.PREPOSITIONS
    | w.CLAUSE_WORDS | w.PRONOUNS | w.NUMBER_WORDS.keys() | w.words("""am are is was were be been being do does did done
    has have had how why what where yes ok okay hi hey hello sup yo thank thanks sorry sure good great nice well also
    however therefore thus here there now again first second third last finally same other such very too own right
    check refactor debug implement explain describe summarise summarize list compare remind set put look search rewrite
    generate update draft""")
)  # fmt: skip
"""Words with which sentences begin, besides verbs: as the first word they are no names."""


def mentioned_files(text: str) -> tuple[str, ...]:
    """File paths named in `text`, in reading order, each once. Versions, abbreviations, initials and hosts are none."""
    return tuple(dict.fromkeys(match["path"] for match in _FILE.finditer(text) if _is_file(match)))


def _is_file(match: re.Match[str]) -> bool:
    path, name, extension = match["path"], match["name"], match["ext"]
    if extension.lower() in _HOST_ENDINGS or _VERSION.fullmatch(path):
        return False
    if match["folder"]:
        return True
    if path.lower() in _ABBREVIATIONS:
        return False
    if len(name) == 1:
        initials = name.isupper() and extension[0].isupper()
        return not initials and (len(extension) > 1 or extension in _SOURCE_LETTERS)
    # "a.k.a", "w.r.t"
    return len(extension) > 1 or any(len(part) > 1 for part in name.split("."))


def mentioned_entities(text: str) -> tuple[str, ...]:
    """Names and dates in `text`, in reading order, each once.

    A name is a row of words in capitals, or one word with a capital or figure inside. Of the first word of a sentence
    a capital says little: it is a name unless it is a verb or a common opener.
    """
    text = text[:MAX_READ]
    found: dict[int, str] = {}
    dated: set[int] = set()
    for match in (match for pattern in _DATES for match in pattern.finditer(text)):
        if match.start() not in dated:
            found[match.start()] = match.group(0).strip(" .,")
            dated.update(range(*match.span()))
    begin = end = -1
    for word, _ in names_of(text):
        if word.start() in dated:
            continue
        if begin < 0 or text[end : word.start()].strip(" ") or word.start() == end:
            begin = word.start()
        end = word.end()
        found[begin] = _POSSESSIVE.sub("", text[begin:end])
    return tuple(dict.fromkeys(found[place] for place in sorted(found)))


def names_of(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """The words of `text` that are written as names, each with whether it begins a sentence."""
    for word in _WORD.finditer(text):
        begins = bool(_SENTENCE_START.search(text, max(0, word.start() - 20), word.start()))
        if _is_name(text, word, begins):
            yield word, begins


def _is_name(text: str, word: re.Match[str], begins: bool) -> bool:
    said = word.group(0)
    if not said[0].isupper():
        return any(letter.isupper() for letter in said[1:])
    plain = _CONTRACTION.sub("", said).lower()
    if plain in w.PRONOUNS or (plain != said.lower() and plain in _OPENERS):
        return False
    if not begins or said[1:] != said[1:].lower():
        return True
    following = _WORD.match(text, word.end() + 1)
    if plain in _OPENERS or plain in VERB_FORMS or plain.endswith(("ing", "ly")):
        return False
    # "Carts expire": a plural, not a name.
    return not (
        plain.endswith("s") and following and VERB_FORMS.get(following.group(0).lower(), "+") in w.REGULAR_VERBS
    )


_HINTS: dict[str, tuple[re.Pattern[str], ...]] = {
    memory_type: tuple(
        re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE) for pattern in MEMORY_SECTIONS[memory_type].hints
    )
    for memory_type in PLANNED_TYPES
}
HINT_WEIGHT = 0.5

_GREETING = re.compile(
    r"^\W*(?:hey|hi|hello|sup|yo|good (?:morning|evening|afternoon)|what'?s up|how are you|how's it going)\b"
    r"(?:[\s,]+(?:there|all|everyone|again|you|today|doing))*",
    re.IGNORECASE,
)
_QUESTION = "what|where|when|why|how|who|whom|whose|which|can|could|should|would|will|is|are|was|were|do|does|did"
_QUESTION_WORDS = frozenset(_QUESTION.split("|"))
_QUESTION_START = re.compile(rf"^\W*(?:{_QUESTION})\b", re.IGNORECASE)
_KEYWORD = re.compile(r"\b[A-Z][a-z]+\b|\b\w{6,}\b")
MAX_KEYWORDS = 10


@dataclass(frozen=True, slots=True)
class IntentSignals:
    """`kind` is what the search goes by; `time` is what is said about a time; `hints` a weight for each memory type
    that is asked for; keywords and paths of files in reading order."""

    frame_id: str
    time: TimeReading = NO_TIME
    kind: InputKind = KINDS["question"]
    hints: tuple[tuple[str, float], ...] = ()
    is_question: bool = False
    is_greeting: bool = False
    entities: tuple[str, ...] = ()
    topic_keywords: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def dominant_type(self) -> str | None:
        """The memory type most asked for; the first declared among equals; None without a hint."""
        if (period := self.time.period) and period.types:
            return period.types[0]
        return max(self.hints, key=lambda hint: hint[1])[0] if self.hints else None


def intent_read(text: str, frame_id: str, time: TimeReading = NO_TIME) -> IntentSignals:
    """Read the signals in `text`, beside what it says about a `time`. A greeting is only what holds nothing beyond the
    greeting."""
    stripped = text.strip()
    hints = tuple(
        (memory_type, HINT_WEIGHT * count)
        for memory_type in PLANNED_TYPES
        if (count := sum(bool(pattern.search(stripped)) for pattern in _HINTS[memory_type]))
    )
    keywords = dict.fromkeys(word.lower() for word in _KEYWORD.findall(stripped))
    topics = [word for word in keywords if word not in _QUESTION_WORDS]
    kind = input_kind(stripped)
    return IntentSignals(
        frame_id=frame_id,
        time=time,
        kind=kind,
        hints=hints,
        is_question=is_question(stripped),
        is_greeting=kind.name == "small_talk" or _is_greeting(stripped),
        entities=mentioned_entities(stripped),
        topic_keywords=tuple(topics[:MAX_KEYWORDS]),
        files=mentioned_files(text),
    )


def is_question(text: str) -> bool:
    """Whether `text` asks, by its end or its first word."""
    return text.rstrip().endswith("?") or bool(_QUESTION_START.match(text))


def _is_greeting(text: str) -> bool:
    rest, seen = text, False
    while match := _GREETING.match(rest):
        rest, seen = rest[match.end() :], True
    # A name after a greeting is still part of it; anything longer is what the person really wants.
    return seen and len(re.findall(r"\w+", rest)) <= 1
