"""Compare a new fact with an old one (is it the same, another value of one slot, or compatible?), and decide about it.

Pure functions. The cosine finds candidates but is never the verdict: many changes have cosines above 0.95. "Same" is
proven by words, "changed" by a common slot or by the same words turned round. The decision about a new fact, in this
order: is it the same as an old fact; what is the judge's verdict; is it certainly a newer value; else it is stored,
with a review for each old fact that it contradicts or resembles. Source: seed 009.1, parts 1 and 2; docs/lifecycle.md.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from memory.comparison import differences as d
from memory.comparison import lexicon as w
from memory.comparison.clauses import clauses_of
from memory.comparison.fact_snapshot import FactSnapshot, subjects_clash
from memory.comparison.slots import Slot, common_slots, is_refined, singular
from memory.comparison.tokenizer import VERBS, Token, base_form, number_free
from memory.embedding.protocol import UNKNOWN, Thresholds
from memory.models import Relation, RelationOpinion
from memory.policy.attributes import Cardinality

_MAX_OPPOSED_WORDS = 150
_DUPLICATE = 0.1
"""How far above the threshold `check` the cosine of a possible duplicate is."""

NEVER_SAME = frozenset({"number", "negation", "antonym", "quantity", "roles", "subject"})
"""Differences with which two facts are never the same, whatever a judge or a writer says: a person decides."""

Kind = enum.StrEnum("Kind", ["SAME", "CHANGED", "DIFFERS", "CLOSE", "UNRELATED"])
"""`same`: only harmless differences. `changed`: another value where one holds at a time, or the same words turned
round. `differs`: another value of an attribute that may have several. `close`: possibly the same. `unrelated`: both
hold."""
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

    `attribute`, `old_value`, `new_value`: for `changed` and `differs` only. `overlap`: share of common content words,
    0 to 1. `later`: the new fact certainly has a later time. `same_subject`: both facts have a subject, and it is one.
    `same_topic`: they share a word that is neither a verb nor of their subject.
    `about`: what both are about, in words: a subject, with its attribute if they state one.
    """

    kind: Kind
    cosine: float
    overlap: float
    reasons: tuple[Reason, ...] = ()
    attribute: str = ""
    old_value: str = ""
    new_value: str = ""
    later: bool = False
    same_subject: bool = False
    about: str = ""
    same_topic: bool = False

    def words(self, reason: Reason) -> str:
        """A reason as a sentence for people."""
        numbers = reason.code == "changed_value" and GAP in self.attribute
        template = REASONS["changed_number" if numbers else reason.code]
        about = f" about {self.about}" if self.about else ""
        return template.format(about=about, attribute=self.about or "the same attribute", sentence=self.attribute)

    @property
    def outcome(self) -> Outcome:
        """The safe outcome without a judge: confirm the same, supersede a certain later change, else open a review."""
        certain = {Kind.SAME: Outcome.CONFIRMED, Kind.UNRELATED: Outcome.STORED}
        changed = Outcome.SUPERSEDED if self.kind is Kind.CHANGED and self.later else Outcome.QUEUED
        return certain.get(self.kind, changed)


class Change(NamedTuple):
    """Another value: the code of its reason, the attribute, and both values as written."""

    code: str
    attribute: str
    old: str
    new: str


REASONS = {
    "number": "Another number, date, time or unit{about}.",
    "negation": "One denies what the other one says{about}.",
    "antonym": "One says the opposite of what the other one says{about}.",
    "name": "They name other people, places or things in what they say{about}.",
    "roles": "The same words{about} stand in other roles.",
    "quantity": "They speak{about} of another quantity or frequency.",
    "time": "They speak{about} of another time, or of a plan.",
    "value": "The same is said{about} with one thing exchanged.",
    "detail": "One says more{about} than the other one.",
    "subject": "They have different subjects.",
    "relative_time": "In what is said{about}, a word like “yesterday” means another day now.",
    "question": "One of them asks{about}.",
    "changed_value": "Another value of {attribute}.",
    "changed_number": "Another number in the same sentence{about}: “{sentence}”.",
    "valid_time": "The valid time of what is said{about} ends at another moment.",
    "reversed": "It says the opposite in the same words{about}.",
    "ended": "What was true{about} is true no longer.",
    "wording": "They are worded differently{about}.",
}
"""A sentence by code: `{about}` the subject with its attribute, `{attribute}` the same, `{sentence}` with a gap."""


