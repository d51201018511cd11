import pytest
from hypothesis import given
from hypothesis import strategies as st

from nousweb.lib.validation import first_unstorable, unstorable_reason

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("text", "why"), [("a\x00", "NUL"), ("\ud800", "surrogate")])
def test_text_the_database_cannot_store_is_named(text, why):
    assert why in str(unstorable_reason(text))
    assert why in str(first_unstorable({"a": [1, {"b": text}]}))
    assert why in str(first_unstorable({text: 1}))


@given(JSON)
def test_text_accepted_can_be_stored(value):
    def texts(part):
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            for key, inner in part.items():
                yield key
                yield from texts(inner)
        elif isinstance(part, list):
            for inner in part:
                yield from texts(inner)

    storable = all("\x00" not in text and text.encode(errors="ignore") == text.encode("utf-8", "surrogatepass")
                   for text in texts(value))  # fmt: skip
    assert (first_unstorable(value) is None) == storable


def test_text_depth_is_no_danger():
    value: object = "x"
    for _ in range(100_000):
        value = [value]
    assert first_unstorable(value) is None
