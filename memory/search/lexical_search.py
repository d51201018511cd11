"""The lexical search: items that contain the rarer words of a query, by one statement."""

from collections.abc import Sequence
from itertools import accumulate, combinations
from typing import Any

from memory.persona import PersonaMemory
from memory.search.fusion import rarity
from memory.search.index_tables import holders_of
from memory.search.lexeme_masks import holder_query, tsquery_of
from memory.search.query_context import Counts
from memory.search.request import SearchRequest
from memory.search.request_conditions import visible_of, wanted_of
from nousweb.lib.prepared_statements import rows_prepared

LEXICAL_ROWS = 1_500
"""Approximate maximum of ranked rows; the commonest words are left out to stay below it."""
PAIRED = 4
"""If the rarest word alone has more rows, items must contain two of this number of rarest words."""


def lexical_fetch(view: PersonaMemory, request: SearchRequest, counts: Counts, lexemes: Sequence[str]) -> list[int]:
    """Ids of the hits of the lexical search: items with the rarer lexemes, by the idf of all matching lexemes."""
    statement, values = lexical_statement(view, request, counts, lexemes)
    return [row[0] for row in rows_prepared(statement, values)] if statement else []


def lexical_statement(
    view: PersonaMemory, request: SearchRequest, counts: Counts, lexemes: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """The statement and its values; an empty statement if no item contains any of the lexemes."""
    known, known_values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    values: dict[str, Any] = {**known_values, **wanted_values}
    present = sorted((n, word) for word in lexemes if (n := counts.df[word]))
    if not present:
        return "", values
    weights = []
    for place, (n, word) in enumerate(present):
        values[f"terms{place}"] = holder_query(word, counts.spellings)
        values[f"weight{place}"] = round(rarity(min(n, counts.items), counts.items), 5)
        weights.append(f"(terms @@ {tsquery_of(place)})::integer * %(weight{place})s::float8")
    # BM25's saturation of a word that occurs once, with the constants of the scoring.
    values["length"] = round(0.48 / max(counts.mean_words, 1.0), 6)
    holders = []
    for place, (operator, words) in enumerate(selective(counts, present)):
        values[f"keys{place}"] = [f"{int(view.agent.pk)}:{word}" for word in words]
        holders.append(f"nous_agent_lexemes(agent_id, terms) {operator} %(keys{place})s::text[]")
    rows = holders_of(view, "id, terms, words", f"({' OR '.join(holders)}) AND {known} AND {wanted}")
    return (
        f"SELECT id FROM (SELECT * FROM {rows} AS holder LIMIT {2 * LEXICAL_ROWS}) AS lexical "  # noqa: S608
        f"ORDER BY ({' + '.join(weights)}) / (1.72 + words * %(length)s::float8) DESC, id LIMIT {request.hits}",
        values,
    )


def selective(counts: Counts, present: Sequence[tuple[int, str]]) -> list[tuple[str, list[str]]]:
    """The words that an item must contain to be ranked, as alternatives: any (`&&`) or all (`@>`) words of a list.

    `present`: numbers of items with their words, the rarest first. Another name of a subject counts as its word too.
    """
    if len(present) == 1 or present[0][0] <= LEXICAL_ROWS:
        total = list(accumulate(n for n, _ in present))
        kept = [word for (_, word), n in zip(present, total, strict=True) if n <= max(LEXICAL_ROWS, total[0])]
        others = [also[0] for word in kept for also in counts.spellings.get(word, ())]
        return [("&&", [*kept, *others])]
    # As many items as hold two words if they are independent of each other.
    pairs = sorted(
        (a * b // max(counts.items, 1), [one, two]) for (a, one), (b, two) in combinations(present[:PAIRED], 2)
    )
    total = list(accumulate(n for n, _ in pairs))
    chosen = [words for (_, words), n in zip(pairs, total, strict=True) if n <= max(LEXICAL_ROWS, total[0])]
    otherwise = [
        [*also, *(each for each in words if each != word)]
        for words in chosen
        for word in words
        for also in counts.spellings.get(word, ())
    ]
    return [("@>", words) for words in [*chosen, *otherwise]]