def compare_facts(
    old: FactSnapshot, new: FactSnapshot, cosine: float = 0.0, thresholds: Thresholds = UNKNOWN
) -> Comparison:
    """Compare `new`, which was learned later, with `old`.

    `cosine`: of their embeddings, -1 to 1, 0 if unknown. `thresholds`: of the embedding model; two facts can only be
    duplicates of other wording above `check`. No cosine makes a contradiction. The time is bounded by the length of the
    texts.
    """
    later = new.is_later_than(old)
    clash = subjects_clash(old, new)
    one_subject = bool(old.subject and new.subject) and not clash
    equal = old.texts == new.texts or old.singular == new.singular
    common = [] if clash else common_slots(old.slots, new.slots, old.subject_name, new.subject_name)
    same = (equal and old.texts != ()) or _is_same_value(old, new, common)
    found = _differences(old, new, same=same)
    shared, either = old.content_words & new.content_words, len(old.content_words | new.content_words)
    overlap = len(shared) / either if either else 0.0
    same_topic = bool(shared - old.subject_words - new.subject_words - VERBS)

    def result(kind: Kind, changed: Change | None = None) -> Comparison:
        reasons = (Reason(changed.code, changed.old, changed.new),) if changed else tuple(found)
        quoted = (changed.attribute, changed.old, changed.new) if changed else ("", "", "")
        about = _about(old, new, common, changed)
        return Comparison(kind, cosine, overlap, reasons, *quoted, later, one_subject, about, same_topic)

    if same and not found and old.indented == new.indented:
        about = _about(old, new, common)
        return Comparison(Kind.SAME, cosine, 1.0, later=later, same_subject=one_subject, about=about)
    if clash:
        return result(Kind.UNRELATED)
    if changed := _slot_change(common, new, certain=Cardinality.ONE) or _change(old, new, common):
        return result(Kind.CHANGED, changed)
    if changed := _slot_change(common, new, certain=Cardinality.UNKNOWN):
        return result(Kind.DIFFERS, changed)
    codes = {reason.code for reason in found}
    names = {token.text for token in new.tokens if token.name}
    compatible = (
        not codes <= {"wording", "detail"}
        or cosine - thresholds.check < _DUPLICATE
        or any(one.value != other.value for one, other in common)
        or bool(old.slots and new.slots and not common)
        or d.only_adds_details(old.texts, new.texts, names)
        or d.is_more_exact(old.texts, new.texts)
    )
    return result(Kind.UNRELATED if compatible else Kind.CLOSE)


def _is_same_value(old: FactSnapshot, new: FactSnapshot, common: Sequence[tuple[Slot, Slot]]) -> bool:
    """Whether both facts say only the same value of a common slot.

    The wording beside a value that a writer states does not count, unless it has another number, a name or the like.
    """
    for one, other in common:
        if one.value != other.value or not (one.whole and other.whole):
            continue
        if not (one.stated or other.stated):
            return True
        added = {token.text for token in new.tokens if token.name} - {*old.texts, *other.value}
        codes = {reason.code for reason in _differences(old, new, same=False)}
        if not added and codes.isdisjoint(NEVER_SAME | {"question"}):
            return True
    return False


def _change(old: FactSnapshot, new: FactSnapshot, common: Sequence[tuple[Slot, Slot]]) -> Change | None:
    """The change, if the new sentence turns the old one round."""
    if new.ended and new.ended == old.number_free:
        return Change("ended", "truth", "true", "no longer true")
    # What holds several values, or may do so, is not judged by its words.
    several = any(
        Cardinality.MANY in (one.cardinality, other.cardinality)
        or ((one.stated or other.stated) and not one.cardinality and one.value != other.value)
        for one, other in common
    )
    if not several and (states := exclusive_states(old.texts, new.texts)):
        return Change("changed_value", "state", *_quotes(old, new, states))
    if not several and (number := changed_number(old.texts, new.texts)):
        sentence, *numbers = number
        return Change("changed_value", as_written(sentence, new.tokens), *_quotes(old, new, numbers))
    if turned := reversed_sentence(old.tokens, new.tokens):
        return Change("reversed", "truth", *turned)
    return None


def _slot_change(common: Sequence[tuple[Slot, Slot]], fact: FactSnapshot, *, certain: Cardinality) -> Change | None:
    """The change of a slot with this cardinality to another value, which the new `fact` states."""
    for old, new in common:
        known = old.cardinality or new.cardinality
        if known == certain and {*old.value} != {*new.value} and _excludes(old, new):
            return Change("changed_value", _named(new.attribute, fact.tokens), old.quote, new.quote)
    return None


def _excludes(old: Slot, new: Slot) -> bool:
    """Whether the values exclude each other: not a part of the old value, nor a region beside a place in it."""
    if is_refined(new, old):
        return False
    return is_refined(old, new) or _is_region(old) == _is_region(new)


