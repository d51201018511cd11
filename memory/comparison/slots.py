"""Slots: what a clause of a fact says as `attribute of subject: value`. Facts can only contradict each other in one.

Derived by rules for plain English sentences; in anything else there is no slot. docs/lifecycle.md explains the use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from memory.comparison import lexicon as w
from memory.comparison.attribute_names import same_attribute
from memory.comparison.clauses import MAX_SUBJECT_WORDS, OPENINGS, clauses_of, joins_names
from memory.comparison.tokenizer import VERBS, Token, number_free, tokens_of
from memory.policy import slot_phrases
from memory.policy.attributes import (
    Cardinality,
    ValueShape,
    attribute_known,
    attribute_named,
    attribute_rule,
    attribute_words,
)

_MAX_CLAUSE_WORDS, _MAX_ATTRIBUTE_WORDS, _MAX_VALUE_WORDS = 24, 4, 8
_MAX_BARE_WORDS = 4
_SELF = w.words("i me my mine we us our you your he his she her they their it its user users")
_TAILS = (
    ("instead", "of"), ("rather", "than"), ("since",), ("as", "of"), ("by", "default"), ("because",), ("from", "now"),
    ("any", "more"), ("at", "the", "moment"), ("at", "moment"), ("now",), ("again",), ("these", "days"), ("for", "now"),
    ("anymore",), ("not",), ("until",), ("so", "far"), ("as", "well"), ("too",), ("currently",), ("today",), ("after",),
    ("but",), ("with", "effect"), ("starting",),
)  # fmt: skip
"""What ends a value: words about its time, or about the value before."""
_SILENT_TAILS = (("now",), ("currently",), ("at", "moment"), ("at", "the", "moment"), ("today",), ("again",))
_NO_VALUE = (
    w.MODALS | w.NEGATIONS | (w.CLAUSE_WORDS - w.words("and or than ,")) | w.PRONOUNS | w.words("be have too")
) - {"us"}
"""Words that no value has; "us" begins names of regions ("us-east-1")."""
_NOUNS = w.words("plan plans")
_WEEKDAYS = w.words("monday tuesday wednesday thursday friday saturday sunday")
_BEFORE_VALUE = w.words("to about approximately now currently exactly call+ed named only just")
_WHEN = w.words("in on at by")
_RELATIVE = w.words("that which where who")
_GROUPS = w.words("team crew department group squad office board council company university committee unit")
_UNNAMED = w.PREPOSITIONS | _NO_VALUE | w.QUANTIFIERS


@dataclass(frozen=True, slots=True)
class Slot:
    """`subject`: the words that name it, () if the clause only says "I", "it" or the like. `value`: words as compared;
    `quote`: as written. `whole`: the fact says nothing else. `stated`: its writer named it beside the sentence."""

    subject: frozenset[str]
    attribute: str
    value: tuple[str, ...]
    quote: str
    cardinality: Cardinality
    whole: bool = True
    stated: bool = False


@dataclass(frozen=True, slots=True)
class _Phrase:
    attribute: str
    cardinality: Cardinality
    shape: ValueShape


def _phrases(cardinality: Cardinality, shape: ValueShape, text: str) -> dict[tuple[str, ...], _Phrase]:
    """Lines of `phrase, phrase = attribute`, by the tokens of each phrase."""
    pairs = [line.split("=") for line in text.strip().splitlines()]
    return {
        _form(phrase): _Phrase(attribute.strip(), cardinality, shape)
        for phrases, attribute in pairs
        for phrase in phrases.split(",")
    }


def _form(phrase: str) -> tuple[str, ...]:
    return tuple(text for text in number_free(token.text for token in tokens_of(phrase)) if text not in w.ARTICLES)


_ONE = Cardinality.ONE
PHRASES = {phrase: found for each in slot_phrases.PHRASES for phrase, found in _phrases(*each).items()}
_LONGEST = max(map(len, PHRASES))
COPULAS = frozenset(map(_form, slot_phrases.COPULAS))
_LONGEST_COPULA = max(map(len, COPULAS))
_RUNS = frozenset(map(_form, slot_phrases.RUNS))
_BUYS = frozenset(map(_form, slot_phrases.BUYS))
_LONGEST_RUN = max(map(len, _RUNS | _BUYS))
_PLAIN_COPULAS = frozenset(map(_form, ("is", "becomes", "became", "has become", "remains")))
"""The others say what a value became, and need a "to" before it."""


def slots_of(tokens: Sequence[Token]) -> tuple[Slot, ...]:
    """The slots of a fact with these tokens."""
    if any(token.text == "?" for token in tokens):
        return ()
    clauses = clauses_of(tokens)
    found: list[Slot] = []
    for clause in clauses:
        if len(clause) <= _MAX_CLAUSE_WORDS:
            found += _read(clause, number_free(token.text for token in clause))
    whole = len(clauses) == 1
    return tuple(dict.fromkeys(replace(slot, whole=whole and slot.whole) for slot in found))


def _read(clause: tuple[Token, ...], texts: tuple[str, ...]) -> Iterator[Slot]:
    kept = [(token, text) for token, text in zip(clause, texts, strict=True) if text not in OPENINGS or text == "so"]
    tokens, texts = [token for token, _ in kept], tuple(text for _, text in kept)
    yield from _copular(tokens, texts)
    plain = [(token, text) for token, text in kept if text not in w.ARTICLES]
    texts_plain = tuple(text for _, text in plain)
    for special in (_preference, _purpose, _version):
        if (slot := special(plain, texts_plain)) is not None:
            yield slot
            return
    for place in range(1, min(len(texts_plain), MAX_SUBJECT_WORDS + 1)):
        for size in range(min(_LONGEST, len(texts_plain) - place), 0, -1):
            phrase = PHRASES.get(texts_plain[place : place + size])
            if phrase is None:
                continue
            named = _subject([token for token, _ in plain[:place]], texts_plain[:place])
            # The value with its articles: "a Fiat" names a thing.
            last = plain[place + size - 1][0]
            rest = tokens[next(at for at, each in enumerate(tokens) if each is last) + 1 :]
            if named is not None and (slot := _slot(named, phrase.attribute, rest, phrase.cardinality, phrase.shape)):
                yield slot
            return
    if texts[-2:] == ("year", "old") and "be" in texts:
        place = texts.index("be")
        named = _subject(tokens[:place], texts[:place])
        if named is not None and (slot := _slot(named, "age", tokens[place + 1 :], _ONE, ValueShape.NUMBER)):
            yield slot


def _preference(tokens: Sequence[tuple[Token, str]], texts: tuple[str, ...]) -> Slot | None:
    """`S prefers V to W`, as the value V of what S prefers of the two."""
    if "prefer" not in texts[1:]:
        return None
    begin = texts.index("prefer", 1) + 1
    at = next((at for at in range(begin + 1, len(texts) - 1) if texts[at] in ("to", "over", "than")), 0)
    subject = _subject([token for token, _ in tokens[: begin - 1]], texts[: begin - 1])
    end = at - 1 if at and texts[at - 1] == "rather" else at
    if not at or subject is None or end <= begin:
        return None
    one, other = (tuple(map(singular, part)) for part in (texts[begin:end], texts[at + 1 :]))
    attribute = "preference " + " / ".join(sorted((" ".join(one), " ".join(other))))
    return Slot(subject, attribute, one, _quote([token for token, _ in tokens[begin:end]]), _ONE)


def _purpose(tokens: Sequence[tuple[Token, str]], texts: tuple[str, ...]) -> Slot | None:
    """`S uses V for Y`, as the value V of what S uses for Y."""
    at = next(
        (
            at
            for at in range(1, len(texts))
            if texts[at : at + 1] == ("use",) or texts[at : at + 2] == ("switch+ed", "to")
        ),
        0,
    )
    if not at or texts.count("for") != 1 or texts.index("for") < at:
        return None
    begin, end = at + (1 if texts[at] == "use" else 2), texts.index("for")
    named = tokens[: at - 1] if texts[at - 1] in ("have", "now") else tokens[:at]
    subject = _subject([token for token, _ in named], [text for _, text in named])
    purpose = "_".join(singular(text) for text in texts[end + 1 :] if text != "now")
    if subject is None or not purpose or not 0 < end - begin <= _MAX_ATTRIBUTE_WORDS:
        return None
    return _slot(subject, f"tool_for_{purpose}", [token for token, _ in tokens[begin:end]], _ONE, ValueShape.NAME)


def _version(tokens: Sequence[tuple[Token, str]], texts: tuple[str, ...]) -> Slot | None:
    """`S runs P 15`, `S was upgraded to P 17`, as the version of P that S runs; `S is on the P plan`, as its plan."""
    if len(texts) < 4 or not (name := tokens[-2][0].raw)[:1].isupper():
        return None
    plan = texts[-1] in slot_phrases.PLANS and name.capitalize() in slot_phrases.TIERS
    phrases = _BUYS if plan else _RUNS if tokens[-1][0].number else ()
    size = next((size for size in range(_LONGEST_RUN, 0, -1) if texts[-2 - size : -2] in phrases), 0)
    begin = len(texts) - 2 - size
    subject = _subject([token for token, _ in tokens[:begin]], texts[:begin]) if size else None
    if subject is None:
        return None
    if plan:
        return _slot(subject, texts[-1], [tokens[-2][0]], _ONE, ValueShape.NAME)
    return _slot(subject, f"version_of_{texts[-2]}", [tokens[-1][0]], _ONE, ValueShape.NUMBER)


def _copular(tokens: Sequence[Token], texts: tuple[str, ...]) -> Iterator[Slot]:
    """`S's A is V`, `the A of S is V`, `my A is V`, `the A is V`, `V is S's A`, `V is the A of S`."""
    spans = ((at, size) for at in range(1, len(texts)) for size in range(_LONGEST_COPULA, 0, -1)
             if texts[at : at + size] in COPULAS)  # fmt: skip
    place, size = next(spans, (0, 0))
    if not place:
        return
    plain = texts[place : place + size] in _PLAIN_COPULAS
    left, right = tokens[:place], tokens[place + size :]
    if not plain and not any(token.text == "to" for token in right):
        return
    if (owned := _owned(left)) is not None:
        subject, attribute = owned
        cardinality, shape = attribute_rule(attribute)
        # What is set or changed "to" a value has one.
        cardinality = cardinality if plain else _ONE
        if slot := _slot(subject, attribute, right, cardinality, shape):
            yield slot
    elif plain and (owned := _owned(right)) is not None and (right[0].text not in ("a", "an")):
        subject, attribute = owned
        cardinality, _ = attribute_rule(attribute)
        if slot := _slot(subject, attribute, left, cardinality, ValueShape.NAME):
            yield slot
    elif plain and (described := _described(left)) is not None:
        attribute, name = described
        if slot := _slot(frozenset(), attribute, right, *attribute_rule(name)):
            yield slot
    elif (bare := _bare(left)) is not None:
        cardinality, shape = attribute_rule(bare)
        slot = _slot(frozenset(), bare, right, cardinality, shape)
        if slot is not None and len(slot.value) <= _MAX_BARE_WORDS and _is_bare_value(right, shape):
            yield slot


def _owned(tokens: Sequence[Token]) -> tuple[frozenset[str], str] | None:
    """Subject and attribute of "S's A", "the A of S" and "my A"; None for anything else."""
    kept = [token for token in tokens if token.text not in w.ARTICLES]
    if [token.text for token in kept[:2]] == ["name", "of"]:
        kept = kept[2:]
    texts = number_free(token.text for token in kept)
    if len(kept) < 2 or (tokens and tokens[0].text in ("a", "an")):
        return None
    if texts.count("'s") == 1:
        at = texts.index("'s")
        owner, attribute = kept[:at], kept[at + 1 :]
    elif texts[0] in _SELF:
        owner, attribute = kept[:1], kept[1:]
    else:
        joint = _joint(kept, texts)
        if joint is None:
            return None
        owner, attribute = kept[joint + 1 :], kept[:joint]
    subject, name = _subject(owner, number_free(token.text for token in owner)), _attribute_name(attribute)
    return None if subject is None or name is None else (subject, name)


def _joint(tokens: Sequence[Token], texts: Sequence[str]) -> int | None:
    """The index of "of" (or a similar word) between an attribute and its subject, after the longest known attribute."""
    places = [at for at, text in enumerate(texts) if at and text in ("of", "in", "for", "at")]
    known = [at for at in places if (name := _attribute_name(tokens[:at])) and attribute_known(name)]
    return known[-1] if known else next((at for at in places if texts[at] == "of"), None)


def _described(tokens: Sequence[Token]) -> tuple[str, str] | None:
    """The attribute of "the A that S ... is V": all of these words, and the name A; only if it has one value."""
    texts = number_free(token.text for token in tokens)
    at = next((at for at, text in enumerate(texts) if text in _RELATIVE and at), 0)
    if not at or texts[0] != "the" or at == len(texts) - 1 or not w.NEGATIONS.isdisjoint(texts):
        return None
    name = _attribute_name(tokens[1:at])
    if name is None or attribute_rule(name)[0] is not Cardinality.ONE:
        return None
    if not (attribute_known(name) or attribute_known(name.partition("_of_")[0])):
        return None
    return " ".join(dict.fromkeys(token.raw for token in tokens[1:])), name


def _bare(tokens: Sequence[Token]) -> str | None:
    """The attribute A of "the A is V", if A has one value at a time; its subject is the subject of the fact."""
    name = _attribute_name([token for token in tokens if token.text not in w.ARTICLES])
    return name if name is not None and attribute_rule(name)[0] is Cardinality.ONE else None


def _is_bare_value(tokens: Sequence[Token], shape: ValueShape) -> bool:
    """Whether these words can only be the value of a bare attribute, not a predicate of a thing of this name."""
    kept = [token for token in tokens if token.text not in w.ARTICLES | OPENINGS]
    texts = [token.text for token in kept]
    if shape is ValueShape.NUMBER:
        return True
    if len(texts) > 1 and not (VERBS | w.PREPOSITIONS).isdisjoint(texts):
        return False
    named = all(token.raw[:1].isupper() or not token.raw.isalpha() for token in kept)
    return named or shape is ValueShape.ANY or texts[-1:] == ["team"]


def _attribute_name(tokens: Sequence[Token]) -> str | None:
    # Tokens of one written word are one word of the name: "monthly" is read as "every month".
    written = dict.fromkeys((id(token.raw), token.raw) for token in tokens)
    names = [word for _, raw in written for word in attribute_words(raw)]
    names = [word for at, word in enumerate(names) if not at or word != names[at - 1]]
    while names and names[0] in ("current", "new", "present", "latest", "local", "own", "actual", "the"):
        names = names[1:]
    if not 0 < len(names) <= _MAX_ATTRIBUTE_WORDS or {"'s", "and", "or", ","} & set(names):
        return None
    unfit = _UNNAMED | (w.PRIVATIVES - {"second", "other", "original"})
    return None if {*names} & unfit - {"of", "in", "on"} else attribute_named(tuple(names))


def _subject(tokens: Sequence[Token], texts: Sequence[str]) -> frozenset[str] | None:
    """The words that name a subject: none for "I" and the like; None if it is no name of a thing."""
    words = [text for text in texts if text not in w.ARTICLES and text != "'s"]
    if not words or len(words) > MAX_SUBJECT_WORDS or "'s" in texts[:-1]:
        return None
    if set(words) <= _SELF:
        return frozenset()
    unfit = (w.QUANTIFIERS | w.NEGATIONS | (w.MODALS - _NOUNS) | w.CLAUSE_WORDS | w.PRONOUNS) & set(words)
    if unfit == {"and"} and all(joins_names(tokens[:at], tokens[at + 1 : at + 2]) for at, text in enumerate(texts)
                                if text == "and"):  # fmt: skip
        unfit = frozenset()
    return None if unfit or any("+ed" in word or "+ing" in word for word in words[1:]) else frozenset(words)


def _slot(
    subject: frozenset[str], attribute: str, tokens: Sequence[Token], cardinality: Cardinality, shape: ValueShape
) -> Slot | None:
    """The slot with the value that these tokens say, None if they are no value of this shape."""
    value = list(tokens)
    while len(value) > 1 and (
        value[0].text in _BEFORE_VALUE
        or (value[0].text in _WHEN and shape is ValueShape.NUMBER)
        or (value[0].text == "in" and value[1].raw[:1].isupper())
    ):
        value = value[1:]
    if shape is not ValueShape.ANY and value and value[0].text in w.PREPOSITIONS - {"from"}:
        return None
    texts = number_free(token.text for token in value)
    ends = [at for at in range(len(texts)) for tail in _TAILS if texts[at : at + len(tail)] == tail]
    whole = not ends or texts[min(ends) :] in _SILENT_TAILS
    if ends:
        value = value[: min(ends)]
    value = _after_from(value)
    names = [token for token in value if token.text not in w.ARTICLES]
    texts = number_free(token.text for token in names)
    if not 0 < len(names) <= _MAX_VALUE_WORDS or not _NO_VALUE.isdisjoint(texts):
        return None
    if not _fits(value, names, shape):
        return None
    compared = tuple(text for text in texts if text != ",")
    if all(text.isdigit() for text in compared):
        # "0151 220 331" is one number, however its digits are grouped.
        compared = ("".join(compared),)
    return Slot(subject, attribute, compared, _quote(value), cardinality, whole) if compared else None


def _quote(tokens: Sequence[Token]) -> str:
    return " ".join(token.raw for token in tokens).replace(" ,", ",")[:200]


def _after_from(value: list[Token]) -> list[Token]:
    """`12 from 8`, `from 8 to 12`: the value that it became."""
    texts = [token.text for token in value]
    if texts[:1] == ["from"] and "to" in texts:
        return value[texts.index("to") + 1 :]
    return value[: texts.index("from")] if "from" in texts[1:] else value


def _fits(value: Sequence[Token], names: Sequence[Token], shape: ValueShape) -> bool:
    written = any(token.raw[:1].isupper() for token in names)
    number = any(token.number for token in names)
    match shape:
        case ValueShape.NUMBER:
            return number or any(token.text in w.MONTHS or token.text.removesuffix("s") in _WEEKDAYS for token in names)
        case ValueShape.NAME:
            coded = any(not token.raw.isalpha() for token in names)
            return written or coded or value[-1].text in _GROUPS
        case ValueShape.THING:
            return written or number or value[0].text in ("a", "an", "the") or any(not t.raw.isalpha() for t in names)
        case _:
            return True


@lru_cache(maxsize=8_192)
def _plain(subject: str) -> frozenset[str]:
    words = frozenset(subject.casefold().replace("_", " ").replace("-", " ").replace("'s", " ").split()) - w.ARTICLES
    return frozenset() if words <= _SELF else words


def common_slots(
    olds: Sequence[Slot], news: Sequence[Slot], old_subject: str, new_subject: str
) -> list[tuple[Slot, Slot]]:
    """The pairs of slots of two facts with the same subject and attribute. `*_subject`: what their writers named."""
    return [
        (one, other)
        for one, other in product(olds, news)
        if same_attribute(one.attribute, other.attribute) and _same_subject(one, other, old_subject, new_subject)
    ]


def _same_subject(one: Slot, other: Slot, old_subject: str, new_subject: str) -> bool:
    mine, theirs = one.subject or _plain(old_subject), other.subject or _plain(new_subject)
    return mine == theirs


def is_refined(old: Slot, new: Slot) -> bool:
    """Whether `new` says all of the value of `old` and more: "Ghent, Belgium" for "Belgium", "2.4" for "2"."""
    if len(old.value) == len(new.value) == 1:
        return new.value[0].startswith(f"{old.value[0]}.")
    return len(new.value) > len(old.value) and set(old.value) <= set(new.value)


@lru_cache(maxsize=8_192)
def singular(text: str) -> str:
    """A noun without its plural ending, as far as letters show it."""
    if len(text) < 4 or not text.endswith("s") or text.endswith(("ss", "us", "is", "'s")):
        return text
    return f"{text[:-3]}y" if text.endswith("ies") and len(text) > 4 else text[:-1]
