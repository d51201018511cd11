"""The clauses of a fact, each with its subject. By rules for plain English sentences."""

from collections.abc import Iterator, Sequence

from memory.comparison import lexicon as w
from memory.comparison.tokenizer import VERBS, Token, number_free

MAX_SUBJECT_WORDS = 6
OPENINGS = w.words("actually now currently today meanwhile also so then well presently")
"""Words in front of a clause that say nothing of its subject."""
_BORDERS = w.words("| , ; and but")


def clauses_of(tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    """The clauses of a fact; one without a subject of its own begins with that of the clause before."""
    clauses: list[tuple[Token, ...]] = []
    carried: tuple[Token, ...] = ()
    for clause in _clauses(tokens):
        texts = number_free(token.text for token in clause)
        if clauses and texts[0] in VERBS and carried:
            clause = (*carried, *clause)
        begin = next((at for at, text in enumerate(texts) if at and text in VERBS), 0)
        if texts[0] not in VERBS and 0 < begin <= MAX_SUBJECT_WORDS and "'s" not in texts[:begin]:
            carried = clause[:begin]
        clauses.append(clause)
    return clauses


def _clauses(tokens: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """The clauses of a text, without articles, and without openings that say nothing. A list ("tea and coffee", "Ghent,
    Belgium") is no border of clauses: a verb must follow; nor is an "and" inside a name ("the author of War and Peace
    is ...")."""
    clause: list[Token] = []
    for place, token in enumerate(tokens):
        verb_follows = any(each.text in VERBS for each in tokens[place + 1 : place + 8])
        inside = token.text == "and" and joins_names(clause, tokens[place + 1 : place + 2])
        if token.text in _BORDERS and (token.text in ("|", ";") or (verb_follows and not inside)):
            if clause:
                yield tuple(clause)
            clause = []
        elif not (not clause and token.text in OPENINGS | _BORDERS):
            clause.append(token)
    if clause:
        yield tuple(clause)


def joins_names(before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Whether an "and" between these words joins two names in front of the verb of its clause."""
    return (
        not any(token.text in VERBS for token in before)
        and all(token.raw[:1].isupper() for token in (*before[-1:], *after))
        and bool(before and after)
    )
