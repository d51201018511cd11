"""Compare a new fact with an old one: is it the same, a change, or a relevant difference?

Pure functions. The cosine finds candidates but is never the verdict: many changes have cosines above 0.95. "Same" is
proven by words: each word that is not known to be harmless must be in both texts, in the same role. Source: seed 009.1,
deduplication.
"""

import enum
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

from memory.comparison import differences as d
from memory.comparison import lexicon as w
from memory.comparison.change_score import Pair, both_true, change_scores
from memory.comparison.fact_snapshot import FactSnapshot
from memory.comparison.statements import exclusive
from memory.comparison.tokenizer import Token, base_form
from memory.embedding.thresholds import Thresholds
from memory.subjects.sentence_subjects import subjects_clash

_MAX_OPPOSED_WORDS, _MAX_BRIEF_WORDS, _MIN_SHARED_WORDS, _MIN_OVERLAP = 150, 4, 2, 0.5
_EXCHANGED = -0.1

Kind = enum.StrEnum("Kind", ["SAME", "CHANGED", "DIFFERS", "CLOSE", "UNRELATED"])
"""`same`: only harmless differences. `changed`: the same attribute explicitly has another value. `differs`: a relevant
difference. `close`: similar, without a named difference. `unrelated`."""
Outcome = enum.StrEnum("Outcome", ["CONFIRMED", "SUPERSEDED", "QUEUED", "STORED"])
"""The outcome for the new fact without a judge."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One difference. `code` is for programs, REASONS for people; `old` and `new` quote the differing words."""

    code: str
    old: str = ""
    new: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    `attribute`, `old_value`, `new_value`: for `changed` only. `overlap`: share of common content words, 0 to 1.
    `later`: the new fact certainly has a later time. `faint`: only the change score relates the facts.
    """

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
        """The safe outcome without a judge: confirm the same, supersede a certain later change, else open a review."""
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
    "valid_time": "Its valid time ends at another moment.",
    "ended": "What was true is true no longer.", "wording": "They are worded differently.",
}  # fmt: skip
ALWAYS_ASKED = frozenset({"number", "negation", "antonym", "roles"})
"""Differences that open a review whatever the cross-encoder's score."""
OPPOSING = frozenset({"number", "negation", "antonym", "roles", "quantity", "value"})
"""Differences with which two facts about the same thing contradict each other, whatever their cosine."""


def compare_facts(old: FactSnapshot, new: FactSnapshot, cosine: float, thresholds: Thresholds) -> Comparison:
    """Compare `new`, which was learned later, with `old`.

    `cosine`: of their embeddings, -1 to 1. `thresholds`: of the embedding model; below `check`, facts are only related
    if their words contradict each other. "same" is symmetric and needs no cosine. The time is bounded by the length of
    the texts.
    """
    return facts_compare([(old, new, cosine)], thresholds)[0]


def facts_compare(
    pairs: Sequence[tuple[FactSnapshot, FactSnapshot, float]], thresholds: Thresholds
) -> list[Comparison]:
    """`compare_facts` for each pair, with the models called once for all."""
    steps = [_comparing(*pair, thresholds) for pair in pairs]
    results = [_advanced(each) for each in steps]
    unscored = [(place, each) for place, each in enumerate(results) if not isinstance(each, Comparison)]
    for (place, _), score in zip(unscored, change_scores([each for _, each in unscored]), strict=True):
        results[place] = _advanced(steps[place], score)
    compared = [each for each in results if isinstance(each, Comparison)]
    doubted = [place for place, each in enumerate(compared) if _is_uncertain(each)]
    for place, true in zip(doubted, both_true([pairs[place][:2] for place in doubted]), strict=True):
        if true:
            compared[place] = replace(compared[place], kind=Kind.UNRELATED)
    return compared


def _is_uncertain(comparison: Comparison) -> bool:
    """Whether a review is due to words only, without one of the differences in ALWAYS_ASKED."""
    differs = comparison.kind in (Kind.DIFFERS, Kind.CLOSE) and not comparison.faint
    return differs and ALWAYS_ASKED.isdisjoint(reason.code for reason in comparison.reasons)


Comparing = Generator[Pair, float, Comparison]
"""A comparison as a generator: it yields its pair at most once, if it needs the change score."""


def _advanced(steps: Comparing, score: float | None = None) -> Pair | Comparison:
    """Advance a comparison: the pair that it needs scored, or its result."""
    try:
        return next(steps) if score is None else steps.send(score)
    except StopIteration as done:
        return cast("Comparison", done.value)


def _comparing(old: FactSnapshot, new: FactSnapshot, cosine: float, thresholds: Thresholds) -> Comparing:
    later = old.moment is not None and new.moment is not None and new.moment > old.moment
    equal = old.texts == new.texts
    same = (equal and old.texts != ()) or any(not one.update and one in new.statements for one in old.statements)
    found = _differences(old, new, same=same)
    if same and not found and old.indented == new.indented:
        return Comparison(Kind.SAME, cosine, 1.0, later=later)
    shared, either = len(old.content_words & new.content_words), len(old.content_words | new.content_words)
    overlap = shared / either if either else 0.0
    if change := _change(old, new):
        reason = Reason(change[0], *change[2:])
        return Comparison(Kind.CHANGED, cosine, overlap, (reason,), *change[1:], later)
    codes = {reason.code for reason in found}
    texts, many = (old.texts, new.texts), d.is_other_object(old.texts, new.texts)
    alike = overlap >= _MIN_OVERLAP and shared >= _MIN_SHARED_WORDS
    # Short sentences about the same thing with opposite words are related too.
    brief = old.texts[:1] == new.texts[:1] and max(len(old.content_words), len(new.content_words)) <= _MAX_BRIEF_WORDS
    exchanged = "value" in codes and cosine - thresholds.check >= _EXCHANGED
    competing = (alike and codes & OPPOSING) or (brief and ("antonym" in codes or exchanged))
    competing = competing and (not many or codes & {"number", "negation"})
    updates = {each.key for each in new.statements if each.update}
    competing = competing or not updates.isdisjoint(each.key for each in old.statements)
    near = cosine >= thresholds.check or equal or competing
    # Completely different words can still express a change: only the change score shows that.
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
    # For a sentence with a pronoun, only the subject field shows whom it is about.
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
    """The differences, the most relevant first. `same`: the words are the same, so only subject and time can differ."""
    days = {fact.moment and fact.moment.date() for fact in (old, new)}
    found = [Reason("subject", old.subject, new.subject)] if subjects_clash(old, new) else []
    relative = len(days) > 1 and not all(w.RELATIVE_TIMES.isdisjoint(fact.texts) for fact in (old, new))
    found += [Reason("relative_time")] if relative else []
    if same:
        return found
    # The words that occur more often in the one than in the other.
    only = [{*(one.counts - other.counts)} for one, other in ((old, new), (new, old))]
    # Computed once for all checks.
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
    """The first old word with an opposite among the new words, and that opposite; () without one."""
    opposed = ((one, other) for one in olds if one in w.OPPOSITES for other in news if other in w.OPPOSITES[one])
    return next(opposed, ())


def _quote(tokens: Iterable[Token]) -> str:
    """The words in their original spelling."""
    return " ".join(dict.fromkeys(token.raw for token in tokens))[:200]
