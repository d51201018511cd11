"""What still says, in the next prompt, what a fact said that is wrong or replaced."""

import re

from context.feedback.content_words import STOP_WORDS, content_words
from memory.search.invalidated_matches import sentence_repeats

VALUE = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?:\s?%|\s[A-Za-z]{1,12}\b)(?!\w)")
"""A number with its unit: a number alone may be another thing's."""
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_DENIED = re.compile(
    r"\b(?:wrong\w*|untrue|mistaken\w*)\b.*$"
    r"|\b(?:not|never|no longer|instead of|rather than|from|used to|formerly|before)\W+(?:\w+\W+){0,3}$",
    re.IGNORECASE,
)
"""Before a value: the text names it in order to say that it is another one."""
WORDS_WITHOUT_SUBJECT = 2
"""Words of content, beside the value, that a text shares with a fact that has no subject."""


def what_is_still_said(content: str, subject: str, text: str) -> str:
    """What `text` says of a fact: one of its values, in or beside a sentence that names its subject, or all of it
    (`content`); "" for nothing. A question says nothing, nor does what denies the value."""
    sentences = [found.group().strip() for found in _SENTENCE.finditer(text)]
    if _folded(content) in map(_folded, [text, *sentences]) or sentence_repeats(text, content):
        return content
    values = {_unit(value): value for value in VALUE.findall(content) if value.split()[-1].lower() not in STOP_WORDS}
    topic = _words(subject) or _words(content).difference(*map(_words, values))
    needed = len(topic) if subject else WORDS_WITHOUT_SUBJECT
    for place, sentence in enumerate(sentences):
        said = [found for found in VALUE.finditer(sentence) if _unit(found.group()) in values]
        if not said or sentence.endswith("?") or _DENIED.search(sentence, 0, said[0].start()):
            continue
        if len(topic & _words(" ".join(sentences[max(place - 1, 0) : place + 2]))) >= needed > 0:
            return values[_unit(said[0].group())]
    return ""


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")


def _unit(value: str) -> str:
    """A value with its unit in the singular."""
    return _folded(value).removesuffix("s")


def _words(text: str) -> set[str]:
    return {word.text for word in content_words(text)}
