"""The slot that the writer of a fact states beside the sentence: an attribute and its value."""

from collections.abc import Sequence

from memory.comparison import lexicon as w
from memory.comparison.attribute_names import same_attribute, stated_name
from memory.comparison.clauses import clauses_of
from memory.comparison.slots import Slot
from memory.comparison.tokenizer import Token, base_form, number_free, tokens_of
from memory.policy.attributes import attribute_rule

_BORDERS = w.words("| , ; but")
_NOT_NOW = (
    w.NEGATIONS | w.PRIVATIVES | w.words("leave will would could might may plan intend want hope expect use+ed ?")
)
"""Before a value: it does not hold now."""


def stated_slot(
    attribute: str, value: str, subject: str, tokens: Sequence[Token], derived: Sequence[Slot]
) -> Slot | None:
    """The slot of a fact with these tokens, whose writer named `attribute`, `value` and `subject`.

    None without both names, or if the sentence denies the value, asks about it or only plans it. Without a subject, it
    is that of a derived slot of the same attribute, else the names in the sentence.
    """
    compared, name = _compared(tokens_of(value)), stated_name(attribute)
    if not name or not compared or _is_denied(tokens, compared):
        return None
    about: frozenset[str] = frozenset()
    if not subject:
        same = next((slot.subject for slot in derived if same_attribute(slot.attribute, name)), None)
        names = frozenset(token.text for token in tokens if token.name) - {*compared}
        about = names if same is None else same
    whole = len(clauses_of(tokens)) == 1
    return Slot(about, name, compared, value, attribute_rule(name)[0], whole, stated=True)


def _compared(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(text for text in number_free(token.text for token in tokens) if text not in w.ARTICLES | {",", "|"})


def _is_denied(tokens: Sequence[Token], value: Sequence[str]) -> bool:
    """Whether the sentence says that the value does not hold now, in the words before it."""
    texts = number_free(token.text for token in tokens)
    place = next((at for at, text in enumerate(texts) if text == value[0]), len(texts))
    begin = max((at + 1 for at in range(place) if texts[at] in _BORDERS), default=0)
    # In "since May" and "Will Berg" such a word is a name.
    before = [text for token, text in list(zip(tokens, texts, strict=True))[begin:place] if not token.name]
    return "?" in texts or not _NOT_NOW.isdisjoint({*before, *map(base_form, before)})
