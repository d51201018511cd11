"""Queries of symbols alone, such as emoji: they have no words, and to an embedding most of them are one unknown sign.

They are found as they are written.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memory.persona import PersonaMemory
from memory.search.candidates import CandidateSet
from memory.search.fusion import Ranking
from memory.search.index_tables import source_of
from memory.search.request import SearchRequest, visible_of, wanted_of
from nousweb.lib.prepared_statements import rows_prepared

MAX_SYMBOLS = 8
HELD = 0.95
"""Relevance of a memory that holds all symbols of the query; in proportion for some of them."""
_SYMBOL = re.compile("[\U0001f1e6-\U0001f1ff]{2}|.")


def symbols_of(query: str) -> tuple[str, ...]:
    """The symbols of a query without a letter or a digit; () of any other."""
    if any(map(str.isalnum, query)):
        return ()
    found = dict.fromkeys(each for each in _SYMBOL.findall(query) if unicodedata.category(each[0])[0] == "S")
    return tuple(found)[:MAX_SYMBOLS]


def symbols_fetch(view: PersonaMemory, request: SearchRequest, symbols: Sequence[str]) -> dict[int, float]:
    """The items that hold some of the symbols, by their id in the index: the share of the symbols that they hold."""
    known, values = visible_of(request)
    wanted, wanted_values = wanted_of(request)
    values = {**values, **wanted_values}
    held = []
    for place, symbol in enumerate(symbols):
        values[f"symbol{place}"] = symbol
        held.append(f"(position(%(symbol{place})s::text IN text) > 0)")
    share = " + ".join(f"{each}::integer" for each in held)
    rows = source_of(view, f"id, {share} AS held", f"{known} AND {wanted} AND ({' OR '.join(held)})")
    statement = f"SELECT id, held FROM {rows} AS holder ORDER BY held DESC, id DESC LIMIT {request.hits}"  # noqa: S608
    found: list[Any] = rows_prepared(statement, values)
    return {key: count / len(symbols) for key, count in found}


def symbols_first(candidates: CandidateSet, ranking: Ranking, shares: Mapping[int, float]) -> Ranking:
    """The ranking with the relevance of each candidate by the share of the symbols that it holds."""
    relevance = HELD * np.array([shares.get(key, 0.0) for key in candidates.ids])
    order = ranking.order[np.argsort(-relevance[ranking.order], kind="stable")]
    return Ranking(order, relevance, ranking.lexical)
