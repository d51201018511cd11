"""Loads the console's templates so that no variable is printed without `shown`: no page can forget it.

As Django escapes every variable unless it is marked safe, so this marks hidden characters and isolates directions in
every variable (nousweb.console.templatetags.visible): as elements where an element can stand, as words in the
attributes that people read, in options and in titles. Addresses, form values and text areas stay as they are.

A fragment, which other templates include, renders without white space at its ends: it can be laid out over many lines
and still stand inside a sentence, before a full stop.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath

from django.template import Origin
from django.template.loaders.filesystem import Loader as FilesystemLoader

_PIECE = re.compile(
    r"(?P<comment>{#.*?#}|{%\s*comment\b.*?%}.*?{%\s*endcomment\s*%}|<!--.*?-->)"
    r"|(?P<block>{%.*?%})|(?P<variable>{{.*?}})|(?P<open><(?P<closing>/?)(?P<name>[A-Za-z][\w-]*))|(?P<mark>[>\"'])",
    re.DOTALL,
)
_BLOCK_NAME = re.compile(r"{%\s*(block|endblock)\s*(\w*)")
_ATTRIBUTE = re.compile(r"([\w:-]+)=[\"'][^\"']*$")
_DONE = re.compile(r"\|\s*(?:shown|shown_plain|marked|safe)\b")
WORDS_ONLY = frozenset({"title", "option", "svg"})
"""Elements in which no element of ours can stand."""
UNTOUCHED = frozenset({"textarea", "script", "style"})
READ_ATTRIBUTES = frozenset({"title", "aria-label", "alt", "placeholder", "data-label", "data-key-label", "label"})
"""Attributes whose words people see or hear."""


class Loader(FilesystemLoader):
    """The filesystem loader, with every variable of an HTML template made visible."""

    def get_contents(self, origin: Origin) -> str:
        source = super().get_contents(origin)
        path = PurePath(origin.name)
        if path.suffix != ".html":
            return source
        source = visible_source(source)
        return f"{{% trim %}}{source}{{% endtrim %}}" if is_fragment(path) else source


def is_fragment(path: PurePath) -> bool:
    """Whether a template is there for others to include: a component, or a file that begins with an underscore."""
    return path.name.startswith("_") or path.parent.name == "components"


def visible_source(source: str) -> str:
    """A template's source in which every variable that people read passes a filter of `visible`."""
    return "".join(_rewritten(source))


def _rewritten(source: str) -> Iterator[str]:
    """Split `source` into pieces, keeping track of their context: elements, a tag, a quoted value, a block."""
    elements: list[str] = []
    blocks: list[str] = []
    tag = quote = ""
    tag_start = end = 0
    for piece in _PIECE.finditer(source):
        yield source[end : piece.start()]
        end, text = piece.end(), piece.group()
        if piece["block"] and (named := _BLOCK_NAME.match(text)):
            if named[1] == "block":
                blocks.append(named[2])
            elif blocks:
                blocks.pop()
        elif piece["variable"]:
            attribute = _ATTRIBUTE.search(source, tag_start, piece.start()) if quote else None
            inside = {*elements, *blocks}
            text = _printed(text, in_tag=bool(tag), attribute=attribute[1] if attribute else "", inside=inside)
        elif piece["open"] and not tag:
            tag, tag_start = piece["closing"] + piece["name"].lower(), piece.start()
        elif piece["mark"] and tag:
            if quote:
                quote = "" if text == quote else quote
            elif text != ">":
                quote = text
            else:
                name = tag.removeprefix("/")
                if tag.startswith("/"):
                    if name in elements:
                        del elements[len(elements) - 1 - elements[::-1].index(name)]
                elif name in WORDS_ONLY | UNTOUCHED and source[piece.start() - 1] != "/":
                    elements.append(name)
                tag = ""
        yield text
    yield source[end:]


def _printed(variable: str, *, in_tag: bool, attribute: str, inside: set[str]) -> str:
    """`{{ variable }}` with the filter that its place wants."""
    if _DONE.search(variable) or inside & UNTOUCHED or (in_tag and attribute not in READ_ATTRIBUTES):
        return variable
    name = "shown_plain" if in_tag or inside & WORDS_ONLY else "shown"
    return f"{variable[:-2].rstrip()}|{name} }}}}"
