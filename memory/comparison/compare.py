"""Whether a new fact says the same as an old one, changes it, or differs in something that matters.

Pure and deterministic; no model is asked. The cosine of two facts finds candidates and is never the verdict: with
the local embedder 16 of 40 changed facts score above 0.95 and only 5 of 30 true paraphrases do. So "same" is proven by
the words alone: every word that is not known to be harmless has to be there on both sides, in the same role.
Source: seed 009.1, deduplication and supersession.
"""

import enum
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product

from memory.comparison import lexicon as w
from memory.comparison.canonical import shaped
from memory.comparison.snapshot import FactSnapshot
from memory.comparison.statements import Statement, exclusive
from memory.comparison.tokenizer import Token, number_free
from memory.embedding.thresholds import Thresholds

_MOST_ALIGNED_WORDS = 150
_MIN_SHARED_WORDS = 2
_MIN_OVERLAP = 0.5
_BRIEF_WORDS = 4


class Kind(enum.StrEnum):
    """`same`: only harmless differences. `changed`: the same attribute has explicitly another value. `differs`:
    something that matters differs. `close`: alike, and nothing that differs has a name. `unrelated`."""

    SAME = "same"
    CHANGED = "changed"
    DIFFERS = "differs"
    CLOSE = "close"
    UNRELATED = "unrelated"


class Outcome(enum.StrEnum):
    """What happens to the new fact without a judge."""

    CONFIRMED = "confirmed"
    SUPERSEDED = "superseded"
    QUEUED = "queued"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that differs. `code` is for machines, `words` for people; `old` and `new` quote the evidence."""

    code: str
    words: str
    old: str = ""
    new: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute`, `old_value` and `new_value` are set for `changed` only; `overlap` is the share, 0 to 1, of content
    words that both hold; `later`: whether the new fact is known to be of a later moment than the old one."""

    kind: Kind
    cosine: float
    overlap: float
    reasons: tuple[Reason, ...] = ()
    attribute: str = ""
    old_value: str = ""
    new_value: str = ""
    later: bool = False

    @property
    def outcome(self) -> Outcome:
        """What is safe without a judge: confirm what is the same, supersede what certainly changed later, else ask."""
        if self.kind is Kind.SAME:
            return Outcome.CONFIRMED
        if self.kind is Kind.UNRELATED:
            return Outcome.STORED
        return Outcome.SUPERSEDED if self.kind is Kind.CHANGED and self.later else Outcome.QUEUED


_SAYS = {
    "number": "A number, date, time or unit differs.",
    "negation": "One denies what the other one says.",
    "antonym": "One says the opposite of the other one.",
    "name": "They name other people, places or things.",
    "roles": "The same words stand in other roles.",
    "quantity": "They speak of another quantity or frequency.",
    "time": "They speak of another time, or of a plan.",
    "degree": "They compare differently.",
    "direction": "They relate the same things differently.",
    "value": "The same is said with one thing exchanged.",
    "detail": "One says more than the other one.",
    "subject": "They are filed under different subjects.",
    "relative_time": "A word like “yesterday” means another day now.",
    "question": "One of them asks.",
    "changed_value": "The same attribute of the same subject has another value.",
    "ended": "What was true is true no longer.",
    "wording": "They are worded differently.",
}
OPPOSING = frozenset({"number", "negation", "antonym", "roles", "quantity", "value", "direction", "degree"})
"""Differences that make two facts about the same thing compete, however far apart their embeddings are."""


def compare_facts(old: FactSnapshot, new: FactSnapshot, cosine: float, thresholds: Thresholds) -> Comparison:
    """Compare `new`, which was learned later, with `old`; `cosine` is of their embeddings, -1 to 1.

    `thresholds` are those of the model of the embeddings: below `check`, only what competes by its words is related.
    "same" is symmetric and needs no cosine. Time is bounded by the length of the texts.
    """
    reader = _Reading.of(old, new)
    found = reader.differences()
    later = old.moment is not None and new.moment is not None and new.moment > old.moment
    if reader.same() and not found:
        return Comparison(Kind.SAME, cosine, 1.0, later=later)
    overlap = reader.overlap()
    if change := reader.change():
        attribute, before, after, code = change
        reason = Reason(code, _SAYS[code], before, after)
        return Comparison(Kind.CHANGED, cosine, overlap, (reason,), attribute, before, after, later)
    competing = {reason.code for reason in found} & OPPOSING
    related = competing and overlap >= _MIN_OVERLAP and reader.shared() >= _MIN_SHARED_WORDS
    related = related or ("antonym" in competing and reader.brief())
    if reader.many_valued():
        related = False
    if cosine < thresholds.check and not related and not reader.equal_words():
        return Comparison(Kind.UNRELATED, cosine, overlap, tuple(found), later=later)
    kind = Kind.DIFFERS if {reason.code for reason in found} - {"wording", "detail"} else Kind.CLOSE
    return Comparison(kind, cosine, overlap, tuple(found), later=later)


