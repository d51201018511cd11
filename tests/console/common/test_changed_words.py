"""A text with its changes marked inside of it says what is stored: without what goes it is the new one, without what
comes the old one."""

import re
from html import unescape

from django.utils.html import strip_tags
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nousweb.console.inbox.item_titles import PairOutcome
from nousweb.console.templatetags.differences import diff_rows, item_title
from nousweb.lib.textdiff import diff_texts

pieces = st.lists(
    st.sampled_from(["Run ", "rm", "-rf", "/old", "tmp/", "cache", "tea", " ", "  ", ".", "/"]), max_size=8
)
lines = st.builds("Always run it as {} here.".format, pieces.map("".join))
JOINED = ("Run rm -rf /old tmp/cache", "Run rm -rf /tmp/cache")
PARTED = JOINED[::-1]


def without(element: str, html: str) -> str:
    return unescape(strip_tags(re.sub(f"<{element}>.*?</{element}>", "", html)))


@given(lines, lines)
@example(*JOINED)
@example(*PARTED)
def test_words_layout_shows_both_texts_as_they_are(old: str, new: str) -> None:
    html = diff_rows(diff_texts(old, new), "words")
    assume("is-edited" in html)
    assert (without("ins", html), without("del", html)) == (old, new)


@given(lines, lines)
@example(*JOINED)
@example(*PARTED)
def test_title_joins_and_parts_no_words(old: str, new: str) -> None:
    outcome = PairOutcome.of("replace", old, new)
    html = item_title(outcome.holds if outcome else None)
    assume("<del>" in html or "<ins>" in html)
    assert without("ins", html).split() == old.split()
    assert without("del", html).split() == new.split()
