"""Show untrusted text safely: invisible characters get a mark, and no text reorders its neighbours.

A mark replaces its character, so that the order on the page is the order of the text. Text with letters of a
right-to-left script is isolated, and runs in the direction of most of its letters: by the first letter alone, one
Hebrew letter could reverse a sentence of English words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from nousweb.lib.characters import character_code, character_name, hidden_indices, shows_all

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LETTER = re.compile(r"[^\W\d_]")
RUN = 6
"""In a longer run of hidden characters, the first three are marked and the others counted."""

_PLACES = (r"(?<![^\W_]){}(?![^\W_])", 1, 3), (r"(?<![^\W_]){}", 3, 9_999), ("{}", 4, 9_999)
"""Where a term may stand that has at least and at most so many characters: as a word, at its beginning, anywhere."""
SNIPPET = 160
"""Characters of a text that a snippet shows, around its first term."""


def direction(text: str) -> str:
    """ "rtl" when most letters of `text` are of a right-to-left script, else "ltr"."""
    if text.isascii():
        return "ltr"
    backwards = len(_RIGHT_TO_LEFT.findall(text))
    return "rtl" if backwards * 2 > len(_LETTER.findall(text)) else "ltr"


def mixes_directions(line: str) -> bool:
    """Whether a line has letters of both directions, so that its order on screen differs from its order in memory."""
    backwards = _RIGHT_TO_LEFT.findall(line)
    return bool(backwards) and len(_LETTER.findall(line)) > sum(map(str.isalpha, backwards))


def is_plain(text: str) -> bool:
    """Whether `text` can be shown as it is."""
    return shows_all(text) and (text.isascii() or not _RIGHT_TO_LEFT.search(text))


def visible_html(text: str, *, isolate: bool = True) -> str:
    """`text` escaped, with a mark for each hidden character; isolated unless its element is already."""
    if is_plain(text):
        return text if isinstance(text, SafeString) else escape(text)
    inner = mark_safe("".join(_marked(text)))  # noqa: S308 - each part is escaped
    return format_html('<bdi dir="{}">{}</bdi>', direction(text), inner) if isolate else inner


def visible_plain(text: str) -> str:
    """`text` for attributes, options and titles, where no element can stand: "[U+202E]" for a hidden character."""
    if shows_all(text):
        return text
    hidden = set(hidden_indices(text))
    return "".join(
        f"[{character_code(character)}]" if index in hidden else character for index, character in enumerate(text)
    )


def _marked(text: str) -> Iterator[str]:
    hidden = set(hidden_indices(text))
    for is_hidden, places in groupby(range(len(text)), hidden.__contains__):
        run = list(places)
        part = text[run[0] : run[-1] + 1]
        if not is_hidden:
            yield escape(part)
            continue
        marked = part if len(part) <= RUN else part[:3]
        for character in marked:
            yield _mark(character)
        if len(part) > len(marked):
            yield format_html('<span class="char-mark" role="note">+{} hidden</span>', len(part) - len(marked))


def _mark(character: str) -> str:
    code, name = character_code(character), character_name(character)
    return format_html(
        '<span class="char-mark" role="img" aria-label="hidden character {0} {1}" title="{0} {1}"'
        ' data-character="{2}">{0}</span>',
        code,
        name,
        f"{ord(character):X}",
    )


def terms_in(text: str, terms: Sequence[str]) -> str:
    """A pattern of the places of terms in a text: where words begin with them, a short one where it is the word, and a
    longer one within words if no word begins with it."""
    ways = [
        [
            way.format(re.escape(term))
            for way, least, most in _PLACES
            if least <= len(term) <= most or not (term.isascii() and term.isalnum())
        ]
        for term in terms
    ]
    return "|".join(next((one for one in some if re.search(one, text, re.IGNORECASE)), some[0]) for some in ways)


def snippet(text: str, terms: Sequence[str]) -> str:
    """The part of a text around the first place of a term, in one line."""
    line = " ".join(text.split())
    place = re.search(terms_in(line, terms), line, re.IGNORECASE)
    first = place.start() if place else 0
    start = max(first - SNIPPET // 4, 0)
    # Not within a word, where words are spaced.
    start = start and (line.find(" ", start, first) + 1 or start)
    cut = line[start : start + SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + SNIPPET < len(line) else ''}"
