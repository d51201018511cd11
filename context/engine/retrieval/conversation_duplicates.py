"""Find memories that the conversation, or the input itself, already states. Source: seed 005.1, D4.

Meaning finds the statement that is closest to a memory, or the share of common words where there are no vectors; the
words then say whether it states something else (`context.engine.retrieval.restatement`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from context.engine.analysis.intent import is_question
from context.engine.analysis.request import Message
from context.engine.assembly import THE_INPUT
from context.engine.retrieval.restatement import plain_statement, says_otherwise
from context.engine.retrieval.text_vectors import text_vectors
from memory.embedding import EmbeddingFailed, thresholds_of
from memory.embedding.registry import configured_name
from memory.search.fusion import Values
from memory.search.search import calibrated
from nousweb.lib.word_overlap import share_within, words_of

SAME_BY_MEANING = 0.85
SAME_BY_WORDS = 0.9
"""Share of a memory's words in one statement from which it may repeat the memory, whatever the vectors."""
SAME_BY_WORDS_ALONE = 0.75
"""The same, if the embedder fails."""
MAX_READ = 400
"""Maximum number of statements that are read, the latest message's first."""
MAX_STATEMENTS = 64
"""Maximum number of statements that are embedded: of more, those that share most words with a memory."""
MAX_COMPARED = 3
"""Statements that are compared with a memory word by word, the closest first."""
MAX_SENTENCES = 3
"""A message of at most so many sentences is also compared as a whole."""
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+(?=\s|$)|\n|$)")
_OPEN = re.compile(r"\b(?:whether|if|unless|wonder\w*)\b", re.IGNORECASE)
"""A sentence with one of these words states nothing."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """Sentences in a row of message `number`, all of which ask or none."""

    number: int
    text: str
    asks: bool


def repeated_in(
    texts: Sequence[str], conversation: Sequence[Message], window: int, text: str = ""
) -> Mapping[int, int]:
    """For each text (by place) that the input `text`, or one of the last `window` turns, states: the number of that
    message, counted from 1, or THE_INPUT.

    Questions state nothing, nor do sentences that leave something open. But a question repeats the same question, which
    holds no answer, and any text repeats itself.
    """
    said = [*enumerate((one.content for one in conversation), 1)][-window * 2 :]
    latest = [(number, content) for number, content in [(THE_INPUT, text), *reversed(said)] if content.strip()]
    if not latest or not texts:
        return {}
    whole = {_folded(content): number for number, content in reversed(latest)}
    found = {place: whole[same] for place, each in enumerate(texts) if (same := _folded(each)) in whole}
    others = {place: each for place, each in enumerate(texts) if place not in found}
    statements = [*islice(_statements(latest, {len(_sentences(each)) for each in others.values()}), MAX_READ)]
    if not statements or not others:
        return found
    compared, closeness = _closeness([*others.values()], statements)
    for (place, memory), row in zip(others.items(), closeness, strict=True):
        asks = all(map(is_question, _sentences(memory)))
        closest = (column for column in np.argsort(-row, kind="stable") if compared[column].asks == asks)
        for column in islice(closest, MAX_COMPARED):
            if row[column] > SAME_BY_MEANING and not says_otherwise(memory, compared[column].text):
                found[place] = compared[column].number
                break
    return found


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!?")


def _sentences(text: str) -> list[str]:
    return [found.group(0).strip() for found in _SENTENCE.finditer(text) if found.group(0).strip()]


def _statements(messages: Sequence[tuple[int, str]], sizes: set[int]) -> Iterator[_Statement]:
    """The statements and questions of messages: as many sentences in a row as the memories have (`sizes`)."""
    for number, content in messages:
        sentences = [one for one in _sentences(content) if not _OPEN.search(one) or is_question(one)]
        for asks in (False, True):
            said = [one for one in sentences if is_question(one) == asks]
            rows = {min(size, len(said)) for size in sizes} | ({len(said)} if len(said) <= MAX_SENTENCES else set())
            for size in sorted(rows - {0}):
                for start in range(len(said) - size + 1):
                    yield _Statement(number, " ".join(said[start : start + size]), asks)


def _closeness(texts: Sequence[str], statements: Sequence[_Statement]) -> tuple[Sequence[_Statement], Values]:
    """The statements that are compared, and how close each text (row) is to each of them (column)."""
    words = [words_of(one.text) for one in statements]
    shares = np.array([[share_within(own, one) for one in words] for own in map(words_of, texts)])
    chosen = np.sort(np.argsort(-shares.max(axis=0, initial=0.0), kind="stable")[:MAX_STATEMENTS])
    statements, shares = [statements[place] for place in chosen], shares[:, chosen]
    try:
        name = configured_name()
        vectors = text_vectors(name, [plain_statement(each) for each in (*texts, *(one.text for one in statements))])
    except EmbeddingFailed:
        return statements, np.where(shares >= SAME_BY_WORDS_ALONE, 1.0, 0.0)
    cosine = calibrated(np.asarray(vectors[: len(texts)] @ vectors[len(texts) :].T, float), thresholds_of(name))
    return statements, np.where(shares >= SAME_BY_WORDS, 1.0, cosine)
