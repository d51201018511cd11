"""Loads the console's templates so that no variable is printed without `shown`: no page can forget it.

As Django escapes every variable unless it is marked safe, so this marks hidden characters and isolates directions in
every variable (nousweb.console.templatetags.visible): as elements where an element can stand, as words in the
attributes that people read, in options and in titles. Addresses, form values and text areas stay as they are.

A fragment, which other templates include, renders without white space at its ends: it can be laid out over many lines
and still stand inside a sentence, before a full stop.
"""

import re
from pathlib import PurePath

from django.template import Origin
from django.template.loaders.filesystem import Loader as FilesystemLoader

_CODE = re.compile(r"{#.*?#}|{%\s*comment\b.*?endcomment\s*%}|<!--.*?-->|{%.*?%}|{{.*?}}", re.DOTALL)
_INSIDE = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
_OPENED = re.compile(rf"<(/?)(title|option|svg|textarea|script|style|block)\b{_INSIDE}(?<!/)>")
_TAG = re.compile(rf"""</?[A-Za-z]{_INSIDE}(?:(?<![\w:-])([\w:-]+)=(?:"[^"]*|'[^']*))?$""")
_DONE = re.compile(r"\|\s*(?:shown|shown_plain|marked|safe)\b")
WORDS_ONLY = frozenset({"title", "option", "svg", "block"})
"""Elements in which no element of ours can stand; "block" is the block of the title."""
UNTOUCHED = frozenset({"textarea", "script", "style"})
READ_ATTRIBUTES = frozenset({"title", "aria-label", "alt", "placeholder", "data-label", "data-key-label", "label"})
"""Attributes whose words people see or hear."""


class Loader(FilesystemLoader):
    """The filesystem loader, with every variable of an HTML template made visible."""

    def get_contents(self, origin: Origin) -> str:
        source, path = super().get_contents(origin), PurePath(origin.name)
        if path.suffix != ".html":
            return source
        source = visible_source(source)
        is_fragment = path.name.startswith("_") or path.parent.name == "components"
        return f"{{% trim %}}{source}{{% endtrim %}}" if is_fragment else source


def visible_source(source: str) -> str:
    """A template's source in which every variable that people read passes a filter of `visible`."""
    markup = _CODE.sub(_as_markup, source)
    return _CODE.sub(lambda code: _printed(code[0], markup[: code.start()]), source)


def _as_markup(code: re.Match[str]) -> str:
    """Code of a template as the markup that it stands for: blanks, or the tags of the title's block."""
    named = re.match(r"{%\s*(end)?block\s+(title\b)?", code[0])
    tag = "" if not named else "</block>" if named[1] else "<block>" if named[2] else ""
    return tag.ljust(len(code[0]))


def _printed(code: str, before: str) -> str:
    """A variable with the filter that its place in the markup wants; other code as it is."""
    is_open = {name: not closing for closing, name in _OPENED.findall(before)}
    inside = {name for name in is_open if is_open[name]}
    tag = _TAG.search(before)
    is_read = tag is None or tag[1] in READ_ATTRIBUTES
    if not code.startswith("{{") or _DONE.search(code) or inside & UNTOUCHED or not is_read:
        return code
    return f"{code[:-2].rstrip()}|{'shown_plain' if tag or inside & WORDS_ONLY else 'shown'} }}}}"
