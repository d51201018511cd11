"""Show untrusted text safely: invisible characters get a mark, and no text reorders its neighbours.

A mark replaces its character, so that the order on the page is the order of the text. Text with letters of a
right-to-left script is isolated, and runs in the direction of most of its letters: by the first letter alone, one
Hebrew letter could reverse a sentence of English words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from nousweb.lib.characters import character_code, character_name, hidden_indices, shows_all

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LETTER = re.compile(r"[^\W\d_]")
RUN = 6
"""In a longer run of hidden characters, the first three are marked and the others counted."""

_PLACES = (r"{0}(?<![^\W_]{0})(?![^\W_])", r"{0}(?<![^\W_]{0})", "{0}")
"""A term as a word, where a word begins with it, and anywhere. They begin with the term itself, which is found fast."""
SNIPPET = 160
"""Characters of a text that a snippet shows, around its first term."""


def direction(text: str) -> str:
    """ "rtl" when most letters of `text` are of a right-to-left script, else "ltr"."""
    is_rtl = not text.isascii() and len(_RIGHT_TO_LEFT.findall(text)) * 2 > len(_LETTER.findall(text))
    return "rtl" if is_rtl else "ltr"


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
        yield from map(_mark, marked)
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
    return "|".join(place.re.pattern for place in _first_places(text, terms)) or "(?!)"


def _first_places(text: str, terms: Sequence[str]) -> Iterator[re.Match[str]]:
    """The first place of each term that is in a text, by a pattern of all its places."""
    held = _in_one_case(text)
    for term in map(_in_one_case, terms):
        ways = _PLACES[len(term) > 3 : max(len(term) - 1, 1)] if term.isascii() and term.isalnum() else _PLACES
        # Most terms of a query are in few texts, and a pattern is looked for more slowly.
        found = (re.search(way.format(re.escape(term)), held) for way in ways if term in held)
        yield from islice(filter(None, found), 1)


def _in_one_case(text: str) -> str:
    """A text in small letters, each character in its place, as patterns that ignore case see it."""
    return text.replace("İ", "i").replace("ı", "i").lower().replace("ς", "σ")


def snippet(text: str, terms: Sequence[str]) -> str:
    """The part of a text around the first place of a term, in one line."""
    line = " ".join(text.split())
    first = min((place.start() for place in _first_places(line, terms)), default=0)
    start = max(first - SNIPPET // 4, 0)
    # Not within a word, where words are spaced.
    start = start and (line.find(" ", start, first) + 1 or start)
    cut = line[start : start + SNIPPET]
    return f"{'…' if start else ''}{cut}{'…' if start + SNIPPET < len(line) else ''}"
