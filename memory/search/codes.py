"""Codes of a query: identifiers, numbers, paths and addresses, which a memory holds exactly or not at all.

To an embedding `BENCH-100821` and `BENCH-100822` are nearly the same, and they share a word. So a memory that holds the
codes of a query is ranked before those that do not, and one with another number in the place of a code is not relevant.
Only queries with codes need the statement here.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memory.persona import PersonaMemory
from memory.search.fusion import Flags, Ranking, Values
from memory.search.index_tables import source_of
from memory.search.languages import dictionary_sql
from memory.search.request import SearchRequest, visible_of, wanted_of
from memory.search.row_retrieval import CandidateSet
from nousweb.lib.prepared_statements import rows_prepared

MAX_SYMBOLS = 8
SYMBOLS_HELD = 0.95
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
    relevance = SYMBOLS_HELD * np.array([shares.get(key, 0.0) for key in candidates.ids])
    order = ranking.order[np.argsort(-relevance[ranking.order], kind="stable")]
    return Ranking(order, relevance, ranking.lexical)


MAX_CODES = 8
MAX_CHARACTERS = 200
"""A longer run of characters is no code."""
MAX_HOLDERS = 20
"""A code that more candidates hold tells them apart no better than a word."""
HELD = 0.8
"""Minimum relevance of a memory that holds a code of the query."""
NOT_HELD = 0.7
"""Maximum relevance of the other memories, if some memory holds the codes."""
NAMED = 0.4
"""Minimum relevance of a memory with a path, an address or an identifier of which the whole query is a part."""
DENIED = 0.2
"""The relevance of a memory with another number is multiplied by this, so that it is below every threshold."""
LONG_NUMBER = 7
"""Groups of digits with at least so many together are one number."""
SPELLED = 0.5
"""Weight of a code in another spelling, or as a part of a longer code; 1 for the same characters."""

_GROUPS = re.compile(
    r"(?<![\w./:-])(?:[A-Z]{2}(?=[0-9]{2}))?[+]?[(]?[0-9]+(?:[ ().\u00a0/-]{1,3}[0-9]+)+(?![\w:/-]|[.][0-9])"
)
"""Groups of digits, with the country of an IBAN: seven digits or more are one number."""
_CHUNK = re.compile(r"[^\s\"'`<>(){}\[\],;|*!?\u2018-\u201f\u2026\u00ab\u00bb\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
_EDGES = re.compile(r"^(?:[-:=&%$^~](?!/)|\.{2,}|\+(?![0-9]))+|[-.:=&%$^/\\~]+$")
_NUMBER = re.compile(r"#?[0-9]+")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_DOTTED = re.compile(r"v?[0-9]+(?:[.][0-9]+)+", re.I)
_QUANTITY = re.compile(
    r"[0-9.,]+(?:-?[a-z]{1,3}|-[a-z]+|%)|[0-9]{1,2}(?:/[0-9]{1,2}|:[0-9]{2}[ap]?m?)|[a-z]{3}[+-][0-9]{1,2}", re.I
)
"""Quantities, ordinals and times may be counted or said otherwise, and are no codes."""
_IDENTIFIER = re.compile(
    r"[_@\\]|:[A-Za-z]|\w\w[.][A-Za-z]|\w[.][A-Za-z]{2}|/.*/|^[/~.][A-Za-z/]|[A-Za-z]\+\+$|^[A-Za-z]#$"
    r"|^[a-z]+[A-Z]|[a-z][A-Z].*[a-z][A-Z]|[A-Z]{2}[a-z]{2}"
)
_SIGN = re.compile(r"[0-9_@\\:/.+#~]|[a-z][A-Z]|[A-Z]{2}")
"""Every code has one of these."""
_NAME = re.compile(r"\s*([A-Za-z]{3,40})\s*")
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z]{4}[0-9]{7,}")
_LINE_OF_FILE = re.compile(r"[.][A-Za-z]\w*:[0-9]+(?::[0-9]+)?")
_HEXADECIMAL = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{7,}", re.I)
_BEFORE = re.compile(r"([A-Za-z]{2,})(?:\s+(?:no|nr|number))?[\s.:#]*$")
_BEGIN, _END = r"(^|[^A-Za-z0-9_.@+#-])[#(]?", r"(?![A-Za-z0-9_+#]|[.@-][A-Za-z0-9])"
_BEGIN_NUMBER = r"(^|[^A-Za-z0-9.])"
_BETWEEN = r"[^A-Za-z0-9]{0,3}(no|nr|number)?[^A-Za-z0-9]{0,3}"


@dataclass(frozen=True, slots=True)
class Code:
    """A code of a query.

    `spellings` are read as the index reads texts: a memory that has one of them holds the code. `literal` and `other`
    are regular expressions of PostgreSQL: the same characters, and the same form with another number, if it has any.
    A number may follow a word, `before`; then `after` is the word with the number. A number that is not `firm` says
    little by itself: after a stop word only `literal` holds it.
    """

    spellings: tuple[str, ...]
    literal: str
    other: str = ""
    before: str = ""
    after: str = ""
    firm: bool = True


def codes_of(query: str) -> tuple[list[Code], bool]:
    """The codes of a query, and whether it consists of them. A year is one only alone."""
    codes: list[Code] = []
    if not _SIGN.search(query):
        return codes, re.search(r"[^\W_]", query) is None

    def take(match: re.Match[str]) -> str:
        if len(match[0]) > MAX_CHARACTERS or len(codes) == MAX_CODES:
            return match[0]
        text, begin = _EDGES.sub("", match[0]), match.start()
        if _YEAR.fullmatch(text) and query.strip() != text:
            return match[0]
        code = _code(text, match.string[max(begin - MAX_CHARACTERS, 0) : begin])
        if code is None:
            return match[0]
        codes.append(code)
        return " "

    rest = _GROUPS.sub(lambda match: take(match) if len(_digits(match[0])) >= LONG_NUMBER else match[0], query)
    rest = _CHUNK.sub(take, rest)
    return codes, re.search(r"[^\W_]", rest) is None


def _digits(text: str) -> str:
    return re.sub("[^0-9]", "", text)


def _code(text: str, said: str) -> Code | None:
    """The code that `text` is, if any; `said` is the query before it."""
    digits, literal = _digits(text), _BEGIN + re.escape(text) + _END
    joined = re.sub("[-_]", "", text)
    spelled = (text, joined) if joined.isalnum() else (text,)
    if _NUMBER.fullmatch(text):
        return _number(text, digits, said)
    if len(digits) >= LONG_NUMBER and re.fullmatch(r"(?:[A-Z]{2})?[+0-9 ().\u00a0/-]+", text) and text.count(".") != 3:
        return Code((text, re.sub(r"\W", "", text), digits, *_tail(digits)), literal, _other(text))
    if _DOTTED.fullmatch(text):
        return Code((text,), literal, _other(text))
    if digits and not _QUANTITY.fullmatch(text) and (len(digits) > 1 or re.search(r"[^\W0-9]", text)):
        tail = _tail(digits) if _IBAN.fullmatch(text) else ()
        return Code((*spelled, *tail), literal, "" if _LINE_OF_FILE.search(text) else _other(text))
    if digits or not _IDENTIFIER.search(text):
        return None
    # Without its dot, `.env` would be another word.
    return Code(() if re.fullmatch("[.][A-Za-z]+", text) else spelled, literal)


def _tail(digits: str) -> tuple[str, ...]:
    """The end of a number as the index has it (`nous_numbers`)."""
    return (f"tail{digits[-9:]}",) if len(digits) >= 9 else ()


def _number(text: str, digits: str, said: str) -> Code | None:
    marked = text.startswith("#")
    if (len(digits) < 3 and not marked) or re.search("[0-9][, ]$", said):
        return None
    found = _BEFORE.search(said)
    before, after = (found[1], f"{found[1]}{_BETWEEN}") if found else ("", "")
    firm = marked or len(digits) >= 5 or digits.startswith("0")
    form = f"0[0-9]{{{len(digits) - 1}}}" if digits.startswith("0") else f"[1-9][0-9]{{{len(digits) - 1}}}"
    other = f"{_BEGIN_NUMBER}{form}{_END}" if firm else f"{after}[0-9]+" if after else ""
    return Code((digits,), _BEGIN_NUMBER + digits + _END, other, before, after and after + digits + _END, firm)


def _other(text: str) -> str:
    """A regular expression for the form of `text` with any other number."""
    if version := _DOTTED.match(text):
        return f"{_BEGIN}v?[0-9]+([.][0-9]+){{{version[0].count('.')}}}(?![0-9])"
    if _HEXADECIMAL.fullmatch(re.sub("[^A-Za-z0-9]", "", text)):
        form = re.sub("[0-9A-Za-z]+", lambda run: f"[0-9a-f]{{{len(run[0])}}}", re.escape(text))
    else:
        form = re.sub(r"[0-9]+(?:[-_ ./:]+(?=[0-9]))?|[-_ ./:]+|[^0-9A-Za-z]", lambda part: _form_of(part[0]), text)
    return _BEGIN + form + _END


def _form_of(part: str) -> str:
    if part[0].isdigit():
        return "[0-9]+" if part.isdigit() else "[0-9]+[-_ ./:]+"
    return "[-_ ./:]*" if part[0] in "-_ ./:" else re.escape(part)


def exact_first(
    view: PersonaMemory, query: str, candidates: CandidateSet, ranking: Ranking, reworded: Mapping[int, str]
) -> Ranking:
    """The ranking with the memories that hold the codes of `query` first, and those with other numbers below every
    threshold. `reworded`: texts that were other ones at the moment of the request, by id in the index."""
    codes, alone = codes_of(query)
    name = None if codes else _NAME.fullmatch(query)
    if name:
        # One word may be the name of a file, a host or a program in a path, an address or an identifier.
        codes = [Code((), rf"[/\\_.@]{name[1]}{_END}|{_BEGIN}{name[1]}[._/\\][A-Za-z0-9]")]
    if not codes or not candidates.ids:
        return ranking
    held, other = _matches(view, codes, candidates.ids, reworded)
    share = held.sum(axis=1) / len(codes)
    relevance = ranking.relevance.copy()
    holders = (share > 0) & candidates.wanted
    if name and holders.sum() <= MAX_HOLDERS:
        relevance[holders] = np.maximum(relevance[holders], NAMED)
    elif 0 < holders.sum() <= MAX_HOLDERS:
        relevance = np.minimum(relevance, NOT_HELD)
        relevance[holders] = HELD + (1 - HELD) * (share[holders] + ranking.relevance[holders]) / 2
    if alone and re.search("[0-9]", query):
        other = other | (share == 0)
    relevance[other & (share == 0)] *= DENIED
    before = np.argsort(ranking.order)
    return replace(ranking, order=np.lexsort((before, -relevance)), relevance=relevance)


def _matches(
    view: PersonaMemory, codes: Sequence[Code], ids: Sequence[int], reworded: Mapping[int, str]
) -> tuple[Values, Flags]:
    """The share of each code that each row contains, 0 to 1, and the rows that have another number in its place."""
    values = {
        "ids": list(ids),
        "literals": [code.literal for code in codes],
        "others": [code.other for code in codes],
        "befores": [code.before for code in codes],
        "afters": [code.after for code in codes],
        "firm": [code.firm for code in codes],
        "places": [place for place, code in enumerate(codes) for _ in code.spellings],
        "spellings": [spelling for code in codes for spelling in code.spellings],
        "reworded": list(reworded),
        "texts": list(reworded.values()),
    }
    rows = rows_prepared(_statement(view), values)
    held, other = np.zeros((len(ids), len(codes))), np.zeros(len(ids), bool)
    row_of = {key: place for place, key in enumerate(ids)}
    for key, place, literal, spelled, has_other in rows:
        held[row_of[key], place] = 1.0 if literal else SPELLED if spelled else 0.0
        other[row_of[key]] |= has_other
    return held, other


def _statement(view: PersonaMemory) -> str:
    dictionary = f"{dictionary_sql(int(view.agent.pk))}::regconfig"
    return f"""