_MANY_VALUED = w.words("""
    like love enjoy hate speak know visit have own play study drink eat include support contain cover
    """)


@dataclass(frozen=True, slots=True)
class _Reading:
    old: FactSnapshot
    new: FactSnapshot
    old_tokens: list[Token]
    new_tokens: list[Token]
    old_shape: tuple[str, ...]
    new_shape: tuple[str, ...]

    @classmethod
    def of(cls, old: FactSnapshot, new: FactSnapshot) -> "_Reading":
        return cls(old, new, old.tokens, new.tokens, old.shape, new.shape)

    def equal_words(self) -> bool:
        return bool(self.old_shape) and self.old_shape == self.new_shape

    def same(self) -> bool:
        if self.old.hyphened != self.new.hyphened:
            return False
        if self.equal_words():
            return True
        return any(
            (one.subject, one.attribute, one.value_texts) == (other.subject, other.attribute, other.value_texts)
            for one in self.old.statements
            for other in self.new.statements
            if not one.update and not other.update
        )

    def overlap(self) -> float:
        olds, news = _content(self.old_shape), _content(self.new_shape)
        both = len(olds | news)
        return len(olds & news) / both if both else 0.0

    def shared(self) -> int:
        return len(_content(self.old_shape) & _content(self.new_shape))

    def brief(self) -> bool:
        """Whether both are a few words about the same thing, so that two opposites among them must meet."""
        return self.old_shape[:1] == self.new_shape[:1] and all(
            len(_content(shape)) <= _BRIEF_WORDS for shape in (self.old_shape, self.new_shape)
        )

    def many_valued(self) -> bool:
        """Whether only the value of something that can have many differs: both are true, then."""
        if (
            len(self.old_shape) < 3
            or self.old_shape[:2] != self.new_shape[:2]
            or _base(self.old_shape[1]) not in _MANY_VALUED
            or {"not", "never", "no"} & (set(self.old_shape) ^ set(self.new_shape))
        ):
            return False
        return not _numbers(self.old_tokens) ^ _numbers(self.new_tokens)

    def change(self) -> tuple[str, str, str, str] | None:
        """Attribute, old value, new value and reason code of an explicit change."""
        if subjects_clash(self.old, self.new) or self._who_is_unclear():
            return None
        if self._ended():
            return ("truth", "true", "no longer true", "ended")
        for one in self.old.statements:
            for other in self.new.statements:
                if one.update or (one.subject, one.attribute) != (other.subject, other.attribute):
                    continue
                closed = one.closed or other.closed
                if exclusive(one.value, other.value, said=other.update, closed=closed):
                    return (one.attribute, _quoted(one), _quoted(other), "changed_value")
        return None

    def _ended(self) -> bool:
        news, old = list(number_free(self.new_shape)), number_free(self.old_shape)
        for ending in (["no", "longer"], ["not", "any", "more"]):
            for place in range(len(news) - len(ending) + 1):
                if news[place : place + len(ending)] == ending:
                    rest = (*news[:place], *news[place + len(ending) :])
                    return len(rest) > 2 and number_free(shaped(rest)) == old
        if news[-2:] == ["any", "more"] and news.count("not") == 1:
            rest = tuple(text for text in news[:-2] if text != "not")
            return len(rest) > 2 and number_free(shaped(rest)) == old
        return False

    def _who_is_unclear(self) -> bool:
        """Whether a pronoun or a missing subject leaves open of whom the sentence speaks."""
        filed = bool(self.old.subject.strip() and self.new.subject.strip())
        return not filed and bool(w.PRONOUNS & {*self.old_shape, *self.new_shape})

    def differences(self) -> list[Reason]:
        """What differs, the weightiest first; [] only for texts whose words prove the same."""
        found: dict[str, Reason] = {}

        def add(code: str, old: str = "", new: str = "") -> None:
            found.setdefault(code, Reason(code, _SAYS[code], old, new))

        if subjects_clash(self.old, self.new):
            add("subject", self.old.subject, self.new.subject)
        if self._relative_time_moved():
            add("relative_time")
        if self.same():
            return list(found.values())
        olds, news = Counter(self.old_shape), Counter(self.new_shape)
        only_old, only_new = olds - news, news - olds
        bases_old, bases_new = {_base(text) for text in only_old}, {_base(text) for text in only_new}
        quote_old, quote_new = _quote(self.old_tokens, only_old), _quote(self.new_tokens, only_new)
        if _numbers(self.old_tokens) != _numbers(self.new_tokens):
            add("number", _spoken(self.old_tokens, self.new_tokens), _spoken(self.new_tokens, self.old_tokens))
        for code, listed in (("negation", w.NEGATIONS), ("quantity", w.QUANTIFIERS)):
            if listed & (bases_old | bases_new):
                add(code, *(" ".join(sorted(listed & bases)) for bases in (bases_old, bases_new)))
        if max(len(self.old_shape), len(self.new_shape)) <= _MOST_ALIGNED_WORDS:
            for one, other in product(sorted(bases_old), sorted(bases_new)):
                if _opposite(one, other):
                    add("antonym", one, other)
        if not only_old and not only_new:
            add("roles", self.old.content[:120], self.new.content[:120])
        names_old, names_new = _names(self.old_tokens, only_old), _names(self.new_tokens, only_new)
        if names_old or names_new:
            add("name", " ".join(names_old), " ".join(names_new))
        for code, listed in (("degree", w.COMPARATIVES), ("direction", w.DIRECTIONS)):
            if listed & only_old.keys() and listed & only_new.keys():
                add(code, quote_old, quote_new)
        if w.MODALS & (bases_old | bases_new) or _tenses(only_old) != _tenses(only_new):
            add("time", quote_old, quote_new)
        if "?" in only_old or "?" in only_new:
            add("question")
        if slot := _one_slot(self.old_shape, self.new_shape):
            add("value", *slot)
        elif bool(only_old) != bool(only_new):
            add("detail", quote_old, quote_new)
        if not found:
            add("wording", quote_old, quote_new)
        return list(found.values())

    def _relative_time_moved(self) -> bool:
        if not w.RELATIVE_TIMES & {*self.old_shape, *self.new_shape}:
            return False
        if self.old.moment is None or self.new.moment is None:
            return self.old.moment is not self.new.moment
        return self.old.moment.date() != self.new.moment.date()


