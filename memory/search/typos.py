"""Correct mistyped words of a query to words that the collection contains.

A word is only checked if no item contains it, if it is long enough, and if it is not a common word of the language; so
most queries need no statement here. The possible corrections are looked up in the index: words at one edit (Damerau, "A
technique for computer detection and correction of spelling errors", 1964: four of five typos are one of these), a moved
letter, two replaced vowels, or letters that sound alike. The first letter is assumed to be right. A longer word that
only begins like the one of the query ("Java", "JavaScript") is another word.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from rapidfuzz.distance import DamerauLevenshtein

from memory.embedding.local import known_words
from memory.persona import PersonaMemory
from memory.search.index_tables import agent_unindexed, source_of
from memory.search.languages import dictionary_sql
from memory.search.request import SearchRequest, visible_of, wanted_of
from nousweb.lib.prepared_statements import rows_prepared

MIN_LETTERS = 5
MAX_LETTERS = 24
TWO_EDITS_FROM = 8
"""From this length on, some corrections change two letters."""
END_MISSING_FROM = 7
"""From this length on, the end of a word may be missing or too long; "Java" is not corrected to "JavaScript"."""
MAX_WORDS = 2
"""Maximum number of words of a query that are corrected."""
MAX_UNKNOWN = 6
"""With more unknown words, a query is a pasted log, and none is corrected."""
ROWS = 200
"""Maximum number of items with one of the words that are read."""

_WORD = re.compile(r"[^\W\d_]+")
_LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéèêáàâíîóôúñçåøæ"
_VOWELS = "aeiouy"
_ALIKE = (("ph", "f"), ("ck", "k"), ("ie", "y"), ("sch", "sh"), ("ks", "x"), ("cks", "x"), ("ai", "e"), ("qu", "k"))


def suspected_typos(query: str, df: Mapping[str, int]) -> list[str]:
    """The words of `query` that look mistyped, in lower case. `df`: number of items that contain each lexeme."""
    unknown = [lexeme for lexeme, items in df.items() if not items and lexeme.isalpha()]
    if not unknown or len(unknown) > MAX_UNKNOWN:
        return []
    words = [
        word
        for word in dict.fromkeys(_WORD.findall(query.lower()))
        # A stem differs from its word only at the end.
        if MIN_LETTERS <= len(word) <= MAX_LETTERS and any(word.startswith(stem[:-1]) for stem in unknown)
    ]
    return [word for word in words if word not in known_words()][:MAX_WORDS]


def spelling_corrections(view: PersonaMemory, request: SearchRequest, words: Sequence[str]) -> dict[str, str]:
    """The correction of each mistyped word, for those that have one in the collection that `request` searches: the word
    with the fewest edits, of several the one in the most items. Runs one statement."""
    agent = int(view.agent.pk)
    possible = {word: {form for form in edit_candidates(word) if not _only_begins_alike(word, form)} for word in words}
    known, values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    keys = f"nous_agent_lexemes(agent_id, terms) && (SELECT array_agg('{agent}:' || lexeme) FROM form)"  # noqa: S608
    holders = source_of(view, "id, terms", f"{keys} AND {known} AND {wanted}", agent=agent_unindexed())
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
    best: dict[str, tuple[int, int, str]] = {}
    for form, lexeme, items in rows_prepared(statement, values):
        for word in words:
            if form in possible[word] and not _only_begins_alike(word, lexeme):
                rank = (DamerauLevenshtein.distance(word, form), -int(items), form)
                best[word] = min(best.get(word, rank), rank)
    return {word: form for word, (_, _, form) in best.items()}


def apply_corrections(query: str, corrections: Mapping[str, str]) -> str:
    """`query` with its mistyped words (the keys, in lower case) replaced by their corrections (the values)."""
    return _WORD.sub(lambda match: corrections.get(match[0].lower(), match[0]), query)


def edit_candidates(word: str) -> Iterator[str]:
    """All possible corrections of a mistyped word; they may repeat and need not exist."""
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
    """Whether one word is the beginning of the other and shorter than END_MISSING_FROM: then it is no typo of it."""
    return min(len(one), len(other)) < END_MISSING_FROM and (one.startswith(other) or other.startswith(one))


def _one_edit(word: str) -> Iterator[str]:
    """Words with one letter added, removed or replaced, or two letters swapped, behind the first letter."""
    for place in range(1, len(word) + 1):
        head, tail = word[:place], word[place:]
        yield from (head + letter + tail for letter in _LETTERS)
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in _LETTERS)
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
