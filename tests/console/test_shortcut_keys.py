"""One registry of keys: each means one thing on all pages, and the printed key is the key."""

import re
from collections import Counter
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.template import Context, Template

from nousweb.console.common import SHORTCUTS
from tests.http import browser

ROOT = Path(__file__).parent.parent.parent
TAG = re.compile(r'{% (key|kbd) ("?)([\w.]+)\2')
OF_BUTTON = re.compile(r'{% (?:link|post|button|component "more") [^%]*?\bkey="(\w+)"')
"""A button presses and prints its key by itself."""


def templates() -> list[tuple[str, str]]:
    return [(str(path.relative_to(ROOT)), path.read_text()) for path in sorted((ROOT / "templates").rglob("*.html"))]


def test_each_key_has_one_meaning() -> None:
    twice = [key for key, times in Counter(one.key for one in SHORTCUTS.values()).items() if times > 1]
    assert twice == []
    assert len({one.meaning for one in SHORTCUTS.values()}) == len(SHORTCUTS)


def test_no_template_writes_a_key_itself() -> None:
    written = [name for name, source in templates() if re.search(r'data-key="|<kbd', source)]
    assert written == []


def test_every_shortcut_is_registered_and_used() -> None:
    used = {found[3] for _, source in templates() for found in TAG.finditer(source) if found[2]}
    used |= {found[1] for _, source in templates() for found in OF_BUTTON.finditer(source)}
    assert used <= set(SHORTCUTS)
    by_script = {"open", "select", "help", "palette", "send", "leave"}
    by_answers = set("123456")
    by_fields = {"mine"}
    assert set(SHORTCUTS) - used - by_script - by_answers - by_fields == set()


def test_key_printed_on_a_thing_is_the_one_that_presses_it() -> None:
    strangers = []
    for name, source in templates():
        tags = [(found[1], found[3]) for found in TAG.finditer(source)]
        for place, (kind, shortcut) in enumerate(tags):
            if name == "templates/components/filterbar.html" or shortcut == "palette":
                continue  # A form's field has its key from the registry as well; the palette is opened by its script.
            # A label stands before the field that its key focuses.
            beside = [tag[1] for tag in tags[max(place - 1, 0) : place + 2] if tag[0] == "key"]
            if kind == "kbd" and shortcut not in beside:
                strangers.append(f"{name}: {shortcut}")
    assert strangers == []


def test_tags_print_attributes_and_key() -> None:
    source = '<a {% key "right" label %}>{% kbd "right" %}</a>'
    shown = Template(source).render(Context({"label": "So it <is>"}))
    assert shown == '<a data-key="+" data-key-label="So it &lt;is&gt;"><kbd>+</kbd></a>'


@pytest.mark.django_db
def test_script_has_no_key_of_its_own_and_gets_the_registry(bob: User) -> None:
    script = (ROOT / "static/js/shortcut_keys.js").read_text()
    assert re.findall(r'key === "[^"]+"', script) == []
    page = browser(bob).get("/").content.decode()
    assert "&quot;approve&quot;: &quot;a&quot;" in page
