"""Lookalikes: words that mix scripts with similar letters, and mixed directions.

They are not refused, since names and units mix scripts legitimately; they are pointed out to the person who approves.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import re2

from nousweb.lib.characters import character_code, character_name, invisible_characters
from nousweb.lib.visible_text import mixes_directions

MAX_WARNINGS = 20
"""Maximum number of warnings for a text."""

_WORD = re.compile(r"\w+")
_SCRIPTS = ("Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic", "Lisu", "Deseret", "Osage", "Georgian")
_SCRIPT = re2.compile("".join(rf"(?P<{name}>^\p{{{name}}}$)|" for name in _SCRIPTS) + r"(?P<none>^$)")
# Letters of another script that a Latin one can be taken for; the other scripts are marked wherever they are mixed in.
_LATIN_OF_CYRILLIC = dict(
    zip("асеорхукѕіјԁӏһԛԝвмнтгпАВСЕНІЈКМОРЅТХУԌԚԜ", "aceopxyksijdlhqwbmhtrnABCEHIJKMOPSTXYGQW", strict=True)
)
_LATIN_OF_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳαγικνορτυχωϲ", "ABEZHIKMNOPTYXCjayikvoptuxwc", strict=True))
_AS_LATIN = str.maketrans(_LATIN_OF_CYRILLIC | _LATIN_OF_GREEK | dict(zip("ɑɡıɩ", "agii", strict=True)))
_DRAWN_ALIKE = str.maketrans("I10", "llo")
_HOMELY = {latin: letter for letter, latin in _LATIN_OF_CYRILLIC.items()} | _LATIN_OF_CYRILLIC | _LATIN_OF_GREEK
"""The letters that foreign ones look like: Latin ones in a Latin word, Cyrillic ones in a Cyrillic word."""
_LIKE_LATIN = frozenset(_LATIN_OF_CYRILLIC | _LATIN_OF_GREEK)
_POWERS = {ord(power): f"^{digit}" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_LATIN_LETTER = re.compile("[A-Za-z]")


@dataclass(frozen=True, slots=True)
class TextWarning:
    """A warning: `code` is "look_alike", "mixed_direction" or "hidden_character".

    `line` and `column` count from 1; `parts` are the pieces of `word`, each with whether it is what the warning is
    about.
    """

    code: str
    line: int
    column: int
    word: str
    message: str
    parts: tuple[tuple[str, bool], ...] = ()


def warnings_of(text: str) -> list[TextWarning]:
    """Warnings for a reader of `text`, in the order of the text, at most MAX_WARNINGS."""
    if text.isascii() and not invisible_characters(text, 1):
        return []
    found = (*_hidden(text), *_look_alikes(text), *_directions(text))
    return sorted(found, key=lambda one: (one.line, one.column))[:MAX_WARNINGS]


def lookalike_fold(text: str) -> str:
    """`text` with each letter that passes for one of its word's own script as that one; as many characters as before.

    So what reads alike is compared as alike. Words of one script stay, but for those that pass for Latin ones wholly
    in a text that is Latin otherwise.
    """
    if text.isascii() or _LIKE_LATIN.isdisjoint(text):
        return text
    usual = _usual_script(text)
    return _WORD.sub(lambda word: _word_fold(word.group(), usual), text)


def powers_marked(text: str) -> str:
    """`text` with each raised digit as ^ and the digit: compatibility forms would turn 5² into 52."""
    return text.translate(_POWERS)


def as_latin(text: str) -> str:
    """`text` with every letter that looks like a Latin one replaced by that one, whatever its word."""
    return text.translate(_AS_LATIN)


def name_skeletons(name: str) -> frozenset[str]:
    """The texts that `name` looks like by itself; two names are confusable if they share one of these.

    A name is one word and often short, so that nothing around it shows its script: every letter counts as the Latin one
    that it looks like, besides those that many typefaces draw alike, such as I, l and 1.
    """
    # Before, too: composing turns some letters into ones that look otherwise.
    composed = unicodedata.normalize("NFKC", name.translate(_AS_LATIN))
    passing = (composed.translate(_AS_LATIN), composed.casefold().translate(_AS_LATIN))
    drawn = (one.translate(_DRAWN_ALIKE).casefold() for one in passing)
    return frozenset(one.replace("rn", "m").replace("vv", "w") for one in drawn)


def _word_fold(word: str, usual: str) -> str:
    if _LIKE_LATIN.isdisjoint(word) or (usual != "Latin" and not _LATIN_LETTER.search(word)):
        return word
    strange = _strange(word, usual)
    return "".join(_HOMELY.get(letter, letter) if place in strange else letter for place, letter in enumerate(word))


def _usual_script(text: str) -> str:
    """The script of most of the letters of a text, "" where none is of those that look alike."""
    scripts = Counter(script for character in text if (script := _script(character)))
    return scripts.most_common(1)[0][0] if scripts else ""


def _hidden(text: str) -> Iterator[TextWarning]:
    for number, places in groupby(invisible_characters(text), lambda place: place.line):
        held = list(places)
        names = ", ".join(dict.fromkeys(f"{place.code} {place.name}" for place in held))
        message = f"{names}: invisible, or reorders other characters; {len(held):,} of them in this line."
        yield TextWarning("hidden_character", number, held[0].column, "", message)


def _directions(text: str) -> Iterator[TextWarning]:
    for number, line in enumerate(text.split("\n"), 1):
        if mixes_directions(line):
            message = "This line mixes directions: its order on screen is not the order in which it is read."
            yield TextWarning("mixed_direction", number, 1, "", message)


def _look_alikes(text: str) -> Iterator[TextWarning]:
    if text.isascii():
        return
    usual = _usual_script(text)
    for number, line in enumerate(text.split("\n"), 1):
        if line.isascii():
            continue
        for word in _WORD.finditer(line):
            if strange := _strange(word.group(), usual):
                yield _look_alike(word.group(), strange, number, word.start() + 1)


def _strange(word: str, usual: str) -> set[int]:
    """The positions of the characters of `word` that look like another one; `usual` is the script of most of the
    text."""
    if word.isascii():
        return set()
    scripts = [_script(character) for character in word]
    kinds = Counter(script for script in scripts if script)
    disguised = {place for place, character in enumerate(word) if _is_styled_latin(character)}
    if len(kinds) > 1:
        # The fewer are the strangers; of as many, those that are not Latin.
        home = max(kinds, key=lambda script: (kinds[script], script == "Latin"))
        strangers = {place for place, script in enumerate(scripts) if script and script != home}
        # Δt and λx are seen for what they are.
        honest = set(kinds) == {"Latin", "Greek"} and not set(word) & _LIKE_LATIN
        return disguised if honest else disguised | strangers
    if kinds and usual == "Latin" and "Latin" not in kinds and len(word) > 1 and set(word) <= _LIKE_LATIN:
        return set(range(len(word)))
    return disguised


def _look_alike(word: str, strange: Iterable[int], line: int, column: int) -> TextWarning:
    strange = set(strange)
    parts = tuple((character, place in strange) for place, character in enumerate(word))
    named = dict.fromkeys(word[place] for place in sorted(strange))
    names = ", ".join(f"{character_code(character)} {character_name(character)}" for character in named)
    return TextWarning(
        "look_alike", line, column, word, f"This word contains {names}, which looks like another letter.", parts
    )


@lru_cache(maxsize=4_096)
def _script(character: str) -> str:
    """The script of a letter, of those in which some letters look alike; "" for all others."""
    if not character.isalpha():
        return ""
    found = _SCRIPT.match(character)
    name = found.lastgroup if found else None
    return name if name and name != "none" else ""


@lru_cache(maxsize=4_096)
def _is_styled_latin(character: str) -> bool:
    """Whether it is a mathematical or full-width form of a letter or digit of ASCII."""
    if character.isascii():
        return False
    folded = unicodedata.normalize("NFKC", character)
    return len(folded) == 1 and folded.isascii() and folded.isalpha() and character not in "ªº"
