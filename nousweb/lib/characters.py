"""Characters that are invisible, or that reorder their neighbours: their detection, names and positions.

One definition for all: identity refuses them, prompts omit them, pages show a mark instead. Whether a character is
hidden depends on its context: a joiner between two letters of Persian is part of the word, between two Latin letters it
is not.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

ZWNJ, ZWJ = "\u200c", "\u200d"
_JOINERS = ZWNJ + ZWJ
_VIRAMA = 9

# Letters and marks that show as nothing although Unicode calls them so.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\U00016fe4\U0001d159"
_BLANK_CELL = "\u2800"
_VARIATIONS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_VARIATION = re.compile(f"[{_VARIATIONS}]")
# Printable for Python, and yet worth a look.
_LOOKED_AT = re.compile(f"[{_FILLERS}{_BLANK_CELL}{_VARIATIONS}]")
# Breaks and wide spaces, which are as good as a space here.
_BREAKS = {ord("\n"): " ", ord("\t"): " ", 0xA0: " ", 0x202F: " ", 0x3000: " "}
_LINE_BREAKS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_ASCII_CONTROL = re.compile(r"[^\t\n -~]")
# Marks of Arabic and its kin that stand before a number; they show, though Unicode has them among the formats.
_SHOWN_FORMATS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
# Scripts whose letters join or form clusters, where a joiner between two of their letters is spelling.
_JOINING = re.compile(
    "[\u0600-\u07ff\u0840-\u0dff\u1000-\u109f\u1780-\u18af\u1b00-\u1bff\ua840-\ua87f\ua980-\uaaff\uabc0-\uabff"
    "\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
_ARABIC = re.compile("[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff]")
# Letters of Arabic that do not join the next one anyway: a joiner after them changes nothing that one sees.
_ENDING = re.compile(
    "[\u0621-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0677\u0688-\u0699\u06c0\u06c3-\u06cb\u06cd\u06cf\u06d2\u06d3"
    "\u06d5\u06ee\u06ef\u0759-\u075b\u076b\u076c\u0771\u0773\u0774\u0778\u0779]"
)
_WORD_LOOKED_AT = 30
_MONGOLIAN = re.compile("[\u1800-\u18af]")
_IDEOGRAPH = re.compile("[\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_PICTURE = re.compile(
    "[\u2194\u2195\u2620\u2640\u2642\u2695-\u2697\u26a7\u26d3\u26f9\u2708\u27a1\u2764\u2b1b\U0001f000-\U0001faff]"
)
_SKIN_TONES = "\U0001f3fb-\U0001f3ff"
_BEFORE_JOINER = re.compile(f"[\ufe0f{_SKIN_TONES}]")
_VARIED_SYMBOL = re.compile("[#*0-9\u00a9\u00ae\u203c\u2049\u3030\u303d]")
# The only flags that are spelled in tag characters: England, Scotland, Wales.
_TAGGED_FLAG = re.compile(
    "\U0001f3f4(?:\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073))\U000e007f"
)
_TAG = re.compile("[\U000e0020-\U000e007f]")
# Python knows an older Unicode than the newest emoji and ideographs; these blocks hold nothing else.
_NEWER = re.compile("[\U0001f000-\U0001faff\U00020000-\U0003fffd]")

_CONTROL_NAMES = [
    "NULL",
    "START OF HEADING",
    "START OF TEXT",
    "END OF TEXT",
    "END OF TRANSMISSION",
    "ENQUIRY",
    "ACKNOWLEDGE",
    "BELL",
    "BACKSPACE",
    "CHARACTER TABULATION",
    "LINE FEED",
    "LINE TABULATION",
    "FORM FEED",
    "CARRIAGE RETURN",
    "SHIFT OUT",
    "SHIFT IN",
    "DATA LINK ESCAPE",
    "DEVICE CONTROL ONE",
    "DEVICE CONTROL TWO",
    "DEVICE CONTROL THREE",
    "DEVICE CONTROL FOUR",
    "NEGATIVE ACKNOWLEDGE",
    "SYNCHRONOUS IDLE",
    "END OF TRANSMISSION BLOCK",
    "CANCEL",
    "END OF MEDIUM",
    "SUBSTITUTE",
    "ESCAPE",
    "INFORMATION SEPARATOR FOUR",
    "INFORMATION SEPARATOR THREE",
    "INFORMATION SEPARATOR TWO",
    "INFORMATION SEPARATOR ONE",
]
_CATEGORY_NAMES = {
    "Cc": "CONTROL CHARACTER",
    "Co": "PRIVATE USE CHARACTER",
    "Cs": "HALF OF A SURROGATE PAIR",
    "Cn": "UNASSIGNED CHARACTER",
}
_OTHER_NAMES = {"\x7f": "DELETE", "\x85": "NEXT LINE"}


@dataclass(frozen=True, slots=True)
class CharacterPosition:
    """One character of a text and its position: `index` from 0, `line` and `column` from 1."""

    character: str
    index: int
    line: int
    column: int

    @property
    def code(self) -> str:
        return character_code(self.character)

    @property
    def name(self) -> str:
        return character_name(self.character)


def character_code(character: str) -> str:
    """ "U+202E"."""
    return f"U+{ord(character):04X}"


def character_name(character: str) -> str:
    """ "RIGHT-TO-LEFT OVERRIDE"; the name of its category if Unicode gives the character no name."""
    if ord(character) < len(_CONTROL_NAMES):
        return _CONTROL_NAMES[ord(character)]
    known = _OTHER_NAMES.get(character) or unicodedata.name(character, "")
    return known or _CATEGORY_NAMES.get(unicodedata.category(character), "CHARACTER WITHOUT A NAME")


def position_of(text: str, index: int) -> CharacterPosition:
    """The position of the character at `index`."""
    return CharacterPosition(text[index], index, text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def shows_all(text: str) -> bool:
    """Whether `text` certainly has no hidden character. Fast; it may return False for a text without any."""
    if text.isascii():
        return text.isprintable() or not _ASCII_CONTROL.search(text)
    return (text.isprintable() or text.translate(_BREAKS).isprintable()) and not _LOOKED_AT.search(text)


def hidden_indices(text: str) -> Iterator[int]:
    """Indices of the characters of `text` that are invisible, or that reorder visible ones."""
    if shows_all(text):
        return
    flags: set[int] | None = None
    for index, character in enumerate(text):
        if character in "\n\t" or (character.isprintable() and not _LOOKED_AT.match(character)):
            continue
        if _TAG.match(character):
            flags = _flag_tags(text) if flags is None else flags
            if index in flags:
                continue
        elif not _hides(text, index):
            continue
        yield index


def invisible_characters(text: str, limit: int = 1_000) -> list[CharacterPosition]:
    """The first `limit` hidden characters of `text`, with line and column."""
    positions = []
    for index in hidden_indices(text):
        positions.append(position_of(text, index))
        if len(positions) == limit:
            break
    return positions


def without_hidden(text: str) -> str:
    """`text` without its hidden characters. The result has none: a joiner between two of them is removed as well."""
    while hidden := set(hidden_indices(text)):
        text = "".join(character for index, character in enumerate(text) if index not in hidden)
    return text


def plain_text(text: str) -> str:
    """`text` with one kind of line break and without invisible characters."""
    return text if shows_all(text) else without_hidden(_LINE_BREAKS.sub("\n", text))


def _hides(text: str, index: int) -> bool:
    character = text[index]
    if character in _JOINERS:
        return not _joins(text, index)
    if _VARIATION.match(character):
        return not _varies(text, index)
    if character == _BLANK_CELL:
        return not any("\u2801" <= beside <= "\u28ff" for beside in text[max(index - 1, 0) : index + 2])
    if character in _FILLERS:
        return True
    if character == "\u180e":
        return not (_MONGOLIAN.match(text[index - 1 : index]) and _MONGOLIAN.match(text[index + 1 : index + 2]))
    category = unicodedata.category(character)
    if category == "Cf":
        return character not in _SHOWN_FORMATS
    if category == "Cn":
        return not _NEWER.match(character)
    return category in ("Cc", "Co", "Cs", "Zl", "Zp")


def _joins(text: str, index: int) -> bool:
    """Whether the joiner at `index` is between parts of an emoji, or inside a word of a script that uses it.

    In a word it must be visible: in Arabic it separates two letters that would join, elsewhere it is beside a virama,
    or occurs once in a word. A joiner that may occur anywhere without effect could hide text.
    """
    before, after = text[index - 1 : index] if index else "", text[index + 1 : index + 2]
    if not before or before in _JOINERS:
        return False
    if text[index] == ZWJ:
        base = index - 1
        while base > 0 and _BEFORE_JOINER.match(text[base]):
            base -= 1
        if _PICTURE.match(text[base]) and after and _PICTURE.match(after):
            return True
    if unicodedata.combining(before) == _VIRAMA:
        return True
    if not (_is_joining_letter(before) and after and _is_joining_letter(after)):
        return False
    if _ARABIC.match(after):
        return text[index] == ZWNJ and _parts(text, index)
    if unicodedata.combining(after) == _VIRAMA:
        return True
    word = text[max(index - _WORD_LOOKED_AT, 0) : index].split()[-1]
    return not any(joiner in word for joiner in _JOINERS)


def _parts(text: str, index: int) -> bool:
    """Whether the letter before `index`, whatever its marks, would join the next one."""
    base = index - 1
    while base > 0 and unicodedata.category(text[base]) == "Mn":
        base -= 1
    return _is_joining_letter(text[base]) and not _ENDING.match(text[base])


def _is_joining_letter(character: str) -> bool:
    return bool(_JOINING.match(character)) and unicodedata.category(character)[0] in "LM"


def _varies(text: str, index: int) -> bool:
    """Whether the variation selector at `index` follows, alone, a character that has variants.

    None of the 240 of the supplement does: few ideographs have variants among them, and after any other each is a
    byte that nobody sees.
    """
    if not index:
        return False
    base, selector = text[index - 1], text[index]
    if selector >= "\U000e0100":
        return False
    if selector < "\ufe00":
        return bool(_MONGOLIAN.match(base)) and not _VARIATION.match(base)
    if selector >= "\ufe0e":
        symbol = unicodedata.category(base) in ("So", "Sm", "Sk") or bool(_PICTURE.match(base))
        return symbol or bool(_VARIED_SYMBOL.match(base))
    return bool(_IDEOGRAPH.match(base)) or unicodedata.category(base) == "Sm"


def _flag_tags(text: str) -> set[int]:
    return {index for flag in _TAGGED_FLAG.finditer(text) for index in range(flag.start() + 1, flag.end())}