WITH phrase AS (
    SELECT place, string_agg('(' || words::text || ')', ' | ')::tsquery AS words
    FROM unnest(%(places)s::int[], %(spellings)s::text[]) AS given (place, spelling), LATERAL unnest(ARRAY[
        phraseto_tsquery({dictionary}, nous_split(spelling)),
        phraseto_tsquery({dictionary}, CASE WHEN spelling ~ '^\\w+$' THEN nous_parts(spelling) ELSE '' END)]) AS words
    WHERE numnode(words) > 0 GROUP BY place
), code AS MATERIALIZED (
    SELECT place, words, firm OR says OR before = '' AS by_words, CASE WHEN says THEN after ELSE literal END AS literal,
        CASE WHEN firm OR says THEN other ELSE '' END AS other
    FROM (
        SELECT nth - 1 AS place, literal, other, before, after, firm,
            before <> '' AND to_tsvector({dictionary}, before) <> '' AS says
        FROM unnest(%(literals)s::text[], %(others)s::text[], %(befores)s::text[], %(afters)s::text[],
            %(firm)s::boolean[]) WITH ORDINALITY AS given (literal, other, before, after, firm, nth)
    ) AS given LEFT JOIN phrase USING (place)
)
SELECT id, place, text ~* literal, by_words AND words IS NOT NULL AND terms @@ words, other <> '' AND text ~* other
FROM (
    SELECT item.id, coalesce(past.text, item.text) AS text,
        CASE WHEN past.text IS NULL THEN item.terms ELSE nous_terms({dictionary}::text, past.text) END AS terms
    FROM {source_of(view, "id, text, terms", "id = ANY(%(ids)s::bigint[])")} AS item
    LEFT JOIN unnest(%(reworded)s::bigint[], %(texts)s::text[]) AS past (id, text) USING (id)
) AS item CROSS JOIN code
"""  # noqa: S608
