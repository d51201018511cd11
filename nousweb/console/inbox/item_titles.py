"""What an item of the inbox is about, in one line: the titles of rows, notifications and hits of a search."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from memory.models import MemoryReview
from memory.services.reviews.quarantine_resolution import quarantined_texts
from nousweb.lib.line_differences import DiffSpan
from nousweb.lib.textdiff import Row, TextDiff, diff_texts, span_text

Kind, Resolution = MemoryReview.Kind, MemoryReview.Resolution
VERBS = {"added": "Adds", "removed": "Removes"}
REVIEW_VERBS = {
    Kind.DUPLICATE: "Repeats",
    Kind.CONTRADICTION: "Claims",
    Kind.ESCALATION: "Blocks",
    Kind.LOW_CONFIDENCE: "Guesses",
    Kind.COMPACTION: "Merges",
    Kind.RELEARNED: "Relearns",
    Kind.REPEATED: "Repeats",
    Kind.SAME_SUBJECT: "Merges",
    Kind.QUARANTINED: "Holds",
    Kind.NEW_MEMORY: "Adds",
    Kind.ATTRIBUTE: "Asks",
}
"""What the subject of a review does with the words of its title."""
NAMING_VERBS = ("Blocks", "Merges", "Holds", "Asks")
"""Those whose words are a name, not a quote."""
KEEPS: dict[str, tuple[str, ...]] = {
    Resolution.SAME: ("old",),
    Resolution.NEW_WRONG: ("old",),
    Resolution.REPLACE: ("new",),
    Resolution.OLD_WRONG: ("new",),
    Resolution.BOTH: ("old", "new"),
}
"""By resolution of a pair: which of its facts prompts have afterwards."""
OUTCOMES = {
    Resolution.SAME: ("Confirmed", "Same as"),
    Resolution.NEW_WRONG: ("Kept", "Wrong"),
    Resolution.REPLACE: ("Changed", "Before"),
    Resolution.OLD_WRONG: ("Corrected", "Wrong"),
    Resolution.BOTH: ("Kept both", "And"),
}
"""By resolution of a pair: the decision as a phrase, and what the other sentence is to the one that holds now."""
MAX_CHARACTERS = 240
"""Of a title; the page of the item has the whole text."""
TOLD = 120
"""Of what a decision was about, where others stand beside it."""
MAX_VALUE = 24
"""Of the value that a decision about a pair names."""
LEAD = 40
"""Characters of a changed line that may stand before its first changed word."""
BETWEEN, BESIDE = 32, 12
"""Of more unchanged characters between two changes, those beside each are shown."""
_MARKS = re.compile(r"(?:[-*+#>]+\s+|\d{1,3}[.)]\s+)*")
"""The signs of a list, a heading or a quote before a line."""
_SENTENCE = re.compile(r"[.!?]\s+")
_CLAUSE = re.compile(r"[,;:]\s+")


def brief(words: str) -> str:
    """The beginning of a text in one line, up to the end of a word."""
    line = " ".join(words.split())
    if len(line) > TOLD:
        line = (line[:TOLD].rpartition(" ")[0] or line[:TOLD]).rstrip(" .,;:…") + "…"
    return line.rstrip(" ,;:")


@dataclass(frozen=True, slots=True)
class ItemTitle:
    """`spans`: the words; the changed ones of an edited line are of another kind than "equal". `verb`: what the item
    does with them ("Adds", "Edits", "Claims"); "" for a mere name. `rest`: how many other lines change, one
    in the place of another as one."""

    spans: tuple[DiffSpan, ...]
    verb: str = ""
    rest: int = 0

    @classmethod
    def plain(cls, words: str) -> "ItemTitle":
        """Words without a mark."""
        return cls(_short((DiffSpan(words),)))

    @property
    def words(self) -> str:
        """The words as they would be, or those that go where none come."""
        is_edited = any(span.kind == "added" for span in self.spans)
        return "".join(span.text for span in self.spans if not (is_edited and span.kind == "removed"))

    @property
    def more(self) -> str:
        """How many other lines change, in words; "" for none."""
        return f"and {self.rest} more line{'' if self.rest == 1 else 's'}" if self.rest else ""

    @property
    def brief(self) -> str:
        """In a few words, of one line."""
        return str(replace(self, spans=(DiffSpan(brief(self.words)),), rest=0))

    @property
    def refused(self) -> "ItemTitle":
        """As of a change that was not made: what it would have brought is struck through."""
        words = DiffSpan(self.words, "equal" if self.verb == VERBS["removed"] else "removed")
        return replace(self, spans=(words,))

    def __str__(self) -> str:
        said = f"{self.verb} “{self.words}”" if self.verb and self.verb not in NAMING_VERBS else self.words
        return f"{said} {self.more}" if self.rest else said


def change_title(diff: TextDiff) -> ItemTitle | None:
    """The first line that a change adds or edits, or else removes; None where no line with words changes."""
    rows = _rows(diff)
    if not rows:
        return None
    verb = VERBS.get(rows[0].kind, "Edits") if len({row.kind for row in rows}) == 1 else "Edits"
    lines = max(sum(row.kind != but for row in rows) for but in ("added", "removed"))
    spans = _clause(rows[0])
    if all(span.kind == "equal" for span in spans):
        # A whole line is marked, too.
        spans = (DiffSpan(span_text(spans), "removed" if verb == VERBS["removed"] else "added"),)
    return ItemTitle(_short(spans), verb, lines - 1)


def _rows(diff: TextDiff) -> list[Row]:
    """The changed lines with words, those first that say the most: a line that only moved, or got another number in
    its list, says less than another, and a heading less than what stands below it."""
    told = [row for row in diff.rows if row.kind not in ("equal", "gap") and span_text(row.spans).strip()]
    gone = {_bare(row.old_spans) for row in told}
    told.sort(
        key=lambda row: (
            row.kind == "removed",
            _bare(row.new_spans) in gone,
            span_text(row.spans).lstrip().startswith("#"),
        )
    )
    return told


def _bare(spans: Iterable[DiffSpan]) -> str:
    """A line without its mark or number in a list."""
    return _MARKS.sub("", span_text(spans).strip(), count=1)


def changed_words(old: str, new: str) -> ItemTitle | None:
    """The first line that a text got, lost or has in other words."""
    return change_title(diff_texts(old, new))


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """How a pair of facts was decided: a phrase ("Kept 60"), the sentence that holds now, in which the words of the
    other one are struck through, and the other one, with what it is now."""

    phrase: str
    holds: ItemTitle
    other: str

    @classmethod
    def of(cls, resolution: str, old: str, new: str) -> "PairOutcome | None":
        """None for a resolution that is about more, or less, than which of them holds."""
        if resolution not in OUTCOMES:
            return None
        phrase, was = OUTCOMES[Resolution(resolution)]
        other, holds = (new, old) if KEEPS[resolution] == ("old",) else (old, new)
        title = ItemTitle.plain(holds) if len(KEEPS[resolution]) > 1 else _pair_words(holds, diff_texts(other, holds))
        values = [span.text for span in title.spans if span.kind == "added"]
        if len(values) == 1 and len(values[0]) <= MAX_VALUE and resolution != Resolution.SAME:
            phrase += f"{'' if phrase == 'Kept' else ' to'} {values[0].strip()}"
        return cls(phrase, title, f"{was}: {other}")


def review_outcome(review: MemoryReview) -> PairOutcome | None:
    """How a review of a pair was resolved; None while it is open, and for others."""
    old, new = review.old, review.new
    return PairOutcome.of(review.resolution, old.content, new.content) if old and new else None


def review_diff(review: MemoryReview) -> TextDiff | None:
    """The difference between a fact and the older one beside it, if there are both."""
    return diff_texts(review.old.content, review.new.content) if review.old and review.new else None


def review_title(review: MemoryReview, diff: TextDiff | None = None) -> ItemTitle:
    """The words in question; of a fact beside an older one, those in which they differ (`diff`) are marked."""
    verb = "Removes" if review.is_mark else REVIEW_VERBS[Kind(review.kind)]
    return replace(_review_words(review, diff or review_diff(review)), verb=verb)


def _review_words(review: MemoryReview, diff: TextDiff | None) -> ItemTitle:
    if review.censor is not None:
        return ItemTitle.plain(str(review.censor))
    if review.new is not None:
        return _pair_words(review.new.content, diff)
    if review.kind == Kind.SAME_SUBJECT:
        return ItemTitle.plain(f"{review.reasons[0]['old'] if review.reasons else 'A subject'} and {review.subject}")
    if review.kind == Kind.REPEATED:
        return ItemTitle.plain(review.proposal)
    if review.kind == Kind.QUARANTINED:
        why = " ".join(str(reason["words"]) for reason in review.reasons)
        return ItemTitle.plain(f"{review.subject.capitalize()}: {why or 'kept out of prompts'}")
    if review.kind == Kind.NEW_MEMORY:
        texts = quarantined_texts(review)
        return ItemTitle.plain(" ".join(texts[0].split()) if texts else "A memory that no longer exists")
    if review.kind == Kind.ATTRIBUTE:
        return ItemTitle.plain(str(review.reasons[0]["words"]))
    number = len(review.facts)
    return ItemTitle.plain(f"{number} fact{'' if number == 1 else 's'} about {review.subject}")


def _pair_words(words: str, diff: TextDiff | None) -> ItemTitle:
    """A fact, with the words marked in which it differs from another one."""
    rows = diff.rows if diff is not None else ()
    if len(rows) == 1 and rows[0].kind == "changed":
        return ItemTitle(_short(_marked(cut_words(rows[0].spans, 0, MAX_CHARACTERS))))
    return ItemTitle.plain(words)


def either_words(old: str, new: str) -> str:
    """Two claims as one sentence: "It takes 60 or 90 seconds."; each by itself where they have too little in common."""
    spans = _pair_words(new, diff_texts(old, new)).spans
    if len(spans) == 1 or not re.fullmatch("(e|ra)+", "".join(span.kind[0] for span in spans)):
        return f"“{old}” or “{new}”"
    return "".join(f"{span.text} or " if span.kind == "removed" else span.text for span in spans)


def is_rewritten(spans: Iterable[DiffSpan]) -> bool:
    """Whether most of the words on a side are other ones, so that marks would say nothing."""
    sizes = Counter[str]()
    for span in spans:
        sizes[span.kind] += len(span.text)
    return any(sizes[kind] and sizes[kind] >= 2 * sizes["equal"] for kind in ("added", "removed"))


def _marked(spans: tuple[DiffSpan, ...]) -> tuple[DiffSpan, ...]:
    """Without marks where these would say nothing."""
    return (DiffSpan(ItemTitle(spans).words),) if is_rewritten(spans) else spans


def _clause(row: Row) -> tuple[DiffSpan, ...]:
    """A whole line, or of an edited one the sentence around the first change, and what follows as far as it changes."""
    spans = tuple(DiffSpan(re.sub(r"\s+", " ", span.text), span.kind) for span in row.spans)
    text = span_text(spans)
    start, end = _MARKS.match(text).end(), len(text.rstrip())  # type: ignore[union-attr]
    if row.kind != "changed":
        return (DiffSpan(text[start:end]),)
    places, at = [], 0
    for span in spans:
        if span.kind != "equal":
            places.append((at, at + len(span.text)))
        at += len(span.text)
    first, last = places[0][0], places[-1][1]
    # A change that begins with the end of a sentence is about the next one.
    first += len(text[first:last]) - len(text[first:last].lstrip(" .,;:!?"))
    start = max([start, *(found.end() for found in _SENTENCE.finditer(text, start, first))])
    lead = ""
    if first - start > LEAD:
        near = [found.end() for found in _CLAUSE.finditer(text, start, first) if first - found.end() <= LEAD]
        lead = "… "
        start = near[0] if near else text.rfind(" ", start, first - LEAD // 2) + 1 or first
    if stop := _SENTENCE.search(text, max(last - 1, start)):
        end = min(end, stop.start() + 1)
    found = _folded(_marked(cut_words(spans, start, end)))
    return (DiffSpan(lead), *found) if lead else found


def _folded(spans: tuple[DiffSpan, ...]) -> tuple[DiffSpan, ...]:
    """Without the middle of what stays between two changes, so that a line shows the last one too."""
    changed = [place for place, span in enumerate(spans) if span.kind != "equal"] or [0]
    return tuple(
        DiffSpan(f"{span.text[:BESIDE].rpartition(' ')[0]} … {span.text[-BESIDE:].partition(' ')[2]}")
        if span.kind == "equal" and changed[0] < place < changed[-1] and len(span.text) > BETWEEN
        else span
        for place, span in enumerate(spans)
    )


def _short(spans: tuple[DiffSpan, ...]) -> tuple[DiffSpan, ...]:
    return spans if len(span_text(spans)) <= MAX_CHARACTERS else (*cut_words(spans, 0, MAX_CHARACTERS), DiffSpan("…"))


def cut_words(spans: Iterable[DiffSpan], start: int, end: int) -> tuple[DiffSpan, ...]:
    """The characters from `start` up to `end`, without marks on white space at the edges of a change; where it joins or
    parts words of the other text, it stays marked."""
    spans, pieces, at = tuple(spans), list[DiffSpan](), 0
    for place, span in enumerate(spans):
        text = span.text[max(start - at, 0) : max(end - at, 0)]
        at += len(span.text)
        inner = text
        if text and span.kind != "equal":
            before, after = (
                next((one.text for one in beside if one.kind != span.kind), " ")
                for beside in (spans[:place][::-1], spans[place + 1 :])
            )
            inner = ((before[-1].isspace() or after[0].isspace()) and text.strip()) or text
        before, _, after = text.partition(inner) if inner else ("", "", "")
        pieces += [DiffSpan(before), DiffSpan(inner, span.kind), DiffSpan(after)]
    return tuple(piece for piece in pieces if piece.text)
