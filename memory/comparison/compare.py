"""Whether a new fact says the same as an old one, changes it, or differs in something that matters.

Pure. The cosine finds candidates and is never the verdict: many changes score above 0.95. "Same" is proven by words:
each not known to be harmless has to be on both sides, in the same role. Source: seed 009.1, deduplication.
"""

import enum
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

from memory.comparison import differences as d
from memory.comparison import lexicon as w
from memory.comparison.change_score import Pair, both_true, change_scores
from memory.comparison.snapshot import FactSnapshot
from memory.comparison.statements import exclusive
from memory.comparison.tokenizer import Token, base_form
from memory.embedding.thresholds import Thresholds
from memory.subjects.mentions import subjects_clash

_MAX_OPPOSED_WORDS, _MAX_BRIEF_WORDS, _MIN_SHARED_WORDS, _MIN_OVERLAP = 150, 4, 2, 0.5
_EXCHANGED = -0.1

Kind = enum.StrEnum("Kind", ["SAME", "CHANGED", "DIFFERS", "CLOSE", "UNRELATED"])
"""`same`: only harmless differences. `changed`: the same attribute has explicitly another value. `differs`: something
that matters differs. `close`: alike, and nothing that differs has a name. `unrelated`."""
Outcome = enum.StrEnum("Outcome", ["CONFIRMED", "SUPERSEDED", "QUEUED", "STORED"])
"""What happens to the new fact without a judge."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that differs. `code` is for machines, REASONS for people; `old` and `new` quote the evidence."""

    code: str
    old: str = ""
    new: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute`, `old_value` and `new_value` are set for `changed` only; `overlap` is the share, 0 to 1, of content
    words that both hold; `later`: whether the new fact is known to be of a later moment than the old one; `faint`:
    whether nothing but the score of a change speaks for asking."""

    kind: Kind
    cosine: float
    overlap: float
    reasons: tuple[Reason, ...] = ()
    attribute: str = ""
    old_value: str = ""
    new_value: str = ""
    later: bool = False
    faint: bool = False

    @property
    def outcome(self) -> Outcome:
        """What is safe without a judge: confirm what is the same, supersede what certainly changed later, else ask."""
        certain = {Kind.SAME: Outcome.CONFIRMED, Kind.UNRELATED: Outcome.STORED}
        changed = Outcome.SUPERSEDED if self.kind is Kind.CHANGED and self.later else Outcome.QUEUED
        return certain.get(self.kind, changed)


REASONS = {
    "number": "A number, date, time or unit differs.", "negation": "One denies what the other one says.",
    "antonym": "One says the opposite of the other one.", "name": "They name other people, places or things.",
    "roles": "The same words stand in other roles.", "quantity": "They speak of another quantity or frequency.",
    "time": "They speak of another time, or of a plan.", "value": "The same is said with one thing exchanged.",
    "detail": "One says more than the other one.", "subject": "They have different subjects.",
    "relative_time": "A word like “yesterday” means another day now.", "question": "One of them asks.",
    "changed_value": "The same attribute of the same subject has another value.",
    "change": "The new one may say what has become of the old one.",
    "ended": "What was true is true no longer.", "wording": "They are worded differently.",
}  # fmt: skip
ALWAYS_ASKED = frozenset({"number", "negation", "antonym", "roles"})
"""Differences that people are asked about whatever else reads the two."""
OPPOSING = frozenset({"number", "negation", "antonym", "roles", "quantity", "value"})
"""Differences that make two facts about the same thing compete, however far apart their embeddings are."""


def compare_facts(old: FactSnapshot, new: FactSnapshot, cosine: float, thresholds: Thresholds) -> Comparison:
    """Compare `new`, which was learned later, with `old`; `cosine` is of their embeddings, -1 to 1, and `thresholds` of
    its model: below `check`, only what competes by its words is related. "same" is symmetric and needs no cosine. Time
    is bounded by the length of the texts."""
    return facts_compare([(old, new, cosine)], thresholds)[0]


def facts_compare(
    pairs: Sequence[tuple[FactSnapshot, FactSnapshot, float]], thresholds: Thresholds
) -> list[Comparison]:
    """As `compare_facts` of each; the scores of all of them are read at once."""
    steps = [_comparing(*pair, thresholds) for pair in pairs]
    found = [_advanced(each) for each in steps]
    asked = [(place, each) for place, each in enumerate(found) if not isinstance(each, Comparison)]
    for (place, _), score in zip(asked, change_scores([each for _, each in asked]), strict=True):
        found[place] = _advanced(steps[place], score)
    compared = [each for each in found if isinstance(each, Comparison)]
    doubted = [place for place, each in enumerate(compared) if _is_asked_by_words(each)]
    for place, true in zip(doubted, both_true([pairs[place][:2] for place in doubted]), strict=True):
        if true:
            compared[place] = replace(compared[place], kind=Kind.UNRELATED)
    return compared


def _is_asked_by_words(found: Comparison) -> bool:
    """Whether words alone speak for asking, and none of those that say so plainly."""
    asked = found.kind in (Kind.DIFFERS, Kind.CLOSE) and not found.faint
    return asked and ALWAYS_ASKED.isdisjoint(reason.code for reason in found.reasons)


Comparing = Generator[Pair, float, Comparison]
"""A comparison that asks for the score of a change, once, where it depends on that."""


def _advanced(steps: Comparing, score: float | None = None) -> Pair | Comparison:
    """What a comparison asks for next, or comes to."""
    try:
        return next(steps) if score is None else steps.send(score)
    except StopIteration as done:
        return cast("Comparison", done.value)


def _comparing(old: FactSnapshot, new: FactSnapshot, cosine: float, thresholds: Thresholds) -> Comparing:
    later = old.moment is not None and new.moment is not None and new.moment > old.moment
    equal = old.texts == new.texts
    same = (equal and old.texts != ()) or any(not one.update and one in new.statements for one in old.statements)
    found = _differences(old, new, same=same)
    if same and not found:
        return Comparison(Kind.SAME, cosine, 1.0, later=later)
    shared, either = len(old.content_words & new.content_words), len(old.content_words | new.content_words)
    overlap = shared / either if either else 0.0
    if change := _change(old, new):
        reason = Reason(change[0], *change[2:])
        return Comparison(Kind.CHANGED, cosine, overlap, (reason,), *change[1:], later)
    codes = {reason.code for reason in found}
    texts, many = (old.texts, new.texts), d.is_other_object(old.texts, new.texts)
    alike = overlap >= _MIN_OVERLAP and shared >= _MIN_SHARED_WORDS
    # Two opposites among a few words about the same thing must meet.
    brief = old.texts[:1] == new.texts[:1] and max(len(old.content_words), len(new.content_words)) <= _MAX_BRIEF_WORDS
    exchanged = "value" in codes and cosine - thresholds.check >= _EXCHANGED
    competing = (alike and codes & OPPOSING) or (brief and ("antonym" in codes or exchanged))
    competing = competing and (not many or codes & {"number", "negation"})
    updates = {each.key for each in new.statements if each.update}
    competing = competing or not updates.isdisjoint(each.key for each in old.statements)
    near = cosine >= thresholds.check or equal or competing
    # What is worded otherwise altogether still may be a change: of that nothing but the score tells.
    turned = (not near or codes == {"wording"}) and (yield (old, new, codes, cosine, thresholds)) >= 0
    unlike = not near and not turned
    if not unlike and not subjects_clash(old, new):
        names = {token.text for token in new.tokens if token.name}
        added = d.only_adds_details(*texts, names) or d.is_more_exact(*texts) or d.is_other_instance(*texts)
        unlike = (added and "roles" not in codes) or (many and codes <= {"value", "name"})
    if unlike:
        return Comparison(Kind.UNRELATED, cosine, overlap, tuple(found), later=later)
    found += [Reason("change")] if not near else []
    kind = Kind.DIFFERS if turned or codes - {"wording", "detail"} else Kind.CLOSE
    return Comparison(kind, cosine, overlap, tuple(found), later=later, faint=not near)


def _change(old: FactSnapshot, new: FactSnapshot) -> tuple[str, str, str, str] | None:
    """Reason code, attribute, old value and new value of an explicit change."""
    # Of whom a sentence with a pronoun speaks is known only by its subject.
    has_subjects = bool(old.subject.strip() and new.subject.strip())
    if subjects_clash(old, new) or (not has_subjects and w.PRONOUNS & {*old.texts, *new.texts}):
        return None
    if new.ended and new.ended == old.number_free:
        return ("ended", "truth", "true", "no longer true")
    for one, other in product(old.statements, new.statements):
        if not one.update and one.key == other.key and exclusive(one, other):
            return ("changed_value", one.key[1], _quote(one.value), _quote(other.value))
    return None


def _differences(old: FactSnapshot, new: FactSnapshot, *, same: bool) -> list[Reason]:
    """What differs, the weightiest first; `same`: whether the words prove the same, so only what they point at may."""
    days = {fact.moment and fact.moment.date() for fact in (old, new)}
    found = [Reason("subject", old.subject, new.subject)] if subjects_clash(old, new) else []
    relative = len(days) > 1 and not all(w.RELATIVE_TIMES.isdisjoint(fact.texts) for fact in (old, new))
    found += [Reason("relative_time")] if relative else []
    if same:
        return found
    # The words that stand more often in the one than in the other.
    only = [{*(one.counts - other.counts)} for one, other in ((old, new), (new, old))]
    # Read once: what is asked of them are a few of all words.
    differing = [
        [token for token in fact.tokens if token.text in each] for fact, each in zip((old, new), only, strict=True)
    ]

    def quote(chosen: Callable[[Token], object]) -> list[str]:
        return [_quote(filter(chosen, tokens)) for tokens in differing]

    bases, slot = [sorted({*map(base_form, each)}) for each in only], d.single_difference(old.texts, new.texts)
    said, quotes = {*bases[0], *bases[1]}, [_quote(tokens) for tokens in differing]
    tenses = [{text.rpartition("+")[2] for text in each} & {"ed", "ing"} for each in only]
    evidence: dict[str, Sequence[str]] = {
        "number": quote(lambda token: token.number),
        "negation": quote(lambda token: base_form(token.text) in w.NEGATIONS)
        if not w.NEGATIONS.isdisjoint(said)
        else (),
        "quantity": quote(lambda token: base_form(token.text) in w.QUANTIFIERS)
        if not w.QUANTIFIERS.isdisjoint(said)
        else (),
        "antonym": _opposites(*(each[:_MAX_OPPOSED_WORDS] for each in bases)),
        "roles": () if any(only) else (old.content[:120], new.content[:120]),
        "name": quote(lambda token: token.name),
        "time": quotes if not w.MODALS.isdisjoint(said) or tenses[0] != tenses[1] else (),
        "question": quote(lambda token: token.text == "?") if "?" in said else (),
        "value": slot,
        "detail": quotes if not slot and bool(only[0]) != bool(only[1]) else (),
    }
    found += [Reason(code, *quoted) for code, quoted in evidence.items() if any(quoted)]
    return found or [Reason("wording", *quotes)]


def _opposites(olds: Sequence[str], news: Sequence[str]) -> Sequence[str]:
    """The first of the old words with the first of the new ones that says the opposite."""
    opposed = ((one, other) for one in olds if one in w.OPPOSITES for other in news if other in w.OPPOSITES[one])
    return next(opposed, ())


def _quote(tokens: Iterable[Token]) -> str:
    """The words as they were written."""
    return " ".join(dict.fromkeys(token.raw for token in tokens))[:200]
