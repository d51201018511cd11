"""Memories that the conversation states already, and whether a statement that means about the same says something
else. Source: seed 005.1, D4.

Embeddings hardly tell "prefers Celsius" from "prefers Fahrenheit". So two texts of close meaning differ if a number, a
name, a negation, an opposite, a quantity or the one exchanged thing differs, or if the same words stand in other roles.
Who speaks, when, how sure and how politely does not matter.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from context.engine.analysis.intent import is_question
from context.engine.analysis.request import Message
from context.engine.assembly import THE_INPUT
from memory.comparison import lexicon as w
from memory.comparison.differences import single_difference
from memory.comparison.sentence_normalization import canonical
from memory.comparison.tokenizer import VERBS, Token, base_form, tokens_of
from memory.embedding import EmbeddingFailed, embedder_named, thresholds_of
from memory.embedding.protocol import Vectors
from memory.embedding.registry import configured_name
from memory.search.fusion import Values
from memory.search.search import calibrated
from nousweb.lib.word_overlap import share_within, words_of


def text_vectors(model: str, texts: Sequence[str]) -> Vectors:
    """The vectors of texts by an embedding model, a row each; those that are not cached are computed at once.

    Raises EmbeddingFailed.
    """
    cells = [vector_cell(model, text) for text in texts]
    missing = {text: cell for text, cell in zip(texts, cells, strict=True) if not cell}
    if missing:
        vectors = embedder_named(model).embed_documents([*missing])
        for cell, vector in zip(missing.values(), vectors, strict=True):
            cell.append(vector)
    return np.stack([cell[0] for cell in cells])


@lru_cache(maxsize=4_096)
def vector_cell(model: str, text: str) -> list[Vectors]:
    """Holds the vector of a text once it is computed."""
    return []


_UNIT_OF_TIME = r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)"
_COUNT = rf"(?:(?:a\s+)?(?:couple\s+of|few)|\d+|an|a|several|some|many|{'|'.join(w.NUMBER_WORDS)})"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SAID_BESIDES = re.compile(
    # Relative times.
    rf"\b(?:{_COUNT}\s+{_UNIT_OF_TIME}\s+ago"
    rf"|(?:on\s+)?(?:last|this|next)\s+(?:night|morning|afternoon|evening|week|month|year|weekend|{_WEEKDAY})"
    rf"|(?:the\s+)?(?:day\s+before\s+yesterday|other\s+day)|(?:yesterday|earlier|today)(?:\s+\w+ing)?"
    r"|just\s+now|right\s+now|at\s+the\s+moment|a\s+while\s+(?:ago|back)|in\s+the\s+meantime)\b,?"
    # Whoever is spoken to, and how.
    r"|^\s*(?:hey|hi|hello|ok|okay|yes|yeah|sure|great|well|so|right|thanks|thank\s+you|sorry)\b(?:\s+\w+)?\s*[,!:–-]"
    r"|^\s*[A-Z]\w+,(?=\s+(?:i|we|you|please|our|my)\b)"
    r"|\b(?:could|can|would|will)\s+you\s+(?:please\s+)?|,?\s*\bplease\b,?|\bthank(?:s|\s+you)(?:\s+\w+)?(?=[.!]*$)"
    # What only says that something is said.
    r"|\b(?:by\s+the\s+way|as\s+(?:you\s+know|(?:i|we)\s+(?:said|mentioned|told\s+you))|for\s+your\s+information|fyi"
    r"|just\s+so\s+you\s+know|in\s+other\s+words|you\s+know)\b,?"
    r"|\b(?:i|we)(?:\s+\w+)?\s+(?:told\s+you|said|mentioned|think|thought|believe|guess|know|mean|confirm(?:ed)?"
    r"|remember|recall)(?:\s+\w+)?\s+that\b"
    r"|\b(?:i|we)\s+(?:think|believe|guess|know|remember|recall)\b",
    re.IGNORECASE,
)
_WOULD = re.compile(r"(?<=\w)['’]d\b")
_SPEAKER = "@"
_PRONOUNS = w.PRONOUNS | w.words("myself ourselves ich wir mir uns je nous yo nosotros io noi eu nós ik wij jag vi")
_FUTURE = w.words("will shall going plan plans planning planned intend intends soon tomorrow tonight expect expects")
_ENDED = w.words("used formerly previously once former ex old previous earlier")
_HARMLESS = (
    (w.MODALS | w.RELATIVE_TIMES | w.FILLERS | w.ARTICLES) - _ENDED - w.words("if unless when")
    | w.words("also too really just simply basically definitely certainly surely finally now then that have do be so")
    | w.words("gestern heute morgen eben hier aujourd'hui ayer hoy ieri oggi ontem hoje ,")
)
_LOOSE = w.words("just exactly about approximately roughly almost nearly mostly each every any single")
_UNTRUE = (
    w.PRIVATIVES
    | _ENDED
    | w.words("""against instead rather drop dropped abandon abandoned scrap scrapped revert
    reverted undo undone cancel reject remove postpone delay replace withdraw deny denied doubt doubted""")
)
_USED_TO = re.compile(r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bwas )(?<!\bwere )\bused to\b", re.IGNORECASE)
_CLOSED = w.PREPOSITIONS | w.CLAUSE_WORDS | {"'s", _SPEAKER}
_STEM = 5
_LEAST_FURTHER = 3
"""So many further things that only the memory says are news."""


def says_otherwise(memory: str, statement: str) -> bool:
    """Whether `statement`, which means about the same as `memory`, says something else."""
    one, other = _read(memory), _read(statement)
    gone, added = _only(one, other), _only(other, one)
    return (
        any(token.number and token.raw.lower() != "one" for token in gone + added)
        or _is_opposed(_bases(gone), _bases(added))
        or _is_planned(memory, statement)
        or _names_others(one, other)
        or bool(_USED_TO.search(memory)) != bool(_USED_TO.search(statement))
        or _exchanged(one, other)
        or _in_other_roles(one, other, gone, added)
        or (not added and sum(not _is_small(token.text) for token in gone) >= _LEAST_FURTHER)
    )


def plain_statement(text: str) -> str:
    """`text` without the phrases that do not matter: relative times, forms of address and courtesy."""
    return _SAID_BESIDES.sub(" ", text).strip() or text


def _read(text: str) -> list[Token]:
    """The tokens that matter, with all pronouns alike."""
    found = []
    for token in tokens_of(_WOULD.sub(" ", plain_statement(text))):
        if token.text in _PRONOUNS:
            token = Token(_SPEAKER, token.raw)
        if base_form(token.text) not in _HARMLESS:
            found.append(token)
    return found


def _only(one: Sequence[Token], other: Sequence[Token]) -> list[Token]:
    """The tokens of `one` without a counterpart in `other`, without pronouns."""
    stems = {_stem(token.text) for token in other} | {_SPEAKER}
    return [token for token in one if _stem(token.text) not in stems]


def _stem(text: str) -> str:
    base = base_form(text)
    return base if not base.isalpha() else base[: max(_STEM, len(base) - 2)]


def _bases(tokens: Iterable[Token]) -> set[str]:
    return {base_form(token.text) for token in tokens}


def _is_small(text: str) -> bool:
    return base_form(text) in _CLOSED or text in VERBS


def _is_opposed(gone: set[str], added: set[str]) -> bool:
    """Whether one denies, limits or reverses what the other says."""
    either = gone | added
    if either & (w.NEGATIONS | _UNTRUE | (w.QUANTIFIERS - _LOOSE)):
        return True
    values = {w.EXCLUSIVE_VALUES[base] for base in gone if base in w.EXCLUSIVE_VALUES}
    return any(w.EXCLUSIVE_VALUES.get(base) in values for base in added) or any(
        not added.isdisjoint(w.OPPOSITES.get(base, ())) for base in gone
    )


def _is_planned(memory: str, statement: str) -> bool:
    """Whether the statement is a plan, and the memory neither a plan nor a decision to do something."""
    words, planned = ([token.text for token in tokens_of(text)] for text in (memory, statement))
    intends = any(word == "to" and following in VERBS for word, following in pairwise(words))
    return (
        not intends
        and _FUTURE.isdisjoint(set(map(base_form, words)))
        and not _FUTURE.isdisjoint(set(map(base_form, planned)))
    )


def _names_others(one: Sequence[Token], other: Sequence[Token]) -> bool:
    """Whether one of them names somebody or something that the other does not."""
    return any(
        stem not in said
        for tokens, beside in ((one, other), (other, one))
        for said in ({_stem(token.text) for token in beside},)
        for stem in _names(tokens)
    )


def _names(tokens: Sequence[Token]) -> Iterator[str]:
    """The stems of names. The first word of a sentence is one only as the possessor or the subject of a verb."""
    before = "|"
    for token, following in pairwise([*tokens, Token("|", "")]):
        text = following.text
        acts = text in ("'s", "be") or text.endswith("ed") or ("+" in text and "+pl" not in text)
        if token.name and (before != "|" or acts):
            yield _stem(token.text)
        before = token.text


def _exchanged(one: Sequence[Token], other: Sequence[Token]) -> bool:
    """Whether the only difference is another thing in the same place."""
    slot = single_difference(tuple(token.text for token in one), tuple(token.text for token in other))
    if not slot:
        return False
    gone, added = ([text for text in part.split() if not _is_small(text)] for part in slot)
    return bool(gone and added) and not {_stem(text) for text in gone} & {_stem(text) for text in added}


def _in_other_roles(
    one: Sequence[Token], other: Sequence[Token], gone: Sequence[Token], added: Sequence[Token]
) -> bool:
    """Whether the same words stand in another order, though neither is the other with its beginning put last."""
    if gone and added:
        return False
    texts = [canonical(tuple(token.text for token in each)) for each in (one, other)]
    common = Counter(map(_stem, texts[0])) & Counter(map(_stem, texts[1]))
    first, second = ([stem for text in each if (stem := _stem(text)) in common] for each in texts)
    if any(first[place:] + first[:place] == second for place in range(len(first))):
        return False
    # Where a pronoun stands depends on the language.
    first, second = ([stem for stem in each if stem != _SPEAKER] for each in (first, second))
    return len(first) == len(second) and first != second


SAME_BY_MEANING = 0.85
SAME_BY_WORDS = 0.9
"""Share of a memory's words in one statement from which it may repeat the memory, whatever the vectors."""
SAME_BY_WORDS_ALONE = 0.75
"""The same, if the embedder fails."""
LIKELY_BY_WORDS = 0.25
"""Share of a memory's words in one statement from which the two are compared by meaning, which takes milliseconds."""
LEAST_WORDS = 3
"""A memory of fewer words, such as one in a script without spaces, is compared by meaning in any case."""
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
    said = [*enumerate((message.content for message in conversation), 1)][-window * 2 :]
    latest = [(number, content) for number, content in [(THE_INPUT, text), *reversed(said)] if content.strip()]
    if not latest or not texts:
        return {}
    whole = {_folded(content): number for number, content in reversed(latest)}
    found = {place: whole[same] for place, each in enumerate(texts) if (same := _folded(each)) in whole}
    others = {place: each for place, each in enumerate(texts) if place not in found}
    statements = [*islice(_statements(latest, {_read_memory(each).size for each in others.values()}), MAX_READ)]
    if not statements or not others:
        return found
    compared, closeness = _closeness([*others.values()], statements)
    for (place, memory), row in zip(others.items(), closeness, strict=True):
        for column in np.argsort(-row, kind="stable")[:MAX_COMPARED]:
            if row[column] > SAME_BY_MEANING and not says_otherwise(memory, compared[column].text):
                found[place] = compared[column].number
                break
    return found


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!?")