def _is_region(slot: Slot) -> bool:
    """Whether the value is a region; "us-east-1" is a code."""
    return not w.REGIONS.isdisjoint(slot.value) and not any(text[-1:].isdigit() for text in slot.value)


def _about(
    old: FactSnapshot, new: FactSnapshot, common: Sequence[tuple[Slot, Slot]], changed: Change | None = None
) -> str:
    """The common topic of both facts in words: "Tim's time zone", "Tim", "the time zone" or ""."""
    named = [(slot, _named(slot.attribute, new.tokens)) for _, slot in common]
    slot, attribute = next((each for each in named if not changed or each[1] == changed.attribute), (None, ""))
    subject = new.subject_name or old.subject_name
    if not subject and slot:
        subject = _quote(token for token in new.tokens if {*number_free([token.text])} & slot.subject)
    if changed and changed.attribute == "state":
        attribute = changed.attribute
    if subject and attribute:
        return f"{subject}'{'' if subject.endswith('s') else 's'} {attribute}"
    return subject or (attribute and f"the {attribute}")


def _named(attribute: str, tokens: Sequence[Token]) -> str:
    """The name of an attribute in words; a verb in it is spelled as in the sentence."""
    words = attribute.replace("_", " ").split(" ")
    return " ".join(as_written([word], tokens) if "+" in word else word for word in words)


def _quotes(old: FactSnapshot, new: FactSnapshot, texts: Sequence[str]) -> tuple[str, str]:
    return as_written(texts[:1], old.tokens), as_written(texts[1:], new.tokens)


def as_written(texts: Sequence[str], tokens: Sequence[Token]) -> str:
    """Texts of tokens in the spelling of their sentence."""
    raw: dict[str, str] = {}
    for token in tokens:
        (plain,) = number_free([token.text])
        for text in (token.text, plain, singular(plain), base_form(plain)):
            raw.setdefault(text, token.raw)
    words = [raw.get(text) or base_form(text).replace("_", " ") for text in texts]
    # Several tokens may be of one written word.
    return " ".join(word for place, word in enumerate(words) if words[place - 1 : place] != [word]).replace(" 's", "'s")


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
    opposed = _opposites(*(each[:_MAX_OPPOSED_WORDS] for each in bases))
    evidence: dict[str, Sequence[str]] = {
        "number": quote(lambda token: token.number),
        "negation": quote(lambda token: base_form(token.text) in w.NEGATIONS)
        if not w.NEGATIONS.isdisjoint(said)
        else (),
        "quantity": quote(lambda token: base_form(token.text) in w.QUANTIFIERS)
        if not w.QUANTIFIERS.isdisjoint(said)
        else (),
        "antonym": opposed and _quotes(old, new, opposed),
        "roles": () if any(only) else (old.content[:120], new.content[:120]),
        "name": quote(lambda token: token.name),
        "time": quotes if not w.MODALS.isdisjoint(said) or tenses[0] != tenses[1] else (),
        "question": quote(lambda token: token.text == "?") if "?" in said else (),
        "value": slot and quotes,
        "detail": quotes if not slot and bool(only[0]) != bool(only[1]) else (),
    }
    found += [Reason(code, *quoted) for code, quoted in evidence.items() if any(quoted)]
    return found or [Reason("wording", *quotes)]


def _opposites(olds: Sequence[str], news: Sequence[str]) -> Sequence[str]:
    """The first old word with an opposite among the new words, and that opposite; () without one."""
    opposed = ((old, other) for old in olds if old in w.OPPOSITES for other in news if other in w.OPPOSITES[old])
    return next(opposed, ())


def _quote(tokens: Iterable[Token]) -> str:
    """The words in their original spelling."""
    return " ".join(dict.fromkeys(token.raw for token in tokens))[:200]


MAX_REVIEWS = 5
"""Maximum number of old facts that are replaced by or reviewed with one new fact. Source: seed 009.1, "limit=5"."""
MIN_VERDICT_CONFIDENCE = 0.7
"""Minimum confidence at which a judge's verdict is applied; others are only shown to the reviewer."""
MIN_TOPIC_OVERLAP = 0.3
"""Minimum share of common content words, 0 to 1, of a fact that a judge alone sees replaced by another one."""


