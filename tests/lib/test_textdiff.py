"""Differences by line and by word: what is marked has changed, and nothing else."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.lib.textdiff import Row, TextDiff, diff_texts

SENTENCE = (
    "It keeps the house calm: it looks before it speaks, it asks when it does not know, it says what it saw and"
    " what it did, and it never hides a fault that it has made."
)
lines = st.lists(st.text(st.sampled_from("ab ,.\t"), max_size=12), max_size=8).map("\n".join)


def marked(diff: TextDiff) -> tuple[list[str], list[str]]:
    """The pieces that are marked on the old and on the new side."""
    old = [span.text for row in diff.rows for span in row.old_spans if span.kind != "equal"]
    return old, [span.text for row in diff.rows for span in row.new_spans if span.kind != "equal"]


@pytest.mark.parametrize("times", [1, 4])
def test_one_changed_word_of_a_long_line_is_the_only_one_marked(times: int) -> None:
    old = " ".join([SENTENCE] * times)
    assert old.count(" ") > 16
    at = old.rindex("saw")
    assert marked(diff_texts(old, old[:at] + "heard" + old[at + 3 :])) == (["saw"], ["heard"])


def test_words_put_in_at_several_places_of_a_long_line_are_the_only_ones_marked() -> None:
    new = SENTENCE.replace("the house", "the whole house").replace("it saw", "it truly saw").replace(" that it", "")
    assert marked(diff_texts(SENTENCE, new)) == ([" that it"], [" whole", " truly"])


def test_changed_blanks_are_marked() -> None:
    assert marked(diff_texts("one two three", "one  two three ")) == ([" "], ["  ", " "])


def test_neighbouring_changed_words_are_one_change() -> None:
    assert marked(diff_texts("one two three four", "one six seven four")) == (["two three"], ["six seven"])


def shown(rows: tuple[Row, ...], side: str) -> list[str]:
    found = []
    for row in rows:
        if row.kind == "gap":
            found += shown(row.hidden_rows, side)
        elif getattr(row, f"{side}_no"):
            found.append("".join(span.text for span in getattr(row, f"{side}_spans")))
    return found


@given(lines, lines)
def test_both_texts_can_be_read_from_the_difference(old: str, new: str) -> None:
    rows = diff_texts(old, new).rows
    assert "\n".join(shown(rows, "old")) == old
    assert "\n".join(shown(rows, "new")) == new


@given(lines, lines)
def test_what_is_not_marked_is_the_same_on_both_sides(old: str, new: str) -> None:
    for row in diff_texts(old, new).rows:
        kept = ["".join(s.text for s in spans if s.kind == "equal") for spans in (row.old_spans, row.new_spans)]
        assert row.kind != "changed" or kept[0] == kept[1]


def test_hostile_repetition_takes_no_time() -> None:
    began = time.process_time()
    for old, new in (
        ("a " * 2_000, "a b " * 1_000),
        (" a,b" * 1_000, ",b a" * 1_000),
        ("x\n\n" * 1_000, "\nx\n" * 999),
        ("a\nb\n" * 1_000, "c\nd\n" * 1_000),
    ):
        diff_texts(old, new, context=20_000)
    assert time.process_time() - began < 10, "cubic matching takes minutes"


RNG = random.Random(8)
BASE64 = "".join(RNG.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=12_000))
IDEOGRAPHS = "".join(chr(0x4E00 + RNG.randrange(3_000)) for _ in range(12_000))


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        ("这个助手在回答之前总是先检查日历。", "这个助手在回答之前总是先检查月历。", "日", "月"),
        ("このエージェントは必ず予定表を確認します。", "このエージェントはまず予定表を確認します。", "必", "ま"),
        ("이 에이전트는 항상 달력을 확인합니다.", "이 에이전트는 늘상 달력을 확인합니다.", "항", "늘"),
        ("ผู้ช่วยนี้จะตรวจสอบปฏิทินก่อนตอบ", "ผู้ช่วยนี้จะตรวจสอบปฏิทินหลังตอบ", "ก่อน", "หลัง"),
        ("हिन्दी में उत्तर दें", "हिन्दी में उत्तर दो", "दें", "दो"),
        ("token_limit_is_1000_for_each_request_a_day", "token_limit_is_2000_for_each_request_a_day", "1000", "2000"),
        ("Transfer it to 4915112345678901 now.", "Transfer it to 4915112345978901 now.", "6", "9"),
        ("https://example.org/a/b?key=abc", "https://example.org/a/c?key=abc", "b", "c"),
        ("The 👨‍👩‍👧 family", "The 👨‍👩‍👦 family", "👨‍👩‍👧", "👨‍👩‍👦"),
        ("Say 👍🏽 or 🇩🇪🇫🇷", "Say 👍🏽 or 🇩🇪🇮🇹", "🇫🇷", "🇮🇹"),
        ("cafe\u0301 au lait", "café au lait", "cafe\u0301", "café"),
        (BASE64, BASE64[:6_000] + "~" + BASE64[6_001:], BASE64[6_000], "~"),
        ("word " * 2_400 + "end", "word " * 1_200 + "other " + "word " * 1_200 + "end", "", " other"),
    ],
)  # fmt: skip
def test_only_what_changed_is_marked_in_any_script(old: str, new: str, removed: str, added: str) -> None:
    assert tuple("".join(side) for side in marked(diff_texts(old, new))) == (removed, added)


@pytest.mark.parametrize("text", [BASE64, IDEOGRAPHS, " ".join(IDEOGRAPHS[:4_000]), BASE64 * 8, " ".join(BASE64)])
def test_changes_at_both_ends_of_a_long_line_are_the_only_ones_marked(text: str) -> None:
    new = text[:10] + "~" + text[11:-11] + "~" + text[-10:]
    assert marked(diff_texts(text, new)) == ([text[10], text[-11]], ["~", "~"])


@pytest.mark.parametrize(
    ("old", "new", "removed", "added"),
    [
        ("a b", "a\u00a0b", [" "], ["\u00a0"]), ("a\tb", "a b", ["\t"], [" "]), ("abc", "abc ", [], [" "]),
        ("a\n\nb", "a\n  \nb", [], ["  "]), ("a\nb", "a\r\nb", [], ["\r"]), ("foo bar", "foobar", [" "], []),
        ("f:\n    x", "f:\n  x", ["    "], ["  "]),
    ],
)  # fmt: skip
def test_white_space_that_changed_is_marked(old: str, new: str, removed: list[str], added: list[str]) -> None:
    diff = diff_texts(old, new)
    assert (marked(diff), diff.identical) == ((removed, added), False)


def test_lines_beyond_the_budget_are_compared_with_those_of_their_place() -> None:
    old = [f"Rule {number} of the house says tea." for number in range(300)]
    diff = diff_texts("\n".join(old), "\n".join(line.replace("tea", "milk") for line in old))
    assert marked(diff) == (["tea"] * 300, ["milk"] * 300)


def test_long_hostile_texts_are_compared_in_bounded_time() -> None:
    """Quadratic matching would take hours here."""
    words = [" ".join(RNG.choices(["the", "a", "of", "to", "in", "is", "it", "tea"], k=20_000)) for _ in range(2)]
    signs = ["".join(RNG.choices("ab", k=100_000)) for _ in range(2)]
    lines = ["\n".join(" ".join(str(RNG.randrange(99)) for _ in range(90)) for _ in range(190)) for _ in range(2)]
    for old, new in (
        words,
        signs,
        lines,
        ("a" * 100_000, "a" * 99_000),
        ("👨\u200d👩" * 25_000, "👨\u200d👧" * 25_000),
    ):
        assert not diff_texts(old, new).identical
