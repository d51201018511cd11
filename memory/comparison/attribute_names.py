"""Names of attributes: which spellings are one name, and which two names are one attribute.

Pure functions. A wrong "same" lets a value replace one of another attribute, so whatever may be two names is two.
"""

import re
from functools import lru_cache

from rapidfuzz import fuzz

from memory.comparison import lexicon as w
from memory.policy.attributes import (
    attribute_known,
    attribute_named,
    attribute_names,
    attribute_rule,
    attribute_words,
    known_words,
)

_MIN_LETTERS, _MIN_WORD_LETTERS = 6, 4
_MIN_RATIO, _MIN_WORD_RATIO = 92, 90
_ES = re.compile(r"(ss|x|zz|sh|ch)es$")
_DIGITS = re.compile(r"\d+")
_REAL_WORDS = (
    known_words()
    | w.REGULAR_VERBS
    | w.words("""
    accept access adapt adept adopt affect angel angle assistance assistants aural breath breathe carrier chose choose
    complement compliment contact contract council counsel country county costume custom desert dessert device devise
    effect except form former formerly formally human humane instance instant later latter loose lose moral morale
    patience patients personal personnel planner planned planning presence presents principal principle quiet quite
    series serious stationary stationery statue statute through thorough though trail trial venue avenue weather
    whether
""")
)
"""Words that are no misspelling of each other, though one letter tells them apart."""


_BRITISH = w.mapping("""color=colour favorite=favourite neighbor=neighbour license=licence center=centre gray=grey
    theater=theatre organization=organisation behavior=behaviour honor=honour labor=labour meter=metre""")


@lru_cache(maxsize=8_192)
def stated_name(attribute: str) -> str:
    """The name of an attribute as slots have it: "hobbies", "a hobby" and "Hobby" are one."""
    words = attribute_words(attribute)
    name = attribute_named(words)
    if not words or attribute_known(name) or attribute_rule(words[-1])[0]:
        return name
    return attribute_named((*words[:-1], _singular(words[-1])))


def _singular(noun: str) -> str:
    if len(noun) < 4 or not noun.endswith("s") or noun.endswith(("ss", "us", "is")):
        return noun
    if attribute_known(noun[:-1]):
        return noun[:-1]
    if noun.endswith("ies") and len(noun) > 4:
        return f"{noun[:-3]}y"
    return _ES.sub(r"\1", noun) if _ES.search(noun) else noun[:-1]


@lru_cache(maxsize=16_384)
def same_attribute(one: str, other: str) -> bool:
    """Whether two names, as slots have them, are spellings of one attribute: "favourite_colour", "favorite_color".

    Words that differ must begin alike and be long and nearly equal. Numbers, single letters, another number of words,
    and two words that both exist make two attributes.
    """
    if _british(one) == _british(other) or (attribute_known(one) and attribute_known(other)):
        return _british(one) == _british(other)
    return any(_near_names(left, right) for left in attribute_names(one) for right in attribute_names(other))


def _near_names(one: str, other: str) -> bool:
    lefts, rights = _british(one), _british(other)
    return (
        min(len(one), len(other)) >= _MIN_LETTERS
        and len(lefts) == len(rights)
        and _DIGITS.findall(one) == _DIGITS.findall(other)
        and fuzz.ratio(one, other) >= _MIN_RATIO
        and all(left == right or _near(left, right) for left, right in zip(lefts, rights, strict=True))
    )


def _british(name: str) -> list[str]:
    return [_BRITISH.get(word, word) for word in name.split("_")]


def _near(left: str, right: str) -> bool:
    return (
        min(len(left), len(right)) >= _MIN_WORD_LETTERS
        and left[0] == right[0]
        and fuzz.ratio(left, right) >= _MIN_WORD_RATIO
        and not {left, right} <= _REAL_WORDS
    )