@dataclass(frozen=True, slots=True)
class FactMatch:
    """The comparison of the new fact with an old one.

    `exact_match`: the same words. `replaceable`: the learner may replace the old fact. `review_only`: the pair
    is always reviewed, whatever the comparison. `elsewhere`: the same words about another subject.
    """

    fact_id: UUID
    comparison: Comparison
    exact_match: bool = False
    replaceable: bool = True
    review_only: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class LearnDecision:
    """What to do with a new fact.

    `confirm`: the old fact with the same statement; nothing is stored. Otherwise the new fact is stored and replaces
    those in `supersede`; those in `ask` need a judge or a review. `repeats`: the old fact with the same words about
    another subject; nothing is stored until people decide whether it is true of both.
    """

    confirm: FactMatch | None = None
    supersede: tuple[FactMatch, ...] = ()
    ask: tuple[FactMatch, ...] = ()
    repeats: FactMatch | None = None

    @property
    def action(self) -> str:
        stored = "queued" if self.ask else "superseded" if self.supersede else "stored"
        return "confirmed" if self.confirm else stored


def decide_learning(compared: Sequence[FactMatch], verdicts: Mapping[UUID, RelationOpinion]) -> LearnDecision:
    """Decide about a new fact; `verdicts` are the judge's, by id of the old fact."""
    related = [
        (each, kind)
        for each, verdict in [(each, verdicts.get(each.fact_id)) for each in compared]
        if _is_related(each, kind := auto_resolution(each.comparison, verdict), verdict)
    ]
    related.sort(
        key=lambda pair: (
            not pair[0].exact_match,
            -pair[0].comparison.cosine,
            -pair[0].comparison.overlap,
            str(pair[0].fact_id),
        )
    )
    supersede, ask = [], []
    for each, kind in related:
        if not each.review_only and (each.exact_match or kind is Kind.SAME):
            return LearnDecision(confirm=each)
    for each, kind in related[:MAX_REVIEWS]:
        if each.review_only or not (kind is Kind.CHANGED and each.replaceable):
            ask.append(each)
        else:
            supersede.append(each)
    repeats = next((each for each in compared if each.elsewhere), None)
    return LearnDecision(supersede=tuple(supersede), ask=tuple(ask), repeats=repeats)


def _is_related(each: FactMatch, kind: Kind | None, verdict: RelationOpinion | None) -> bool:
    """Whether something is done about the pair, or asked. Two facts that only a model relates are kept if it doubts."""
    if each.elsewhere or kind is Kind.UNRELATED:
        return each.review_only
    confident = verdict is not None and verdict.confidence >= MIN_VERDICT_CONFIDENCE
    doubted = kind is None and each.comparison.kind is Kind.UNRELATED and not confident
    return each.exact_match or each.review_only or not doubted


def needs_judge(each: FactMatch) -> bool:
    """Whether a judge sees the pair: it is not certain, and its facts are about one subject or may be duplicates.
    Source: seed 009.1, parts 1 and 2."""
    if each.exact_match or each.elsewhere or auto_resolution(each.comparison, None) is not None:
        return False
    return each.comparison.same_subject or each.comparison.kind is not Kind.UNRELATED


def auto_resolution(comparison: Comparison, verdict: RelationOpinion | None) -> Kind | None:
    """The certain relation of the pair: `same`, `changed` or `unrelated` (both are true); None if it is not certain."""
    if comparison.kind is Kind.SAME or (comparison.kind is Kind.CHANGED and comparison.later):
        return comparison.kind
    if verdict is None or verdict.confidence < MIN_VERDICT_CONFIDENCE:
        return None
    if verdict.relation is Relation.DUPLICATE:
        return None if NEVER_SAME & {reason.code for reason in comparison.reasons} else Kind.SAME
    if verdict.relation is Relation.UPDATE:
        # Nothing in the words of two facts about different topics bears the judge out: people decide.
        same_topic = comparison.same_topic and comparison.overlap >= MIN_TOPIC_OVERLAP
        is_borne_out = comparison.kind is not Kind.UNRELATED or same_topic
        return Kind.CHANGED if comparison.later and is_borne_out else None
    return Kind.UNRELATED if verdict.relation in (Relation.REFINEMENT, Relation.UNRELATED) else None


def reasons_of(comparison: Comparison) -> list[dict[str, str]]:
    """The reasons as reviews, histories and answers have them."""
    return [
        {"code": each.code, "words": comparison.words(each), "old": each.old, "new": each.new}
        for each in comparison.reasons
    ]


Texts = tuple[str, ...]
GAP = "…"
"""In place of the number of a sentence."""
_MAX_WORDS = 40
_DROPPED = w.ARTICLES | w.words("do does did now still already currently any_more anymore longer any more always ,")
_NEGATED = w.words("not never no none")
_BEFORE_COUNT = VERBS | w.PREPOSITIONS | w.QUANTIFIERS | w.ARTICLES | w.words("max minimum maximum")
_BEFORE_PARTICIPLE = w.PREPOSITIONS | {"be"}
_BY_DATE = w.words("be start end open close expire launch renew begin")
_AFFIRMED = w.mapping("can/must=may love/enjoy=like")
_DENIABLE = {*w.REVERSED.values(), *_AFFIRMED, *_AFFIRMED.values()}