def _sentences(text: str) -> list[str]:
    return [sentence for found in _SENTENCE.findall(text) if (sentence := found.strip())]


class _Memory(NamedTuple):
    """What is compared of a memory first: its number of sentences, whether all ask, and its words."""

    size: int
    asks: bool
    words: frozenset[str]


@lru_cache(maxsize=8_192)
def _read_memory(text: str) -> _Memory:
    sentences = _sentences(text)
    return _Memory(len(sentences), all(map(is_question, sentences)), words_of(text))


def _statements(messages: Sequence[tuple[int, str]], sizes: set[int]) -> Iterator[_Statement]:
    """The statements and questions of messages: as many sentences in a row as the memories have (`sizes`)."""
    for number, content in messages:
        sentences = [
            sentence for sentence in _sentences(content) if not _OPEN.search(sentence) or is_question(sentence)
        ]
        for asks in (False, True):
            said = [sentence for sentence in sentences if is_question(sentence) == asks]
            rows = {min(size, len(said)) for size in sizes} | ({len(said)} if len(said) <= MAX_SENTENCES else set())
            for size in sorted(rows - {0}):
                for start in range(len(said) - size + 1):
                    yield _Statement(number, " ".join(said[start : start + size]), asks)


def _closeness(texts: Sequence[str], statements: Sequence[_Statement]) -> tuple[Sequence[_Statement], Values]:
    """The statements that are compared, and how close each text (row) is to each of them (column), 0 where one asks and
    the other does not, or where they share too few words."""
    memories, words = [*map(_read_memory, texts)], [words_of(statement.text) for statement in statements]
    own = [memory.words for memory in memories]
    alike = np.array([[memory.asks == statement.asks for statement in statements] for memory in memories])
    shares = np.array([[share_within(held, said) for said in words] for held in own]) * alike
    chosen = np.sort(np.argsort(-shares.max(axis=0, initial=0.0), kind="stable")[:MAX_STATEMENTS])
    statements, shares, alike = [statements[place] for place in chosen], shares[:, chosen], alike[:, chosen]
    short = np.array([len(held) < LEAST_WORDS for held in own])
    likely = alike & ((shares >= LIKELY_BY_WORDS) | short[:, None])
    rows, columns = (np.flatnonzero(likely.any(axis=axis)).tolist() for axis in (1, 0))
    closeness = np.where(shares >= SAME_BY_WORDS, 1.0, 0.0)
    if not rows:
        return statements, closeness
    compared = [*(texts[row] for row in rows), *(statements[column].text for column in columns)]
    try:
        name = configured_name()
        vectors = text_vectors(name, [plain_statement(text) for text in compared])
    except EmbeddingFailed:
        return statements, np.where(shares >= SAME_BY_WORDS_ALONE, 1.0, 0.0)
    cosine = calibrated(np.asarray(vectors[: len(rows)] @ vectors[len(rows) :].T, float), thresholds_of(name))
    pairs = np.ix_(rows, columns)
    closeness[pairs] = np.where(likely[pairs], np.maximum(closeness[pairs], cosine), closeness[pairs])
    return statements, closeness