def subjects_clash(old: FactSnapshot, new: FactSnapshot) -> bool:
    """Whether the two may be about different things by what they are filed under.

    Filed differently they are about the same only where their sentences name it themselves.
    """
    one, other = _plain_subject(old.subject), _plain_subject(new.subject)
    if one == other:
        return False
    shorter = one if one and (not other or len(one) <= len(other)) else other
    if one and other and not (set(one) <= set(other) or set(other) <= set(one)):
        return True
    return not all(set(shorter) <= set(_plain_subject(fact.content)) for fact in (old, new))


def names_subject(content: str, subject: str) -> bool:
    """Whether a sentence names all of the subject that another one is filed under."""
    named = set(_plain_subject(subject))
    return bool(named) and named <= set(_plain_subject(content))


def _plain_subject(text: str) -> tuple[str, ...]:
    words = text.casefold().replace("’", "'").replace("'s", " ").replace("_", " ").replace("-", " ").split()
    return tuple(word.strip(".,;:!?()\"'") for word in words if word not in w.ARTICLES)


def _opposite(one: str, other: str) -> bool:
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    negated = len(shorter) > 2 and any(longer == prefix + shorter for prefix in w.NEGATIVE_PREFIXES)
    return negated or frozenset({one, other}) in w.ANTONYMS


def _content(texts: tuple[str, ...]) -> set[str]:
    plain = w.PREPOSITIONS | w.CLAUSE_WORDS | {"be", "be+ed", "have", "'s", "not", "no", "now", "it", "its"}
    return {_base(text) for text in texts} - plain


def _base(text: str) -> str:
    return text.partition("+")[0] or text


def _numbers(tokens: list[Token]) -> frozenset[tuple[str, int]]:
    return frozenset(Counter(token.text for token in tokens if token.number).items())


def _spoken(tokens: list[Token], others: list[Token]) -> str:
    left = Counter(token.text for token in tokens if token.number) - Counter(token.text for token in others)
    return _quote(tokens, left)


def _names(tokens: list[Token], only: Counter[str]) -> list[str]:
    """Names that one side has alone. The first word of a sentence counts when nothing else is known of it."""
    known = w.PREPOSITIONS | w.CLAUSE_WORDS | w.PRONOUNS | w.NEGATIONS | w.QUANTIFIERS | w.MODALS
    return [
        token.raw
        for token in tokens
        if only[token.text]
        and not token.number
        and (token.name or (token.raw[:1].isupper() and token.text not in known and "+" not in token.text))
    ]


def _tenses(only: Counter[str]) -> set[str]:
    return {text.rpartition("+")[2] for text in only if text.endswith(("+ed", "+ing"))}


def _one_slot(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, str] | None:
    """The one place, of at most three words on either side, in which two frames of words differ."""
    if max(len(old), len(new)) > _MOST_ALIGNED_WORDS:
        return None
    changes = [each for each in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if each[0] != "equal"]
    if len(changes) != 1 or changes[0][0] != "replace":
        return None
    _, i1, i2, j1, j2 = changes[0]
    if max(i2 - i1, j2 - j1) > 3:
        return None
    return " ".join(old[i1:i2]), " ".join(new[j1:j2])


def _quote(tokens: list[Token], only: Counter[str]) -> str:
    return " ".join(dict.fromkeys(token.raw for token in tokens if only[token.text]))[:200]


def _quoted(statement: Statement) -> str:
    return " ".join(dict.fromkeys(token.raw for token in statement.value))