def reversed_sentence(olds: Sequence[Token], news: Sequence[Token]) -> tuple[str, str] | None:
    """The reversal in the new sentence, as (old words, new words); None if there is none."""
    if max(len(olds), len(news)) > _MAX_WORDS:
        return None
    old = _polarity(tuple(olds))
    for clause in clauses_of(news):
        positive, core = _polarity(clause)
        if len(core) > 1 and core == old[1] and positive != old[0]:
            return _written(olds), _written(clause)
    return None


def _written(tokens: Sequence[Token]) -> str:
    return " ".join(token.raw for token in tokens)[:200]


def _polarity(tokens: Sequence[Token]) -> tuple[bool, Texts]:
    """Whether a sentence affirms, and its words without those that affirm or deny."""
    positive = True
    core: list[str] = []
    texts = [text if text in _DROPPED else singular(text) for text in number_free(token.text for token in tokens)]
    skip = 0
    for at, text in enumerate(texts):
        if skip:
            skip -= 1
            continue
        base = text.partition("+")[0]
        if text in _NEGATED:
            positive = not positive
        elif base in ("stop", "quit", "cease") and "+ing" in "".join(texts[at + 1 : at + 2]):
            positive = not positive
            if core and core[-1] in ("have", "be"):
                core.pop()
        elif texts[at : at + 3] in (["be", "allow+ed", "to"], ["be", "permit+ted", "to"]):
            core.append("may")
            skip = 2
        elif text in _DROPPED or (text == "be" and "".join(texts[at + 1 : at + 2]).endswith("+ing")):
            continue
        elif base in w.REVERSED:
            positive = not positive
            core.append(w.REVERSED[base])
        else:
            core.append(_AFFIRMED.get(base, base) if base in _DENIABLE else text.removesuffix("+ing"))
    return positive, tuple(core)


def changed_number(olds: Texts, news: Texts) -> tuple[Texts, str, str] | None:
    """Another number in the same present sentence: this with a gap, the old number and the new one; else None."""
    one, other = _present(olds), _present(news)
    if not one or len(one) != len(other) or len(one) > _MAX_WORDS:
        return None
    places = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
    if len(places) != 1:
        return None
    at = places[0]
    before = [text for text in one[:at] if text in VERBS]
    if not (before and _is_number(one[at]) and _is_number(other[at])):
        return None
    runs = not {"run", "use"}.isdisjoint(one[max(0, at - 3) : at])
    named = not runs and one[at - 1] not in _BEFORE_COUNT
    dated = one[at].startswith("d:") and before[0] not in _BY_DATE
    # "Ticket 12" is another ticket; a date says when one event of many is; "1.2.3" is "1.2" more exactly.
    if named or dated or one[at].startswith(other[at]) or other[at].startswith(one[at]):
        return None
    return (*one[:at], GAP, *one[at + 1 :]), one[at], other[at]


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or (text[:2] in ("d:", "t:") and "?" not in text[:3])


def _present(texts: Texts) -> Texts:
    """The words of a sentence in the present tense, without what compares with before; () for another tense."""
    kept = [singular(text) for text in number_free(texts) if text not in w.ARTICLES | {"now", "currently", "only"}]
    if "instead" in kept:
        kept = kept[: kept.index("instead")]
    # After "be" it is a state, and after a preposition a name or a kind: "of rose", "of failed jobs".
    past = any(
        text.endswith("+ed") and (not at or kept[at - 1] not in _BEFORE_PARTICIPLE) for at, text in enumerate(kept)
    )
    return () if past or "?" in kept or {*kept} & (w.MODALS - {"need", "need+s", "want"}) else tuple(kept)


def exclusive_states(olds: Texts, news: Texts) -> tuple[str, str] | None:
    """The two states that exclude each other, if they are the only difference of the texts; else None."""
    one, other = _present(olds), _present(news)
    if len(one) != len(other) or len(one) < 2:
        return None
    differing = [(left, right) for left, right in zip(one, other, strict=True) if left != right]
    if len(differing) != 1:
        return None
    left, right = differing[0]
    groups = {w.EXCLUSIVE_STATES.get(left, ""), w.EXCLUSIVE_STATES.get(right, "-")}
    return (left, right) if len(groups) == 1 else None
