"""Words of a query that were mistyped: what the collection calls them.

Only a word is looked into that no item holds, that is long enough to be distinguished from others, and that is none of
the language's usual words; so most queries ask nothing here. The words that it may have been meant for are few and are
looked up in the index by their keys: an edit further (Damerau, "A technique for computer detection and correction of
spelling errors", 1964: four of five typos are one of these), a letter that moved, a pair of vowels or two letters
that sound like another. The first letter is right, nearly always, and a longer word that only begins like the one of
the query ("Java", "JavaScript") is another word.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from rapidfuzz.distance import DamerauLevenshtein

from memory.embedding.known_words import known_words
from memory.persona import PersonaMemory
from memory.search.index_tables import AGENT_UNINDEXED, source_of
from memory.search.languages import dictionary_sql
from memory.search.request import SearchRequest
from memory.search.request_conditions import visible_as_of, wanted_of
from nousweb.lib.prepared_statements import rows_prepared

LEAST_LETTERS = 5
MOST_LETTERS = 24
TWO_EDITS_FROM = 8
"""A word of so many letters may have two letters wrong, in some ways."""
END_MISSING_FROM = 7
"""Only of a word of so many letters the end may be missing, or too long: "Java" is no beginning of "JavaScript"."""
MOST_WORDS = 2
"""So many words of a query are looked into: of a pasted log hardly any word is a typo."""
MOST_UNKNOWN = 6
ROWS = 200
"""Items that hold one of the words are read up to here."""

_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéèêáàâíîóôúñçåøæ"
_VOWELS = "aeiouy"
_ALIKE = (("ph", "f"), ("ck", "k"), ("ie", "y"), ("sch", "sh"), ("ks", "x"), ("cks", "x"), ("ai", "e"), ("qu", "k"))


def mistyped(query: str, df: Mapping[str, int]) -> list[str]:
    """The words of `query` that look mistyped, in lower case. `df` says how many items hold each of its lexemes."""
    unknown = [lexeme for lexeme, held in df.items() if not held and lexeme.isalpha()]
    if not unknown or len(unknown) > MOST_UNKNOWN:
        return []
    words = [
        word
        for word in dict.fromkeys(_WORD.findall(query.lower()))
        # A stem keeps all of a word but its end.
        if LEAST_LETTERS <= len(word) <= MOST_LETTERS and any(word.startswith(one[:-1]) for one in unknown)
    ]
    return [word for word in words if word not in known_words()][:MOST_WORDS]


def meant(view: PersonaMemory, request: SearchRequest, words: Sequence[str]) -> dict[str, str]:
    """For each of the mistyped `words` the nearest one of what `request` searches, if one is near: the one by the
    fewest edits, of those the one that more items hold. One statement."""
    agent = int(view.agent.pk)
    possible = {word: {one for one in near(word) if not _only_begins_alike(word, one)} for word in words}
    known, values = visible_as_of(request.as_of)
    wanted, wanted_values = wanted_of(request)
    keys = f"nous_agent_lexemes(agent_id, terms) && (SELECT array_agg('{agent}:' || lexeme) FROM form)"  # noqa: S608
    holders = source_of(view, "id, terms", f"{keys} AND {known} AND {wanted}", agent=AGENT_UNINDEXED)
    statement = f"""
WITH form AS MATERIALIZED (
    SELECT form, (tsvector_to_array(to_tsvector({dictionary_sql(agent)}::regconfig, form)))[1] AS lexeme
    FROM unnest(%(forms)s::text[]) AS form
), held AS MATERIALIZED (
    SELECT lexeme, count(*) AS items FROM (
        SELECT unnest(tsvector_to_array(terms)) AS lexeme
        FROM (SELECT * FROM {holders} AS held ORDER BY id DESC LIMIT {ROWS}) AS few
    ) AS every GROUP BY lexeme
)
SELECT form, lexeme, items FROM form JOIN held USING (lexeme)
"""  # noqa: S608
    values |= wanted_values | {"forms": sorted(set().union(*possible.values()))}
    found: dict[str, tuple[int, int, str]] = {}
    for form, lexeme, items in rows_prepared(statement, values):
        for word in words:
            if form in possible[word] and not _only_begins_alike(word, lexeme):
                rank = (DamerauLevenshtein.distance(word, form), -int(items), form)
                found[word] = min(found.get(word, rank), rank)
    return {word: form for word, (_, _, form) in found.items()}


def corrected(query: str, meant: Mapping[str, str]) -> str:
    """`query` with the words that were meant instead of those typed."""
    return _WORD.sub(lambda match: meant.get(match[0].lower(), match[0]), query)


def near(word: str) -> Iterator[str]:
    """What may have been meant by a mistyped `word`."""
    yield from _one_edit(word)
    for one, other in (*_ALIKE, *((b, a) for a, b in _ALIKE)):
        yield from (word[: at.start()] + other + word[at.end() :] for at in re.finditer(one, word) if at.start())
    if len(word) < TWO_EDITS_FROM:
        return
    for place in range(1, len(word)):
        rest = word[:place] + word[place + 1 :]
        # A letter that moved, and two letters too many.
        yield from (rest[:to] + word[place] + rest[to:] for to in range(1, len(rest) + 1))
        yield from (rest[:other] + rest[other + 1 :] for other in range(place, len(rest)))
    # Letters that ought to be double, or single.
    doubled = [word[: place + 1] + word[place:] for place in range(1, len(word))]
    for one in doubled:
        yield from (one[: place + 1] + one[place:] for place in range(1, len(one)))
        yield from (one[:place] + one[place + 1 :] for place in range(1, len(one)))
    vowels = [place for place in range(1, len(word)) if word[place] in _VOWELS]
    for pair in combinations(vowels, 2):
        for letters_of_pair in product(_VOWELS, repeat=2):
            changed = list(word)
            for place, letter in zip(pair, letters_of_pair, strict=True):
                changed[place] = letter
            yield "".join(changed)


def _only_begins_alike(one: str, other: str) -> bool:
    """Whether a short word is the beginning of the other, which is then another word."""
    return min(len(one), len(other)) < END_MISSING_FROM and (one.startswith(other) or other.startswith(one))


def _one_edit(word: str) -> Iterator[str]:
    """All that is one letter more, less or other, or two letters turned round, behind the first letter."""
    for place in range(1, len(word) + 1):
        head, tail = word[:place], word[place:]
        yield from (head + letter + tail for letter in _LETTERS)
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in _LETTERS)
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
